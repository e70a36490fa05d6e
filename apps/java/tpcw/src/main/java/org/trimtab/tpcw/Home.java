package org.trimtab.tpcw;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** The shop's first page: a greeting, promotions, and all subjects. */
public final class Home extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public Home() {
        super("Home");
    }

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        if (visit.customer > 0) {
            Row customer = database.row("SELECT c_fname, c_lname FROM customer WHERE c_id = ?", visit.customer);
            page.heading(customer == null ? "Welcome" : "Hello, " + customer.text(0) + " " + customer.text(1));
        }
        promote(database, page);
        for (String subject : SUBJECTS) {
            page.link("new/" + subject, "New: " + subject).html(" ").link("best/" + subject, "Best: " + subject).html("<br>\n");
        }
        page.link("search", "Search").html(" ").link("cart", "Cart").html(" ").link("inquiry", "Your order").html("\n");
    }
}
