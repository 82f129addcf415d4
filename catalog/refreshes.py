"""The refresh schedules of materialized views: values, and reading them from text.

A view refreshed on commit has none. Intervals have a fixed length, so months and years are refused;
a cron text says "each first of the month". All is UTC.

Source: intervals as PostgreSQL and Spark spell them in words; cron texts as the package cronsim
reads them (Debian's cron, and a sixth field in front for seconds).
"""

import re
from dataclasses import astuple, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from cronsim import CronSim, CronSimError

from ctsql.catalog.times import TIME_MAX, Time, to_iso

_UNITS_MS = {
    "week": 604_800_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1_000,
    "millisecond": 1,
}
_SHORT = {
    "w": "week",
    "d": "day",
    "h": "hour",
    "hr": "hour",
    "m": "minute",
    "min": "minute",
    "s": "second",
    "sec": "second",
    "ms": "millisecond",
}
_WITHOUT_LENGTH = ("month", "mon", "quarter", "year", "yr", "decade", "century")
_PART = re.compile(r"\s*([+-]?\s*\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*,?")
_CRON_FIELDS = (5, 6)
_CRON_START = re.compile(r"[\d*]")


@dataclass(frozen=True, slots=True)
class Every:
    """At every time aligned_to + n * interval; ``aligned_to`` None is the time of creation."""

    interval_ms: int
    aligned_to: Time | None = None

    @property
    def text(self) -> str:
        """The text in a statement."""
        words = f"EVERY '{interval_text(self.interval_ms)}'"
        return (
            words if self.aligned_to is None else f"{words} ALIGNED TO '{to_iso(self.aligned_to)}'"
        )


@dataclass(frozen=True, slots=True)
class Cron:
    """At every time that a cron text names, in UTC."""

    expression: str

    @property
    def text(self) -> str:
        """The text in a statement."""
        return f"EVERY '{self.expression}'"


@dataclass(frozen=True, slots=True)
class At:
    """Once; ``time`` None is the time of creation."""

    time: Time | None = None

    @property
    def text(self) -> str:
        """The text in a statement."""
        return "AT CREATION" if self.time is None else f"AT '{to_iso(self.time)}'"


RefreshPart = Every | Cron | At


@dataclass(frozen=True, slots=True)
class Stretch:
    """The refresh schedule of a view from a T on; ``parts`` None means on commit."""

    start: Time
    parts: tuple[RefreshPart, ...] | None

    def to_json(self) -> list[Any]:
        """The stretch as a JSON value, for the catalog."""
        if self.parts is None:
            return [self.start, None]
        return [self.start, [[type(p).__name__.lower(), *astuple(p)] for p in self.parts]]

    @staticmethod
    def from_json(raw: list[Any]) -> "Stretch":
        """Read the value of :meth:`to_json`.

        >>> parts = (Every(5, 2), Every(7), Cron("0 3 * * *"), At(9), At())
        >>> Stretch.from_json(Stretch(3, parts).to_json()) == Stretch(3, parts)
        True
        """
        start, parts = raw
        refresh_parts = (
            None if parts is None else tuple(_KINDS[kind](*fields) for kind, *fields in parts)
        )
        return Stretch(int(start), refresh_parts)


_KINDS: dict[str, type[Every] | type[Cron] | type[At]] = {"every": Every, "cron": Cron, "at": At}


def refresh_text(parts: tuple[RefreshPart, ...] | None) -> str:
    """A whole schedule as the text of WITH (...); None is ON COMMIT."""
    return "REFRESH ON COMMIT" if parts is None else ", ".join(f"REFRESH {p.text}" for p in parts)


def interval_text(milliseconds: int) -> str:
    """A length of time in words.

    >>> interval_text(93_600_000), interval_text(1500)
    ('1 day 2 hours', '1 second 500 milliseconds')
    """
    words = []
    for unit, length in _UNITS_MS.items():
        count, milliseconds = divmod(milliseconds, length)
        if count:
            words.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(words)


def parse_every(text: str) -> Every | Cron | str:
    """Read the text after EVERY; return its parts, or a sentence with what is wrong.

    >>> parse_every("1 day 2 hours"), parse_every("0 3 * * *")
    (Every(interval_ms=93600000, aligned_to=None), Cron(expression='0 3 * * *'))
    >>> parse_every("1 month")
    'A month has no fixed length.'
    """
    fields = text.split()
    if _PART.match(text):
        return _interval(text)
    if len(fields) in _CRON_FIELDS and _CRON_START.match(fields[0]):
        return _cron(" ".join(fields))
    return "It is neither an interval nor a cron text."


def _interval(text: str) -> Every | str:
    length = parse_interval(text)
    if length == 0:
        return "It must be longer than nothing."
    return length if isinstance(length, str) else Every(length)


def parse_interval(text: str) -> int | str:
    """Read a length of time in words, in milliseconds; or return what is wrong, as a sentence.

    >>> parse_interval("1 day 2 hours"), parse_interval("0 seconds"), parse_interval("")
    (93600000, 0, 'It is not a length of time.')
    """
    total, position = Decimal(0), 0
    if not text.strip():
        return "It is not a length of time."
    while position < len(text.rstrip()):
        part = _PART.match(text, position)
        if part is None:
            return f'"{text[position:].strip()}" is not a number with a unit.'
        unit = part[2].lower()
        unit = _SHORT.get(unit) or _SHORT.get(unit.removesuffix("s")) or unit.removesuffix("s")
        if unit in _WITHOUT_LENGTH:
            return f"A {unit} has no fixed length."
        if unit not in _UNITS_MS:
            return f'"{part[2]}" is not a unit. The units are: {", ".join(_UNITS_MS)}.'
        total += Decimal(re.sub(r"\s", "", part[1])) * _UNITS_MS[unit]
        position = part.end()
    if total < 0:
        return "It must be longer than nothing."
    if total != total.to_integral_value():
        return "It must be a whole number of milliseconds."
    if total >= TIME_MAX:
        return "It is longer than any T."
    return int(total)


def _cron(expression: str) -> Cron | str:
    try:
        first = next(CronSim(expression, datetime(2000, 1, 1)), None)
    except CronSimError as problem:
        return f"It is not a valid cron text: {str(problem).lower()}."
    return "This cron text matches no time." if first is None else Cron(expression)
