"""Delta opens the logs of those tables that it has to read or write, and no others."""

from pathlib import Path

import pytest

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.files import write_checkpoint
from ctsql.runtime.delta.spark_log import SparkLogFiles
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.spark.job_metrics import Meter
from tests.helpers.opened import table_of
from tests.helpers.table_folder import folder

pytestmark = pytest.mark.spark


def _opened(con: Connection) -> set[str]:
    """The folders of the tables whose logs Delta has opened, without their numbers."""
    assert con._engine is not None
    tables = con._engine.gateway._tables.values()
    names = (Path(t.location).name.partition("-")[0] for t in tables if t._handle.is_open)
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


def test_commits_of_others_are_seen(again: Connection, con: Connection) -> None:
    """By a log that Delta has not opened here."""
    assert again.execute("SELECT * FROM a ORDER BY k").fetchall() == [(1, 2), (3, 4)]
    for n in range(3):
        con.execute(f"INSERT INTO b VALUES (5, {n})")
        con.execute("SELECT * FROM o").fetchall()  # which binds it
    assert again.execute("SELECT count(*) FROM o").fetchall() == [(5,)]
    con.execute("INSERT INTO c VALUES (7, 8)")
    assert again.execute("SELECT * FROM s").fetchall() == [(14,)]
    assert con.execute("SELECT * FROM s").fetchall() == [(14,)]


def test_a_log_is_listed_now_and_then(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that Delta goes through the commits behind a checkpoint, not through all of them."""
    monkeypatch.setattr("ctsql.runtime.delta.spark_log.UNLISTED_MAX", 5)
    con.execute("CREATE TABLE a (k INT)")
    for n in range(4):
        con.execute(f"INSERT INTO a VALUES ({n})")
    table = table_of(con, "a")
    made = write_checkpoint(table, commits_min=1)
    assert made == 3
    behind = []
    for n in range(8):
        con.execute(f"INSERT INTO a VALUES ({n})")
        behind.append(_commits_behind(table))
    assert behind[0] == 6, "after a checkpoint the commits are those of before"
    assert max(behind[-2:]) == 9, "versions 4 to 12"
    assert con.execute("SELECT count(*) FROM a").fetchall() == [(12,)]


@pytest.mark.parametrize("is_maintained", [True, False])
def test_a_commit_writes_no_checkpoint_behind_a_new_one(
    con: Connection, monkeypatch: pytest.MonkeyPatch, is_maintained: bool
) -> None:
    """What is written beside the commits spares them Delta's own; without it that is written."""
    monkeypatch.setattr("ctsql.runtime.delta.spark_log.BEGIN_EVERY_COMMITS", 1)
    con.execute("CREATE TABLE a (k INT) TBLPROPERTIES ('delta.checkpointInterval' = '8')")
    table = table_of(con, "a")
    checkpoints = []
    for n in range(16):
        meter = Meter(con.spark)
        con.execute(f"INSERT INTO a VALUES ({n})")
        assert (meter.work().jobs == 0) == (is_maintained or n not in (7, 15))
        if is_maintained and n in (4, 12):
            checkpoints.append(write_checkpoint(table, commits_min=1))
    there = folder(con, "a").glob("_delta_log/*.checkpoint*.parquet")
    versions = sorted(int(path.name.partition(".")[0]) for path in there)
    assert versions == (checkpoints if is_maintained else [8, 16])
    assert con.execute("SELECT count(*) FROM a").fetchall() == [(16,)]


def test_a_log_begins_at_an_own_checkpoint(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a list, for which commits would wait."""

    def refuse(log: SparkLogFiles) -> None:
        pytest.fail(f"{log} was listed.")

    monkeypatch.setattr("ctsql.runtime.delta.spark_log.BEGIN_EVERY_COMMITS", 0)
    con.execute("CREATE TABLE a (k INT)")
    for n in range(4):
        con.execute(f"INSERT INTO a VALUES ({n})")
    table = table_of(con, "a")
    before = table.log.unsafeVolatileSnapshot()
    assert _commits_behind(table) == 5
    with monkeypatch.context() as patched:
        patched.setattr(SparkLogFiles, "_list_log", refuse)
        assert write_checkpoint(table, commits_min=1) == 3
        assert write_checkpoint(table, commits_min=1) is None, "it has one"
        file = Path(
            table.location.removeprefix("file:"), "_delta_log", f"{3:020}.checkpoint.parquet"
        )
        aside = file.rename(file.with_suffix(".aside"))
        assert table.log_files.newest() is not None
        assert _commits_behind(table) == 5, "the file is not there"
        aside.rename(file)
        assert table.log_files.newest() is not None
        assert _commits_behind(table) == 1
        table.log.installSnapshot(before, 0)  # as a commit does that began on it
        behind = []
        for n in range(6):
            con.execute(f"INSERT INTO a VALUES ({n})")
            behind.append(_commits_behind(table))
        assert behind == [6, 3, 4, 5, 6, 7], "the second one finds it begin too early"
        assert con.execute("SELECT count(*), sum(k) FROM a").fetchall() == [(10, 21)]
    con.spark.sql(f"DELETE FROM delta.`{table.location}` WHERE k = 3")
    assert con.execute("SELECT count(*), sum(k) FROM a").fetchall() == [(8, 15)]
    state = con.spark.read.format("delta").load(table.location)
    assert sorted(row.k for row in state.collect()) == [0, 0, 1, 1, 2, 2, 4, 5]


def _commits_behind(table: DeltaTable) -> int:
    return int(table.log.unsafeVolatileSnapshot().logSegment().deltas().size())


def test_a_log_that_lost_a_commit(again: Connection) -> None:
    """Is found when something is read of it, and does not hinder reads of other tables."""
    assert again._engine is None
    again.start()
    assert again._engine is not None
    item = next(i for i in again._engine.refresh_catalog() if i.name.name == "b")
    table = again._engine.relations.table(item)
    assert isinstance(table, DeltaTable)
    folder = Path(table.location.removeprefix("file:")) / "_delta_log"
    (folder / f"{1:020d}.json").unlink()
    assert again.execute("SELECT * FROM a ORDER BY k").fetchall() == [(1, 2), (3, 4)]
    table.gateway.delta.DeltaLog.clearCache()
    with pytest.raises(CtsqlError) as caught:
        again.execute("SELECT * FROM b").fetchall()
    assert caught.value.condition == "STORED_DATA_INVALID"
