package org.trimtab.tpcw;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** What do you look for? */
public final class SearchRequest extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public SearchRequest() {
        super("SearchRequest");
    }

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        page.heading("Search");
        promote(database, page);
        page.html("<p>by author, title or subject</p>\n");
    }
}
