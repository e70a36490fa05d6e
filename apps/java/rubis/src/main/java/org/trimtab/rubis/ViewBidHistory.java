package org.trimtab.rubis;

import java.sql.SQLException;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** All bids for an item, the last first; a query for the name of each bidder, as in the original. */
public final class ViewBidHistory extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public ViewBidHistory() {
        super("ViewBidHistory");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int item = question.number(0);
        String name = Item.name(database, item);
        if (name == null) {
            throw new PageException(Kind.MISSING, "no item has id=" + item);
        }
        List<Row> bids = database.rows("SELECT user_id, bid, date FROM bids WHERE item_id = ? ORDER BY date DESC", item);
        page.heading(name).html("<table>\n");
        for (Row bid : bids) {
            int user = bid.number(0);
            page.html("<tr>").cell().link("user/" + user, nickname(database, user));
            page.cell().amount(bid.amount(1)).cell().words(bid.text(2)).html("</tr>\n");
        }
        page.html("</table>\n").says("item", item).says("n", bids.size());
    }
}
