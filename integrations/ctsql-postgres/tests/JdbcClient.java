import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;

/** What pgjdbc makes of a server: prints lines that a test compares. Arguments: URL. */
public class JdbcClient {
    static void rows(String what, ResultSet found, String... names) throws SQLException {
        while (found.next()) {
            StringBuilder line = new StringBuilder(what);
            for (String name : names) line.append(" | ").append(found.getString(name));
            System.out.println(line);
        }
    }

    public static void main(String[] given) throws Exception {
        try (Connection con = DriverManager.getConnection(given[0])) {
            DatabaseMetaData about = con.getMetaData();
            System.out.println("version | " + about.getDatabaseMajorVersion());
            System.out.println("schema | " + con.getSchema() + " | " + con.getCatalog());
            rows("schemas", about.getSchemas(), "TABLE_SCHEM");
            rows("catalogs", about.getCatalogs(), "TABLE_CAT");
            rows("tables", about.getTables(null, null, "%", new String[] {"TABLE", "VIEW", "MATERIALIZED VIEW"}),
                "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE", "REMARKS");
            rows("columns", about.getColumns(null, "default", "orders", "%"),
                "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE", "DECIMAL_DIGITS", "IS_NULLABLE", "REMARKS");
            rows("keys", about.getPrimaryKeys(null, "default", "orders"), "COLUMN_NAME");
            rows("imported", about.getImportedKeys(null, "default", "orders"), "FKCOLUMN_NAME");
            rows("exported", about.getExportedKeys(null, "default", "orders"), "FKCOLUMN_NAME");
            rows("indexes", about.getIndexInfo(null, "default", "orders", false, false), "INDEX_NAME");
            rows("functions", about.getFunctions(null, null, "%"), "FUNCTION_NAME");
            rows("procedures", about.getProcedures(null, null, "%"), "PROCEDURE_NAME");
            rows("privileges", about.getTablePrivileges(null, "default", "orders"), "PRIVILEGE");
            rows("best", about.getBestRowIdentifier(null, "default", "orders", 0, true), "COLUMN_NAME");
            ResultSet types = about.getTypeInfo();
            Set<String> names = new TreeSet<>();
            while (types.next()) names.add(types.getString("TYPE_NAME"));
            System.out.println("types | " + names.containsAll(List.of("int4", "numeric", "text", "timestamptz")));
            values(con);
            again(con);
            portions(con);
            problems(con);
        }
    }

    static void values(Connection con) throws SQLException {
        String sql = "SELECT ? AS i, ? AS l, ? AS d, ? AS n, ? AS s, ? AS b, ? AS x, 'it''s \\' AS t";
        try (PreparedStatement one = con.prepareStatement(sql)) {
            one.setInt(1, 7);
            one.setLong(2, 1L << 40);
            one.setDouble(3, 0.5);
            one.setBigDecimal(4, new BigDecimal("12.3400"));
            one.setString(5, "é ' \\ ?");
            one.setBoolean(6, true);
            one.setBytes(7, new byte[] {0, -1});
            try (ResultSet found = one.executeQuery()) {
                found.next();
                System.out.println("values | " + found.getInt(1) + " | " + found.getLong(2) + " | "
                    + found.getDouble(3) + " | " + found.getBigDecimal(4) + " | " + found.getString(5) + " | "
                    + found.getBoolean(6) + " | " + Arrays.toString(found.getBytes(7)) + " | " + found.getString(8));
                System.out.println("types | " + found.getMetaData().getColumnTypeName(4) + " | "
                    + found.getMetaData().getColumnTypeName(2));
            }
        }
        String typed = "SELECT DATE '2026-02-28' AS d, TIMESTAMP_NTZ '2026-02-28 01:02:03.5' AS l,"
            + " NULL AS z, CAST(1.50 AS DECIMAL(10, 4)) AS n, CAST('-0.00012' AS DECIMAL(10, 8)) AS m";
        try (Statement one = con.createStatement(); ResultSet found = one.executeQuery(typed)) {
            found.next();
            System.out.println("typed | " + found.getObject(1, LocalDate.class) + " | "
                + found.getObject(2, LocalDateTime.class) + " | " + found.getString(3) + " | "
                + found.getBigDecimal(4) + " | " + found.getBigDecimal(5).toPlainString());
        }
        try (PreparedStatement one = con.prepareStatement("SELECT k, price FROM orders WHERE k = ? LIMIT ?")) {
            System.out.println("described | " + one.getMetaData().getColumnName(2) + " | "
                + one.getMetaData().getPrecision(2) + " | " + one.getParameterMetaData().getParameterCount());
        }
    }

    /** The driver prepares a statement after its fifth run, and takes binary values from then on. */
    static void again(Connection con) throws SQLException {
        StringBuilder line = new StringBuilder("again");
        String sql = "SELECT CAST(? AS BIGINT) * 2 AS n, CAST(1.25 AS DECIMAL(8, 3)) AS d, TIMESTAMP '2026-01-01 00:00:00+00' AS at";
        try (PreparedStatement one = con.prepareStatement(sql)) {
            for (int n = 0; n < 8; n++) {
                one.setLong(1, n);
                try (ResultSet found = one.executeQuery()) {
                    found.next();
                    line.append(" ").append(found.getLong(1)).append(":").append(found.getBigDecimal(2));
                    if (n == 7) line.append(" ").append(found.getObject(3, OffsetDateTime.class).toInstant());
                }
            }
        }
        System.out.println(line);
    }

    static void portions(Connection con) throws SQLException {
        con.setAutoCommit(false);
        try (Statement one = con.createStatement()) {
            one.setFetchSize(300);
            long sum = 0, count = 0;
            try (ResultSet found = one.executeQuery("SELECT n FROM numbers")) {
                while (found.next()) {
                    sum += found.getLong(1);
                    count++;
                }
            }
            System.out.println("portions | " + count + " | " + sum);
        }
        con.commit();
        con.setAutoCommit(true);
    }

    static void problems(Connection con) throws SQLException {
        for (String sql : List.of("BAD  nothing", "SELECT 'not closed")) {
            try (Statement one = con.createStatement()) {
                one.execute(sql);
                System.out.println("no problem | " + sql);
            } catch (SQLException problem) {
                System.out.println("problem | " + problem.getSQLState());
            }
        }
        con.setReadOnly(true);
        con.setAutoCommit(false);
        try (Statement one = con.createStatement()) {
            one.executeUpdate("INSERT INTO orders (k) VALUES (9)");
        } catch (SQLException problem) {
            System.out.println("read-only | " + problem.getSQLState());
        }
        con.rollback();
        con.setAutoCommit(true);
        con.setReadOnly(false);
        System.out.println("valid | " + con.isValid(5));
        try (Statement one = con.createStatement()) {
            one.setQueryTimeout(1);
            one.execute("SLOW");
            System.out.println("not cancelled");
        } catch (SQLException problem) {
            System.out.println("cancelled | " + problem.getSQLState());
        }
    }
}
