"""The service on real Delta: follows, tells, keeps going, stops between commits."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import InterfaceError
from ctsql.catalog.items import Item
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.warehouse.advance_context import AdvanceContext
from tests.scenarios.runner import assert_rows

PATIENCE_SECONDS = 90


class EventLog:
    """What a service said, and a way to wait for more of it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._more = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._more:
            self.events.append(event)
            self._more.notify_all()

    def wait(self, matches: Callable[[Event], bool]) -> Event:
        """The first event that is wanted."""
        with self._more:
            found = self._more.wait_for(
                lambda: any(map(matches, self.events)), timeout=PATIENCE_SECONDS
            )
            assert found, [e.line() for e in self.events]
            return next(filter(matches, self.events))


@contextmanager
def serving(con: Connection, workers: int = 1) -> Iterator[EventLog]:
    """The service of a connection in a thread; stopped at the end, which it must survive."""
    told, stop, problems = EventLog(), threading.Event(), []

    def follow() -> None:
        try:
            con.run(stop=stop, on_event=told, interval=0.2, workers=workers)
        except BaseException as problem:
            problems.append(problem)
            raise

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield told
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        assert problems == []


def _wrote(name: str) -> Callable[[Event], bool]:
    return lambda e: e.kind is EventKind.WROTE and e.name == name


def test_it_follows_and_keeps_going_when_one_object_fails(
    connect: Callable[[], Connection],
) -> None:
    """One line a commit; a failed task holds nobody up and goes on after SKIP elsewhere."""
    con, user = connect(), connect()
    user.execute("CREATE TABLE feed (k INT, v INT)")
    user.execute(
        "CREATE CONTINUAL TASK ratios (k INT, r INT) ON INPUT feed AS ("
        " DELETE FROM ratios WHERE k IN (SELECT k FROM feed);"
        " INSERT INTO ratios SELECT k, 100 DIV v FROM feed)"
    )
    user.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(r) AS s FROM ratios")
    user.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM feed")
    user.execute("SET isolation = 'serializable'")
    with serving(con) as told:
        user.execute("INSERT INTO feed VALUES (1, 10), (2, 20)")
        first = told.wait(_wrote("ratios"))
        assert (first.inserted, first.deleted) == (2, 0)
        told.wait(_wrote("total"))
        user.execute("INSERT INTO feed VALUES (1, 0)")
        failed = told.wait(lambda e: e.kind is EventKind.FAILED)
        assert (failed.name, failed.condition) == ("ratios", "DATA_ERROR")
        told.wait(lambda e: _wrote("n")(e) and e.time == failed.time)
        states = {row[2]: row[3] for row in user.status().fetchall()}
        assert states == {"ratios": "failed", "total": "behind", "n": "up to date"}
        user.execute("ALTER CONTINUAL TASK ratios SKIP")
        told.wait(lambda e: e.kind is EventKind.RECOVERED)
        user.execute("INSERT INTO feed VALUES (1, 5)")
        last = told.wait(lambda e: _wrote("ratios")(e) and e.deleted == 1)
        assert last.inserted == 1
        told.wait(lambda e: _wrote("total")(e) and e.time == last.time)  # else a stop may be first
    assert [e.name for e in told.events if e.kind is EventKind.FAILED] == ["ratios"]
    assert_rows(user.execute("SELECT * FROM ratios").fetchall(), [(1, 20), (2, 5)], "in the end")
    assert user.execute("SELECT * FROM total").fetchall() == [(25,)]


def test_a_refresh_that_is_due_is_done_without_another_commit(
    connect: Callable[[], Connection],
) -> None:
    """The clock alone makes a view with a schedule due."""
    con, user = connect(), connect()
    user.execute("CREATE TABLE feed (k INT)")
    user.execute(
        "CREATE MATERIALIZED VIEW now_and_then WITH (REFRESH EVERY '2 seconds') AS"
        " SELECT count(*) AS n FROM feed"
    )
    user.execute("SET isolation = 'serializable'")
    with serving(con) as told:
        user.execute("INSERT INTO feed VALUES (1), (2)")
        told.wait(lambda e: e.kind is EventKind.WROTE and e.inserted == 1)
    assert user.execute("SELECT n FROM now_and_then").fetchall() == [(2,)]


def test_an_idle_look_reads_no_log_and_runs_no_job(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When nothing changed, only the existence of next versions is asked for."""
    con.execute("CREATE TABLE feed (k INT)")
    con.execute("CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT k FROM feed)")
    con.run(once=True)
    looks = [0]
    has = DeltaTable.has

    def counted(table: DeltaTable, version: int) -> bool:
        looks[0] += 1
        return has(table, version)

    def refused(*_: object) -> object:
        raise AssertionError("an idle look did more than look")

    with serving(con) as told:
        told.wait(lambda e: e.kind is EventKind.REACHED)
        time.sleep(0.5)
        with monkeypatch.context() as patch:
            patch.setattr(DeltaTable, "has", counted)
            patch.setattr(DeltaTable, "update", refused)
            patch.setattr(DeltaTable, "commit_at", refused)
            patch.setattr(DeltaTable, "frame_of", refused)
            time.sleep(1.0)
        assert 3 <= looks[0] <= 60
    kinds = [e.kind for e in told.events]
    assert kinds == [EventKind.STARTED, EventKind.REACHED, EventKind.STOPPED]
    assert "1 table(s) for 1 task(s) and view(s)" in told.events[0].line()


def test_a_stop_takes_effect_between_two_commits(con: Connection) -> None:
    """A catch-up over many Ts ends after the one it is at; the rest is done later, once each."""
    con.execute("CREATE TABLE feed (k INT)")
    body = "INSERT INTO copy SELECT DISTINCT k FROM feed"  # row by row, Ts would share a commit
    con.execute(f"CREATE CONTINUAL TASK copy ON INPUT feed AS ({body})")
    for k in range(6):
        con.execute(f"INSERT INTO feed VALUES ({k})")
    stop = threading.Event()
    written: list[Event] = []

    def tell(event: Event) -> None:
        if event.kind is EventKind.WROTE:
            written.append(event)
        if len(written) == 2:
            stop.set()

    con.run(stop=stop, on_event=tell)
    assert len(written) == 2
    con.run(once=True)
    assert_rows(con.execute("SELECT * FROM copy").fetchall(), [(k,) for k in range(6)], "all")


@pytest.mark.parametrize("workers", [1, 2])
def test_who_is_told_uses_another_connection(
    con: Connection, connect: Callable[[], Connection], workers: int
) -> None:
    """The one that runs waits until the event is told, so it would wait for itself."""
    con.execute("CREATE TABLE feed (k INT)")
    con.execute("CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT k FROM feed)")
    con.execute("INSERT INTO feed VALUES (1)")
    other, read = connect(), list[object]()

    def tell(event: Event) -> None:
        read.extend(other.execute("SELECT k FROM copy").fetchall())
        if event.kind is EventKind.WROTE:
            con.execute("SELECT k FROM copy")

    with pytest.raises(InterfaceError, match="another one"):
        con.run(once=True, workers=workers, on_event=tell)
    assert read[:1] == [(1,)]
    assert con.execute("SELECT k FROM copy").fetchall() == [(1,)]


@pytest.mark.slow
def test_workers_bring_up_what_is_ready_side_by_side(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains, a slow one and a failing one: contents as with one worker, nobody waits in vain."""
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute("CREATE CONTINUAL TASK slow ON INPUT feed AS (INSERT INTO slow SELECT k FROM feed)")
    con.execute(
        "CREATE CONTINUAL TASK bad ON INPUT feed AS (INSERT INTO bad SELECT 1 DIV v AS r FROM feed)"
    )
    con.execute("CREATE MATERIALIZED VIEW of_bad AS SELECT count(*) AS n FROM bad")
    for i in range(3):
        con.execute(
            f"CREATE MATERIALIZED VIEW v{i} AS SELECT k % 2 AS k, sum(v) + {i} AS s FROM feed"
            " GROUP BY k % 2;"
            f"CREATE CONTINUAL TASK t{i} (k INT, s BIGINT) ON INPUT v{i} AS ("
            f" DELETE FROM t{i} WHERE k IN (SELECT k FROM v{i});"
            f" INSERT INTO t{i} SELECT * FROM v{i})"
        )
    con.execute("INSERT INTO feed VALUES (1, 1), (2, 0)")
    con.execute("INSERT INTO feed VALUES (3, 5), (4, 6)")
    told = EventLog()
    advance = Engine.advance_one

    def after_another(engine: Engine, item: Item, until: int, *, context: AdvanceContext) -> None:
        if item.name.name == "slow":  # first in line, and the others must not wait for it
            told.wait(lambda e: e.kind is EventKind.WROTE and e.name != "slow")
        advance(engine, item, until, context=context)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "advance_one", after_another)
        with pytest.raises(Exception, match=r'"bad" failed'):
            con.run(once=True, workers=3, on_event=told)
    con.execute("SET isolation = 'serializable'")
    for i in range(3):
        rows = con.execute(f"SELECT k, s FROM t{i} ORDER BY k").fetchall()
        assert rows == [(0, 6 + i), (1, 6 + i)]
    assert len(con.execute("SELECT * FROM slow").fetchall()) == 4
    wrote = [e.name for e in told.events if e.kind is EventKind.WROTE]
    others = [name for name in wrote if name != "slow"]
    assert sorted(others) == sorted(["v0", "v1", "v2", "t0", "t1", "t2"] * 2)
    assert wrote[0] != "slow"
    assert "slow" in wrote
    assert [e.name for e in told.events if e.kind is EventKind.FAILED] == ["bad"]
    assert {row[2]: row[3] for row in con.status().fetchall()}["of_bad"] == "behind"
    con.run(stop=_already_set(), workers=3, on_event=told)


def _already_set() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop
