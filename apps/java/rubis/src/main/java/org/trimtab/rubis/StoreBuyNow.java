package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** Sells pieces of an item; the sale of the last ends it. */
public final class StoreBuyNow extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public StoreBuyNow() {
        super("StoreBuyNow");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int item = question.number("item");
        int user = question.number("user");
        int wanted = question.number("qty");
        if (wanted < 1 || wanted > question.number("max_qty")) {
            throw new PageException(Kind.REQUEST, "qty is not from 1 to max_qty");
        }
        page.says("item", item).says("user", user);
        database.begin();
        Row found = database.row("SELECT quantity, end_date FROM items WHERE id = ? FOR UPDATE", item);
        if (found == null || found.moment(1).before(Site.now())) {
            page.sorry("ended", "This sale is over.");
            return;
        }
        int left = found.number(0) - wanted;
        if (left < 0) {
            page.sorry("sold", "There are not so many pieces any more.");
            return;
        }
        if (left == 0) {
            database.change("UPDATE items SET quantity = 0, end_date = ? WHERE id = ?", Site.now(), item);
        } else {
            database.change("UPDATE items SET quantity = ? WHERE id = ?", left, item);
        }
        database.change(
                "INSERT INTO buy_now (buyer_id, item_id, qty, date) VALUES (?, ?, ?, ?)", user, item, wanted, Site.now());
        database.commit();
        page.heading("It is yours");
    }
}
