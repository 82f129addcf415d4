"""Maintenance in a connection's thread: what ends it, and what is said of that."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.service import background_maintenance
from ctsql.runtime.service.background_maintenance import ConnectionMaintenance, DueMaintenance

DUE = DueMaintenance(objects=("o",), trim=False)


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

    context = SimpleNamespace(setJobGroup=lambda *_, **__: None)
    engine: Any = SimpleNamespace(
        gateway=SimpleNamespace(cancel=lambda _: None),
        session=SimpleNamespace(sparkContext=context),
        location="s3://w",  # where there are no locks
        refresh_catalog=lambda: None,
        for_thread=lambda: engine,
    )
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
    context = SimpleNamespace(setJobGroup=lambda group, *_, **__: begun.append(group))
    engine: Any = SimpleNamespace(
        gateway=SimpleNamespace(cancel=cancelled.append),
        session=SimpleNamespace(sparkContext=context),
        location="s3://w",  # where there are no locks
        refresh_catalog=lambda: None,
        for_thread=lambda: engine,
    )
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
    with pytest.raises(CtsqlError) as caught:
        background_maintenance.maintain(engine, due, lambda _: None, stop)
    assert caught.value.condition == "STATEMENT_CANCELLED"
    assert done == ["rows"]
