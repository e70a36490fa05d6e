package org.trimtab.tpcw;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** Who wants to buy? */
public final class CustomerRegistration extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public CustomerRegistration() {
        super("CustomerRegistration");
    }

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        page.heading("Who are you?");
        if (visit.customer > 0) {
            Row customer = database.row("SELECT c_uname FROM customer WHERE c_id = ?", visit.customer);
            page.html("<p>").words(customer == null ? "" : customer.text(0)).html("</p>\n");
        }
        page.form("buy").fields(
                "uname", "passwd", "fname", "lname", "street1", "street2", "city", "state", "zip", "country", "phone", "email",
                "birthdate", "data");
    }
}
