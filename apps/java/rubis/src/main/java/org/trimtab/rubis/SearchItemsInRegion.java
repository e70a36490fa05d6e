package org.trimtab.rubis;

import java.sql.SQLException;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** What people of a region sell in a category, what ends first first. */
public final class SearchItemsInRegion extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public SearchItemsInRegion() {
        super("SearchItemsInRegion");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int region = question.number(0);
        int category = question.number(1);
        int number = question.number(2);
        List<Row> items =
                database.rows(
                        "SELECT items.id, items.name, items.max_bid, items.initial_price, items.nb_of_bids, items.end_date"
                                + " FROM items JOIN users ON items.seller = users.id"
                                + " WHERE items.category = ? AND users.region = ? AND items.end_date >= ?"
                                + " ORDER BY items.end_date LIMIT ? OFFSET ?",
                        category, region, Site.now(), PAGE_SIZE, (long) number * PAGE_SIZE);
        SearchItemsInCategory.results(page, items, "search/region/" + region + "/" + category + "/", number);
        page.says("region", region).says("category", category).says("page", number).says("n", items.size());
    }
}
