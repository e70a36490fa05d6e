package org.trimtab.tpcw;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** What is to be changed of a book? */
public final class AdminRequest extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public AdminRequest() {
        super("AdminRequest");
    }

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        int item = question.number(0);
        Row book = book(database, item);
        page.heading(book.text(0)).html("<p>by ").words(book.text(1) + " " + book.text(2)).html(", ").amount(book.amount(8));
        page.html("</p>\n").image("images/" + book.text(5)).image("images/" + book.text(6));
        page.form("admin").hidden("item", item).fields("cost", "image", "thumbnail").says("item", item);
    }
}
