package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** An item with what it costs, and what can be done with it. */
public final class ViewItem extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public ViewItem() {
        super("ViewItem");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        Item item = item(database, question.number(0));
        double price = item.quantity > 1 && item.bids > 0 ? winning(database, item) : item.price();
        show(page, item, Math.max(price, item.initialPrice));
        page.html("<p>Sold by ").link("user/" + item.seller, nickname(database, item.seller)).html("</p>\n");
        page.link("bids/" + item.id, "Bids").html(" ").link("bid-login/" + item.id, "Bid now").html(" ");
        page.link("buy-login/" + item.id, "Buy it now").html(" ");
        page.link("comment-login/" + item.seller + "/" + item.id, "Leave a comment").html("\n");
        page.says("item", item.id).says("seller", item.seller);
    }

    /** The item itself. */
    static void show(Page page, Item item, double price) {
        page.heading(item.name).html("<ul>\n<li>Price: ").amount(price);
        page.html("</li>\n<li>Reserve price: ").html(item.reservePrice > price ? "not met" : "met or none");
        page.html("</li>\n<li>Buy now: ").amount(item.buyNowPrice()).html("</li>\n<li>Bids: ").number(item.bids);
        page.html("</li>\n<li>Pieces: ").number(item.quantity).html("</li>\n<li>From: ").words(item.start.toString());
        page.html("</li>\n<li>Until: ").words(item.end.toString()).html("</li>\n</ul>\n<p>");
        page.words(item.description).html("</p>\n");
    }
}
