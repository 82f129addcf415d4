"""The commits that an output waits for, and the Ts that they count with."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.items import Item
from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.log.table_changes import VersionChange
from ctsql.runtime.monitoring.status import find_lag, follow_times
from tests.helpers.view_ladder import view_ladder

DEPTH = 24


@pytest.mark.parametrize(
    ("times", "found"),
    [([101, 102, 102], [101, 102, 103]), ([7, 8, 9], [101, 102, 103]), ([99, 105], [101, 105])],
)
def test_each_commit_without_a_t_has_one_of_its_own(times: list[int], found: list[int]) -> None:
    """As it would get now, also where the newest T is later than all of them."""
    commits = [SimpleNamespace(version=v, time_ms=t) for v, t in enumerate(times)]
    versions = SimpleNamespace(
        version_changes=lambda *_, **__: [], change_of=lambda *_: RowChange.APPEND
    )
    relations = SimpleNamespace(table=lambda _: None)
    engine: Any = SimpleNamespace(
        timeline=SimpleNamespace(now=100, unbound=lambda *_: commits),
        warehouse=SimpleNamespace(versions=versions, relations=relations),
    )
    source: Any = SimpleNamespace(id="s", name=SimpleNamespace(qualified=lambda: "s"))
    assert list(follow_times(engine, source, 50, frozenset(RowChange), None)) == found


def test_each_object_is_read_once() -> None:
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
