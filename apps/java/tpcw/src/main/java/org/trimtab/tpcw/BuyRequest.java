package org.trimtab.tpcw;

import java.sql.SQLException;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** Who buys, where it goes, and what it costs. */
public final class BuyRequest extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public BuyRequest() {
        super("BuyRequest");
    }

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        List<Row> lines = visit.cart == 0 ? List.of() : ShoppingCart.lines(database, visit.cart);
        if (lines.isEmpty()) {
            page.sorry("empty", "There is nothing in your cart.");
            return;
        }
        if (question.has("uname")) {
            visit.customer = login(question, database);
            Customers.greet(database, visit.customer);
        } else {
            Numbers.inTurn(
                    () -> {
                        database.begin();
                        visit.customer = Customers.make(question, database);
                        database.commit();
                    });
        }
        Row customer =
                database.row(
                        "SELECT c_fname, c_lname, c_discount, addr_street1, addr_city, addr_zip, co_name FROM customer"
                                + " JOIN address ON c_addr_id = addr_id JOIN country ON addr_co_id = co_id WHERE c_id = ?",
                        visit.customer);
        page.heading("Check out").html("<p>");
        for (int column : new int[] {0, 1, 3, 4, 5, 6}) {
            page.words(customer.text(column)).html("<br>");
        }
        page.html("</p>\n<table>\n");
        double sum = 0;
        for (Row line : lines) {
            sum += line.number(1) * line.amount(3);
            page.html("<tr>").cell().words(line.text(2)).cell().number(line.number(1)).cell().amount(line.amount(3)).html("</tr>\n");
        }
        page.html("</table>\n<p>Total: ").amount(sum * (1 - customer.amount(2))).html("</p>\n");
        page.form("confirm").fields("cc_type", "cc_number", "cc_name", "cc_expiry", "shipping").says("n", lines.size());
    }
}
