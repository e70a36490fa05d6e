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

/** Changes a book, and what goes with it: what its buyers bought most besides in the latest orders. */
public final class AdminConfirm extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public AdminConfirm() {
        super("AdminConfirm");
    }

    private static final int RELATED = 5;
    private static final int PICTURES = 100;

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        int item = question.number("item");
        int image = question.number("image");
        int thumbnail = question.number("thumbnail");
        if (image >= PICTURES || thumbnail >= PICTURES) {
            throw new PageException(Kind.REQUEST, "image or thumbnail is not from 0 to 99");
        }
        List<Row> bought =
                database.rows(
                        "SELECT ol_i_id FROM orders JOIN order_line ON ol_o_id = o_id WHERE ol_i_id <> ? AND o_c_id IN"
                                + " (SELECT o_c_id FROM orders JOIN order_line ON ol_o_id = o_id"
                                + " WHERE o_id > (SELECT MAX(o_id) - 10000 FROM orders) AND ol_i_id = ?)"
                                + " GROUP BY ol_i_id ORDER BY SUM(ol_qty) DESC LIMIT ?",
                        item, item, RELATED);
        Object[] related = new Object[RELATED];
        for (int index = 0; index < RELATED; index++) {
            related[index] = index < bought.size() ? bought.get(index).number(0) : randomItem(database);
        }
        int changed =
                database.change(
                        "UPDATE item SET i_cost = ?, i_image = ?, i_thumbnail = ?, i_pub_date = ?, i_related1 = ?, i_related2 = ?,"
                                + " i_related3 = ?, i_related4 = ?, i_related5 = ? WHERE i_id = ?",
                        question.amount("cost"), "image-" + image + ".png", "thumbnail-" + thumbnail + ".png",
                        new java.sql.Date(Site.now().getTime()),
                        related[0], related[1], related[2], related[3], related[4], item);
        if (changed == 0) {
            throw new PageException(Kind.MISSING, "no item has id=" + item);
        }
        Row book = book(database, item);
        page.heading(book.text(0)).image("images/" + book.text(5)).image("images/" + book.text(6)).says("item", item);
    }
}
