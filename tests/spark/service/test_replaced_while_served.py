"""Tables are deleted and made anew at their places while a service runs: the rest goes on."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.runtime.service.events import Event, EventKind
from tests.helpers.foreign_writers import Place, remove
from tests.helpers.table_folder import folder
from tests.scenarios.runner import assert_rows
from tests.spark.service.test_service import EventLog, serving
from tests.spark.warehouse.test_replaced_tables import attached, made_anew, write

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Connect = Callable[[], Connection]


def _failed(name: str, condition: str) -> Callable[[Event], bool]:
    return lambda e: e.kind is EventKind.FAILED and (e.name, e.condition) == (name, condition)


def _wait_for_more(log: EventLog, name: str, act: Callable[[], object]) -> None:
    """Do something, and wait until an output is written that was not before."""
    before = len(log.events)
    act()
    log.wait(
        lambda e: (
            e.kind is EventKind.WROTE
            and e.name == name
            and any(e is later for later in log.events[before:])
        )
    )


def _goes_on(user: Connection, log: EventLog, k: int) -> None:
    """What reads no replaced table is written as ever."""
    _wait_for_more(log, "apart", lambda: user.execute(f"INSERT INTO other VALUES ({k})"))
    assert (k,) in user.execute("SELECT * FROM apart").fetchall()


def _states(user: Connection) -> dict[str, tuple[str, str | None]]:
    return {row[2]: (row[3], row[7]) for row in user.status().fetchall()}


def _check_said(log: EventLog, names: set[str]) -> None:
    """Every failure is an object's, said once, and none in the words of what lies below."""
    failures = [e for e in log.events if e.kind is EventKind.FAILED]
    assert {e.name for e in failures} == names, [e.line() for e in log.events]
    assert len({(e.name, e.condition, e.message) for e in failures}) == len(failures)
    for event in failures:
        for raw in ("java.", "org.apache", "Py4J", "DELTA_", "Traceback"):
            assert raw not in event.line(), event.line()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("commits", [1, 2, 4])
def test_a_source(connect: Connect, tmp_path: Path, commits: int, workers: int) -> None:
    """With fewer, as many and more commits; DROP .. CASCADE and a new CREATE go on from there."""
    con, user = connect(), connect()
    place = attached(user, tmp_path)
    user.execute("SET isolation = 'serializable'")
    with serving(con, workers=workers) as told:
        write(place, (3, 30))
        told.wait(lambda e: e.kind is EventKind.WROTE and e.name == "copied")
        told.wait(lambda e: e.kind is EventKind.WROTE and e.name == "seen")
        _goes_on(user, told, 8)
        made_anew(place, commits)
        for k in (20, 21):
            _goes_on(user, told, k)
            write(place, (k, k))
        for name in ("seen", "copied"):
            told.wait(_failed(name, "TABLE_REPLACED"))
        states = _states(user)
        assert states["apart"] == ("up to date", None)
        for name in ("seen", "copied"):
            assert states[name] == ("unreadable", "TABLE_REPLACED"), states
        user.execute("DROP TABLE b CASCADE")
        user.execute(f"CREATE TABLE b LOCATION '{place.path}'")
        user.execute("CREATE MATERIALIZED VIEW anew AS SELECT k, v FROM b")
        write(place, (99, 990))
        told.wait(lambda e: e.kind is EventKind.WROTE and e.name == "anew")
        _goes_on(user, told, 30)
    _check_said(told, {"seen", "copied"})
    user.execute("SET isolation = 'strict serializable'")
    wanted = user.execute("SELECT k, v FROM b").fetchall()
    assert len(wanted) == commits + 3
    assert_rows(user.execute("SELECT * FROM anew").fetchall(), wanted, "anew")


@pytest.mark.parametrize("name", ["seen", "copied"])
def test_an_output(connect: Connect, tmp_path: Path, name: str) -> None:
    """An output that is another table now is not written; what else reads its input is."""
    con, user = connect(), connect()
    place = attached(user, tmp_path)
    other = {"seen": "copied", "copied": "seen"}[name]
    user.execute("SET isolation = 'serializable'")
    with serving(con) as told:
        told.wait(lambda e: e.kind is EventKind.REACHED)
        own = Place(con.spark, str(folder(user, name)))
        remove(own)
        write(own, (1, 10))
        write(place, (3, 30))
        told.wait(_failed(name, "TABLE_REPLACED"))
        told.wait(lambda e: e.kind is EventKind.WROTE and e.name == other)
        _goes_on(user, told, 8)
        states = _states(user)
        assert states[name] == ("unreadable", "TABLE_REPLACED"), states
        assert states[other] == states["apart"] == ("up to date", None), states
        kind = "MATERIALIZED VIEW" if name == "seen" else "CONTINUAL TASK"
        user.execute(f"DROP {kind} {name} PURGE")
        _wait_for_more(told, other, lambda: write(place, (4, 40)))
        _goes_on(user, told, 9)
    _check_said(told, {name})
    assert Path(own.path, "_delta_log").exists(), "the new table is not ours to delete"


def test_a_source_that_comes_back(connect: Connect, tmp_path: Path) -> None:
    """While its place is empty its readers say so; put back, they go on by themselves."""
    con, user = connect(), connect()
    place = attached(user, tmp_path)
    user.execute("SET isolation = 'serializable'")
    with serving(con) as told:
        told.wait(lambda e: e.kind is EventKind.REACHED)
        away = tmp_path / "away"
        shutil.move(place.path, away)
        _goes_on(user, told, 8)
        for name in ("seen", "copied"):
            assert _states(user)[name] == ("unreadable", "NOT_A_DELTA_TABLE")
        shutil.move(away, place.path)
        write(place, (3, 30))
        for name in ("seen", "copied"):
            told.wait(lambda e, name=name: e.kind is EventKind.WROTE and e.name == name)
        _goes_on(user, told, 9)
        time.sleep(1)
    assert {e.name for e in told.events if e.kind is EventKind.FAILED} <= {"seen", "copied"}
    assert user.execute("SELECT count(*) FROM seen").fetchone() == (3,)
    assert user.execute("SELECT count(*) FROM copied").fetchone() == (3,)
