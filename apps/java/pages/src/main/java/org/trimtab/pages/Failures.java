package org.trimtab.pages;

import java.sql.SQLException;
import java.util.NoSuchElementException;

/** What an exception of a database or its pool means for a page. */
final class Failures {
    private Failures() {}

    /** The kind of {@code error}, raised where a connection was asked for. */
    static Kind ofConnecting(SQLException error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each instanceof NoSuchElementException) {
                return Kind.POOL;
            }
        }
        return Kind.REFUSED;
    }

    /** The kind of {@code error}, raised by a statement. */
    static Kind ofStatement(SQLException error) {
        String state = String.valueOf(error.getSQLState());
        int code = error.getErrorCode();
        // 1205: MariaDB's lock time-out; 1020: a row that was changed since it was read.
        if (state.startsWith("40") || state.equals("55P03") || code == 1205 || code == 1020) {
            return Kind.CONFLICT;
        }
        // 57P: the server is stopping or starting, or has ended the connection.
        return state.startsWith("08") || state.startsWith("57P") ? Kind.REFUSED : Kind.DATABASE;
    }
}
