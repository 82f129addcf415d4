"""When the refresh times of a view that is replaced count anew, and who else may change them."""

from dataclasses import replace

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.catalog.refreshes import At, Cron, Every, RefreshPart, Stretch
from ctsql.runtime.warehouse.replaced_views import (
    History,
    check_same_times,
    counts_anew,
    refresh_of,
    with_pace,
)

HOURLY = Every(3_600_000)


def _view(options: str, created_at: int = 10) -> Item:
    return Item(
        id="v",
        kind=ObjectKind.MATERIALIZED_VIEW,
        name=Name("default", "v"),
        columns=(),
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


def test_a_stretch_is_of_the_definition_that_ends() -> None:
    """By the catalog that is changed, whatever this process knew."""
    now = replace(_view("WITH (REFRESH EVERY '1 hour')", 20), stretches=(Stretch(10, None),))
    later = with_pace(replace(now, definition=_view("").definition), now)
    assert later.stretches == (Stretch(10, None), Stretch(20, (HOURLY,)))


def test_refresh_times_that_another_process_changed() -> None:
    """They would be recorded from the other's T on, and as what they were before that."""
    known = _view("")
    check_same_times(known, known, is_paced=True)
    check_same_times(known, replace(known, created_at=20), is_paced=False)
    for other, is_paced in (
        (_view("WITH (REFRESH EVERY '1 hour')", 20), False),
        (replace(known, created_at=20), True),
    ):
        with pytest.raises(CtsqlError) as caught:
            check_same_times(known, other, is_paced=is_paced)
        assert caught.value.condition == "ALTERED_MEANWHILE"
        assert "Another process changed when it is refreshed." in str(caught.value)
