package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** How many pieces of an item does the user want to buy? */
public final class BuyNow extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public BuyNow() {
        super("BuyNow");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int user = login(question, database);
        Item item = item(database, question.number("item"));
        if (isSoldOut(item, page)) {
            return;
        }
        ViewItem.show(page, item, item.price());
        page.html("<p>Sold by ").link("user/" + item.seller, nickname(database, item.seller)).html("</p>\n");
        page.form("store-buy").hidden("item", item.id).hidden("user", user).hidden("max_qty", item.quantity).fields("qty");
        page.says("item", item.id).says("user", user).says("max_qty", item.quantity);
    }
}
