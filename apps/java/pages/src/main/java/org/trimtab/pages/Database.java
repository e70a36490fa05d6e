package org.trimtab.pages;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** A connection of the pool for one page; {@code close} gives it back. Statements are prepared each time: whether they are kept is the pool's. */
public final class Database implements AutoCloseable {
    private final Connection connection;
    private boolean isOpen;

    Database(Connection connection) {
        this.connection = connection;
    }

    /** All rows of a query. */
    public List<Row> rows(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            bind(statement, values);
            try (ResultSet found = statement.executeQuery()) {
                int width = found.getMetaData().getColumnCount();
                List<Row> rows = new ArrayList<>();
                while (found.next()) {
                    Object[] row = new Object[width];
                    for (int column = 0; column < width; column++) {
                        row[column] = found.getObject(column + 1);
                    }
                    rows.add(new Row(row));
                }
                return rows;
            }
        }
    }

    /** The first row of a query; null when there is none. */
    public Row row(String sql, Object... values) throws SQLException {
        List<Row> rows = rows(sql, values);
        return rows.isEmpty() ? null : rows.get(0);
    }

    /** Changes rows; how many. */
    public int change(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            bind(statement, values);
            return statement.executeUpdate();
        }
    }

    /** Inserts a row; the value that the database gave its column {@code id}. */
    public int insert(String sql, Object... values) throws SQLException {
        return insertReturning("id", sql, values);
    }

    /** Inserts a row; the value that the database gave that column. */
    public int insertReturning(String column, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql, new String[] {column})) {
            bind(statement, values);
            statement.executeUpdate();
            try (ResultSet keys = statement.getGeneratedKeys()) {
                keys.next();
                return keys.getInt(1);
            }
        }
    }

    /** Begins a transaction; without {@code commit} it is rolled back when the connection is given back. */
    public void begin() throws SQLException {
        connection.setAutoCommit(false);
        isOpen = true;
    }

    /** Ends the transaction. */
    public void commit() throws SQLException {
        connection.commit();
        isOpen = false;
        connection.setAutoCommit(true);
    }

    @Override
    public void close() throws SQLException {
        try {
            if (isOpen) {
                connection.rollback();
                connection.setAutoCommit(true);
            }
        } finally {
            connection.close();
        }
    }

    private static void bind(PreparedStatement statement, Object... values) throws SQLException {
        for (int index = 0; index < values.length; index++) {
            statement.setObject(index + 1, values[index]);
        }
    }
}
