"""Values at the edges of their types arrive in views and tasks as they left the table."""

import pytest

from ctsql.api import Connection
from tests.helpers.opened import item_of
from tests.scenarios.runner import assert_rows

COLUMNS = {
    "d": "DATE",
    "at": "TIMESTAMP",
    "local": "TIMESTAMP_NTZ",
    "n": "BIGINT",
    "dec": "DECIMAL(38, 0)",
    "big": "DECIMAL(38, 18)",
    "f": "DOUBLE",
    "s": "STRING",
    "b": "BINARY",
    "days": "ARRAY<DATE>",
}
NULLS = ", ".join(["NULL"] * len(COLUMNS))
NINES = "9" * 38
EDGES = [
    "DATE '1582-10-10', TIMESTAMP '1582-10-10 12:00:00', TIMESTAMP_NTZ '1582-10-10 12:00:00',"
    f" -9223372036854775807 - 1, {NINES}, 0.000000000000000001, double('-0.0'), 'a\\0b', X'00',"
    " array(DATE '1582-10-14')",
    "DATE '1582-10-05', TIMESTAMP '1582-10-14 23:59:59.999999',"
    " TIMESTAMP_NTZ '1582-10-05 00:00:00',"
    f" 9223372036854775807, -{NINES}, -0.000000000000000001, double('NaN'), 'ä€😀', X'', array()",
    "DATE '0001-01-01', TIMESTAMP '0001-01-01 00:00:00', TIMESTAMP_NTZ '0001-01-01 00:00:00',"
    " 0, 0, 99999999999999999999.999999999999999999, double('Infinity'), '', X'ff', NULL",
    "DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59.999999',"
    " TIMESTAMP_NTZ '9999-12-31 23:59:59.999999', 1, 1, 1, double('-Infinity'), ' ', X'20',"
    " array(DATE '9999-12-31')",
    "DATE '-4712-01-01', TIMESTAMP '-4712-01-01 00:00:00', TIMESTAMP_NTZ '-4712-01-01 00:00:00',"
    " 2, 2, 2, 5e-324D, CAST(X'61ff' AS STRING), X'61ff', array(DATE '-0001-02-28')",
    "DATE '+12000-02-29', TIMESTAMP '+12000-02-29 00:00:00', TIMESTAMP_NTZ '+12000-02-29 00:00:00',"
    " 3, 3, 3, 1.7976931348623157e308D, '\\uFFFD', X'efbfbd', array(DATE '+12000-02-29', NULL)",
    NULLS,
]
SHOWN = ", ".join(
    {"s": "hex(CAST(s AS BINARY)) AS s", "b": "hex(b) AS b", "days": "to_json(days) AS days"}.get(
        name, f"CAST({name} AS STRING) AS {name}"
    )
    for name in COLUMNS
)
"""The columns as texts, of which Python has all."""
CHANGES = [
    *(f"INSERT INTO t SELECT {i}, {row}" for i, row in enumerate(EDGES[:2])),
    "INSERT INTO t SELECT id + 10, * EXCEPT (id) FROM t",
    "UPDATE t SET id = id + 100 WHERE id < 6",
    "DELETE FROM t WHERE id IN (110, 12, 14)",
]


def _table(con: Connection) -> None:
    con.execute(
        "CREATE TABLE t (id INT, " + ", ".join(f"{n} {k}" for n, k in COLUMNS.items()) + ")"
    )
    rows = " UNION ALL ".join(f"SELECT {i}, {row}" for i, row in enumerate(EDGES))
    con.execute(f"INSERT INTO t {rows}")


def _check(con: Connection, name: str, query: str, shown: str, at: str) -> None:
    wanted = con.execute(f"SELECT {shown} FROM ({query}) AS q").fetchall()
    found = con.execute(f"SELECT {shown} FROM {name}").fetchall()
    assert_rows(found, wanted, f"{name}: {at}")


def test_edges_arrive_as_they_left(con: Connection) -> None:
    """A view, its groups by every key, and a task keyed by a date hold what the table holds."""
    _table(con)
    by_day = "SELECT d, local, count(*) AS k, max(n) AS m FROM t GROUP BY d, local"
    con.execute(
        "CREATE MATERIALIZED VIEW whole WITH (REFRESH POLICY = incremental) AS SELECT * FROM t;"
        f"CREATE MATERIALIZED VIEW by_day WITH (REFRESH POLICY = incremental) AS {by_day};"
        "CREATE CONTINUAL TASK upsert ON INPUT t AS (DELETE FROM upsert WHERE (d, s) IN"
        " (SELECT d, s FROM t); INSERT INTO upsert SELECT d, s, max(id) AS id FROM t GROUP BY d, s)"
    )
    shown = "CAST(d AS STRING) AS d, CAST(local AS STRING) AS local, k, m"
    for change in CHANGES:
        con.execute(change)
        _check(con, "whole", "SELECT * FROM t", f"id, {SHOWN}", change)
        _check(con, "by_day", by_day, shown, change)
    keys = "CAST(d AS STRING) AS d, hex(CAST(s AS BINARY)) AS s, id"
    # Ids only grow, and what is deleted from the input stays in the task: the last of each key.
    found = con.execute(f"SELECT {keys} FROM upsert").fetchall()
    assert len({row[:2] for row in found if row[0] is not None}) == len(EDGES) - 1
    assert len([row for row in found if row[0] is not None]) == len(EDGES) - 1
    assert con.execute("VERIFY whole").fetchall() == []


def test_rows_stored_wrongly_are_mended(con: Connection) -> None:
    """A date that was stored ten days off is shown by VERIFY, and REPAIR mends it."""
    con.execute("CREATE TABLE g (d DATE, s STRING)")
    con.execute("INSERT INTO g VALUES (DATE '1582-10-10', 'x')")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM g")
    location = item_of(con, "v").location
    con.spark.sql(f"UPDATE delta.`{location}` SET d = DATE '1582-10-15'")
    shown = con.execute("VERIFY v").fetchall()
    assert sorted((str(r[1]), r[0]) for r in shown) == [("1582-10-10", "+"), ("1582-10-15", "-")]
    con.execute("VERIFY v REPAIR")
    assert [str(r[0]) for r in con.execute("SELECT * FROM v").fetchall()] == ["1582-10-10"]


def test_what_python_does_not_have_is_said(con: Connection) -> None:
    """Fetching a date that Python does not have is an error that says so; months are a text."""
    for value in (
        "DATE '+12000-01-01'",
        "TIMESTAMP '-0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ '+12000-01-01 00:00:00'",
        "array(DATE '-0001-01-01')",
    ):
        with pytest.raises(Exception, match="outside the years 1 to 9999"):
            con.execute(f"SELECT {value} AS v").fetchall()
    row = con.execute(
        "SELECT DATE '1582-10-10', TIMESTAMP_NTZ '9999-12-31 23:59:59.999999',"
        " INTERVAL '1-2' YEAR TO MONTH, TIMESTAMP_NTZ '0001-01-01 00:00:00.000001'"
    ).fetchone()
    assert row is not None
    assert [str(v) for v in row] == [
        "1582-10-10",
        "9999-12-31 23:59:59.999999",
        "INTERVAL '1-2' YEAR TO MONTH",
        "0001-01-01 00:00:00.000001",
    ]
