"""Times: the meaning of T, its bounds, and its text forms.

A T is a number of milliseconds since 1970-01-01 UTC on the warehouse's one timeline. It is
assigned, not read from a clock: two commits in the same millisecond get two Ts. As a bound it is
``lower`` (inclusive) or ``upper`` (exclusive): an output that is complete through T has the upper T
+ 1.

A T is at least 0 and less than :data:`TIME_MAX`, the greatest 64-bit integer, because its upper
must fit into a Delta transaction version. :data:`CLOSED` is the last upper. Python's datetime ends
with the year 9999; a later T is shown as its number.

Source: RFC 3339 for the text form; PostgreSQL for a text without a zone, except that the zone is
always UTC, on every machine.
"""

import re
from datetime import UTC, datetime, timedelta

from ctsql.catalog.errors import bad_option, error
from ctsql.catalog.spans import Span

Time = int

TIME_MIN: Time = 0
TIME_MAX: Time = 2**63 - 1
CLOSED: Time = TIME_MAX  # as an upper: the collection is finished

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_ZONE_NAME = re.compile(r"\s*(UTC|GMT|Z)$", re.IGNORECASE)

HOW_TO_WRITE = (
    "Write milliseconds since 1970 UTC (1700000000000) or a time of day in UTC or with its "
    "offset ('2026-01-31 12:00:00', '2026-01-31T12:00:00+02:00')."
)


def step_forward(time: Time, *, what: str) -> Time:
    """The next time; ``step_forward(T)`` is also the upper after T. ``what`` is for the error.

    >>> step_forward(41, what="t")
    42

    Raises:
        TIME_OUT_OF_RANGE: ``time`` is the greatest; never a wrap-around.
    """
    if time >= TIME_MAX:
        detail = "It is the greatest possible time."
        raise error("TIME_OUT_OF_RANGE", what=what, time=time, detail=detail)
    return time + 1


def to_iso(time: Time) -> str:
    """The time as UTC text with milliseconds, or its number after the year 9999.

    >>> to_iso(0), to_iso(TIME_MAX)
    ('1970-01-01T00:00:00.000Z', '9223372036854775807')
    """
    try:
        instant = _EPOCH + time * _MILLISECOND
    except OverflowError:
        return str(time)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_datetime(instant: datetime) -> Time:
    """The time at or just before an instant; one without a zone is UTC.

    >>> from_datetime(datetime(1970, 1, 1, 0, 0, 1, 999))
    1000
    """
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def parse_time(text: str | int, *, span: Span | None = None, option: str = "AS OF") -> Time:
    """Read the text after AS OF.

    >>> parse_time("1970-01-01 00:00:01"), parse_time("1970-01-01T02:00+02"), parse_time("7")
    (1000, 0, 7)

    Args:
        text: an integer of milliseconds, or a date, or a date and time with an optional zone
            (``Z``, ``UTC``, an offset). Fractions finer than a millisecond are cut off. option: its
            name, for errors.

    Raises:
        INVALID_OPTION: it is neither. TIME_OUT_OF_RANGE: it is after the greatest time.
    """
    time = text if isinstance(text, int) else _from_text(text.strip())
    if time is None or time < TIME_MIN:
        detail = "It is not a time." if time is None else "It is before 1970-01-01, the first time."
        raise bad_option(span, option, detail, value=repr(text), hint=HOW_TO_WRITE)
    if time >= TIME_MAX:
        what = "the timeline"
        detail = f"{option} {time} is behind it."
        raise error("TIME_OUT_OF_RANGE", span=span, what=what, time=TIME_MAX - 1, detail=detail)
    return time


def _from_text(text: str) -> Time | None:
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    try:
        return from_datetime(datetime.fromisoformat(_ZONE_NAME.sub("+00:00", text)))
    except (ValueError, OverflowError):
        return None
