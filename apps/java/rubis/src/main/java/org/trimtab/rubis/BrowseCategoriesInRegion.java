package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** All categories, as links to what people of a region sell in each. */
public final class BrowseCategoriesInRegion extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public BrowseCategoriesInRegion() {
        super("BrowseCategoriesInRegion");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        Row region = database.row("SELECT id FROM regions WHERE name = ?", question.step(0));
        if (region == null) {
            throw new PageException(Kind.MISSING, "no region has this name");
        }
        page.heading("Categories").says("region", region.number(0));
        page.says("n", BrowseCategories.list(database, page, "search/region/" + region.number(0) + "/", "/0"));
    }
}
