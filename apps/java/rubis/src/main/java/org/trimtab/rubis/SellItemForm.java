package org.trimtab.rubis;

import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** What does the user want to sell? */
public final class SellItemForm extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public SellItemForm() {
        super("SellItemForm", false);
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException {
        int category = question.number(0);
        int user = question.number(1);
        page.heading("Sell an item").form("register-item").hidden("category", category).hidden("user", user);
        page.fields("name", "description", "initial_price", "reserve_price", "buy_now", "duration", "quantity");
        page.says("category", category).says("user", user);
    }
}
