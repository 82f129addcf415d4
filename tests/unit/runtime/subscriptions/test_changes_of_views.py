"""Which commit of a view is exactly its change at a T."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.refreshes import Stretch
from ctsql.runtime.log.table_changes import VersionChange
from ctsql.runtime.subscriptions.changes import Changes
from tests.helpers.items import an_item

FIRST_WRITE = VersionChange(9, -1, 0)


@pytest.mark.parametrize("stretches", [(), (Stretch(5, None),)])
def test_a_first_write_behind_other_changes(stretches: tuple[Stretch, ...]) -> None:
    """It is the change of several Ts, also where the view has other refresh times since."""
    view = an_item(
        ObjectKind.MATERIALIZED_VIEW,
        "v",
        location="file:/v",
        created_at=20 if stretches else 5,
        stretches=stretches,
    )

    def change_times(_: Item, *, after: int, until: int) -> set[int]:
        return {time for time in (7,) if after < time <= until}

    warehouse: Any = SimpleNamespace(
        versions=SimpleNamespace(
            version_changes=lambda *_, **__: [FIRST_WRITE], present=lambda *_: []
        ),
        relations=SimpleNamespace(output=lambda _: SimpleNamespace(entries=lambda **_: [])),
        schedules=SimpleNamespace(change_times=change_times),
    )
    assert Changes(warehouse, view, []).find_exact(9) is None
