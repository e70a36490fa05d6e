package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** How much does the user bid for an item? */
public final class PutBid extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public PutBid() {
        super("PutBid");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int user = login(question, database);
        Item item = item(database, question.number("item"));
        String seller = nickname(database, item.seller);
        if (isSoldOut(item, page)) {
            return;
        }
        Row highest = database.row("SELECT MAX(bid) FROM bids WHERE item_id = ?", item.id);
        Row bids = database.row("SELECT COUNT(*) FROM bids WHERE item_id = ?", item.id);
        double price = item.quantity > 1 ? winning(database, item) : highest.amount(0);
        price = Math.max(price, item.initialPrice);
        ViewItem.show(page, item, price);
        page.html("<p>").number(bids.number(0)).html(" bids; sold by ").link("user/" + item.seller, seller).html("</p>\n");
        page.link("bids/" + item.id, "Bids").html(" ");
        page.link("comment-login/" + item.seller + "/" + item.id, "Leave a comment").html("\n");
        page.form("store-bid").hidden("item", item.id).hidden("user", user);
        page.hidden("min_bid", ((long) Math.ceil(price) + 1) + ".00").hidden("max_qty", item.quantity);
        page.fields("bid", "max_bid", "qty");
        page.says("item", item.id).says("user", user).says("seller", item.seller).says("max_qty", item.quantity);
    }
}
