package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** Keeps a bid, and what items know of their bids. */
public final class StoreBid extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public StoreBid() {
        super("StoreBid");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int item = question.number("item");
        int user = question.number("user");
        int pieces = question.number("qty");
        double bid = question.amount("bid");
        double most = question.amount("max_bid");
        if (pieces < 1 || pieces > question.number("max_qty")) {
            throw new PageException(Kind.REQUEST, "qty is not from 1 to max_qty");
        }
        if (bid < question.amount("min_bid") || most < bid) {
            throw new PageException(Kind.REQUEST, "bid is not from min_bid to max_bid");
        }
        page.says("item", item).says("user", user);
        database.begin();
        // The item is locked first: its number of bids must be right whoever else bids for it.
        Row found = database.row("SELECT nb_of_bids, max_bid, end_date FROM items WHERE id = ? FOR UPDATE", item);
        if (found == null || found.moment(2).before(Site.now())) {
            page.sorry("ended", "This sale is over.");
            return;
        }
        database.change(
                "INSERT INTO bids (user_id, item_id, qty, bid, max_bid, date) VALUES (?, ?, ?, ?, ?, ?)",
                user, item, pieces, bid, most, Site.now());
        database.change(
                "UPDATE items SET nb_of_bids = ?, max_bid = ? WHERE id = ?",
                found.number(0) + 1, Math.max(found.amount(1), bid), item);
        database.commit();
        page.heading("Your bid was stored");
    }
}
