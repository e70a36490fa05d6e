package org.trimtab.rubis;

import java.sql.SQLException;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** All regions. */
public final class BrowseRegions extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public BrowseRegions() {
        super("BrowseRegions");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        List<Row> regions = database.rows("SELECT name FROM regions");
        page.heading("Regions").says("n", regions.size());
        for (Row region : regions) {
            page.link("region/" + Page.step(region.text(0)), region.text(0)).html("<br>\n");
        }
    }
}
