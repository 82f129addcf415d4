"""When a view's state table is used, filled, or left alone, by what the commits say alone."""

import json

import pytest

from ctsql.runtime.rows.types import sums_exactly
from ctsql.runtime.views.side_table import Pointer, is_current

NAMED = Pointer(digest="d", table="id", version=7)
REFUSED = Pointer(digest="d", refusal="STATE_ROUNDS")


@pytest.mark.parametrize(
    ("pointer", "table", "last_write", "foreign", "current"),
    [
        (NAMED, "id", 7, False, True),
        (NAMED, "id", 8, False, False),  # written for a T at which the view was not
        (NAMED, "id", None, False, False),  # its log was cleaned up
        (NAMED, "id", 7, True, False),  # somebody else wrote into it
        (NAMED, "other", 7, False, False),  # it was deleted, and made again
        (REFUSED, "", -1, False, False),
    ],
)
def test_only_the_version_that_the_view_names_is_used(
    pointer: Pointer, table: str, last_write: int | None, foreign: bool, current: bool
) -> None:
    """[only-what-is-named]: of what may be found in the table."""
    found = is_current(pointer, table=table, last_write=last_write, has_foreign_rows=foreign)
    assert found is current


def test_what_a_commit_says_is_read_back() -> None:
    """Through JSON; and what says nothing is nothing."""
    for named in (NAMED, REFUSED):
        assert Pointer.of(json.loads(json.dumps(named.to_metadata()))) == named
    assert Pointer.of(None) is None
    assert Pointer.of({"version": 3}) is None
    listed = json.loads(json.dumps([NAMED.to_metadata(), {}, REFUSED.to_metadata()]))
    assert Pointer.all_of(listed) == (NAMED, REFUSED)
    assert Pointer.all_of(None) == ()


@pytest.mark.parametrize(
    ("data_type", "exact"),
    [
        ("bigint", True),
        ("decimal(27,27)", True),
        ("decimal(28,7)", False),
        ("decimal(38,6)", True),
        ("decimal(38,10)", False),
        ("interval day to second", False),
        ("double", False),
    ],
)
def test_sums_that_would_be_rounded_have_no_state(data_type: str, exact: bool) -> None:
    """Spark keeps six places of a decimal over 38 digits; doubles depend on their order."""
    assert sums_exactly(data_type) is exact
