package org.trimtab.rubis;

import java.sql.SQLException;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.PageServlet;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** What the pages of the auction site share. */
abstract class RubisPage extends PageServlet {
    private static final long serialVersionUID = 1L;

    /** Items on a page of results. */
    static final int PAGE_SIZE = 20;

    /** Longest nickname and password. */
    static final int NAME_LENGTH = 20;

    RubisPage(String state) {
        super("rubis", state);
    }

    RubisPage(String state, boolean usesDatabase) {
        super("rubis", state, usesDatabase);
    }

    @Override
    protected final void begin(Page page) {
        page.image("images/logo.png").image("images/bar.png");
    }

    /** The id of the user who says this nickname and password. */
    static int login(Question question, Database database) throws PageException, SQLException {
        Row user =
                database.row(
                        "SELECT id FROM users WHERE nickname = ? AND password = ?",
                        question.field("nickname", NAME_LENGTH),
                        question.field("password", NAME_LENGTH));
        if (user == null) {
            throw new PageException(Kind.LOGIN, "no user has this nickname and password");
        }
        return user.number(0);
    }

    /** An item that is for sale, or was. */
    static Item item(Database database, int id) throws PageException, SQLException {
        Item item = Item.find(database, id);
        if (item == null) {
            throw new PageException(Kind.MISSING, "no item has id=" + id);
        }
        return item;
    }

    /** The nickname of a user. */
    static String nickname(Database database, int id) throws PageException, SQLException {
        Row user = database.row("SELECT nickname FROM users WHERE id = ?", id);
        if (user == null) {
            throw new PageException(Kind.MISSING, "no user has id=" + id);
        }
        return user.text(0);
    }

    /** The rows of a list of items: id, name, highest bid, initial price, number of bids, end. */
    static void list(Page page, List<Row> items) {
        page.html("<table>\n<tr><th>Item</th><th>Price</th><th>Bids</th><th>Ends</th><th></th></tr>\n");
        for (Row item : items) {
            int id = item.number(0);
            page.html("<tr>").cell().link("item/" + id, item.text(1));
            page.cell().amount(Math.max(item.amount(2), item.amount(3))).cell().number(item.number(4));
            page.cell().words(item.text(5)).cell().link("bid-login/" + id, "Bid now").html("</tr>\n");
        }
        page.html("</table>\n");
    }

    /** The lowest bid that still wins one of the pieces: what the next has to beat. */
    static double winning(Database database, Item item) throws SQLException {
        List<Row> top =
                database.rows(
                        "SELECT bid, qty FROM bids WHERE item_id = ? ORDER BY bid DESC LIMIT ?", item.id, item.quantity);
        double lowest = 0;
        int pieces = 0;
        for (Row bid : top) {
            pieces += bid.number(1);
            lowest = bid.amount(0);
            if (pieces >= item.quantity) {
                return lowest;
            }
        }
        return lowest;
    }

    /** The comments to a user, with each author; how many. */
    static int comments(Page page, Database database, int user) throws PageException, SQLException {
        List<Row> comments =
                database.rows(
                        "SELECT from_user_id, date, rating, comment FROM comments WHERE to_user_id = ?", user);
        page.html("<dl>\n");
        for (Row comment : comments) {
            int author = comment.number(0);
            page.html("<dt>").link("user/" + author, nickname(database, author));
            page.html(" wrote on ").words(comment.text(1)).html(" (").number(comment.number(2)).html(")</dt><dd>");
            page.words(comment.text(3)).html("</dd>\n");
        }
        page.html("</dl>\n");
        return comments.size();
    }

    /** Whether no piece of an item is left; the page says so. */
    static boolean isSoldOut(Item item, Page page) {
        if (item.quantity > 0) {
            return false;
        }
        page.sorry("sold", "There are no pieces any more.");
        return true;
    }
}
