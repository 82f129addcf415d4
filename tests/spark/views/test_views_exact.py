"""A materialized view holds its query's result as a multiset, exactly, whatever the types."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.planner.literals import literal
from tests.conftest import VECTORS
from tests.helpers.table_folder import data_files, folder, log, orphans, rows_at
from tests.scenarios.runner import assert_rows

CASES = json.loads((VECTORS / "mv_sink.json").read_text())["cases"]


def _values(rows: Sequence[Sequence[object]]) -> str:
    return ", ".join("(" + ", ".join(literal(v) for v in row) + ")" for row in rows)


def _write_foreign(con: Connection, table: Path, rows: list[list[Any]]) -> None:
    """Make a table hold exactly these rows, behind ctsql's back."""
    if not rows:
        con.spark.sql(f"DELETE FROM delta.`{table}`")
        return
    frame = con.spark.createDataFrame([tuple(r) for r in rows], "k STRING, v INT")
    frame.coalesce(1).write.format("delta").mode("overwrite").save(str(table))


@pytest.mark.core
@pytest.mark.parametrize("number", range(len(CASES)))
def test_vector_cases(con: Connection, number: int) -> None:
    """Whatever is stored, the next write makes it what is desired, by the smallest commit."""
    case = CASES[number]
    con.execute("CREATE TABLE t (k STRING, v INT)")
    if case["desired"]:
        con.execute(f"INSERT INTO t VALUES {_values(case['desired'])}")
    con.execute("CREATE MATERIALIZED VIEW m AS SELECT k, v FROM t")
    table = folder(con, "m")
    _write_foreign(con, table, case["stored"])
    before, commits = data_files(table), len(log(table))
    con.execute("REFRESH MATERIALIZED VIEW m FULL")
    assert_rows(con.execute("SELECT * FROM m").fetchall(), case["desired"], "desired")
    changes = [c for c in log(table)[commits:] if any("add" in a or "remove" in a for a in c)]
    assert len(changes) == (1 if case["insert"] or case["delete"] else 0)
    fresh = [f for f in data_files(table) - before if f.endswith(".parquet")]
    assert len(fresh) == (1 if case["insert"] else 0)
    for commit in changes:
        added = {a["add"]["path"] for a in commit if "add" in a}
        removed = {a["remove"]["path"] for a in commit if "remove" in a}
        whole = sum(
            json.loads(a["add"]["stats"])["numRecords"]
            for a in commit
            if "add" in a and a["add"]["path"] in added - removed
        )
        assert whole == len(case["insert"])
    assert not orphans(table)


COLUMNS = """id INT, f FLOAT, d DOUBLE, dec DECIMAL(38, 10), s STRING, b BINARY, day DATE,
    at TIMESTAMP, local TIMESTAMP_NTZ, flag BOOLEAN, tiny TINYINT,
    st STRUCT<x: DOUBLE, y: ARRAY<STRING>>, arr ARRAY<DOUBLE>, m MAP<STRING, STRUCT<a: INT>>,
    `odd-name` STRING"""
ROWS = [
    "1, float('NaN'), double('NaN'), 1234567890123456789012345678.0123456789, 'x', X'00ff',"
    " DATE '0001-01-01', TIMESTAMP '0001-01-01 00:00:00', TIMESTAMP_NTZ '1582-10-14 23:59:59',"
    " true, -128, named_struct('x', double('NaN'), 'y', array('a', NULL)), array(double('-0.0')),"
    " map('k', named_struct('a', NULL)), ''",
    "2, float('-0.0'), double('-0.0'), -0.0000000001, '', X'', DATE '1899-12-31',"
    " TIMESTAMP '1900-01-01 00:00:00.000001', TIMESTAMP_NTZ '9999-12-31 23:59:59.999999',"
    " false, 127, named_struct('x', double('-0.0'), 'y', array()), array(double('NaN'), NULL),"
    " map(), ' '",
    "3, float('0.0'), double('0.0'), 0, 'ä€😀', X'deadbeef', DATE '9999-12-31',"
    " TIMESTAMP '1883-11-18 12:03:58', TIMESTAMP_NTZ '1970-01-01 00:00:00', NULL, 0,"
    " named_struct('x', double('0.0'), 'y', NULL), array(), map('a', NULL, 'b',"
    " named_struct('a', 1)), 'q`uote'",
    "4, double('-Infinity'), double('Infinity'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
    " NULL, NULL, NULL, NULL",
]
INSERTS = [f"INSERT INTO t SELECT {row}" for row in ROWS]


def _check(con: Connection, at: str) -> None:
    """The view and the table hold the same, in ctsql's eyes and in any Delta reader's."""
    wanted = con.execute("SELECT * FROM t").fetchall()
    assert_rows(con.execute("SELECT * FROM m").fetchall(), wanted, at)
    table = folder(con, "m")
    assert_rows(rows_at(con, table, len(log(table)) - 1), wanted, f"{at}, by a Delta reader")


def test_all_types(con: Connection) -> None:
    """Rows of every kind come, come twice, change and go."""
    con.execute(f"CREATE TABLE t ({COLUMNS})")
    con.execute("; ".join(INSERTS))
    con.execute("CREATE MATERIALIZED VIEW m AS SELECT * FROM t")
    _check(con, "created")
    con.execute("INSERT INTO t SELECT * FROM t WHERE id IN (1, 2)")
    _check(con, "doubled")
    con.execute("DELETE FROM t WHERE id = 1")
    _check(con, "deleted")
    con.execute("UPDATE t SET `odd-name` = NULL, m = NULL WHERE id = 3")
    _check(con, "updated")
    table = folder(con, "m")
    commits = len(log(table))
    con.execute("REFRESH MATERIALIZED VIEW m FULL")
    after = [c for c in log(table)[commits:] if any("add" in a or "remove" in a for a in c)]
    assert after == [], "comparing in full found a difference where there is none"
    assert not orphans(table)


def test_k_of_n_duplicates_go(con: Connection) -> None:
    """Of n equal rows exactly k are deleted, whichever files they are in."""
    con.execute("CREATE TABLE t (k INT, n INT)")
    con.execute("INSERT INTO t VALUES (1, 3), (2, 2); INSERT INTO t VALUES (1, 2), (3, 1)")
    con.execute(
        "CREATE MATERIALIZED VIEW m AS SELECT k FROM t LATERAL VIEW explode(sequence(1, n)) e AS i"
    )
    table = folder(con, "m")
    seen = []
    for change in ("UPDATE t SET n = 1 WHERE k = 1 AND n = 3", "DELETE FROM t WHERE k = 2",
                   "UPDATE t SET n = n + 4", "UPDATE t SET n = 1"):  # fmt: skip
        con.execute(change)
        query = "SELECT k FROM t LATERAL VIEW explode(sequence(1, n)) e AS i"
        wanted = con.execute(query).fetchall()
        assert_rows(con.execute("SELECT * FROM m").fetchall(), wanted, change)
        seen.append(len(wanted))
    assert seen == [6, 4, 16, 3]
    assert not orphans(table)


@pytest.mark.core
def test_no_difference_no_file(con: Connection) -> None:
    """A change of the source that leaves the result alone writes no data file."""
    con.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1)")
    con.execute("CREATE MATERIALIZED VIEW m AS SELECT k > 0 AS positive FROM t GROUP BY 1")
    table = folder(con, "m")
    before = data_files(table)
    con.execute("INSERT INTO t VALUES (2)")
    assert con.execute("SELECT * FROM m").fetchall() == [(True,)]
    assert data_files(table) == before


def test_a_view_over_one_that_passed_a_time_over(con: Connection) -> None:
    """A view that nobody follows skips Ts; what is above it shows them all the same."""
    con.execute(
        "CREATE TABLE t (v INT); INSERT INTO t VALUES (1);"
        "CREATE MATERIALIZED VIEW low AS SELECT v + 1 AS v FROM t;"
        "CREATE MATERIALIZED VIEW high AS SELECT sum(v) AS s FROM low"
    )
    assert con.execute("SELECT * FROM high").fetchall() == [(2,)]
    con.execute("INSERT INTO t VALUES (10)")
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(2,)]  # binds a T, writes no view
    passed_over = con.now()
    con.execute("INSERT INTO t VALUES (100)")
    assert con.execute("SELECT * FROM high").fetchall() == [(114,)]
    for view, row in (("high", (13,)), ("low", (2,)), ("low", (11,))):
        assert row in con.execute(f"SELECT * FROM {view} AS OF {passed_over}").fetchall()
    assert con.execute(f"SELECT * FROM high AS OF {passed_over - 1}").fetchall() == [(2,)]
