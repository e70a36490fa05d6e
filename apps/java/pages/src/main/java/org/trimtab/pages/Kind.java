package org.trimtab.pages;

import java.util.Locale;

/** Why a page could not be made; each has its status. */
public enum Kind {
    REQUEST(400),
    LOGIN(403),
    MISSING(404),
    POOL(503),
    REFUSED(503),
    CONFLICT(503),
    DATABASE(500),
    BUG(500);

    final int status;

    Kind(int status) {
        this.status = status;
    }

    /** Its name as pages and logs write it, the same in every language of the machine. */
    String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
