package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** A user, and what others wrote about them; a query for the author of each comment, as in the original. */
public final class ViewUserInfo extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public ViewUserInfo() {
        super("ViewUserInfo");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int user = question.number(0);
        about(database, page, user);
        database.begin();
        int n = comments(page, database, user);
        database.commit();
        page.says("user", user).says("n", n);
    }

    /** What is known of a user. */
    static void about(Database database, Page page, int user) throws PageException, SQLException {
        Row row =
                database.row(
                        "SELECT firstname, lastname, nickname, email, creation_date, rating FROM users WHERE id = ?", user);
        if (row == null) {
            throw new PageException(Kind.MISSING, "no user has id=" + user);
        }
        page.heading(row.text(2)).html("<p>").words(row.text(0) + " " + row.text(1)).html(" ").words(row.text(3));
        page.html("<br>since ").words(row.text(4)).html("<br>rating ").number(row.number(5)).html("</p>\n");
    }
}
