"""When the refresh times of a view that is replaced count anew, and what it keeps."""

from typing import Any
from unittest import mock

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.refreshes import At, Cron, Every, RefreshPart, Stretch
from ctsql.runtime.statements.definitions import cutover
from ctsql.runtime.statements.definitions.cutover import Redefinition, _Change, _Prepared
from ctsql.runtime.statements.definitions.view_change import (
    History,
    counts_anew,
    redefined_view,
    refresh_of,
)
from tests.helpers.items import an_item, changed

HOURLY = Every(3_600_000)
REDEFINITION = Redefinition(bound_on=Catalog.of([]))


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


def test_the_same_refresh_times_go_on() -> None:
    """Nothing is kept for a view that is replaced again and again without other times."""
    assert not counts_anew((HOURLY,), (HOURLY,), [History.KEPT, History.CONTINUED])
    assert counts_anew((HOURLY,), (HOURLY, At()), [History.KEPT])
    assert counts_anew((HOURLY,), None, [History.KEPT])
    assert counts_anew(None, (HOURLY,), [History.KEPT])
    assert not counts_anew(None, None, [History.CUT])
    # What is not known from before counts from now, and so does what changes at the same times.
    assert counts_anew((HOURLY,), (HOURLY,), [History.KEPT, History.CUT])


HISTORIES = [
    # history, whether refresh times count anew || the T of creation, continues, stretches
    (History.KEPT, False, (20, False, ((10, None),))),
    (History.WAITS, False, (20, False, ((10, None),))),
    (History.CONTINUED, False, (20, True, ((10, None),))),
    (History.CUT, False, (90, False, ())),
    (History.KEPT, True, (90, False, ((10, None), (20, (HOURLY,))))),
    (History.CONTINUED, True, (90, True, ((10, None), (20, (HOURLY,))))),
    (History.CUT, True, (90, False, ())),
]


@pytest.mark.parametrize(("history", "is_paced", "wanted"), HISTORIES)
def test_what_a_view_keeps(history: History, is_paced: bool, wanted: tuple[object, ...]) -> None:
    """By the catalog that is changed; a stretch is of the definition that ends."""
    now = changed(_view("WITH (REFRESH EVERY '1 hour')", 20), stretches=(Stretch(10, None),))
    other = changed(now, definition=_view("").definition.text)
    change = _Change(now, changed(other, revision=1), history)
    engine: Any = mock.MagicMock()
    engine.schedules.is_closed.return_value = False
    prepared = _Prepared(engine, REDEFINITION, (change,), (), is_paced)
    with mock.patch.object(cutover, "check_history"):
        begun = prepared.on_top(Catalog.of([now]))
    later = begun.in_force(Catalog.of([now]), 90).items["v"]
    stretches = tuple((s.start, s.parts) for s in later.following.stretches)
    assert (later.created_at, later.following.continues, stretches) == wanted
    assert later.revision == 1


def test_a_view_that_stays_as_it_is() -> None:
    """Nothing changes then, and no process has to write it."""
    now = _view("")
    assert redefined_view(now, now, History.KEPT, is_paced=False) == now
