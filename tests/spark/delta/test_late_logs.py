"""Delta opens the logs of those tables that it has to read or write, and no others."""

from pathlib import Path

import pytest

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.table import DeltaTable
from tests.helpers.opened import engine_of, table_of, write_checkpoint
from tests.helpers.table_folder import folder


def _opened(con: Connection) -> set[str]:
    """The folders of the tables whose logs Delta has opened, without their numbers."""
    tables = engine_of(con).gateway.open_tables.values()
    names = (Path(t.location).name.partition("-")[0] for t in tables if "log" in vars(t.handle))
    return set(names)


@pytest.fixture
def again(con: Connection) -> Connection:
    """Another connection to a warehouse of three tables, a task and a view."""
    for name in ("a", "b", "c"):
        con.execute(f"CREATE TABLE {name} (k INT, v INT)")
        for row in ("(1, 2)", "(3, 4)"):
            con.execute(f"INSERT INTO {name} VALUES {row}")
    con.execute("CREATE CONTINUAL TASK o (k INT, v INT) ON INPUT b AS (INSERT INTO o TABLE b)")
    con.execute("CREATE MATERIALIZED VIEW s AS SELECT sum(v) AS v FROM c")
    con.run(once=True)
    return connect(con.warehouse, spark=con.spark)


def test_a_read_opens_what_it_reads(again: Connection) -> None:
    """Neither other tables, nor the timeline and the catalog."""
    assert again.execute("SELECT * FROM a ORDER BY k").fetchall() == [(1, 2), (3, 4)]
    assert _opened(again) == {"a"}
    assert again.execute("SELECT * FROM s").fetchall() == [(6,)]
    assert _opened(again) == {"a", "s"}


def test_a_log_is_listed_now_and_then(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that Delta goes through the commits behind a checkpoint, not through all of them."""
    monkeypatch.setattr("ctsql.runtime.delta.internals.handle.UNLISTED_MAX", 5)
    con.execute("CREATE TABLE a (k INT)")
    for n in range(4):
        con.execute(f"INSERT INTO a VALUES ({n})")
    table = table_of(con, "a")
    assert write_checkpoint(table) == 4
    behind = []
    for n in range(8):
        con.execute(f"INSERT INTO a VALUES ({n})")
        behind.append(_commits_behind(table))
    assert behind[0] == 6, "after a checkpoint the commits are those of before"
    assert max(behind[-2:]) == 8, "versions 5 to 12"
    assert con.execute("SELECT count(*) FROM a").fetchall() == [(12,)]


def test_tables_have_checkpoints_of_their_own(con: Connection) -> None:
    """By Delta, in the commit that the interval hits; a log is read from the newest one on."""
    con.execute("CREATE TABLE a (k INT)")
    con.execute("CREATE CONTINUAL TASK o (k INT) ON INPUT a AS (INSERT INTO o TABLE a)")
    con.execute("CREATE TABLE b (k INT) TBLPROPERTIES ('delta.checkpointInterval' = '4')")
    named = {name: table_of(con, name) for name in ("a", "o")}
    named["timeline"] = engine_of(con).timeline.table
    intervals = {
        name: int(table.update().metadata.configuration["delta.checkpointInterval"])
        for name, table in named.items()
    }
    assert (intervals["a"], intervals["timeline"]) == (103, 97)
    assert 100 < intervals["o"] < 140
    for n in range(8):
        con.execute(f"INSERT INTO b VALUES ({n})")
    there = folder(con, "b").glob("_delta_log/*.checkpoint*.parquet")
    assert sorted(int(path.name.partition(".")[0]) for path in there) == [4, 8]
    with connect(con.warehouse, spark=con.spark) as again:
        assert again.execute("SELECT count(*), sum(k) FROM b").fetchall() == [(8, 28)]


def _commits_behind(table: DeltaTable) -> int:
    return int(table.handle.log.unsafeVolatileSnapshot().logSegment().deltas().size())


def test_a_log_that_lost_a_commit(again: Connection) -> None:
    """Is found when something is read of it, and does not hinder reads of other tables."""
    assert not again.started
    table = table_of(again, "b")
    folder = Path(table.location.removeprefix("file:")) / "_delta_log"
    (folder / f"{1:020d}.json").unlink()
    assert again.execute("SELECT * FROM a ORDER BY k").fetchall() == [(1, 2), (3, 4)]
    table.gateway.delta.DeltaLog.clearCache()
    with pytest.raises(CtsqlError, match="STORED_DATA_INVALID"):
        again.execute("SELECT * FROM b").fetchall()
