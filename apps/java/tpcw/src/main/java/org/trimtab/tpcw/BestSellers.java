package org.trimtab.tpcw;

import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;
import org.trimtab.pages.Site;

/** What was sold most of a subject in the latest orders; kept for a while where {@code tpcw.best_sellers_s} says so. */
public final class BestSellers extends TpcwPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public BestSellers() {
        super("BestSellers");
    }

    private static final long KEPT_NS = Integer.getInteger("tpcw.best_sellers_s", 0) * 1_000_000_000L;
    private static final Map<String, Kept> KEPT = new ConcurrentHashMap<>();

    private record Kept(long since, int generation, List<Row> books) {}

    @Override
    void show(Question question, Database database, Page page, Visit visit) throws PageException, SQLException {
        String subject = question.step(0);
        page.heading("Best: " + subject);
        promote(database, page);
        list(page, KEPT_NS > 0 ? kept(database, subject) : found(database, subject));
    }

    private static List<Row> kept(Database database, String subject) throws SQLException {
        Kept kept = KEPT.get(subject);
        long now = System.nanoTime();
        if (kept == null || now - kept.since > KEPT_NS || kept.generation != Site.generation()) {
            kept = new Kept(now, Site.generation(), found(database, subject));
            if (!kept.books.isEmpty()) {
                KEPT.put(subject, kept);
            }
        }
        return kept.books;
    }

    private static List<Row> found(Database database, String subject) throws SQLException {
        return database.rows(
                "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON i_a_id = a_id"
                        + " JOIN order_line ON ol_i_id = i_id"
                        + " WHERE ol_o_id > (SELECT MAX(o_id) - 3333 FROM orders) AND i_subject = ?"
                        + " GROUP BY i_id, i_title, a_fname, a_lname ORDER BY SUM(ol_qty) DESC LIMIT ?",
                subject, LIST_LENGTH);
    }
}
