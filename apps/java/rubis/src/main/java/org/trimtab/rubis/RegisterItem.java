package org.trimtab.rubis;

import java.sql.SQLException;
import java.sql.Timestamp;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** Puts an item up for sale, and finds it again by its name, for which there is no index: as in the original. */
public final class RegisterItem extends RubisPage {
    private static final long serialVersionUID = 1L;
    private static final int DESCRIPTION_LENGTH = 8192;
    private static final int LONGEST_DAYS = 7;
    private static final int HOUR_S = 3600;

    /** For {@code web.xml}. */
    public RegisterItem() {
        super("RegisterItem");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        String name = question.field("name", 100);
        double initial = question.amount("initial_price");
        double reserve = question.amount("reserve_price");
        double buyNow = question.amount("buy_now");
        int days = question.number("duration");
        int quantity = question.number("quantity");
        if (reserve > 0 && reserve < initial || buyNow > 0 && buyNow < initial) {
            throw new PageException(Kind.REQUEST, "reserve_price or buy_now is below initial_price");
        }
        if (days < 1 || days > LONGEST_DAYS || quantity < 1) {
            throw new PageException(Kind.REQUEST, "duration is not from 1 to 7, or quantity is below 1");
        }
        database.begin();
        database.change(
                "INSERT INTO items (name, description, initial_price, quantity, reserve_price, buy_now, nb_of_bids, max_bid,"
                        + " start_date, end_date, seller, category) VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?, ?)",
                name,
                question.field("description", DESCRIPTION_LENGTH),
                initial, quantity, reserve, buyNow,
                Site.now(),
                end(days, name),
                question.number("user"),
                question.number("category"));
        Row item = database.row("SELECT id FROM items WHERE name = ?", name);
        database.commit();
        page.heading("Your item is for sale").link("item/" + item.number(0), name).says("item", item.number(0));
    }

    /** Within an hour, as those of the data: else what is new would end before these, and stand first in every list. */
    private static Timestamp end(int days, String name) {
        return Timestamp.valueOf(Site.inDays(days).toLocalDateTime().plusSeconds(Math.floorMod(name.hashCode(), HOUR_S)));
    }
}
