package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** What does the user think of another one? */
public final class PutComment extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public PutComment() {
        super("PutComment");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int from = login(question, database);
        int to = question.number("to");
        int item = question.number("item");
        page.heading("About " + nickname(database, to));
        String name = Item.name(database, item);
        if (name == null) {
            throw new PageException(Kind.MISSING, "no item has id=" + item);
        }
        page.html("<p>who sold ").words(name).html("</p>\n");
        page.form("store-comment").hidden("from", from).hidden("to", to).hidden("item", item).fields("rating", "comment");
        page.says("item", item).says("to", to).says("from", from);
    }
}
