package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** Keeps a comment, and adds it to the rating of whom it is about. */
public final class StoreComment extends RubisPage {
    private static final long serialVersionUID = 1L;
    private static final int LENGTH = 2048;
    private static final int BEST = 5;

    /** For {@code web.xml}. */
    public StoreComment() {
        super("StoreComment");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int from = question.number("from");
        int to = question.number("to");
        int item = question.number("item");
        int rating = question.signed("rating");
        if (Math.abs(rating) > BEST) {
            throw new PageException(Kind.REQUEST, "rating is not from -5 to 5");
        }
        String comment = question.field("comment", LENGTH);
        database.begin();
        // The user is locked first: of two ratings at once, none is lost.
        Row user = database.row("SELECT rating FROM users WHERE id = ? FOR UPDATE", to);
        if (user == null) {
            throw new PageException(Kind.MISSING, "no user has id=" + to);
        }
        database.change(
                "INSERT INTO comments (from_user_id, to_user_id, item_id, rating, date, comment) VALUES (?, ?, ?, ?, ?, ?)",
                from, to, item, rating, Site.now(), comment);
        database.change("UPDATE users SET rating = ? WHERE id = ?", user.number(0) + rating, to);
        database.commit();
        page.heading("Your comment was stored").says("to", to).says("from", from);
    }
}
