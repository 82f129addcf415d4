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
        timeline=SimpleNamespace(
            refresh=lambda: None,
            damaged_sources=set(),
        ),
        catalog=SimpleNamespace(items={}),
    )
    engine.for_thread = lambda: engine
    pool = workers.WorkerPool(workers=2, stop=threading.Event(), on_commit=lambda *_: None)
    item: Any = SimpleNamespace(id="gone")
    assert pool.advance(engine, item, 5).result(timeout=10) is None
    pool.close()


class _Engine:
    """One whose outputs take as long as the test says."""

    def __init__(self, name: str, names: list[str]) -> None:
        self.name, self._names = name, names
        context = SimpleNamespace(getLocalProperty=lambda _name: None)
        self.session = SimpleNamespace(sparkContext=context)
        damaged_sources = {"t"} if name == "own" else set()
        self.timeline = SimpleNamespace(damaged_sources=damaged_sources)

    def for_thread(self) -> "_Engine":
        self._names.append(f"worker {len(self._names)}")
        return _Engine(self._names[-1], self._names)


def test_an_output_goes_to_the_engine_that_has_its_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless that one is at work."""
    may_end = {name: threading.Event() for name in "abc"}
    by: list[tuple[str, str]] = []

    def advance(_: Any, engine: Any, object_id: str, *__: object) -> None:
        by.append((object_id, engine.name))
        assert engine.timeline.damaged_sources == {"t"}, "told by the engine that binds Ts"
        assert may_end[object_id].wait(10)
        pool.idle.append(engine)

    monkeypatch.setattr(workers.WorkerPool, "advance_separately", advance)
    pool = workers.WorkerPool(workers=2, stop=threading.Event(), on_commit=lambda *_: None)
    own: Any = _Engine("own", [])
    items: dict[str, Any] = {name: SimpleNamespace(id=name) for name in "abc"}

    def begin(name: str) -> Any:
        return pool.advance(own, items[name], 5)

    first, second = begin("a"), begin("b")
    may_end["b"].set()
    second.result(timeout=10)
    third = begin("c")  # by the engine of b
    for name in "ac":
        may_end[name].set()
    first.result(timeout=10)
    third.result(timeout=10)
    begin("b").result(timeout=10)
    begin("a").result(timeout=10)
    pool.close()
    assert dict(by[:3]) == {"a": "worker 0", "b": "worker 1", "c": "worker 1"}
    assert by[3:] == [("b", "worker 1"), ("a", "worker 0")]
