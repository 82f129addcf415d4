"""What a process reads of the timeline to know where a table was: little, however long it is."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.catalog.names import Name
from ctsql.runtime.warehouse.table_checks import check_tables, unreadable_table
from ctsql.runtime.warehouse.times import timeline as module
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


def test_a_new_table_that_is_not_there_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder was deleted before it had a T: who reads it is told, what others read goes on."""
    store, _ = _grown()
    store.make("c")
    process = Process(store, Link("other"))
    gone = process.tables["c"] = process.gateway.table("c")

    def is_gone() -> int:
        raise error("NOT_A_DELTA_TABLE", location="c", detail="", hint="")

    monkeypatch.setattr(gone, "version", is_gone)
    foreign(store, BUSY, ("more",))
    now = process.mint()
    assert process.timeline.version_at(BUSY, now) == TICKS + 1
    assert process.timeline.bound("c") is None


def test_a_damaged_log_holds_up_nobody_but_its_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others get Ts; its own commits do when the log is mended, behind those."""
    store, times = _grown()
    process = Process(store, Link("other"))
    process.mint()
    table = process.tables[STILL]
    foreign(store, STILL, ("damaged",))
    foreign(store, BUSY, ("more",))
    read = table.commit_at

    def is_damaged(version: int) -> object:
        if version == 2:
            raise error("STORED_DATA_INVALID", what="a file", detail="2.json is empty.", hint="")
        return read(version)

    monkeypatch.setattr(table, "commit_at", is_damaged)
    now = process.mint()
    assert now > times[-1]
    assert process.timeline.version_at(BUSY, now) == TICKS + 1
    assert process.timeline.version_at(STILL, now) == 1
    assert process.timeline.damaged_sources == {STILL}
    items = [SimpleNamespace(id=name, location=name, name=Name("default", name)) for name in "ab"]
    identity = SimpleNamespace(newest=1_000)
    monkeypatch.setattr(table, "identity", identity, raising=False)
    monkeypatch.setattr(process.tables[BUSY], "identity", identity, raising=False)
    relations: Any = SimpleNamespace(
        timeline=process.timeline, table=lambda item: process.tables[item.id]
    )
    busy, still = cast("list[Item]", items)
    check_tables(relations, [busy])
    with pytest.raises(CtsqlError, match="STORED_DATA_INVALID"):
        check_tables(relations, [still])
    problem = unreadable_table(relations, [still])
    assert problem is not None
    monkeypatch.setattr(table, "commit_at", read)
    mended = process.mint()
    assert mended > now
    assert process.timeline.version_at(STILL, mended) == 2
    check_tables(relations, [still])
