package org.trimtab.tpcw;

import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.PageServlet;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** What the pages of the bookshop share. */
abstract class TpcwPage extends PageServlet {
    private static final long serialVersionUID = 1L;

    /** Books that a list shows at most. */
    static final int LIST_LENGTH = 50;

    static final String[] SUBJECTS = {
        "ARTS", "BIOGRAPHIES", "BUSINESS", "CHILDREN", "COMPUTERS", "COOKING", "HEALTH", "HISTORY", "HOME", "HUMOR",
        "LITERATURE", "MYSTERY", "NON-FICTION", "PARENTING", "POLITICS", "REFERENCE", "RELIGION", "ROMANCE", "SELF-HELP",
        "SCIENCE-NATURE", "SCIENCE-FICTION", "SPORTS", "YOUTH", "TRAVEL"
    };

    /** How many items there are, and of which data; read once. */
    private static volatile int[] items = {0, -1};

    TpcwPage(String state) {
        super("tpcw", state);
    }

    TpcwPage(String state, boolean usesDatabase) {
        super("tpcw", state, usesDatabase);
    }

    @Override
    protected final void begin(Page page) {
        page.image("images/logo.png");
    }

    @Override
    protected final void answer(Question question, Database database, Page page) throws PageException, SQLException {
        Visit visit = new Visit(question);
        show(question, database, page, visit);
        page.says("customer", visit.customer).says("cart", visit.cart);
    }

    /** Writes the page, and changes the visit where a customer or a cart is new. */
    abstract void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException;

    /** A random item. */
    static int randomItem(Database database) throws SQLException {
        int[] known = items;
        if (known[1] != Site.generation()) {
            known = new int[] {database.row("SELECT MAX(i_id) FROM item").number(0), Site.generation()};
            items = known;
        }
        return ThreadLocalRandom.current().nextInt(known[0]) + 1;
    }

    /** Five books that go with a random one. */
    static void promote(Database database, Page page) throws SQLException {
        Row related =
                database.row(
                        "SELECT i_related1, i_related2, i_related3, i_related4, i_related5 FROM item WHERE i_id = ?",
                        randomItem(database));
        List<Row> books =
                database.rows(
                        "SELECT i_id, i_thumbnail FROM item WHERE i_id IN (?, ?, ?, ?, ?)",
                        related.number(0), related.number(1), related.number(2), related.number(3), related.number(4));
        page.html("<p>\n");
        for (Row book : books) {
            page.link("product/" + book.number(0), "You may like this").image("images/" + book.text(1));
        }
        page.html("</p>\n");
    }

    /** The rows of a list of books: id, title, first and last name of the author. */
    static void list(Page page, List<Row> books) {
        page.html("<table>\n");
        for (Row book : books) {
            page.html("<tr>").cell().words(book.text(2) + " " + book.text(3));
            page.cell().link("product/" + book.number(0), book.text(1)).html("</tr>\n");
        }
        page.html("</table>\n").says("n", books.size());
    }

    /** A book with its author: title, names, description, publisher, thumbnail, image, price, cost, stock, subject, pages, ISBN. */
    static Row book(Database database, int item) throws PageException, SQLException {
        Row book =
                database.row(
                        "SELECT i_title, a_fname, a_lname, i_desc, i_publisher, i_thumbnail, i_image, i_srp, i_cost, i_stock,"
                                + " i_subject, i_page, i_isbn FROM item JOIN author ON i_a_id = a_id WHERE i_id = ?",
                        item);
        if (book == null) {
            throw new PageException(Kind.MISSING, "no item has id=" + item);
        }
        return book;
    }

    /** The id of the customer who says this user name and password. */
    static int login(Question question, Database database) throws PageException, SQLException {
        Row customer = database.row("SELECT c_id, c_passwd FROM customer WHERE c_uname = ?", question.field("uname", 20));
        if (customer == null || !customer.text(1).equals(question.field("passwd", 20))) {
            throw new PageException(Kind.LOGIN, "no customer has this user name and password");
        }
        return customer.number(0);
    }
}
