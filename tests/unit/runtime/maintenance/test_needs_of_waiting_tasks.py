"""What a task with COALESCE needs of its inputs, between the ends of two intervals."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import Item, ObjectKind, Reading
from ctsql.catalog.refreshes import Every
from ctsql.runtime.maintenance import consumers
from ctsql.runtime.warehouse.times.refresh_times import Schedule
from tests.helpers.items import an_item

TABLE = an_item(ObjectKind.TABLE, "t", location="file:/t")
TASK = an_item(
    ObjectKind.CONTINUAL_TASK,
    "x",
    location="file:/x",
    reads=(Reading(name=TABLE.name, object_id="t", columns=()),),
)


@pytest.mark.parametrize(("coalesce", "since"), [(None, 57), (Every(20), 45)])
def test_what_waits_is_needed(
    coalesce: Every | None, since: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is complete through now, 57, but runs at 65 for what came since 45."""
    schedule = None if coalesce is None else Schedule.of([coalesce], 5)

    def shown_at(_: Item, at: int) -> int | None:
        assert schedule is not None
        return schedule.last_at_or_before(at)

    schedules = SimpleNamespace(
        is_closed=lambda _: False, schedule=lambda _: schedule, shown_at=shown_at
    )
    versions = SimpleNamespace(stored_upper=lambda _: 46)
    engine: Any = SimpleNamespace(
        catalog=Catalog.of([TABLE, TASK]),
        warehouse=SimpleNamespace(schedules=schedules, versions=versions),
    )
    monkeypatch.setattr(consumers, "complete_through", lambda *_: 57)
    assert list(consumers.reads_kept(engine, TASK, 0)) == [(TABLE, since, 45)]
