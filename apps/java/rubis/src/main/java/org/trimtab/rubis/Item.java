package org.trimtab.rubis;

import java.sql.SQLException;
import java.sql.Timestamp;
import org.trimtab.pages.Database;
import org.trimtab.pages.Row;

/** An item as the pages show it. */
final class Item {
    private static final String COLUMNS =
            "SELECT id, name, description, initial_price, quantity, reserve_price, buy_now, nb_of_bids, max_bid, start_date, end_date,"
                    + " seller FROM ";

    final int id;
    final String name;
    final String description;
    final double initialPrice;
    final int quantity;
    final double reservePrice;
    final double buyNow;
    final int bids;
    final double maxBid;
    final Timestamp start;
    final Timestamp end;
    final int seller;

    /** Whether it stands among those that are not sold yet. */
    final boolean isForSale;

    private Item(Row row, boolean isForSale) {
        id = row.number(0);
        name = row.text(1);
        description = row.text(2);
        initialPrice = row.amount(3);
        quantity = row.number(4);
        reservePrice = row.amount(5);
        buyNow = row.amount(6);
        bids = row.number(7);
        maxBid = row.amount(8);
        start = row.moment(9);
        end = row.moment(10);
        seller = row.number(11);
        this.isForSale = isForSale;
    }

    /** The item of that id, looked for among the old ones last; null when there is none. */
    static Item find(Database database, int id) throws SQLException {
        Row row = database.row(COLUMNS + "items WHERE id = ?", id);
        if (row != null) {
            return new Item(row, true);
        }
        row = database.row(COLUMNS + "old_items WHERE id = ?", id);
        return row == null ? null : new Item(row, false);
    }

    /** Its name alone; null when there is no such item. */
    static String name(Database database, int id) throws SQLException {
        Row row = database.row("SELECT name FROM items WHERE id = ?", id);
        if (row == null) {
            row = database.row("SELECT name FROM old_items WHERE id = ?", id);
        }
        return row == null ? null : row.text(0);
    }

    /** What it costs now. */
    double price() {
        return Math.max(initialPrice, maxBid);
    }

    /** What it costs without an auction. */
    double buyNowPrice() {
        return buyNow > 0 ? buyNow : Math.max(initialPrice, reservePrice);
    }
}
