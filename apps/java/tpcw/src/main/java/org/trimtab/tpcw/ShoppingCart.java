package org.trimtab.tpcw;

import java.sql.SQLException;
import java.util.List;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** The cart, after it was changed; a new one when there is none. It is never empty. */
public final class ShoppingCart extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public ShoppingCart() {
        super("ShoppingCart");
    }

    private static final String LINE = "qty_";

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        if (visit.cart == 0) {
            Numbers.inTurn(() -> visit.cart = Numbers.insert(database, "shopping_cart", "sc_id", "sc_time", Site.now()));
        } else if (database.row("SELECT sc_id FROM shopping_cart WHERE sc_id = ?", visit.cart) == null) {
            throw new PageException(Kind.MISSING, "no cart has id=" + visit.cart);
        }
        database.begin();
        if (question.isPost()) {
            change(question, database, visit.cart);
        }
        if (database.row("SELECT COUNT(*) FROM shopping_cart_line WHERE scl_sc_id = ?", visit.cart).number(0) == 0) {
            add(database, visit.cart, randomItem(database));
        }
        database.change("UPDATE shopping_cart SET sc_time = ? WHERE sc_id = ?", Site.now(), visit.cart);
        List<Row> lines = lines(database, visit.cart);
        database.commit();
        page.heading("Your cart").html("<table>\n");
        for (Row line : lines) {
            page.html("<tr>").cell().words(line.text(2)).cell().amount(line.amount(3)).cell();
            page.html("<input type=\"text\" name=\"" + LINE + line.number(0) + "\" value=\"").number(line.number(1));
            page.html("\"></tr>\n").image("images/" + line.text(4));
        }
        page.html("</table>\n").link("register", "Check out").html("\n").says("n", lines.size());
        promote(database, page);
    }

    private static void change(Question question, Database database, int cart) throws PageException, SQLException {
        if (question.has("item")) {
            add(database, cart, question.number("item"));
        }
        for (String name : question.names()) {
            if (name.startsWith(LINE)) {
                int item = Question.numberAfter(LINE, name);
                int amount = question.number(name);
                if (amount == 0) {
                    database.change("DELETE FROM shopping_cart_line WHERE scl_sc_id = ? AND scl_i_id = ?", cart, item);
                } else {
                    database.change(
                            "UPDATE shopping_cart_line SET scl_qty = ? WHERE scl_sc_id = ? AND scl_i_id = ?", amount, cart, item);
                }
            }
        }
    }

    private static void add(Database database, int cart, int item) throws PageException, SQLException {
        Row line = database.row("SELECT scl_qty FROM shopping_cart_line WHERE scl_sc_id = ? AND scl_i_id = ?", cart, item);
        if (line != null) {
            database.change(
                    "UPDATE shopping_cart_line SET scl_qty = ? WHERE scl_sc_id = ? AND scl_i_id = ?",
                    line.number(0) + 1, cart, item);
        } else if (database.row("SELECT i_id FROM item WHERE i_id = ?", item) == null) {
            throw new PageException(Kind.MISSING, "no item has id=" + item);
        } else {
            database.change("INSERT INTO shopping_cart_line (scl_sc_id, scl_i_id, scl_qty) VALUES (?, ?, 1)", cart, item);
        }
    }

    /** Of a cart: item, amount, title, cost, thumbnail. */
    static List<Row> lines(Database database, int cart) throws SQLException {
        return database.rows(
                "SELECT scl_i_id, scl_qty, i_title, i_cost, i_thumbnail FROM shopping_cart_line JOIN item ON scl_i_id = i_id"
                        + " WHERE scl_sc_id = ? ORDER BY scl_i_id",
                cart);
    }
}
