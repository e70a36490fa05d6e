package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** Makes a new user. */
public final class RegisterUser extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public RegisterUser() {
        super("RegisterUser");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        String nickname = question.field("nickname", NAME_LENGTH);
        Row region = database.row("SELECT name FROM regions WHERE id = ?", question.number("region"));
        if (region == null) {
            throw new PageException(Kind.MISSING, "no such region");
        }
        if (database.row("SELECT id FROM users WHERE nickname = ?", nickname) != null) {
            page.sorry("taken", "Somebody else has this nickname.");
            return;
        }
        database.change(
                "INSERT INTO users (firstname, lastname, nickname, password, email, rating, balance, creation_date, region)"
                        + " VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?)",
                question.field("firstname", NAME_LENGTH),
                question.field("lastname", NAME_LENGTH),
                nickname,
                question.field("password", NAME_LENGTH),
                question.field("email", 50),
                Site.now(),
                question.number("region"));
        Row user = database.row("SELECT id, creation_date FROM users WHERE nickname = ?", nickname);
        page.heading("Welcome, " + nickname).html("<p>of ").words(region.text(0)).html("</p>\n").says("user", user.number(0));
    }
}
