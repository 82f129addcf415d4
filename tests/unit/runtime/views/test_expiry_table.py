"""When expiry tables are made, which of their files are read, and how far ahead is looked."""

import json

import pytest
from hypothesis import given, strategies as st

from ctsql.runtime.views.expiry_table import ROWS_MIN, expires_within, is_worth
from ctsql.runtime.views.refresh_policy import LOOKED_AHEAD_MS, LOOKED_THROUGH_MAX, looked_ahead


@pytest.mark.parametrize(
    ("rows", "worth"), [(0, False), (ROWS_MIN - 1, False), (ROWS_MIN, True), (None, True)]
)
def test_small_tables_need_none(rows: int | None, worth: bool) -> None:
    """A table whose rows nobody counted may be large."""
    assert is_worth(rows) is worth


def _told(low: int | None, high: int | None) -> str:
    bounds = {"minValues": low, "maxValues": high}
    return json.dumps({k: {"expiry": v} for k, v in bounds.items() if v is not None})


@pytest.mark.parametrize(
    ("statistics", "after", "until", "read"),
    [
        (_told(5, 9), 0, 4, False),
        (_told(5, 9), 0, 5, True),
        (_told(5, 9), 8, 20, True),
        (_told(5, 9), 9, 20, False),  # the span begins after its last expiry
        (_told(5, 9), 6, 7, True),
        (_told(5, 9), 0, None, True),
        (_told(5, 9), 9, None, False),
        (_told(None, 9), 9, 10, False),
        (_told(5, None), 9, 10, True),
        ('{"numRecords": 3}', 9, 10, True),
        (None, 9, 10, True),
    ],
)
def test_files_that_are_read(
    statistics: str | None, after: int, until: int | None, read: bool
) -> None:
    """A file without statistics may have any expiry."""
    assert expires_within(statistics, after, until) is read


@given(
    st.lists(st.integers(0, 40), min_size=1),
    st.integers(0, 40),
    st.one_of(st.none(), st.integers(0, 40)),
)
def test_no_expiry_is_missed(expiries: list[int], after: int, until: int | None) -> None:
    """A file that has an expiry in the span is read, whatever else it has."""
    has_one = any(after < one and (until is None or one <= until) for one in expiries)
    if has_one:
        assert expires_within(_told(min(expiries), max(expiries)), after, until)


def test_how_far_is_looked_ahead() -> None:
    """A small table is looked through at once, any other one in steps, the last without an end."""
    assert looked_ahead([3, LOOKED_THROUGH_MAX - 1], 7) == [None]
    assert looked_ahead([3, LOOKED_THROUGH_MAX], 7) == [*(7 + ms for ms in LOOKED_AHEAD_MS), None]
    assert looked_ahead([None], 0)[-1] is None
