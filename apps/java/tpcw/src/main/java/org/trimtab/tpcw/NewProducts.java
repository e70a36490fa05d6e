package org.trimtab.tpcw;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** The newest books of a subject. */
public final class NewProducts extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public NewProducts() {
        super("NewProducts");
    }

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        String subject = question.step(0);
        page.heading("New: " + subject);
        promote(database, page);
        list(
                page,
                database.rows(
                        "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON i_a_id = a_id WHERE i_subject = ?"
                                + " ORDER BY i_pub_date DESC, i_title LIMIT ?",
                        subject, LIST_LENGTH));
    }
}
