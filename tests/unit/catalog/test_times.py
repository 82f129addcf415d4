"""Times: stepping at both ends, and the ways people write a time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.times import CLOSED, TIME_MAX, from_datetime, parse_time, step_forward, to_iso

NOON = 1_769_860_800_000  # 2026-01-31 12:00:00 UTC


def test_greatest_time_has_no_next() -> None:
    """An error that names the collection, never a wrap-around."""
    with pytest.raises(CtsqlError, match="TIME_OUT_OF_RANGE") as caught:
        step_forward(TIME_MAX, what='table "t"')
    assert 'table "t"' in caught.value.message


def test_bounds() -> None:
    """The last upper is reached."""
    assert step_forward(TIME_MAX - 1, what="t") == CLOSED == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (0, 0),
        (NOON, NOON),
        (str(NOON), NOON),
        (f" +{NOON} ", NOON),
        ("2026-01-31 12:00:00", NOON),
        ("2026-01-31T12:00:00", NOON),
        ("2026-01-31 12:00", NOON),
        ("2026-01-31", NOON - 12 * 3_600_000),
        ("2026-01-31 12:00:00Z", NOON),
        ("2026-01-31 12:00:00 UTC", NOON),
        ("2026-01-31 12:00:00 gmt", NOON),
        ("2026-01-31 14:00:00+02", NOON),
        ("2026-01-31 14:00:00 +02:00", NOON),
        ("2026-01-31 14:00:00+02:00", NOON),
        ("2026-01-31 06:30:00-0530", NOON),
        ("2026-01-31 12:00:00.5", NOON + 500),
        ("2026-01-31 12:00:00.123456789", NOON + 123),
        ("1970-01-01 00:00:00.0019999", 1),
    ],
    ids=repr,
)
def test_ways_to_write_a_time(text: str | int, time: int) -> None:
    """Milliseconds or text; without a zone it is UTC; finer than a millisecond is cut off."""
    assert parse_time(text) == time


@pytest.mark.parametrize(
    "text",
    [-1, "-1", "1969-12-31 23:59:59", "", "yesterday", "2026-02-30", "12:00", "2026-01-31 25:00"],
    ids=repr,
)
def test_what_is_no_time(text: str | int) -> None:
    """The error shows the text and how a time is written."""
    with pytest.raises(CtsqlError, match="INVALID_OPTION") as caught:
        parse_time(text)
    assert repr(text) in caught.value.message
    assert "milliseconds" in (caught.value.hint or "")


def test_behind_the_last_time() -> None:
    """A number that no T can have is refused, however long."""
    for text in (TIME_MAX, str(10**30)):
        with pytest.raises(CtsqlError, match="TIME_OUT_OF_RANGE"):
            parse_time(text)


@given(st.integers(0, 253_402_300_799_999))
def test_text_form_is_read_back(time: int) -> None:
    """What is shown can be typed; up to the year 9999."""
    assert parse_time(to_iso(time)) == time


@given(st.integers(253_402_300_800_000, TIME_MAX - 1))
def test_text_form_behind_the_calendar(time: int) -> None:
    """Behind the year 9999 the number is shown, and it can be typed too."""
    assert parse_time(to_iso(time)) == time


def test_datetimes() -> None:
    """An instant has one time in every zone; without a zone it is UTC."""
    east = timezone(timedelta(hours=5, minutes=30))
    assert from_datetime(datetime(2026, 1, 31, 17, 30, tzinfo=east)) == NOON
    assert from_datetime(datetime(2026, 1, 31, 12)) == NOON
    assert from_datetime(datetime(2026, 1, 31, 12, tzinfo=UTC)) == NOON
