package org.trimtab.tpcw;

import java.sql.Date;
import java.sql.SQLException;
import java.util.Locale;
import java.util.concurrent.ThreadLocalRandom;
import org.trimtab.pages.Database;
import org.trimtab.pages.Kind;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;
import org.trimtab.pages.Site;

/** Customers: their names, and new ones. */
final class Customers {
    private static final String[] SYLLABLES = {"BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG"};
    private static final int SESSION_MS = 2 * 3600 * 1000;
    private static final int MOST_DISCOUNT = 51;

    private Customers() {}

    /** A number in syllables. */
    static String spelled(int number) {
        StringBuilder name = new StringBuilder();
        for (char digit : Integer.toString(number).toCharArray()) {
            name.append(SYLLABLES[digit - '0']);
        }
        return name.toString();
    }

    /** Notes that a customer is here. */
    static void greet(Database database, int customer) throws SQLException {
        database.change(
                "UPDATE customer SET c_login = ?, c_expiration = ? WHERE c_id = ?",
                Site.now(), new java.sql.Timestamp(Site.now().getTime() + SESSION_MS), customer);
    }

    /** Makes a customer of a form; its id, whose syllables are user name and password. */
    static int make(Question question, Database database) throws PageException, SQLException {
        Date birth;
        try {
            birth = Date.valueOf(question.field("birthdate", 10));
        } catch (IllegalArgumentException error) {
            throw new PageException(Kind.REQUEST, "birthdate is not a date");
        }
        Date today = new Date(Site.now().getTime());
        int customer =
                Numbers.insert(
                        database,
                        "customer",
                        "c_id",
                        "c_uname, c_passwd, c_fname, c_lname, c_addr_id, c_phone, c_email, c_since, c_last_login, c_login,"
                                + " c_expiration, c_discount, c_balance, c_ytd_pmt, c_birthdate, c_data",
                        "", "",
                        question.field("fname", 17),
                        question.field("lname", 17),
                        Addresses.of(question, database),
                        question.field("phone", 18),
                        question.field("email", 50),
                        today, today,
                        Site.now(),
                        new java.sql.Timestamp(Site.now().getTime() + SESSION_MS),
                        ThreadLocalRandom.current().nextInt(MOST_DISCOUNT) / 100.0,
                        0.0, 0.0,
                        birth,
                        question.field("data", 500));
        String name = spelled(customer);
        database.change(
                "UPDATE customer SET c_uname = ?, c_passwd = ? WHERE c_id = ?", name, name.toLowerCase(Locale.ROOT), customer);
        return customer;
    }
}
