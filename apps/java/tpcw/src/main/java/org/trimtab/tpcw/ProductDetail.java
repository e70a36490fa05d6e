package org.trimtab.tpcw;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** A book. */
public final class ProductDetail extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public ProductDetail() {
        super("ProductDetail");
    }

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        int item = question.number(0);
        Row book = book(database, item);
        page.heading(book.text(0)).html("<p>by ").words(book.text(1) + " " + book.text(2)).html("</p>\n");
        page.image("images/" + book.text(6)).html("<p>").words(book.text(3)).html("</p>\n<p>").words(book.text(4));
        page.html(", ").words(book.text(10)).html(", ").number(book.number(11)).html(" pages, ISBN ").words(book.text(12));
        page.html("<br>instead of ").amount(book.amount(7)).html(" only ").amount(book.amount(8)).html("; in stock ");
        page.number(book.number(9)).html("</p>\n").form("cart").hidden("item", item).fields();
        page.link("admin/" + item, "Change").html("\n").says("item", item);
    }
}
