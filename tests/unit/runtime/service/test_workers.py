"""Workers of a service, without Spark."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.runtime.service import workers


def test_what_was_dropped_since_the_tick_began_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker reads the catalog itself, and need not find in it what the service saw."""
    monkeypatch.setattr(workers, "active", lambda _session: nullcontext())
    context = SimpleNamespace(getLocalProperty=lambda _name: None)
    engine: Any = SimpleNamespace(
        session=SimpleNamespace(sparkContext=context),
        refresh_catalog=lambda: None,
        timeline=SimpleNamespace(refresh=lambda: None),
        catalog=SimpleNamespace(items={}),
    )
    engine.for_thread = lambda: engine
    pool = workers.WorkerPool(workers=2, stop=threading.Event(), on_commit=lambda *_: None)
    item: Any = SimpleNamespace(id="gone")
    assert pool.bring_up(engine, item, 5).result(timeout=10) is None
    pool.close()
