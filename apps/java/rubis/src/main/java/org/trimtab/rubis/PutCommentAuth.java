package org.trimtab.rubis;

import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** Who wants to comment on a user? */
public final class PutCommentAuth extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public PutCommentAuth() {
        super("PutCommentAuth", false);
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException {
        int item = question.number(1);
        page.heading("Who are you?").form("comment").hidden("item", item);
        int to = question.number(0);
        page.hidden("to", to).says("to", to);
        page.fields("nickname", "password").says("item", item);
    }
}
