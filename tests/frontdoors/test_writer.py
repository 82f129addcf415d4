"""Jobs that write a table with how far they are, in one commit."""

import inspect
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ctsql import UpperMismatch
from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.processes import start_program
from tests.helpers.table_folder import data_files, folder, named_files, versions

pytestmark = pytest.mark.spark


@pytest.fixture
def table(con: Connection) -> Connection:
    """A table of items."""
    con.execute("CREATE TABLE t (id INT NOT NULL, price DECIMAL(10, 2))")
    return con


def _rows(con: Connection) -> list[tuple[Any, ...]]:
    return sorted(con.execute("SELECT * FROM t").fetchall(), key=repr)


def _no_file_is_left(con: Connection) -> None:
    found = folder(con, "t")
    assert {f for f in data_files(found) if f.startswith("part-")} <= named_files(found)


def test_compare_and_append(table: Connection) -> None:
    """Rows and upper in one commit, or a mismatch that says where to go on."""
    writer = table.writer("t")
    assert (writer.upper, writer.fetch_recent_upper()) == (0, 0)
    before = len(versions(folder(table, "t")))
    assert writer.compare_and_append([(1, 1.5)], expected_upper=0, new_upper=10) == 10
    assert len(versions(folder(table, "t"))) == before + 1
    with pytest.raises(UpperMismatch, match="expected_upper=10") as lost:
        table.writer("default.t").compare_and_append([(1, 1)], expected_upper=0, new_upper=10)
    assert (lost.value.current, lost.value.expected) == (10, 0)
    assert writer.compare_and_append(expected_upper=10, new_upper=12) == 12
    by_number = {12: pa.table({"id": [2], "price": [2]}), 14: [{"id": 3}]}
    assert writer.compare_and_append(by_number, expected_upper=12, new_upper=15) == 15
    assert _rows(table) == [(1, Decimal("1.50")), (2, Decimal("2.00")), (3, None)]
    table.execute("DELETE FROM t")
    assert table.writer("t").fetch_recent_upper() == 15
    assert table.writer("t", job="other").fetch_recent_upper() == 0
    assert writer.wait_for_upper_past(14, timeout_seconds=0)
    assert not writer.wait_for_upper_past(15, timeout_seconds=0.1)
    assert repr(writer) == "<Writer of t, job 'default'>"


def test_many_writers_of_the_same_rows(table: Connection) -> None:
    """What is in already is left out, whatever bounds they use; a gap is refused."""
    one, two = table.writer("t"), table.writer("t")
    rows = {n: [(n, n)] for n in range(6)}
    assert one.append({n: rows[n] for n in range(3)}, lower=0, upper=3) == 3
    assert two.append({n: rows[n] for n in range(5)}, lower=0, upper=5) == 5
    assert one.append({n: rows[n] for n in range(3, 5)}, lower=3, upper=5) == 5
    with pytest.raises(UpperMismatch, match="is 5, not 6"):
        one.append([(7, 7)], lower=6, upper=7)
    assert two.append(rows[5], lower=5, upper=6) == 6
    assert [row[0] for row in _rows(table)] == list(range(6))
    _no_file_is_left(table)


def test_batches_travel_as_text(table: Connection, connect: Callable[[], Connection]) -> None:
    """Staged by one, appended by another, several in one commit; those that lose are deleted."""
    writer, other = table.writer("t"), connect().writer("t")
    texts = [other.stage([(n, n)], lower=0, upper=3) for n in range(3)]
    assert _rows(table) == []
    assert writer.compare_and_append([(3, 3)], expected_upper=0, new_upper=3, batches=texts) == 3
    assert [row[0] for row in _rows(table)] == [0, 1, 2, 3]
    late = other.stage([(9, 9)], lower=0, upper=3)
    with pytest.raises(UpperMismatch):
        writer.compare_and_append(expected_upper=0, new_upper=3, batches=[late])
    writer.discard(other.stage([(9, 9)], lower=3, upper=4))
    _no_file_is_left(table)
    table.execute("CREATE TABLE u (id INT)")
    with pytest.raises(CtsqlError, match="BATCH_OF_ANOTHER_OUTPUT"):
        table.writer("u").append(
            lower=3, upper=4, batches=[other.stage([(1, 1)], lower=3, upper=4)]
        )


def test_rows_that_do_not_fit(table: Connection) -> None:
    """Nothing is committed, and the upper stays; what a failed task of Spark's leaves is unseen."""
    refusals: list[tuple[Any, str]] = [
        (pa.table({"id": ["x"]}), "TYPE_MISMATCH"),
        ([{"nope": 1}], "UNKNOWN_COLUMN"),
        ({7: [(1, 1)]}, "BOUNDS_INVALID"),
        ([(None, 1)], "DATA_ERROR"),
        (pa.table({"id": pa.array([2**40])}), "DATA_ERROR"),
    ]
    before = versions(folder(table, "t"))
    for rows, condition in refusals:
        with pytest.raises(CtsqlError) as refused:
            table.writer("t").compare_and_append(rows, expected_upper=0, new_upper=1)
        assert refused.value.condition == condition, refused.value
        assert versions(folder(table, "t")) == before
        assert table.writer("t").fetch_recent_upper() == 0
        if condition != "DATA_ERROR":
            _no_file_is_left(table)


def test_columns_that_delta_fills(con: Connection, tmp_path: Path) -> None:
    """Computed columns, CHAR and structs are stored as by INSERT."""
    con.spark.sql(
        f"CREATE TABLE delta.`{tmp_path}/t` (a INT, b INT GENERATED ALWAYS AS (a + 1), c CHAR(3), "
        "s STRUCT<x: INT, y: STRING>) USING delta"
    )
    con.execute(f"CREATE TABLE t LOCATION '{tmp_path}/t'")
    con.writer("t").compare_and_append(
        pa.table({"a": [1], "c": ["p"], "s": [{"x": 1, "y": "z"}]}), expected_upper=0, new_upper=1
    )
    assert con.execute("SELECT a, b, c, s.x, s.y FROM t").fetchall() == [(1, 2, "p  ", 1, "z")]
    turned = pa.table(
        {"s": pa.array([{"y": "z", "x": 1}], pa.struct({"y": "string", "x": "int32"}))}
    )
    with pytest.raises(CtsqlError, match="TYPE_MISMATCH"):
        con.writer("t").append(turned, lower=1, upper=2)


def test_refusals(table: Connection) -> None:
    """Outputs, read-only connections, open transactions, dropped tables."""
    table.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    with pytest.raises(CtsqlError, match="OUTPUT_OWNED"):
        table.writer("v")
    reader = Connection(table.warehouse, spark=table.spark, read_only=True)
    with pytest.raises(CtsqlError, match="READ_ONLY_MODE"):
        reader.writer("t").compare_and_append(expected_upper=0, new_upper=1)
    writer = table.writer("t")
    table.begin()
    with pytest.raises(CtsqlError, match="TRANSACTION_OPEN"):
        writer.append(lower=0, upper=1)
    table.rollback()
    table.execute("DROP TABLE t CASCADE")
    with pytest.raises(CtsqlError, match="UNKNOWN_RELATION"):
        writer.append(lower=0, upper=1)


def write_numbers(con: Connection) -> None:
    """The job: it goes on where its upper is."""
    writer = con.writer("t", job="numbers")
    for n in range(writer.fetch_recent_upper(), 4):
        writer.compare_and_append([(n, n)], expected_upper=n, new_upper=n + 1)


PROGRAM = f"""
import sys, ctsql
from ctsql.api import Connection
{inspect.getsource(write_numbers)}
write_numbers(ctsql.connect(sys.argv[1], master="local[1]"))
"""


def test_a_job_that_is_killed(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """Another process goes on where it was; nothing is in twice and nothing is missing.

    Killed after its commit: tests/recipes/test_ingest_files.py.
    """
    con = connect()
    con.execute("CREATE TABLE t (id INT NOT NULL, price DECIMAL(10, 2))")
    con.close()
    killed = start_program(PROGRAM, str(warehouse), fault="output_staged:2")
    _, problems = killed.communicate(timeout=180)
    assert killed.returncode == -9, problems
    con = connect()
    write_numbers(con)
    assert con.writer("t", job="numbers").fetch_recent_upper() == 4
    assert [row[0] for row in _rows(con)] == [0, 1, 2, 3]
