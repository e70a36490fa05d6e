package org.trimtab.rubis;

import java.sql.SQLException;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** All categories, as links to what is for sale in each. */
public final class BrowseCategories extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public BrowseCategories() {
        super("BrowseCategories");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        page.heading("Categories").says("n", list(database, page, "search/category/", "/0"));
    }

    /** A link for each category, its id between two parts of a path; how many. */
    static int list(Database database, Page page, String before, String behind) throws SQLException {
        List<Row> categories = database.rows("SELECT id, name FROM categories");
        for (Row category : categories) {
            page.link(before + category.number(0) + behind, category.text(1)).html("<br>\n");
        }
        return categories.size();
    }
}
