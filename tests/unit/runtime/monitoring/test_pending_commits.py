"""Which commits an output waits for, where views read each other in several ways."""

from types import SimpleNamespace
from typing import Any

from ctsql.catalog.items import Item, ObjectKind, Reading
from ctsql.catalog.names import Name
from ctsql.runtime.log.actions import Change
from ctsql.runtime.log.table_changes import Movement
from ctsql.runtime.monitoring.status import _pending

DEPTH = 24


def _item(number: int) -> Item:
    """A view over the two before it; the first is a table."""
    reads = tuple(
        Reading(name=Name("default", f"i{n}"), object_id=f"i{n}", columns=())
        for n in (number - 1, number - 2)
        if n >= 0
    )
    kind = ObjectKind.MATERIALIZED_VIEW if number else ObjectKind.TABLE
    return Item(
        id=f"i{number}", kind=kind, name=Name("default", f"i{number}"), columns=(), reads=reads
    )


def test_each_object_is_looked_at_once() -> None:
    """Not once for each way down, of which there are tens of thousands here."""
    items = {f"i{n}": _item(n) for n in range(DEPTH)}
    looked: list[str] = []

    def movements(item: Item, **_: int) -> list[Movement]:
        looked.append(item.id)
        return [Movement(5, 0, 1), Movement(7, 1, 2)]

    relations = SimpleNamespace(
        bound=lambda _: SimpleNamespace(plan=None),
        followed=lambda item: [items[r.object_id] for r in item.reads],
        table=lambda _: None,
    )
    versions = SimpleNamespace(movements=movements, change_of=lambda *_: Change.APPEND)
    schedules = SimpleNamespace(schedule=lambda _: None)
    warehouse = SimpleNamespace(relations=relations, versions=versions, schedules=schedules)
    timeline = SimpleNamespace(now=9, unbound=lambda *_: [])
    engine: Any = SimpleNamespace(warehouse=warehouse, timeline=timeline)
    assert sorted(_pending(engine, items[f"i{DEPTH - 1}"], 4)) == [5, 7]
    assert len(looked) <= 2
