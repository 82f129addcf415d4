"""REPLAY and replacements of tasks; the rest is scenarios and test_ways_to_change."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers.opened import engine_of
from tests.scenarios.runner import assert_rows, expect_error


def test_history_that_is_gone_is_told_first(con: Connection, warehouse: Path) -> None:
    """Nothing is changed: not the catalog, not the timeline, no folder is made."""
    con.execute(
        "CREATE TABLE t (k INT); CREATE CONTINUAL TASK x (k INT) ON INPUT t AS ("
        "DELETE FROM x; INSERT INTO x SELECT k FROM t)"
    )
    for k in range(4):
        con.execute(f"INSERT INTO t VALUES ({k}); DELETE FROM t WHERE k < {k}; SELECT * FROM x")
    early, late = 0, con.now()
    con.execute("INSERT INTO t VALUES (9); SELECT * FROM x; MAINTAIN ALL RETAIN '0 seconds'")
    before = sorted(str(p.relative_to(warehouse)) for p in warehouse.rglob("*.parquet"))
    for what in (
        f"REPLAY CONTINUAL TASK x FROM {early}",
        f"CREATE REPLACEMENT CONTINUAL TASK r FOR x FROM {early} AS (DELETE FROM x)",
        f"REPLAY CONTINUAL TASK x FROM {late}",
    ):
        expect_error(con, what, "HISTORY_LOST")
    assert sorted(str(p.relative_to(warehouse)) for p in warehouse.rglob("*.parquet")) == before
    assert_rows(con.execute("SELECT * FROM x").fetchall(), [(9,)], "as it was")
    con.execute("INSERT INTO t VALUES (10); SELECT * FROM x")
    con.execute(f"REPLAY CONTINUAL TASK x FROM {con.now()}")
    assert_rows(con.execute("SELECT * FROM x").fetchall(), [(10,)], "what is kept is enough")


LISTS = (
    "OUTPUTS ({0} (k INT, v INT, CONSTRAINT few CHECK (v < 90) ON VIOLATION QUARANTINE),"
    " {1} (k INT, CONSTRAINT one UNIQUE (k) ON VIOLATION QUARANTINE))"
)
BODY = "INSERT INTO {0} SELECT k, {2} FROM t WHERE k % 3 > 0; INSERT INTO {1} SELECT k {3} FROM t"
OLD, NEW = ("v + 50", "* 2"), ("100 DIV k", "+ 1")


def _sorts(name: str, how: tuple[str, str]) -> str:
    """A task with two outputs and a quarantine, into which also goes what cannot be computed."""
    outputs = f"{name}_a", f"{name}_b"
    return (
        f"CREATE CONTINUAL TASK {name} {LISTS.format(*outputs)} ON INPUT t "
        f"WITH (ON ERROR = 'quarantine') AS ({BODY.format(*outputs, *how)})"
    )


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4))])
def test_replay_equals_a_task_that_had_the_body(con: Connection, seed: int) -> None:
    """Outputs and quarantine, from the beginning and from a T on, over a random history."""
    rng = random.Random(seed)
    con.execute("CREATE TABLE t (k INT, v INT)")
    for task, how in (("x", OLD), ("late", OLD), ("always", NEW), ("y", OLD)):
        con.execute(_sorts(task, how))
    middle, commits = 0, rng.randint(4, 6)
    for n in range(commits):
        rows = [(rng.randint(-4, 9), rng.randint(0, 60)) for _ in range(rng.randint(1, 4))]
        con.execute(f"INSERT INTO t VALUES {', '.join(map(str, rows))}")
        if rng.random() < 0.3:
            con.execute(f"DELETE FROM t WHERE k = {rng.randint(-4, 9)}")
        if n == commits // 2:
            con.execute(f"ALTER CONTINUAL TASK late AS ({BODY.format('late_a', 'late_b', *NEW)})")
            middle = con.now() + 1
    con.execute(f"REPLAY CONTINUAL TASK x FROM '2026-01-01' AS ({BODY.format('x_a', 'x_b', *NEW)})")
    con.execute(
        f"CREATE REPLACEMENT CONTINUAL TASK r FOR y FROM {middle} AS ("
        f"{BODY.format('y_a', 'y_b', *NEW)})"
    )
    con.execute("INSERT INTO t VALUES (7, 7), (0, 7), (1, 99)")
    assert _held(con, "r", "r_y") == _held(con, "late", "late", "y")
    con.execute("ALTER CONTINUAL TASK y APPLY REPLACEMENT r; INSERT INTO t VALUES (8, 8), (0, 8)")
    assert _held(con, "y", "y") == _held(con, "late", "late", "y")
    found = _held(con, "x", "x")
    assert found == _held(con, "always", "always", "x")
    assert all(found)
    for task in ("x", "y"):
        con.execute(f"DROP CONTINUAL TASK {task}; UNDROP CONTINUAL TASK {task}")
    assert not [i for i in engine_of(con).refresh_catalog() if i.replaces is not None]


def _held(con: Connection, task: str, outputs: str, called: str = "") -> list[list[object]]:
    """The rows of two outputs and of the quarantine, in which outputs may be called otherwise."""
    of_quarantine = con.execute(
        "SELECT t, replace(relation, ?, ?) AS relation, constraint_name, reason, row_json "
        f"FROM {task}_quarantine",
        [f"default.{outputs}_", f"default.{called or outputs}_"],
    ).fetchall()
    rows = [con.execute(f"SELECT * FROM {outputs}_{end}").fetchall() for end in "ab"]
    return [sorted(map(str, found)) for found in (*rows, of_quarantine)]


def test_changes_that_wait_are_in_once(con: Connection) -> None:
    """With COALESCE: a replay by the same body changes nothing, a snapshot counts each row once."""
    con.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (0)")
    con.execute(
        "CREATE CONTINUAL TASK x (n BIGINT, s BIGINT) ON INPUT t WITH (COALESCE = '2 seconds') AS ("
        "  INSERT INTO x SELECT count(*), sum(k) FROM t)"
    )
    starts = []
    for k in range(1, 8):
        con.execute(f"INSERT INTO t VALUES ({k})")
        starts.append(con.now())
        time.sleep(0.7)
    held = con.execute("SELECT * FROM x").fetchall()
    for start in (starts[0], starts[3], starts[5]):
        con.execute(f"REPLAY CONTINUAL TASK x FROM {start}")
        now = Counter(con.execute("SELECT * FROM x").fetchall())
        assert now >= Counter(held), (start, now, held)  # an interval may have ended meanwhile
    con.execute(
        "CREATE REPLACEMENT CONTINUAL TASK r FOR x AS ("
        "  INSERT INTO x SELECT count(*), sum(k) FROM t)"
    )
    con.execute("INSERT INTO t VALUES (100); ALTER CONTINUAL TASK x APPLY REPLACEMENT r")
    con.execute("INSERT INTO t VALUES (1000)")
    time.sleep(2.1)
    whole = con.execute("SELECT count(*), sum(k) FROM t").fetchall()
    assert con.execute("SELECT sum(n), sum(s) FROM x").fetchall() == whole
