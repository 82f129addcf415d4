"""Definitions change while two other processes run the task."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.helpers.opened import engine_of
from tests.helpers.processes import race
from tests.helpers.table_folder import check_written_once, folder, orphans
from tests.scenarios.runner import assert_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TURNS = 4
BODY = "INSERT INTO t SELECT k, {} AS revision FROM f"


def test_each_time_is_run_by_the_body_in_force(
    warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """Every row is written once, by the definition that the timeline bound to its T."""
    con = connect()
    con.execute("CREATE TABLE f (k INT)")
    con.execute(f"CREATE CONTINUAL TASK t (k INT, revision INT) ON INPUT f AS ({BODY.format(0)})")
    alters, writes = [], []
    for turn in range(TURNS):
        alters.append(f"INSERT INTO f VALUES ({100 + turn})")
        alters.append(f"ALTER CONTINUAL TASK t AS ({BODY.format(turn + 1)})")
        writes += [f"INSERT INTO f VALUES ({n})" for n in (200 + turn, 300 + turn)]
        writes.append("SELECT * FROM t")
    race(warehouse, [alters, writes, ["SELECT * FROM t"] * 3 * TURNS])
    found = con.execute("SELECT * FROM t").fetchall()
    engine = engine_of(con)
    item = next(i for i in engine.catalog if i.name.name == "t")
    source = next(i for i in engine.catalog if i.name.name == "f")
    state = engine.timeline.task(item.id)
    assert [number for _, number in state.revisions] == list(range(1, TURNS + 1))
    wanted = []
    for binding in engine.timeline.bindings_between(
        source.id, item.created_at, engine.timeline.now
    ):
        here = con.execute(f"SELECT k FROM f AS OF {binding.time}").fetchall()
        before = con.execute(f"SELECT k FROM f AS OF {binding.time - 1}").fetchall()
        new = {k for (k,) in here} - {k for (k,) in before}
        wanted += [(k, state.revision_at(binding.time)) for k in new]
    assert len(wanted) == 3 * TURNS
    assert_rows(found, wanted, "t")
    check_written_once(folder(con, "t"))
    assert not orphans(folder(con, "t"))
