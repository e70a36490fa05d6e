package org.trimtab.rubis;

import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** Who wants to bid for an item? */
public final class PutBidAuth extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public PutBidAuth() {
        super("PutBidAuth", false);
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException {
        int item = question.number(0);
        page.heading("Who are you?").form("bid").hidden("item", item);
        page.fields("nickname", "password").says("item", item);
    }
}
