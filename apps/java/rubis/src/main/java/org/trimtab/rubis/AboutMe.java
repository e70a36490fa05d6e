package org.trimtab.rubis;

import java.sql.SQLException;
import java.sql.Timestamp;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** All that the site knows of a user: bids, purchases, sales, comments; with queries for each row, as in the original. */
public final class AboutMe extends RubisPage {
    private static final long serialVersionUID = 1L;
    private static final int DAYS = 30;

    /** For {@code web.xml}. */
    public AboutMe() {
        super("AboutMe");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int user = login(question, database);
        ViewUserInfo.about(database, page, user);
        Timestamp since = Site.inDays(-DAYS);
        database.begin();
        int n = bids(database, page, user, since) + purchases(database, page, user, since);
        n += sales(database, page, user, "end_date >= ?", "On sale") + sales(database, page, user, "end_date < ?", "Sold");
        comments(page, database, user);
        database.commit();
        page.says("user", user).says("n", n);
    }

    private static int bids(Database database, Page page, int user, Timestamp since) throws PageException, SQLException {
        List<Row> rows =
                database.rows(
                        "SELECT bids.item_id, MAX(bids.max_bid) FROM bids JOIN items ON bids.item_id = items.id"
                                + " WHERE bids.user_id = ? AND bids.date >= ? GROUP BY bids.item_id",
                        user, since);
        page.heading("Your bids").html("<table>\n");
        for (Row row : rows) {
            Item item = item(database, row.number(0));
            page.html("<tr>").cell().link("item/" + item.id, item.name).cell().amount(item.price());
            page.cell().amount(row.amount(1)).cell().link("bid-login/" + item.id, "Bid again");
            page.cell().link("user/" + item.seller, nickname(database, item.seller)).html("</tr>\n");
        }
        page.html("</table>\n");
        return rows.size();
    }

    private static int purchases(Database database, Page page, int user, Timestamp since)
            throws PageException, SQLException {
        List<Row> rows =
                database.rows("SELECT item_id, qty FROM buy_now WHERE buyer_id = ? AND date >= ?", user, since);
        page.heading("Bought").html("<table>\n");
        for (Row row : rows) {
            Item item = item(database, row.number(0));
            page.html("<tr>").cell().link("item/" + item.id, item.name).cell().number(row.number(1));
            page.cell().amount(item.buyNowPrice());
            page.cell().link("user/" + item.seller, nickname(database, item.seller)).html("</tr>\n");
        }
        page.html("</table>\n");
        return rows.size();
    }

    private static int sales(Database database, Page page, int user, String which, String heading) throws SQLException {
        List<Row> rows =
                database.rows(
                        "SELECT id, name, max_bid, initial_price, nb_of_bids, end_date FROM items WHERE seller = ? AND " + which,
                        user, Site.now());
        page.heading(heading).html("<table>\n");
        for (Row row : rows) {
            page.html("<tr>").cell().link("item/" + row.number(0), row.text(1));
            page.cell().amount(Math.max(row.amount(2), row.amount(3))).cell().number(row.number(4)).html("</tr>\n");
        }
        page.html("</table>\n");
        return rows.size();
    }
}
