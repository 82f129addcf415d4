"""A row that cannot be computed or stored is a DATA_ERROR in every statement that meets it."""

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError, DataError
from tests.helpers.table_folder import folder, log

SET_UP = """
    CREATE TABLE f (s STRING, n BIGINT, x DOUBLE, a ARRAY<INT>);
    CREATE TABLE t (i INT, b TINYINT, s VARCHAR(3), c CHAR(2), d DECIMAL(4, 1), ts TIMESTAMP,
        dt DATE, nn INT NOT NULL);
    INSERT INTO f VALUES ('abcdef', 99999999999, 1e300, array(1));
    INSERT INTO t (i, nn) VALUES (1, 1)"""
# What a statement writes comes from rows (Spark's tasks meet it) or is a value (the driver does).
FEW = [
    ("INSERT INTO t (s, nn) SELECT s, 1 FROM f", "exceeds char/varchar type length"),
    ("INSERT INTO t (d, nn) SELECT CAST(-999.99 AS DECIMAL(4, 1)), 1", "as Decimal(4, 1) at"),
    ("INSERT INTO t (i, nn) SELECT n, 1 FROM f", "due to an overflow"),
    ("INSERT INTO f (a) SELECT sequence(1, 10, -1) FROM f", "Illegal sequence boundaries"),
    ("INSERT INTO f (s) SELECT raise_error('cancelled: No space left on device') FROM f", "No sp"),
    ("INSERT INTO t (i, nn) SELECT 1, NULL FROM f", "NOT NULL constraint violated"),
]
MANY = [
    ("INSERT INTO t (s, nn) VALUES ('abcdef', 1)", "exceeds char/varchar type length"),
    ("INSERT INTO t (c, nn) SELECT s, 1 FROM f", "exceeds char/varchar type length"),
    ("UPDATE t SET s = 'abcdef'", "exceeds char/varchar type length"),
    ("MERGE INTO t USING f ON true WHEN MATCHED THEN UPDATE SET s = f.s", "exceeds char/varchar"),
    ("INSERT INTO t (d, nn) VALUES (-999.99, 1)", "due to an overflow"),
    ("INSERT INTO t (d, nn) SELECT -n, 1 FROM f", "due to an overflow"),
    ("UPDATE t SET d = 99999.9", "due to an overflow"),
    ("INSERT INTO t (b, nn) VALUES (300, 1)", "due to an overflow"),
    ("INSERT INTO t (i, nn) SELECT CAST(s AS INT), 1 FROM f", "cannot be cast to"),
    ("INSERT INTO t (i, nn) VALUES ('x', 1)", "cannot be cast to"),
    ("INSERT INTO t (dt, nn) VALUES ('2020-13-01', 1)", "cannot be cast to"),
    ("INSERT INTO t (ts, nn) SELECT s, 1 FROM f", "cannot be cast to"),
    ("INSERT INTO t (ts, nn) SELECT to_timestamp(s, 'yyyy-MM-dd'), 1 FROM f", "could not be"),
    ("INSERT INTO t (dt, nn) SELECT make_date(2020, 13, i), 1 FROM t", "MonthOfYear"),
    ("INSERT INTO f (x) SELECT 1 / (n - n) FROM f", "ivision by zero"),
    ("INSERT INTO f (n) SELECT 1 % (n - n) FROM f", "by zero"),
    ("UPDATE t SET i = 1 % (i - 1)", "by zero"),
    ("DELETE FROM t WHERE 1 / (i - 1) > 2", "ivision by zero"),
    ("INSERT INTO f (n) SELECT a[5] FROM f", "out of bounds"),
    ("INSERT INTO f (n) SELECT element_at(a, 0) FROM f", "the index 0 is invalid"),
    ("INSERT INTO f (n) SELECT n * n FROM f", "overflow"),
    ("INSERT INTO f (n) SELECT CAST(x AS BIGINT) FROM f", "overflow"),
    ("INSERT INTO f (s) SELECT repeat(s, 2000000000) FROM f", "overflow"),
    ("INSERT INTO f (n) SELECT (SELECT n FROM f UNION ALL SELECT 1) FROM f", "more than one row"),
    ("INSERT INTO f (s) SELECT to_number(s, '999') FROM f", "does not match the format"),
    ("INSERT INTO f (s) SELECT CAST(parse_json(s) AS STRING) FROM f", "malformed"),
    ("INSERT INTO f (s) SELECT from_json(s, 'a INT', map('mode', 'FAILFAST')).a FROM f", "alform"),
    ("INSERT INTO f (s) SELECT assert_true(n < 0) FROM f", "is not true"),
    ("UPDATE t SET nn = NULL", "NOT NULL constraint violated"),
    ("MERGE INTO t USING (SELECT 1 AS z UNION ALL SELECT 2) AS m ON true"
     " WHEN MATCHED THEN UPDATE SET i = m.z", "multiple source rows matched"),
    ("CREATE TABLE made AS SELECT CAST(s AS INT) AS i FROM f", "cannot be cast to"),
    ("SELECT CAST(s AS INT) FROM f", "cannot be cast to"),
    ("SELECT CAST('Permission denied; line 1 pos 2; cancelled' AS INT)", "; line 1 pos 2; c"),
]  # fmt: skip


def check(con: Connection, statements: list[tuple[str, str]]) -> None:
    """Each is a DATA_ERROR that says why, and commits nothing."""
    con.execute(SET_UP)
    tables = [folder(con, "f"), folder(con, "t")]
    before = [len(log(t)) for t in tables]
    for sql, why in statements:
        with pytest.raises(CtsqlError) as caught:
            con.execute(sql).fetchall()
        assert isinstance(caught.value, DataError), f"{sql}: {caught.value}"
        assert caught.value.condition == "DATA_ERROR", sql
        assert why in f"{caught.value}", f"{sql}: {caught.value}"
        assert "spark." not in f"{caught.value}", sql
    assert [len(log(t)) for t in tables] == before
    (found,) = con.execute("SELECT count(*) FROM t").fetchall()
    assert found == (1,)


def test_data_errors(con: Connection) -> None:
    """One of each way in which Spark and Delta tell it."""
    check(con, FEW)


@pytest.mark.slow
def test_all_data_errors(con: Connection) -> None:
    """Casts, overflows, divisions, indexes, constraints, texts of times: in all statements."""
    check(con, MANY)
