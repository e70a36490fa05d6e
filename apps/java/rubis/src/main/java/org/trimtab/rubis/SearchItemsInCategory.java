package org.trimtab.rubis;

import java.sql.SQLException;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** What is for sale in a category, what ends first first. */
public final class SearchItemsInCategory extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public SearchItemsInCategory() {
        super("SearchItemsInCategory");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int category = question.number(0);
        int number = question.number(1);
        List<Row> items =
                database.rows(
                        "SELECT id, name, max_bid, initial_price, nb_of_bids, end_date FROM items"
                                + " WHERE category = ? AND end_date >= ? ORDER BY end_date LIMIT ? OFFSET ?",
                        category, Site.now(), PAGE_SIZE, (long) number * PAGE_SIZE);
        results(page, items, "search/category/" + category + "/", number);
        page.says("category", category).says("page", number).says("n", items.size());
    }

    /** One page of results, with links to the pages before and behind it. */
    static void results(Page page, List<Row> items, String path, int number) {
        if (items.isEmpty()) {
            page.sorry("empty", "There is nothing (more) for sale here.");
            return;
        }
        page.heading("For sale");
        list(page, items);
        if (number > 0) {
            page.link(path + (number - 1), "Previous").html("\n");
        }
        if (items.size() == PAGE_SIZE) {
            page.link(path + (number + 1), "Next").html("\n");
        }
    }
}
