package org.trimtab.tpcw;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** Whose order? */
public final class OrderInquiry extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public OrderInquiry() {
        super("OrderInquiry", false);
    }

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        page.heading("Your order").form("order").fields("uname", "passwd");
    }
}
