"""Tasks that are replayed, replaced or made from a table, while processes are killed."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers.processes import Process, start_program
from tests.helpers.sql_folder import applied
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.spark

SET_UP = """
CREATE TABLE t (k INT);
CREATE CONTINUAL TASK x (k INT) ON INPUT t AS (INSERT INTO x SELECT k FROM t);
CREATE CONTINUAL TASK seen (k INT) ON INPUT x AS (INSERT INTO seen SELECT k FROM x);
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (2);
SELECT * FROM seen
"""
REPLAY = "REPLAY CONTINUAL TASK x FROM '2026-01-01' AS (INSERT INTO x SELECT k * k FROM t)"
POINTS = {
    "catalog_table_made": False,
    "output_committed": False,
    "cutover_stored": False,
    "cutover_bound": True,
    "output_staged:4": True,
    "output_committed:5": True,
    "catalog_committed:3": True,
}
EACH_TIME = ("cutover_bound",)


def _killed(warehouse: Path, statements: list[str], point: str) -> bool:
    """Run statements in a process that dies at a point; whether it got there."""
    process = Process(warehouse, statements, fault=point)
    process.wait_ready()
    process.go()
    status, problems = process.finish()
    assert status in (0, -signal.SIGKILL), problems
    return status != 0


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=[] if p in EACH_TIME else [pytest.mark.slow]) for p in POINTS]
)
def test_replay_killed_at(point: str, warehouse: Path, connect: Callable[[], Connection]) -> None:
    """All rows are old, or all become new; replayed again it comes to the same end."""
    first = connect()
    first.execute(SET_UP)
    first.close()
    died = _killed(warehouse, [REPLAY], point)
    assert died or ":" in point, "a point that a replay comes to for sure"
    con = connect()
    con.execute("INSERT INTO t VALUES (3)")
    found = sorted(k for (k,) in con.execute("SELECT k FROM x").fetchall())
    is_new = found == [1, 4, 9]
    assert is_new or found == [1, 2, 3], found
    if died and ":" not in point:
        assert is_new == POINTS[point]
    con.execute("MAINTAIN RETAIN '0 seconds'")
    names = [str(row[1]) for row in con.execute("SHOW OBJECTS").fetchall()]
    assert sorted(names) == ["seen", "t", "x"]
    con.execute(REPLAY)
    assert_rows(con.execute("SELECT k FROM x").fetchall(), [(1,), (4,), (9,)], point)
    seen = [(1,), (2,), (4,), (9,)] if is_new else [(1,), (2,), (3,), (4,), (9,)]
    assert_rows(con.execute("SELECT k FROM seen").fetchall(), seen, "each change once")


SORTED = """
CREATE TABLE t (k INT);
CREATE CONTINUAL TASK sort
    OUTPUTS (low (k INT), high (k INT CHECK (k < 90) ON VIOLATION QUARANTINE)) ON INPUT t AS (
    INSERT INTO low SELECT k FROM t WHERE k < 9; INSERT INTO high SELECT k FROM t WHERE k > 8);
INSERT INTO t VALUES (1), (10), (95);
INSERT INTO t VALUES (2), (20);
SELECT * FROM low
"""
SORT_AGAIN = """
REPLAY CONTINUAL TASK sort FROM '2026-01-01' AS (
    INSERT INTO low SELECT -k FROM t WHERE k < 15;
    INSERT INTO high SELECT k + 75 FROM t WHERE k > 14)
"""
HELD = "SELECT k FROM low UNION ALL SELECT k FROM high"
AWAY = "SELECT row_json FROM sort_quarantine"
HALFWAY = [f"outputs_halfway:{n}" for n in (1, 2, 3)]
"""Between the commits of the two Ts that the new body is run for, and those of the swap."""


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(p, marks=[] if p == HALFWAY[-1] else [pytest.mark.slow])
        for p in (*POINTS, *HALFWAY)
    ],
)
def test_outputs_and_quarantine_killed_at(
    point: str, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """All outputs and the quarantine are old, or all become new."""
    first = connect()
    first.execute(SORTED)
    first.close()
    died = _killed(warehouse, [SORT_AGAIN], point)
    assert died or point not in HALFWAY
    con = connect()
    found = sorted(k for (k,) in con.execute(HELD).fetchall())
    old, new = [1, 2, 10, 20], [-10, -2, -1]
    assert found in (old, new), point
    away = [(f'{{"k":{k}}}',) for k in ((95,) if found == old else (170, 95))]
    assert_rows(con.execute(AWAY).fetchall(), away, point)
    con.execute("INSERT INTO t VALUES (3)")
    con.execute("MAINTAIN RETAIN '0 seconds'")
    names = [str(row[1]) for row in con.execute("SHOW OBJECTS").fetchall()]
    assert sorted(names) == ["high", "low", "sort", "sort_quarantine", "t"]
    con.execute(SORT_AGAIN)
    assert_rows(con.execute(HELD).fetchall(), [(k,) for k in (-10, -3, -2, -1)], point)
    assert_rows(con.execute(AWAY).fetchall(), [('{"k":170}',), ('{"k":95}',)], point)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["cutover_stored", "cutover_bound", "output_staged"])
def test_apply_killed_at(point: str, warehouse: Path, connect: Callable[[], Connection]) -> None:
    """The task has its own rows and its replacement is there, or it has the replacement's."""
    first = connect()
    first.execute(SET_UP)
    first.execute("CREATE REPLACEMENT CONTINUAL TASK r FOR x AS (INSERT INTO r SELECT -k FROM t)")
    first.close()
    assert _killed(warehouse, ["ALTER CONTINUAL TASK x APPLY REPLACEMENT r"], point)
    con = connect()
    is_new = point != "cutover_stored"
    found = con.execute("SELECT k FROM x").fetchall()
    assert_rows(found, [(-1,), (-2,)] if is_new else [(1,), (2,)], point)
    con.execute("MAINTAIN")
    names = {str(row[1]) for row in con.execute("SHOW OBJECTS").fetchall()}
    assert ("r" in names) != is_new
    if not is_new:
        con.execute("ALTER CONTINUAL TASK x APPLY REPLACEMENT r")
    con.execute("INSERT INTO t VALUES (3)")
    assert_rows(con.execute("SELECT k FROM x").fetchall(), [(-1,), (-2,), (-3,)], point)


FOLDER = """
CREATE TABLE old (k INT);
CREATE TABLE t (k INT);
CREATE CONTINUAL TASK x (k INT) ON INPUT t BACKFILL FROM old AS (INSERT INTO x SELECT -k FROM t);
"""
PROGRAM = """
import sys
from pathlib import Path
from ctsql.api import connect
from ctsql.pipelines import apply, read
apply(connect(sys.argv[1], master="local[1]"), read(Path(sys.argv[2])))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "cutover_bound",
        "output_staged",
        "output_committed:4",
        "output_committed:5",
        "catalog_committed:3",
    ],
)
def test_begun_by_a_folder_that_is_killed(
    point: str, warehouse: Path, tmp_path: Path, connect: Callable[[], Connection]
) -> None:
    """The rows of the table are there once, those of the T of the creation."""
    first = connect()
    # With all bound to Ts, the first three commits of the folder are those that decide.
    first.execute(
        "CREATE TABLE old (k INT); INSERT INTO old VALUES (1), (1), (2); SELECT * FROM old"
    )
    first.close()
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "all.sql").write_text(FOLDER)
    process = start_program(PROGRAM, str(warehouse), str(tmp_path / "sql"), fault=point)
    _, problems = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), problems
    con = connect()
    con.execute("INSERT INTO old VALUES (7)")
    con.execute("INSERT INTO t VALUES (5)")
    assert_rows(con.execute("SELECT k FROM x").fetchall(), [(1,), (1,), (2,), (-5,)], point)
    applied(con, FOLDER)
    con.execute("MAINTAIN; DROP TABLE old")
    applied(con, FOLDER)
    con.execute("INSERT INTO t VALUES (6)")
    assert_rows(con.execute("SELECT k FROM x").fetchall(), [(1,), (1,), (2,), (-5,), (-6,)], point)
