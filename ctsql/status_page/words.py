"""Numbers and times as the status page shows them. Pure."""

import re
from datetime import UTC, datetime

from ctsql.results.values import bytes_text

_SECONDS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def duration(seconds: float | None) -> str:
    """A duration with at most two units.

    >>> [duration(s) for s in (None, 0, 0.0123, 1.24, 59, 75, 7_260, 90_000)]
    ['–', '0 s', '12 ms', '1.2 s', '59 s', '1 min 15 s', '2 h 1 min', '1 d 1 h']
    """
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for size, unit, smaller, part in _SECONDS:
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {unit} {rest // smaller} {part}"
    return f"{seconds:.0f} s"


def brief(seconds: float) -> str:
    """A duration in one unit, for little room.

    >>> [brief(s) for s in (0.2, 59, 75, 7_260, 90_000)]
    ['200 ms', '59 s', '1 min', '2 h', '1 d']
    """
    return " ".join(duration(seconds).split()[:2])


def number(value: float | None) -> str:
    """A number of rows.

    >>> number(None), number(0), number(0.3), number(1234567)
    ('–', '0', '0.3', '1,234,567')
    """
    if value is None:
        return "–"
    if 0 < value < 10 and value != int(value):
        return f"{value:.1f}"
    return f"{value:,.0f}"


def size(count: float | None) -> str:
    """Bytes, in units of 1000.

    >>> size(None), size(12), size(1_500), size(2_340_000)
    ('–', '12 B', '1.5 kB', '2.3 MB')
    """
    return "–" if count is None else bytes_text(count, "B")


def instant(t: int | None) -> datetime | None:
    """The instant that a T is named after; None for one that is no date.

    >>> instant(0), instant(1 << 62)
    (datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), None)
    """
    try:
        return None if t is None else datetime.fromtimestamp(t / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def clock_text(at: datetime) -> str:
    """An instant in UTC, without the zone.

    >>> clock_text(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02 03:04:05'
    """
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def sentences(text: str) -> list[str]:
    """The sentences of a hint, for one line each.

    >>> sentences("Mend it. Then type: ALTER CONTINUAL TASK t RETRY. See T 1.5 there.")
    ['Mend it.', 'Then type: ALTER CONTINUAL TASK t RETRY.', 'See T 1.5 there.']
    """
    return re.split(r"(?<=[.;]) (?=[A-Z])", text)


def slug(text: str) -> str:
    """A state, kind or strategy as the name of a style.

    >>> slug("recompute and diff"), slug("up to date")
    ('recompute-and-diff', 'up-to-date')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
