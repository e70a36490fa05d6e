package org.trimtab.pages;

import java.sql.Timestamp;

/** A row of an answer; columns are counted from 0. */
public final class Row {
    private final Object[] values;

    Row(Object[] values) {
        this.values = values;
    }

    /** A whole number; 0 where there is none. */
    public int number(int column) {
        return values[column] instanceof Number number ? number.intValue() : 0;
    }

    /** An amount; 0 where there is none. */
    public double amount(int column) {
        return values[column] instanceof Number number ? number.doubleValue() : 0.0;
    }

    /** A text; "" where there is none. */
    public String text(int column) {
        return values[column] == null ? "" : values[column].toString();
    }

    /** A moment. */
    public Timestamp moment(int column) {
        return (Timestamp) values[column];
    }
}
