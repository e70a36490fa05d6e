package org.trimtab.tpcw;

import java.sql.SQLException;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** The latest order of a customer. */
public final class OrderDisplay extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public OrderDisplay() {
        super("OrderDisplay");
    }

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        visit.customer = login(question, database);
        int id = database.row("SELECT MAX(o_id) FROM orders WHERE o_c_id = ?", visit.customer).number(0);
        page.heading("Your order").says("order", id);
        if (id == 0) {
            page.html("<p>You have none.</p>\n").says("n", 0);
            return;
        }
        Row order =
                database.row(
                        "SELECT o_date, o_total, o_ship_type, o_status, c_fname, c_lname, cx_type, bill.addr_street1, bill.addr_city,"
                                + " bill_co.co_name, ship.addr_street1, ship.addr_city, ship_co.co_name"
                                + " FROM orders JOIN customer ON o_c_id = c_id JOIN cc_xacts ON cx_o_id = o_id"
                                + " JOIN address bill ON o_bill_addr_id = bill.addr_id"
                                + " JOIN country bill_co ON bill.addr_co_id = bill_co.co_id"
                                + " JOIN address ship ON o_ship_addr_id = ship.addr_id"
                                + " JOIN country ship_co ON ship.addr_co_id = ship_co.co_id WHERE o_id = ?",
                        id);
        page.html("<p>");
        for (int column = 0; column <= 12; column++) {
            page.words(order.text(column)).html("<br>");
        }
        List<Row> lines =
                database.rows(
                        "SELECT i_id, i_title, i_publisher, i_cost, ol_qty, ol_discount, ol_comments FROM order_line"
                                + " JOIN item ON ol_i_id = i_id WHERE ol_o_id = ?",
                        id);
        page.html("</p>\n<table>\n");
        for (Row line : lines) {
            page.html("<tr>").cell().words(line.text(1)).cell().words(line.text(2)).cell().amount(line.amount(3));
            page.cell().number(line.number(4)).cell().words(line.text(6)).html("</tr>\n");
        }
        page.html("</table>\n").says("n", lines.size());
    }
}
