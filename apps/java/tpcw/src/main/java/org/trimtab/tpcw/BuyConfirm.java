package org.trimtab.tpcw;

import java.sql.SQLException;
import java.sql.Date;
import java.sql.Timestamp;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** The order, in one transaction; the cart is empty afterwards. */
public final class BuyConfirm extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public BuyConfirm() {
        super("BuyConfirm");
    }

    private static final double TAX = 0.0825;
    private static final int FEWEST = 10;
    private static final int REFILL = 21;
    private static final int DAYS = 7;
    private static final long DAY_MS = 24L * 3600 * 1000;

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        if (visit.customer == 0) {
            throw new PageException(Kind.REQUEST, "customer is missing");
        }
        int[] order = {0};
        Numbers.inTurn(() -> order[0] = order(question, database, visit));
        if (order[0] == 0) {
            page.sorry("empty", "There is nothing in your cart.");
        } else {
            page.heading("Thank you").html("<p>Your order has the number ").number(order[0]).html("</p>\n");
            page.says("order", order[0]);
        }
    }

    /** Makes an order of the cart; its number, 0 when the cart is empty. */
    private static int order(Question question, Database database, Visit visit) throws PageException, SQLException {
        database.begin();
        // The cart is locked: two confirmations at once do not sell it twice.
        database.row("SELECT sc_id FROM shopping_cart WHERE sc_id = ? FOR UPDATE", visit.cart);
        List<Row> lines = ShoppingCart.lines(database, visit.cart);
        if (lines.isEmpty()) {
            database.commit();
            return 0;
        }
        Row customer = database.row("SELECT c_discount, c_addr_id FROM customer WHERE c_id = ?", visit.customer);
        if (customer == null) {
            throw new PageException(Kind.MISSING, "no customer has id=" + visit.customer);
        }
        int address = question.has("street1") ? Addresses.of(question, database) : customer.number(1);
        double sum = 0;
        for (Row line : lines) {
            sum += line.number(1) * line.amount(3);
        }
        sum *= 1 - customer.amount(0);
        double total = sum * (1 + TAX) + 3.0 + lines.size();
        Timestamp now = Site.now();
        int order =
                Numbers.insert(
                        database,
                        "orders",
                        "o_id",
                        "o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, o_bill_addr_id, o_ship_addr_id,"
                                + " o_status",
                        visit.customer, now, sum, sum * TAX, total,
                        question.field("shipping", 10),
                        new Timestamp(now.getTime() + ThreadLocalRandom.current().nextInt(DAYS + 1) * DAY_MS),
                        customer.number(1), address, "PENDING");
        int number = 0;
        for (Row line : lines) {
            sell(database, order, ++number, line, customer.amount(0));
        }
        pay(question, database, order, total, now, address);
        database.change("DELETE FROM shopping_cart_line WHERE scl_sc_id = ?", visit.cart);
        database.commit();
        return order;
    }

    private static void sell(Database database, int order, int number, Row line, double discount) throws SQLException {
        database.change(
                "INSERT INTO order_line (ol_id, ol_o_id, ol_i_id, ol_qty, ol_discount, ol_comments) VALUES (?, ?, ?, ?, ?, ?)",
                number, order, line.number(0), line.number(1), discount, "sold by the shop");
        int stock = database.row("SELECT i_stock FROM item WHERE i_id = ? FOR UPDATE", line.number(0)).number(0);
        int left = stock - line.number(1);
        database.change("UPDATE item SET i_stock = ? WHERE i_id = ?", left < FEWEST ? left + REFILL : left, line.number(0));
    }

    private static void pay(Question question, Database database, int order, double total, Timestamp now, int address)
            throws PageException, SQLException {
        Date expiry;
        try {
            expiry = Date.valueOf(question.field("cc_expiry", 10));
        } catch (IllegalArgumentException error) {
            throw new PageException(Kind.REQUEST, "cc_expiry is not a date");
        }
        int country = database.row("SELECT addr_co_id FROM address WHERE addr_id = ?", address).number(0);
        database.change(
                "INSERT INTO cc_xacts (cx_o_id, cx_type, cx_num, cx_name, cx_expire, cx_auth_id, cx_xact_amt, cx_xact_date,"
                        + " cx_co_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                order,
                question.field("cc_type", 10),
                question.field("cc_number", 20),
                question.field("cc_name", 30),
                expiry,
                "authorised",
                total,
                new Date(now.getTime()),
                country);
    }
}
