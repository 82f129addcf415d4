"""What is told of the events of a connection does not wait for it."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.errors import InterfaceError
from ctsql.connection.open_warehouse import ConnectionLock
from ctsql.runtime.service import background_maintenance
from ctsql.runtime.service.background_maintenance import ConnectionMaintenance, DueMaintenance

PATIENCE_SECONDS = 20.0


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

    context = SimpleNamespace(setJobGroup=lambda *_, **__: None)
    engine: Any = SimpleNamespace(
        session=SimpleNamespace(sparkContext=context),
        location="s3://w",  # where there are no locks
        refresh_catalog=lambda: None,
        for_thread=lambda: engine,
    )
    due = DueMaintenance(objects=("o",), trim=False)
    monkeypatch.setattr(background_maintenance, "active", lambda _: threading.Lock())
    monkeypatch.setattr(background_maintenance, "narrow", lambda *_: due)
    monkeypatch.setattr(background_maintenance, "maintain", maintain)

    def close() -> None:
        with lock:
            closes.set()
            maintenance.close()

    maintenance.start_if_due(engine, lock.refusing(use_the_connection))
    closing = threading.Thread(target=close, daemon=True)
    closing.start()
    closing.join(PATIENCE_SECONDS)
    assert not closing.is_alive()
    assert refused == ["InterfaceError"]
