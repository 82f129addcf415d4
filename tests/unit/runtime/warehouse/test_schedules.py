"""Refresh schedules: which times they name."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, strategies as st

from ctsql.catalog.refreshes import At, Cron, Every, RefreshPart, parse_every, refresh_text
from ctsql.catalog.times import CLOSED, from_datetime
from ctsql.runtime.warehouse.times.refresh_times import Schedule
from tests.conftest import VECTORS

VECTOR = json.loads((VECTORS / "mv_sink.json").read_text())["refresh"]

CRONS = ("* * * * *", "0 3 * * *", "*/20 5 1 * MON", "0 0 L * *", "30 0 3 * * *", "0 0 29 2 *")
TIMES = st.integers(0, 4_000_000_000_000)
PARTS = st.one_of(
    st.builds(Every, st.integers(1, 100_000_000), TIMES),
    st.builds(Every, st.integers(1, 5), st.integers(0, 9)),
    st.sampled_from(CRONS).map(Cron),
    st.builds(At, TIMES),
)
SCHEDULES = st.builds(Schedule, st.lists(PARTS, min_size=1, max_size=4).map(tuple), TIMES)


def _ms(text: str) -> int:
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=UTC))


def test_vector_of_an_interval() -> None:
    """An aligned interval rounds up as the vector says."""
    every = VECTOR["every"]
    schedule = Schedule((Every(every["interval"], every["aligned_to"]),))
    for time, wanted in every["round_up"]:
        assert schedule.round_up(time) == wanted


def test_vector_of_single_times() -> None:
    """Past the last AT there is no refresh any more."""
    schedule = Schedule(tuple(At(t) for t in VECTOR["at"]["times"]))
    for time, wanted in VECTOR["at"]["round_up"]:
        assert schedule.round_up(time) == (CLOSED if wanted == "end" else wanted)


@given(SCHEDULES, TIMES)
def test_rounding_up_goes_forward_and_stays(schedule: Schedule, time: int) -> None:
    """[round-up-monotone]: the result is not before the time, and is a refresh time itself."""
    rounded = schedule.round_up(time)
    assert rounded >= max(time, schedule.created_at)
    if rounded != CLOSED:
        assert schedule.round_up(rounded) == rounded
        assert schedule.last_at_or_before(rounded) == rounded


@given(SCHEDULES, TIMES, TIMES)
def test_rounding_is_monotone(schedule: Schedule, one: int, other: int) -> None:
    """[round-up-monotone], [last-is-greatest]: a later time is not rounded to an earlier one, up or
    down.
    """
    first, second = sorted((one, other))
    assert schedule.round_up(first) <= schedule.round_up(second)
    lasts = [-1 if t is None else t for t in map(schedule.last_at_or_before, (first, second))]
    assert lasts[0] <= lasts[1] <= second


@given(SCHEDULES, TIMES)
def test_up_and_down_leave_nothing_between(schedule: Schedule, time: int) -> None:
    """[last-is-greatest], [none-before-creation]: behind the last refresh time the next one is past
    the time.
    """
    last = schedule.last_at_or_before(time)
    if last is None:
        assert schedule.round_up(0) > time
    else:
        assert last >= schedule.created_at
        assert schedule.round_up(last + 1) > time


@given(st.sampled_from(CRONS), TIMES)
@example("0 0 29 2 *", 0)
def test_cron_names_whole_seconds(expression: str, time: int) -> None:
    """A cron text's times are whole seconds, on both sides of any time."""
    schedule = Schedule((Cron(expression),))
    rounded = schedule.round_up(time)
    assert rounded % 1000 == 0
    assert (schedule.last_at_or_before(time) or 0) % 1000 == 0


def test_cron_is_utc() -> None:
    """Three o'clock is three o'clock UTC, today's or tomorrow's."""
    schedule = Schedule((Cron("0 3 * * *"),))
    assert schedule.round_up(_ms("2026-01-01T03:00:00")) == _ms("2026-01-01T03:00:00")
    assert schedule.round_up(_ms("2026-01-01T03:00:00") + 1) == _ms("2026-01-02T03:00:00")
    assert schedule.last_at_or_before(_ms("2026-01-02T02:59:59")) == _ms("2026-01-01T03:00:00")


def test_the_end_of_time_is_the_end() -> None:
    """Where no date can be written any more, nothing is refreshed; nothing overflows."""
    schedule = Schedule((Cron("0 3 * * *"), Every(7, 0)))
    assert schedule.round_up(CLOSED - 1) == CLOSED
    assert Schedule((Cron("0 3 * * *"),)).round_up(CLOSED) == CLOSED
    assert Schedule((Cron("0 3 * * *"),)).last_at_or_before(5) is None


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((Every(10),), (Every(10, 100),)),
        ((Every(10, 3),), (Every(10, 3), At(100))),
        ((Cron("0 3 * * *"),), (Cron("0 3 * * *"), At(100))),
        ((At(), At(200)), (At(100), At(200))),
        ((At(), Every(10, 3), Every(20, 3)), (At(100), Every(10, 3), Every(20, 3))),
    ],
)
def test_every_includes_the_creation(
    parts: tuple[RefreshPart, ...], expected: tuple[RefreshPart, ...]
) -> None:
    """With EVERY or AT CREATION a view can be read from its creation on."""
    schedule = Schedule.of(parts, 100)
    assert set(schedule.parts) == set(expected)
    assert schedule.round_up(0) == 100
    assert schedule.last_at_or_before(99) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 day", Every(86_400_000)),
        ("1 day 2 hours", Every(93_600_000)),
        ("10000 seconds", Every(10_000_000)),
        ("500 milliseconds", Every(500)),
        ("1.5 hours, 5min", Every(5_700_000)),
        ("2h -30m", Every(5_400_000)),
        ("2 WEEKS", Every(1_209_600_000)),
        ("  0  3 * * * ", Cron("0 3 * * *")),
        ("*/10 * * * * *", Cron("*/10 * * * * *")),
    ],
)
def test_what_every_takes(text: str, expected: RefreshPart) -> None:
    """Intervals in words and cron texts; the text form is read as the same again."""
    found = parse_every(text)
    assert found == expected
    assert refresh_text((expected,)).startswith("REFRESH EVERY '")
    assert parse_every(refresh_text((expected,)).split("'")[1]) == expected


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("0 seconds", "longer than nothing"),
        ("-1 day", "longer than nothing"),
        ("1 hour -2 hours", "longer than nothing"),
        ("1 month", "month has no fixed length"),
        ("1 day 2 years", "year has no fixed length"),
        ("1 fortnight", '"fortnight" is not a unit'),
        ("0.0001 s", "whole number"),
        ("99999999999999999999 days", "longer than any T"),
        ("1 day and 5", "is not a number with a unit"),
        ("", "neither"),
        ("12", "neither"),
        ("soon", "neither"),
        ("60 * * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 1 JAN FRI-MON", "bad day-of-week"),
    ],
)
def test_what_every_does_not_take(text: str, wrong: str) -> None:
    """What is wrong is said in a sentence."""
    found = parse_every(text)
    assert isinstance(found, str)
    assert wrong in found
    assert found.endswith(".")
