"""A connection's lock, and the maintenance in its thread: what ends it, and what is said then."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from ctsql.catalog.errors import CtsqlError, InterfaceError
from ctsql.connection.open_warehouse import ConnectionLock
from ctsql.runtime.service import background_maintenance
from ctsql.runtime.service.background_maintenance import ConnectionMaintenance, DueMaintenance

DUE = DueMaintenance(objects=("o",), trim=False)
PATIENCE_SECONDS = 20.0


def _engine(cancel: Callable[[str], object], begin: Callable[..., object]) -> Any:
    """An engine by hand in a store without locks."""
    engine: Any = SimpleNamespace(
        gateway=SimpleNamespace(cancel=cancel),
        session=SimpleNamespace(sparkContext=SimpleNamespace(setJobGroup=begin)),
        location="s3://w",
        refresh_catalog=lambda: None,
        for_thread=lambda: engine,
    )
    return engine


@contextmanager
def _left_without_spark(_: Any) -> Iterator[None]:
    yield
    raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize("is_stopped", [False, True])
def test_spark_ends_meanwhile(
    is_stopped: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As by the signal that ends ctsql, too: no trace is printed."""
    maintenance = ConnectionMaintenance()

    def maintain(*_: Any) -> None:
        if is_stopped:
            maintenance.cancel()

    engine = _engine(lambda _: None, lambda *_, **__: None)
    thrown: list[object] = []
    monkeypatch.setattr(threading, "excepthook", thrown.append)
    monkeypatch.setattr(background_maintenance, "active", _left_without_spark)
    monkeypatch.setattr(background_maintenance, "narrow", lambda *_: DUE)
    monkeypatch.setattr(background_maintenance, "maintain", maintain)
    with caplog.at_level(logging.INFO, background_maintenance.LOG.name):
        maintenance.start_if_due(engine)
        maintenance.close()
    assert thrown == []
    said = [] if is_stopped else ["SPARK_ERROR: the connection to Spark was lost"]
    assert caplog.messages == said


def test_what_was_ended_runs_no_later_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a group that was cancelled Spark runs no job any more, so each thread has its own."""
    maintenance = ConnectionMaintenance()
    begun, cancelled = list[str](), list[str]()
    engine = _engine(cancelled.append, lambda group, *_, **__: begun.append(group))
    monkeypatch.setattr(background_maintenance, "active", lambda _: threading.Lock())
    monkeypatch.setattr(background_maintenance, "narrow", lambda *_: DUE)
    monkeypatch.setattr(background_maintenance, "maintain", lambda *_: maintenance.cancel())
    for _ in range(2):
        maintenance.start_if_due(engine)
        maintenance.thread.join()  # type: ignore[union-attr]
    assert cancelled == begun
    assert len(set(begun)) == 2


@pytest.mark.parametrize("due", [DueMaintenance(("o",), False), DueMaintenance(("o",), True)])
def test_what_is_ended_begins_nothing_else(
    due: DueMaintenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the tables beside an output, nor trimming."""
    stop, done = threading.Event(), list[str]()

    def act(table: str, *_: Any, **__: Any) -> None:
        done.append(table)
        stop.set()

    engine: Any = SimpleNamespace(catalog=SimpleNamespace(items={"o": SimpleNamespace(name="o")}))
    tables = [("rows", ""), ("state", " of its state table")]
    monkeypatch.setattr(background_maintenance, "_tables", lambda *_: tables)
    monkeypatch.setattr(background_maintenance, "compact", act)
    monkeypatch.setattr(background_maintenance, "trim_logs", lambda *_: act("logs"))
    with pytest.raises(CtsqlError, match="STATEMENT_CANCELLED"):
        background_maintenance.maintain(engine, due, lambda _: None, stop)
    assert done == ["rows"]


def test_a_thread_may_take_it_again_but_not_when_it_is_told() -> None:
    """The next event is told, too; what raises while it is told leaves the lock usable."""
    lock, told = ConnectionLock(), list[int]()

    def take(event: int) -> None:
        told.append(event)
        with lock:
            told.append(-event)

    called = lock.refusing(take)
    for event in (1, 2):
        with lock, lock, pytest.raises(InterfaceError, match="another one"):
            called(event)
    assert told == [1, 2]
    with lock:
        take(3)
    assert told == [1, 2, 3, -3]


def test_closing_while_maintenance_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing holds the lock, and waits for a thread that tells of what it did."""
    lock, maintenance = ConnectionLock(), ConnectionMaintenance()
    closes, refused = threading.Event(), list[str]()

    def use_the_connection(_: Any) -> None:
        try:
            with lock:
                pass
        except InterfaceError as problem:
            refused.append(type(problem).__name__)

    def maintain(_engine: Any, _due: Any, tell: Any, _stop: Any) -> None:
        assert closes.wait(PATIENCE_SECONDS)
        tell(None)

    monkeypatch.setattr(background_maintenance, "active", lambda _: threading.Lock())
    monkeypatch.setattr(background_maintenance, "narrow", lambda *_: DUE)
    monkeypatch.setattr(background_maintenance, "maintain", maintain)

    def close() -> None:
        with lock:
            closes.set()
            maintenance.close()

    engine = _engine(lambda _: None, lambda *_, **__: None)
    maintenance.start_if_due(engine, lock.refusing(use_the_connection))
    closing = threading.Thread(target=close, daemon=True)
    closing.start()
    closing.join(PATIENCE_SECONDS)
    assert not closing.is_alive()
    assert refused == ["InterfaceError"]
