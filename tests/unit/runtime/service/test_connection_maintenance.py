"""Maintenance in a connection's thread: what ends it, and what is said of that."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from ctsql.runtime.service import connection_maintenance
from ctsql.runtime.service.background_maintenance import Due
from ctsql.runtime.service.connection_maintenance import ConnectionMaintenance

DUE = Due(objects=("o",), checkpoints=(), trim=False)


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

    context = SimpleNamespace(setJobGroup=lambda *_, **__: None, cancelJobGroup=lambda _: None)
    engine: Any = SimpleNamespace(
        session=SimpleNamespace(sparkContext=context),
        location="s3://w",  # where there are no locks
        refresh_catalog=lambda: None,
        for_thread=lambda: engine,
    )
    thrown: list[object] = []
    monkeypatch.setattr(threading, "excepthook", thrown.append)
    monkeypatch.setattr(connection_maintenance, "active", _left_without_spark)
    monkeypatch.setattr(connection_maintenance, "other_logs", lambda _: {})
    monkeypatch.setattr(connection_maintenance, "narrow", lambda *_: DUE)
    monkeypatch.setattr(connection_maintenance, "maintain", maintain)
    with caplog.at_level(logging.INFO, connection_maintenance.LOG.name):
        maintenance.start_if_due(engine)
        maintenance.close()
    assert thrown == []
    said = [] if is_stopped else ["SPARK_ERROR: the connection to Spark was lost"]
    assert caplog.messages == said
