"""What psycopg 3 sees: values of all types, parameters, errors, transactions, cursors, COPY."""

import datetime as dt
import threading
import time
from decimal import Decimal

import psycopg
import pytest
from fake_connection import wait_for

VALUES = {
    "TRUE": True,
    "CAST(1 AS TINYINT)": 1,
    "CAST(-2 AS SMALLINT)": -2,
    "CAST(3 AS INTEGER)": 3,
    "CAST(9007199254740993 AS BIGINT)": 9007199254740993,
    "CAST(1.5 AS FLOAT)": 1.5,
    "CAST('NaN' AS DOUBLE)": float("nan"),
    "CAST('-Infinity' AS DOUBLE)": float("-inf"),
    "CAST(0.1 AS DOUBLE)": 0.1,
    "CAST(1234567.00 AS DECIMAL(20, 2))": Decimal("1234567.00"),
    "CAST(-0.0012 AS DECIMAL(10, 6))": Decimal("-0.001200"),
    "CAST('12345678901234567890123456789012345.678' AS DECIMAL(38, 3))": Decimal(
        "12345678901234567890123456789012345.678"
    ),
    "CAST(0 AS DECIMAL(5, 2))": Decimal("0.00"),
    "'é ✓ \"'": 'é ✓ "',
    "''": "",
    "NULL": None,
    "CAST('\\x00\\xFF' AS BLOB)": b"\0\xff",
    "DATE '0001-01-01'": dt.date(1, 1, 1),
    "DATE '2026-02-28'": dt.date(2026, 2, 28),
    "TIMESTAMP '2026-02-28 01:02:03.000004'": dt.datetime(2026, 2, 28, 1, 2, 3, 4),
    "TIMESTAMPTZ '1969-12-31 23:00:00+00'": dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC),
    "TIME '01:02:03.5'": dt.time(1, 2, 3, 500000),
    "INTERVAL '1 day 2 seconds'": dt.timedelta(days=1, seconds=2),
    "INTERVAL '-3 seconds'": dt.timedelta(seconds=-3),
    "[1, NULL, 3]": [1, None, 3],
    "['a b', '', NULL, 'x\"y\\z', 'NULL']": ["a b", "", None, 'x"y\\z', "NULL"],
    "CAST([] AS INTEGER[])": [],
    "[CAST(1.50 AS DECIMAL(4, 2))]": [Decimal("1.50")],
    "[DATE '2026-01-01']": [dt.date(2026, 1, 1)],
}
GIVEN = [
    True, 1, -(2**40), 1.25, float("inf"), Decimal("-12.3400"), "it's \\ \" $1", "", b"\0\xfe",
    dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5, 6), [1, None, 2],
    dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2))), None,
]  # fmt: skip


def _same(one: object, other: object) -> bool:
    both_nan = one != one and other != other
    return both_nan or (one == other and type(one) is type(other) and repr(one) == repr(other))


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_values_come_as_they_are(served, binary) -> None:
    """Each type arrives as its Python type, with every digit, in both formats."""
    with served.connect() as con, con.cursor(binary=binary) as cursor:
        found = {sql: cursor.execute(f"SELECT {sql}").fetchone()[0] for sql in VALUES}
    for value in found.values():
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            assert value.utcoffset() == dt.timedelta(0)
    wrong = {k: v for k, v in found.items() if not _same(v, VALUES[k]) and v != VALUES[k]}
    assert wrong == {}


@pytest.mark.parametrize("placeholder", ["%s", "%t", "%b"])
def test_parameters_arrive(served, placeholder) -> None:
    """A parameter in text or binary format is the value that was given."""
    with served.connect() as con:
        for value in GIVEN:
            if placeholder == "%b" and value is None:
                continue
            got = con.execute(f"SELECT {placeholder}", [value]).fetchone()[0]
            assert got == value, (value, got)


def test_parameters_may_repeat_and_stand_anywhere(served) -> None:
    """``%(name)s`` twice is one value; a string that looks like a parameter is none."""
    with served.connect() as con:
        row = con.execute("SELECT %(a)s || '$1' || %(a)s, %(b)s", {"a": "x", "b": 2}).fetchone()
    assert row == ("x$1x", 2)


def test_a_with_clause_reads_or_writes(served) -> None:
    """The verb behind the clause decides, and no column of that name."""
    with served.connect() as con:
        con.execute('CREATE TABLE t (k INT, "update" INT)')
        query = "WITH a AS (SELECT 1 AS k, %s AS u) "
        assert con.execute(query + "INSERT INTO t SELECT * FROM a", [2]).rowcount == 1
        assert con.execute(query + 'SELECT t."update", u FROM t, a', [3]).fetchall() == [(2, 3)]
        assert con.execute("WITH a AS (SELECT 1 AS k) SELECT k AS update FROM a").fetchall() == [
            (1,)
        ]


def test_a_prepared_statement_runs_again(served) -> None:
    """The sixth run is by a named statement of the server."""
    with served.connect() as con:
        got = [con.execute("SELECT %s + 1", [n], prepare=True).fetchone()[0] for n in range(8)]
    assert got == list(range(1, 9))


def test_a_prepared_statement_is_deallocated(served) -> None:
    """Its name is free after DEALLOCATE; a second DEALLOCATE fails."""
    with served.connect() as con:
        for _ in range(2):
            assert (
                con.pgconn.prepare(b"one", b"SELECT 1").status == psycopg.pq.ExecStatus.COMMAND_OK
            )
            con.execute("DEALLOCATE one")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            con.execute("DEALLOCATE PREPARE one")
        con.execute("DEALLOCATE ALL")


def test_errors_have_state_place_and_hint(served) -> None:
    """The position counts characters of the client's text, after what was translated."""
    with served.connect() as con:
        with pytest.raises(psycopg.errors.UndefinedTable) as caught:
            con.execute("BAD  \"ü\" ,'it''s' /* x */ thing")
        assert caught.value.diag.statement_position == "6"
        assert caught.value.diag.message_hint == "Mend it."
        assert con.execute("SELECT 1").fetchone() == (1,)
        for query in ("SELECT 'a", "SELECT (/* 1", 'SELECT "a'):
            with pytest.raises(psycopg.errors.SyntaxError) as caught:
                con.execute(query)
            assert caught.value.diag.statement_position == str(8 + query.count("("))


def test_a_failed_transaction_takes_only_rollback(served) -> None:
    """BEGIN, an error, a statement, COMMIT: nothing is committed."""
    with served.connect() as con:
        con.execute("CREATE TABLE t (k INT)")
        con.execute("BEGIN")
        assert con.info.transaction_status.name == "INTRANS"
        con.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(psycopg.errors.UndefinedTable):
            con.execute("BAD x")
        assert con.info.transaction_status.name == "INERROR"
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            con.execute("SELECT 1")
        assert con.execute("COMMIT").statusmessage == "ROLLBACK"
        assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_transactions_are_of_one_client(served) -> None:
    """One client's open transaction is not another's; the end of a client rolls it back."""
    with served.connect() as other:
        con = served.connect()
        con.execute("CREATE TABLE t (k INT)")
        con.execute("BEGIN; INSERT INTO t VALUES (1)")
        assert other.execute("SELECT count(*) FROM t").fetchone() == (0,)
        con.close()
    wait_for(lambda: all(one.is_closed for one in served.connection.duplicates))
    with served.connect() as con:
        assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_several_statements_of_a_text_are_one_transaction(served) -> None:
    """If the second INSERT fails, the first has changed nothing."""
    with served.connect() as con:
        con.execute("CREATE TABLE t (k INT)")
        with pytest.raises(psycopg.Error):
            con.execute("INSERT INTO t VALUES (1); INSERT INTO nothing VALUES (2)")
        assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
        con.execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
        assert con.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_a_pipeline_skips_what_follows_an_error(served) -> None:
    """Statements behind a failed one, up to the end of the pipeline, are not run."""
    with served.connect() as con:
        con.execute("CREATE TABLE t (k INT)")
        with pytest.raises(psycopg.Error), con.pipeline():  # noqa: PT012
            con.execute("INSERT INTO t VALUES (1)")
            con.execute("BAD x")
            con.execute("INSERT INTO t VALUES (2)")
        assert con.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_executemany_in_a_transaction(served) -> None:
    """These statements are a pipeline of psycopg's."""
    with psycopg.connect(served.conninfo) as con:
        served.connection.execute("CREATE TABLE t (k INT, v VARCHAR)")
        with con.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(n, str(n)) for n in range(50)])
            assert cursor.rowcount == 50
        con.commit()
        assert con.execute("SELECT CAST(sum(k) AS INT) FROM t").fetchone() == (1225,)


def test_a_statement_is_cancelled(served) -> None:
    """Cancel ends the statement that runs, with its state, and nothing else."""
    with served.connect() as con:
        threading.Timer(0.3, con.cancel_safe).start()
        begin = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            con.execute("SLOW")
        assert time.monotonic() - begin < 5
        assert con.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("size", [700, 1000, 2000])
def test_a_server_side_cursor(served, size) -> None:
    """DECLARE and FETCH give all rows in portions, also in those of the server."""
    with psycopg.connect(served.conninfo) as con, con.cursor(name="c") as cursor:
        cursor.itersize = size
        cursor.execute("SELECT range FROM range(%s)", [2500])
        assert [row[0] for row in cursor] == list(range(2500))


@pytest.mark.parametrize("form", ["text", "csv", "binary"])
def test_copy_out(served, form) -> None:
    """COPY of a query gives its rows in each format."""
    query = "SELECT * FROM (VALUES (1, 'a,\"b\\\n'), (2, NULL)) AS t(k, v) ORDER BY k"
    with served.connect() as con, con.cursor() as cursor:
        with cursor.copy(f"COPY ({query}) TO STDOUT WITH (FORMAT {form})") as copy:
            if form != "csv":
                copy.set_types(["int4", "text"])
                assert list(copy.rows()) == [(1, 'a,"b\\\n'), (2, None)]
            else:
                assert b"".join(copy) == b'1,"a,""b\\\n"\n2,\n'
        assert cursor.rowcount == 2


def test_many_rows_in_portions(served) -> None:
    """More rows than a portion arrive once each."""
    with served.connect() as con:
        rows = con.execute("SELECT range FROM range(10001)").fetchall()
    assert rows == [(n,) for n in range(10001)]
