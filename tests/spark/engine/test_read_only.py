"""Read-only: nothing is written anywhere, and what is not stored yet is computed all the same."""

from pathlib import Path

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.errors import CtsqlError
from tests.conftest import TEST_MASTER
from tests.scenarios.runner import expect_error

SET_UP = """
CREATE TABLE feed (k INT, v INT);
CREATE CONTINUAL TASK best (k INT, v INT NOT NULL) ON INPUT feed AS (
    DELETE FROM best WHERE k IN (SELECT k FROM feed);
    INSERT INTO best SELECT k, max(v) FROM feed GROUP BY k);
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n, sum(v) AS s FROM best;
CREATE CONTINUAL TASK history (n BIGINT, s BIGINT) ON INPUT totals AS (
    INSERT INTO history SELECT n, s FROM totals);
CREATE MATERIALIZED VIEW high AS SELECT k, v FROM best WHERE v > 5;
INSERT INTO feed VALUES (1, 1), (2, 7);
SELECT * FROM history; SELECT * FROM high;
INSERT INTO feed VALUES (1, 10);
UPDATE feed SET v = 3 WHERE k = 2;
DELETE FROM feed WHERE k = 1;
INSERT INTO feed VALUES (3, 30)
"""
READS = {
    "SELECT * FROM best ORDER BY k": [(1, 10), (2, 3), (3, 30)],
    "SELECT * FROM history ORDER BY n, s": [(0, None), (2, 8), (2, 13), (2, 17), (3, 43)],
    "SELECT * FROM high ORDER BY k": [(1, 10), (3, 30)],
    "SELECT count(*) FROM feed": [(2,)],
}
PENDING = {
    "best": (3, 3, 2),  # commits, rows to insert, rows to delete
    "totals": (3, 3, 3),
    "history": (3, 3, 0),
    "high": (1, 2, 1),
}


def _everything(warehouse: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder with its time and size, lock files too."""
    found = {str(p): p.stat() for p in [warehouse, *warehouse.rglob("*")]}
    return {name: (s.st_mtime_ns, s.st_size) for name, s in found.items()}


def _read_only(warehouse: Path) -> Connection:
    return open_connection(str(warehouse), master=TEST_MASTER, read_only=True)


def _pending(con: Connection) -> dict[str, tuple[int, int, int]]:
    return {row[2]: row[5:8] for row in con.execute("SHOW PENDING").fetchall()}


def test_reads_compute_what_is_not_stored_and_write_nothing(
    con: Connection, warehouse: Path
) -> None:
    """Ts, tasks and views are computed in memory; the folder tree does not change by a byte."""
    con.execute(SET_UP)
    before = _everything(warehouse)
    with _read_only(warehouse) as reader:
        shown = {row[2]: row for row in reader.execute("SHOW PENDING").fetchall()}
        assert {name: row[5:8] for name, row in shown.items()} == PENDING
        assert all(row[3] <= row[4] for row in shown.values())  # upper <= T
        for query, rows in READS.items():
            assert reader.execute(query).fetchall() == rows, query
        assert {row[3] for row in reader.status().fetchall()} == {"behind"}
        with pytest.raises(CtsqlError, match="read-only"):
            reader.execute("INSERT INTO feed VALUES (4, 4)")
        with pytest.raises(CtsqlError, match="read-only"):
            reader.run(once=True)
        assert _pending(con) == PENDING  # on a writing connection: shown, not written
        assert _everything(warehouse) == before
        # It follows what others do: a new commit, and outputs that somebody else brings up.
        con.execute("INSERT INTO feed VALUES (3, 1)")
        assert reader.execute("SELECT * FROM best WHERE k = 3").fetchall() == [(3, 1)]
        assert con.execute("SELECT * FROM best WHERE k = 3").fetchall() == [(3, 1)]
        before = _everything(warehouse)
        assert _pending(reader)["best"] == (0, 0, 0)
        assert reader.execute("SELECT max(s) FROM history").fetchall() == [(43,)]
        assert _everything(warehouse) == before


def test_errors_are_the_same_and_are_not_written(con: Connection, warehouse: Path) -> None:
    """A task that would fail fails in memory; SHOW PENDING says why; it is written when promoted.

    A connection is never made read-only again.
    """
    con.execute(
        "CREATE TABLE feed (v INT);"
        "CREATE CONTINUAL TASK ratios (r INT NOT NULL) ON INPUT feed"
        " AS (INSERT INTO ratios SELECT 100 DIV v FROM feed);"
        "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM ratios;"
        "INSERT INTO feed VALUES (5); INSERT INTO feed VALUES (NULL); INSERT INTO feed VALUES (0)"
    )
    before = _everything(warehouse)
    reader = _read_only(warehouse)
    found = expect_error(reader, "SELECT * FROM n", "TASK_FAILED")
    assert "NOT NULL" in found.message
    shown = {row[2]: row for row in reader.execute("SHOW PENDING").fetchall()}
    assert shown["ratios"][5:8] == (1, 1, 0)  # up to where it fails
    assert shown["n"][8] == shown["ratios"][8] == found.message
    assert _everything(warehouse) == before
    expect_error(reader, "SET read_only = maybe", "INVALID_OPTION")
    reader.execute("SET read_only = true; SET read_only = false")
    reader.promote()
    assert reader.read_only is False
    expect_error(reader, "SET read_only = true", "NOT_SUPPORTED")
    written = expect_error(reader, "SELECT * FROM n", "TASK_FAILED")
    assert "NOT NULL" in written.message
    assert _everything(warehouse) != before
    reader.close()


def test_it_needs_a_warehouse(warehouse: Path) -> None:
    """Opening a folder that is none makes nothing; promoted before it is opened, it makes one."""
    reader = _read_only(warehouse)
    expect_error(reader, "SELECT 1", "WAREHOUSE_NOT_FOUND")
    assert not warehouse.exists()
    reader.promote()
    assert reader.execute("SELECT 1").fetchall() == [(1,)]
    reader.close()
