"""What a process reads of the timeline to know where a table was: little, however long it is."""

import pytest

from ctsql.runtime.warehouse import timeline as module
from tests.simulation.memory_store import Store
from tests.simulation.test_intents import TIMELINE, Link, Process, foreign

BUSY, STILL = "a", "b"
TICKS = 60


def _grown() -> tuple[Store, list[int]]:
    """A warehouse where one table has moved often, and the other one never since; its Ts."""
    store = Store()
    for name in (TIMELINE, BUSY, STILL):
        store.make(name)
    foreign(store, STILL, ("s",))
    writer, times = Process(store, Link("writer")), []
    for number in range(TICKS):
        writer.gateway.link.steps = 0
        foreign(store, BUSY, (str(number),))
        times.append(writer.mint())
    return store, times


def test_a_table_that_stands_still_is_found_without_reading_all_ticks() -> None:
    """How far it is bound says where it is; for a past T the ticks behind that are read."""
    store, times = _grown()
    link = Link("reader")
    reader = Process(store, link).timeline
    now = reader.refresh()
    link.steps = 0
    assert reader.version_at(STILL, now) == 1
    assert reader.bindings_between(STILL, now - 1, now) == []
    assert link.steps < 10
    assert [reader.version_at(STILL, t) for t in times] == [1] * TICKS
    assert [reader.version_at(BUSY, t) for t in times] == list(range(1, TICKS + 1))
    first = reader.first_time(STILL)
    assert first is not None
    assert first <= times[0]
    assert reader.version_at(STILL, first - 1) is None
    later = Process(store, Link("later")).timeline
    later.refresh()
    assert [b.time for b in later.bindings_between(STILL, 0, now)] == [first]


def test_what_is_known_of_the_timeline_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lives long forgets old bindings, and reads them again where asked."""
    monkeypatch.setattr(module, "BINDINGS_KEPT_MAX", 5)
    store, times = _grown()
    process = Process(store, Link("other", dies_at=10**9))
    for number in range(20):
        foreign(store, BUSY, (f"more {number}",))
        times.append(process.mint())
        process.timeline.refresh()
        assert sum(map(len, process.timeline._bindings.values())) <= 5 + 1
    assert [process.timeline.version_at(BUSY, t) for t in times] == list(range(1, len(times) + 1))
    assert process.timeline.version_at(STILL, times[-1]) == 1
