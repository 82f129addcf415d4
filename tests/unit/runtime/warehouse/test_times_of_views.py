"""At which times views change that read each other in several ways."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.refreshes import At, Every, RefreshPart, Stretch
from ctsql.planner.nodes import ViewWrite
from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.log.table_changes import VersionChange
from ctsql.runtime.warehouse.schedules import DUE, Schedules
from tests.helpers.items import an_item
from tests.helpers.view_ladder import view_ladder

DEPTH = 25


def test_each_object_is_looked_at_once() -> None:
    """Not once for each way down, of which there are more than a hundred thousand here."""
    items = view_ladder(DEPTH)
    looked: list[str] = []

    def version_changes(item: Item, **_: int) -> list[VersionChange]:
        looked.append(item.id)
        return [VersionChange(5, 0, 1)] if item.kind is ObjectKind.TABLE else []

    def bindings(object_id: str, *_: int) -> list[Any]:
        looked.append(object_id)
        return [SimpleNamespace(time=5)]

    bound = SimpleNamespace(plan=None, view=SimpleNamespace(reads_clock=False))
    relations: Any = SimpleNamespace(
        item=items.__getitem__,
        bound=lambda _: bound,
        output=lambda _: SimpleNamespace(entries_around=lambda **_: []),
    )
    versions: Any = SimpleNamespace(
        version_changes=version_changes, change_of=lambda *_: RowChange.APPEND
    )
    timeline: Any = SimpleNamespace(bindings_between=bindings)
    schedules = Schedules(relations, versions, timeline)
    last = items[f"i{DEPTH - 1}"]
    assert schedules.change_times(last, after=0, until=9) == {5}
    assert len(looked) == DEPTH - 1
    looked.clear()
    assert schedules.possible_times(last, after=0, until=9) == {5}
    assert looked == ["i0"]


@pytest.mark.parametrize("parts", [(At(900),), (Every(300),), (Every(300, 0),), (At(), At(900))])
def test_a_view_shows_something_whenever_its_refresh_times_change(
    parts: tuple[RefreshPart, ...],
) -> None:
    """A commit that has the T of the change reads the view as of it."""
    view = an_item(
        ObjectKind.MATERIALIZED_VIEW,
        "v",
        location="file:/v",
        created_at=20,
        stretches=(Stretch(5, None), Stretch(10, parts)),
    )
    query: Any = None
    plan = ViewWrite(
        object_id="v", name=view.name, columns=(), desired=query, stored=query, refresh=parts
    )
    bound = SimpleNamespace(plan=plan, view=SimpleNamespace(reads_clock=False))
    relations: Any = SimpleNamespace(bound=lambda _: bound)
    timeline: Any = SimpleNamespace(requests=lambda *_, **__: [])
    versions: Any = None
    schedules = Schedules(relations, versions, timeline)
    shown = [schedules.shown_at(view, at) for at in (7, 10, 15, 20, 25)]
    assert shown == [7, 10, 10, 20, 20]
    assert schedules.change_times(view, after=7, until=25) >= {10, 20}


def test_time_changed_a_view_before_its_refresh_times_did() -> None:
    """What it held at an early T is not what it showed when a row was due since."""
    view = an_item(
        ObjectKind.MATERIALIZED_VIEW,
        "v",
        location="file:/v",
        created_at=20,
        stretches=(Stretch(5, None),),
    )
    commit = SimpleNamespace(metadata={DUE: 12})
    relations: Any = SimpleNamespace(
        bound=lambda _: SimpleNamespace(plan=None, view=SimpleNamespace(reads_clock=True)),
        output=lambda _: SimpleNamespace(
            entries_around=lambda **_: [SimpleNamespace(upper=8, version=3)]
        ),
        table=lambda _: SimpleNamespace(has=lambda _: True, commit_at=lambda _: commit),
    )
    nothing: Any = None
    schedules = Schedules(relations, nothing, nothing)
    assert 12 in schedules.change_times(view, after=7, until=15)
    assert schedules.change_times(view, after=7, until=11) == set()
