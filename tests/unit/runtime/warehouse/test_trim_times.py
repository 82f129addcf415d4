"""Which runs of TRIM EVERY are made after a stop in which many were missed."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.catalog import Catalog, StoredSubscription
from ctsql.catalog.items import Item, ObjectKind
from ctsql.planner.nodes import TaskWrite
from ctsql.runtime.warehouse.schedules import Schedules
from tests.unit.planner.binding.catalog_by_hand import FEED, PAGES, bind, item

HOUR = 3_600_000
WEEK = 7 * 24 * HOUR
EACH = {n * HOUR for n in range(1, 7 * 24 + 1)}
RETAIN = "CREATE CONTINUAL TASK t FROM RETAIN feed WHILE (val > now()) WITH (TRIM EVERY = '1 hour')"
COUNT = (
    "CREATE CONTINUAL TASK t (n BIGINT) ON INPUT feed WITH (TRIM EVERY = '1 hour')"
    " AS (INSERT INTO t SELECT count(*) FROM feed)"
)
TASK = item(ObjectKind.CONTINUAL_TASK, "t", "key int, val string", reads=[FEED])
BESIDE = item(
    ObjectKind.MATERIALIZED_VIEW,
    "beside",
    "id int",
    definition="CREATE MATERIALIZED VIEW beside AS SELECT ...",
    reads=[PAGES, TASK],
)
ARCHIVE = item(
    ObjectKind.CONTINUAL_TASK,
    "archive",
    "key int",
    definition="CREATE CONTINUAL TASK archive ON INPUT beside AS (INSERT INTO archive ...)",
    reads=[BESIDE],
)
HOURLY = item(
    ObjectKind.MATERIALIZED_VIEW,
    "hourly",
    "key int",
    definition="CREATE MATERIALIZED VIEW hourly WITH (REFRESH EVERY '1 hour') AS ...",
    reads=[TASK],
)


def _schedules(text: str, *others: Item, readers: Sequence[StoredSubscription] = ()) -> Schedules:
    plan = bind(text).plan
    assert isinstance(plan, TaskWrite)

    def plans(_: Item, *, after: int, until: int) -> list[Any]:
        return [(after, until, TASK, plan)]

    def bindings(source: str, after: int, until: int) -> list[Any]:
        moved = {PAGES.id: 5 * HOUR + 7, FEED.id: 9 * HOUR + 7}
        at = moved[source]
        return [SimpleNamespace(time=at)] if after < at <= until else []

    catalog = Catalog.of([FEED, PAGES, TASK, *others])
    for reader in readers:
        catalog = catalog.with_subscription(reader)
    relations: Any = SimpleNamespace(catalog=catalog, plans=plans)
    timeline: Any = SimpleNamespace(bindings_between=bindings)
    versions: Any = None
    return Schedules(relations, versions, timeline)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], {HOUR, WEEK}),
        ([BESIDE], {HOUR, 5 * HOUR, 9 * HOUR, WEEK}),  # as of which it may read the task
    ],
)
def test_what_was_missed_is_made_up_for_at_once(others: list[Item], expected: set[int]) -> None:
    """A week's by two, where rows only go and nobody has looked in between."""
    trims = _schedules(RETAIN, *others).trims
    assert trims(TASK, after=0, until=WEEK + 5) == expected
    assert trims(TASK, after=WEEK - 5, until=WEEK + 5) == {WEEK}
    assert trims(TASK, after=WEEK, until=WEEK + 5) == set()
    assert trims(TASK, after=5 * HOUR - 1, until=6 * HOUR - 1) == {5 * HOUR}


READER = StoredSubscription(id="s1", name="copy", object_id=BESIDE.id, start=0, snapshot=True)


@pytest.mark.parametrize(
    ("text", "others", "readers"),
    [
        (COUNT, [], []),
        (RETAIN, [HOURLY], []),
        (RETAIN, [BESIDE, ARCHIVE], []),
        (RETAIN, [BESIDE], [READER]),  # it tells when a row went, also of one that a view shows
    ],
)
def test_each_is_made_where_it_matters(
    text: str, others: list[Item], readers: list[StoredSubscription]
) -> None:
    """Other bodies propose rows each time; a refresh looks at any T, a task when a row went."""
    trims = _schedules(text, *others, readers=readers).trims(TASK, after=0, until=WEEK + 5)
    assert trims == EACH
