package org.trimtab.tpcw;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Row;

/** Addresses of forms. */
final class Addresses {
    private static final String COLUMNS = "addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id";

    private Addresses() {}

    /** The id of the address in a form, looked for by all its parts, for which there is no index; a new one where there is none. */
    static int of(Question question, Database database) throws PageException, SQLException {
        Row country = database.row("SELECT co_id FROM country WHERE co_name = ?", question.field("country", 50));
        if (country == null) {
            throw new PageException(Kind.MISSING, "no such country");
        }
        Object[] parts = {
            question.field("street1", 40),
            question.field("street2", 40),
            question.field("city", 30),
            question.field("state", 20),
            question.field("zip", 10),
            country.number(0)
        };
        Row known =
                database.row(
                        "SELECT addr_id FROM address WHERE addr_street1 = ? AND addr_street2 = ? AND addr_city = ?"
                                + " AND addr_state = ? AND addr_zip = ? AND addr_co_id = ?",
                        parts);
        return known != null ? known.number(0) : Numbers.insert(database, "address", "addr_id", COLUMNS, parts);
    }
}
