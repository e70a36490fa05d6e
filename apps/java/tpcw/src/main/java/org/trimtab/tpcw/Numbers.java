package org.trimtab.tpcw;

import java.sql.SQLException;
import java.util.concurrent.locks.ReentrantLock;
import org.trimtab.pages.Database;
import org.trimtab.pages.PageException;

/**
 * How new rows get their numbers. "sequence": the database gives them. "lock": the application counts or looks for the largest under
 * one lock for all, as the implementation that most papers measured did; then this lock is what limits the shop. The system property
 * {@code tpcw.numbering} says which.
 */
final class Numbers {
    private static final boolean IS_LOCKED = "lock".equals(System.getProperty("tpcw.numbering"));
    private static final ReentrantLock LOCK = new ReentrantLock();

    /** A change that makes numbered rows. */
    interface Change {
        void make() throws PageException, SQLException;
    }

    private Numbers() {}

    /** Makes a change whose transaction ends in it. */
    static void inTurn(Change change) throws PageException, SQLException {
        if (!IS_LOCKED) {
            change.make();
            return;
        }
        LOCK.lock();
        try {
            change.make();
        } finally {
            LOCK.unlock();
        }
    }

    /** Inserts a row within {@code inTurn}; its number. */
    static int insert(Database database, String table, String id, String columns, Object... values) throws SQLException {
        String marks = "?" + ", ?".repeat(values.length - 1);
        if (!IS_LOCKED) {
            return database.insertReturning(id, "INSERT INTO " + table + " (" + columns + ") VALUES (" + marks + ")", values);
        }
        String last = table.equals("customer") || table.equals("address") ? "MAX(" : "COUNT(";
        int number = database.row("SELECT " + last + id + ") FROM " + table).number(0) + 1;
        Object[] all = new Object[values.length + 1];
        System.arraycopy(values, 0, all, 0, values.length);
        all[values.length] = number;
        database.change("INSERT INTO " + table + " (" + columns + ", " + id + ") VALUES (" + marks + ", ?)", all);
        return number;
    }
}
