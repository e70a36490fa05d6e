package org.trimtab.tpcw;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** Books of an author or with a title that begins so, or of a subject. */
public final class SearchResults extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public SearchResults() {
        super("SearchResults");
    }

    private static final String BOOKS = "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON i_a_id = a_id WHERE ";

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        String kind = question.step(0);
        String text = question.step(1);
        page.heading("Results");
        promote(database, page);
        String query =
                switch (kind) {
                    case "author" -> BOOKS + "a_lname LIKE ? ORDER BY i_title LIMIT ?";
                    case "title" -> BOOKS + "i_title LIKE ? ORDER BY i_title LIMIT ?";
                    case "subject" -> BOOKS + "i_subject = ? ORDER BY i_title LIMIT ?";
                    default -> throw new PageException(Kind.REQUEST, "one searches by author, title or subject");
                };
        list(page, database.rows(query, kind.equals("subject") ? text : text + "%", LIST_LENGTH));
    }
}
