"""When the refresh times of a view that is replaced count anew, and what it keeps."""

from typing import Any
from unittest import mock

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.cutovers import Cutover
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.refreshes import At, Cron, Every, RefreshPart, Stretch
from ctsql.runtime.statements.definitions.cutover import Redefinition
from ctsql.runtime.statements.definitions.view_change import (
    redefined_view,
    refresh_of,
)
from tests.helpers.items import an_item, changed

HOURLY = Every(3_600_000)
EMPTY = Catalog.of([])


def _view(options: str, created_at: int = 10) -> Item:
    return an_item(
        ObjectKind.MATERIALIZED_VIEW,
        "v",
        definition=f"CREATE MATERIALIZED VIEW v {options} AS SELECT k FROM t",
        location="file:/v",
        created_at=created_at,
    )


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("", None),
        ("WITH (REFRESH ON COMMIT)", None),
        ("WITH (REFRESH EVERY '1 hour', REFRESH AT CREATION)", (HOURLY, At())),
        ("WITH (REFRESH EVERY '0 3 * * *', REFRESH POLICY = full)", (Cron("0 3 * * *"),)),
    ],
)
def test_refresh_times_by_the_text(options: str, parts: tuple[RefreshPart, ...] | None) -> None:
    """No catalog is needed to know them."""
    assert refresh_of(_view(options)) == parts


HOUR, NONE = "WITH (REFRESH EVERY '1 hour')", ""
TIMES = [
    # options before, options after, whether a quarantine is new || whether times count from T
    (HOUR, HOUR, False, False),
    (HOUR, "WITH (REFRESH EVERY '1 hour', REFRESH AT CREATION)", False, True),
    (HOUR, NONE, False, True),
    (NONE, HOUR, False, True),
    (NONE, NONE, True, False),
    (HOUR, HOUR, True, True),  # the same times as the quarantine, which is new
]


@pytest.mark.parametrize(("before", "after", "has_new", "is_paced"), TIMES)
def test_refresh_times_that_count_from_the_cutover(
    before: str, after: str, has_new: bool, is_paced: bool
) -> None:
    """Nothing is stored for a view that is replaced again and again without other times."""
    pair = _view(before), changed(_view(after), revision=1)
    new = (_view(after),) if has_new else ()
    assert Redefinition(bound_on=EMPTY, changes=(pair,), new=new).is_paced == is_paced


STRETCHES = [
    # options of the new definition || the T of creation, stretches
    (HOUR, (20, ((10, None),))),
    (NONE, (90, ((10, None), (20, (HOURLY,))))),
]


@pytest.mark.parametrize(("options", "wanted"), STRETCHES)
def test_refresh_times_of_before(options: str, wanted: tuple[object, ...]) -> None:
    """By the catalog that is changed; a stretch is of the definition that ends."""
    now = changed(_view(HOUR, 20), stretches=(Stretch(10, None),))
    other = changed(now, definition=_view(options).definition.text + " WHERE k > 0")
    engine: Any = mock.MagicMock()
    engine.schedules.is_closed.return_value = False
    change = Redefinition(bound_on=EMPTY, changes=((now, changed(other, revision=1)),))
    items = tuple(change.on_top(engine, Catalog.of([now])))
    begun = Cutover(items=items, new_ids=frozenset(change.begun_ids))
    later = begun.in_force(Catalog.of([now]), 90).items["v"]
    stretches = tuple((s.start, s.parts) for s in later.following.stretches)
    assert (later.created_at, stretches) == wanted
    assert later.revision == 1


def test_a_view_that_stays_as_it_is() -> None:
    """Nothing changes then, and no process has to write it."""
    now = _view("")
    assert redefined_view(now, now, is_paced=False) == now
