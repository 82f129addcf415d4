"""Compaction by the service, and in a race with processes that write the same output."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.runtime.delta import files as delta_maintenance, transaction as delta_transaction
from ctsql.runtime.delta.files import compact
from ctsql.runtime.delta.stores.locks import try_folder_lock
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.maintenance.compaction import ROUTINE, THOROUGH, Limits, choose
from ctsql.runtime.service import background_maintenance
from ctsql.runtime.service.background_maintenance import MAINTENANCE_LOCK
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.spark.internals.sessions import active
from ctsql.runtime.warehouse.stores.location import SYSTEM_FOLDER
from tests.helpers.opened import engine_of, table_of
from tests.helpers.processes import Process
from tests.helpers.table_folder import check_written_once, folder, log, orphans
from tests.scenarios.runner import assert_rows

UPSERT = (
    "CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT t AS ("
    " DELETE FROM latest WHERE k IN (SELECT k FROM t);"
    " INSERT INTO latest SELECT k, max(v) FROM t GROUP BY k)"
)
FEW = Limits(
    small_bytes=ROUTINE.small_bytes,
    small_files=1,
    deleted_share=1.0,
    deleted_rows=1,
    file_bytes=ROUTINE.file_bytes,
    batch_bytes=ROUTINE.batch_bytes,
)


def _kept_by_reads(con: Connection) -> None:
    con.execute("CREATE TABLE t (k INT, v INT)")
    con.execute(UPSERT)
    for k in range(3):
        con.execute(f"INSERT INTO t VALUES ({k}, 1), (0, {k})")
        con.execute("SELECT * FROM latest")
        _join_maintenance()


def _join_maintenance() -> None:
    for thread in threading.enumerate():
        if thread.name == "ctsql-maintenance":
            thread.join()  # or the next commit may come before it


def _compactions(con: Connection, name: str) -> int:
    commits = log(folder(con, name))
    return sum("OPTIMIZE" in str(a.get("commitInfo")) for commit in commits for a in commit)


def test_a_connection_compacts_what_its_reads_bring_up(
    connect: Callable[[], Connection],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If it is asked to: in a thread that close() waits for, told in the log; no row changes."""
    monkeypatch.setattr(background_maintenance, "LOOK_EVERY_COMMITS", 1)
    monkeypatch.setattr(background_maintenance, "ROUTINE", FEW)
    caplog.set_level("INFO", "ctsql.maintenance")
    other = connect()
    with open_connection(other.warehouse, spark=other.spark, maintenance=True) as con:
        _kept_by_reads(con)
    assert _compactions(other, "latest") > 0
    assert any("latest compacted 2 files into 1" in line for line in caplog.messages)
    rows = [(0, 2), (1, 1), (2, 1)]
    assert_rows(other.execute("SELECT * FROM latest").fetchall(), rows, "latest")
    check_written_once(folder(other, "latest"))
    assert not orphans(folder(other, "latest"))


def test_who_maintains(
    connect: Callable[[], Connection],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """run(), and no statement unless it is asked for; nor while another process is at it."""
    monkeypatch.setattr(background_maintenance, "LOOK_EVERY_COMMITS", 1)
    monkeypatch.setattr(background_maintenance, "ROUTINE", FEW)
    monkeypatch.setattr(background_maintenance, "WAIT_SECONDS", 0.0)
    caplog.set_level("INFO", "ctsql.maintenance")
    con = connect()
    _kept_by_reads(con)
    assert _compactions(con, "latest") == 0
    assert caplog.messages == []
    con.execute("INSERT INTO t VALUES (0, 9)")
    place = f"{con.warehouse}/{SYSTEM_FOLDER}"
    with try_folder_lock(place, MAINTENANCE_LOCK, wait_seconds=0) as is_ours:
        assert is_ours
        con.run(once=True)
    assert caplog.messages == ["left to another process, which is at it"]
    assert _compactions(con, "latest") == 0
    con.execute("INSERT INTO t VALUES (0, 10)")
    told: list[Event] = []
    con.run(once=True, on_event=told.append)
    assert _compactions(con, "latest") == 1
    (compacted,) = [e for e in told if e.kind is EventKind.COMPACTED]
    assert (compacted.name, "files into 1" in compacted.line()) == ("latest", True)
    rows = [(0, 10), (1, 1), (2, 1)]
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), rows, "latest")
    assert not orphans(folder(con, "latest"))
    con.execute("INSERT INTO t VALUES (0, 11); SELECT * FROM latest")
    assert not [t for t in threading.enumerate() if t.name == "ctsql-maintenance"]
    assert _compactions(con, "latest") == 1


def _three_files(con: Connection) -> DeltaTable:
    """The table of an upsert that has written three times."""
    con.execute("CREATE TABLE t (k INT, v INT)")
    con.execute(UPSERT)
    for k in range(3):
        con.execute(f"INSERT INTO t VALUES ({k}, 1); SELECT * FROM latest")
    return table_of(con, "latest")


def test_a_compaction_that_loses_leaves_nothing(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink deletes rows of a chosen file first: the sink's commit stands, ours is gone."""
    table = _three_files(con)
    commit = delta_transaction.OptimisticTransaction.commit_rewrites

    def late(txn: delta_transaction.OptimisticTransaction) -> int:
        monkeypatch.setattr(delta_transaction.OptimisticTransaction, "commit_rewrites", commit)
        con.execute("INSERT INTO t VALUES (1, 7); SELECT * FROM latest")
        return commit(txn)

    monkeypatch.setattr(delta_transaction.OptimisticTransaction, "commit_rewrites", late)
    with active(engine_of(con).session):
        assert compact(table, lambda files: choose(files, THOROUGH)) is None
        rows = [(0, 1), (1, 7), (2, 1)]
        assert_rows(con.execute("SELECT * FROM latest").fetchall(), rows, "latest")
        assert not orphans(folder(con, "latest"))
        done = compact(table, lambda files: choose(files, THOROUGH))
        assert done is not None
        assert done.after == 1
        assert len(table.files(table.version())) == 1
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), rows, "latest, compact")


def test_a_sink_that_loses_to_a_compaction_tries_again(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files it was about to mark are gone: it computes the same T anew, once."""
    table = _three_files(con)
    commit = delta_transaction.OptimisticTransaction.commit
    compactions = []

    def disturbed(txn: delta_transaction.OptimisticTransaction, **how: object) -> int:
        if txn.table is table and not compactions:
            compactions.append(compact(table, lambda files: choose(files, THOROUGH)))
        return commit(txn, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(delta_transaction.OptimisticTransaction, "commit", disturbed)
    con.execute("INSERT INTO t VALUES (1, 7)")
    rows = [(0, 1), (1, 7), (2, 1)]
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), rows, "latest")
    assert compactions[0] is not None
    assert compactions[0].before == 3
    check_written_once(folder(con, "latest"))
    assert not orphans(folder(con, "latest"))


@pytest.mark.slow
def test_compaction_in_a_race(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """Two processes write and keep an upsert while a third compacts and cleans without pause."""
    con, batches = connect(), 5
    con.execute("CREATE TABLE t (k INT, v INT)")
    con.execute(UPSERT)
    con.execute("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS s FROM t GROUP BY k")
    scripts = []
    for number in (1, 2):
        steps = []
        for batch in range(batches):
            steps.append(f"INSERT INTO t VALUES ({batch % 3}, {10 * batch + number})")
            steps += ["SELECT * FROM latest", "SELECT * FROM sums"]
        scripts.append(steps)
    processes = [Process(warehouse, steps) for steps in scripts]
    for process in processes:
        process.wait_ready()
    for process in processes:
        process.go()
    engine = engine_of(con)
    compacted = lost = 0
    with active(engine.session):
        while any(p.is_running() for p in processes):
            for name in ("latest", "sums"):
                item = next(i for i in engine.refresh_catalog() if i.name.name == name)
                done = compact(engine.relations.table(item), lambda f: choose(f, THOROUGH))
                compacted += bool(done and done.version)
                lost += done is None
            con.execute("MAINTAIN latest")
    for process in processes:
        status, problems = process.finish()
        assert status == 0, problems
    assert compacted > 1, f"{compacted} compactions, {lost} lost"
    rows = con.execute("SELECT k, v FROM t").fetchall()
    assert len(rows) == 2 * batches
    sums: dict[object, int] = {}
    for k, v in rows:
        sums[k] = sums.get(k, 0) + int(str(v))
    assert_rows(con.execute("SELECT * FROM sums").fetchall(), sums.items(), "sums")
    latest = con.execute("SELECT * FROM latest").fetchall()
    assert len(latest) == 3
    assert set(latest) <= set(rows)
    for name in ("latest", "sums"):
        table = folder(con, name)
        check_written_once(table)
        assert not orphans(table)
        replayed = con.spark.read.format("delta").load(str(table)).count()
        assert replayed == 3
    assert delta_maintenance.first_logged(engine.timeline.table) == 0
