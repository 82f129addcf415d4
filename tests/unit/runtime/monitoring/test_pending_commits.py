"""Which commits an output waits for, where views read each other in several ways."""

from types import SimpleNamespace
from typing import Any

from ctsql.catalog.items import Item
from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.log.table_changes import VersionChange
from ctsql.runtime.monitoring.status import find_lag
from tests.helpers.view_ladder import view_ladder

DEPTH = 24


def test_each_object_is_looked_at_once() -> None:
    """Not once for each way down, of which there are tens of thousands here."""
    items = view_ladder(DEPTH)
    looked: list[str] = []

    def version_changes(item: Item, **_: int) -> list[VersionChange]:
        looked.append(item.id)
        return [VersionChange(5, 0, 1), VersionChange(7, 1, 2)]

    relations = SimpleNamespace(
        bound=lambda _: SimpleNamespace(plan=None),
        followed=lambda item: [items[r.object_id] for r in item.reads],
        table=lambda _: None,
    )
    versions = SimpleNamespace(
        version_changes=version_changes, change_of=lambda *_: RowChange.APPEND
    )
    schedules = SimpleNamespace(schedule=lambda _: None)
    warehouse = SimpleNamespace(relations=relations, versions=versions, schedules=schedules)
    timeline = SimpleNamespace(now=9, unbound=lambda *_: [])
    engine: Any = SimpleNamespace(warehouse=warehouse, timeline=timeline)
    assert find_lag(engine, items[f"i{DEPTH - 1}"], 4).versions == 2
    assert len(looked) <= 2
