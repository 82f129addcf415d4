"""Refresh schedules: the times at which a materialized view shows changes. Pure: no clock, no I/O.

At T a view with a schedule shows its query as of the newest refresh time R <= T; a change at t is
due at ``round_up(t)``. The times are those of all parts together.

[round-up-monotone] round_up(t) >= t, it is monotone, and round_up(round_up(t)) == round_up(t).
[last-is-greatest] last_at_or_before(t) is the greatest r with round_up(r) == r and r <= t.
[none-before-creation] no refresh time is before the view's creation.

EVERY, by interval or cron text, also refreshes at creation, so that the view can be read; an
interval without ALIGNED TO counts from there. An aligned grid extends in both directions. After the
last AT there is no refresh: CLOSED.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cronsim import CronSim

from ctsql.catalog.refreshes import At, Cron, Every, RefreshPart
from ctsql.catalog.times import CLOSED, TIME_MIN, Time

_EPOCH = datetime(1970, 1, 1)
_SECOND_MS = 1000


@dataclass(frozen=True, slots=True)
class Schedule:
    """The refresh times of one view: of parts with every time filled in, at least one."""

    parts: tuple[RefreshPart, ...]
    created_at: Time = TIME_MIN

    @staticmethod
    def of(parts: Iterable[RefreshPart], created_at: Time) -> "Schedule":
        """The schedule of a definition for a view that was created at a time."""
        schedule_parts: list[RefreshPart] = []
        for part in parts:
            match part:
                case At(None):
                    schedule_parts.append(At(created_at))
                case Every(_, None):
                    schedule_parts.append(replace(part, aligned_to=created_at))
                case Every() | Cron():
                    schedule_parts += [part, At(created_at)]
                case At():
                    schedule_parts.append(part)
        return Schedule(tuple(dict.fromkeys(schedule_parts)), created_at)

    def round_up(self, time: Time) -> Time:
        """The first refresh time >= a time; CLOSED when there is none any more."""
        start = max(time, self.created_at)
        return min(_round_up(part, start) for part in self.parts)

    def last_at_or_before(self, time: Time) -> Time | None:
        """The last refresh time <= a time; None when there was none yet."""
        times = [r for part in self.parts if (r := _round_down(part, time)) is not None]
        last = max(times, default=None)
        return last if last is not None and last >= self.created_at else None


def _round_up(part: RefreshPart, time: Time) -> Time:
    match part:
        case Every(interval_ms, aligned_to):
            origin = aligned_to or 0
            return min(origin - (origin - time) // interval_ms * interval_ms, CLOSED)
        case Cron(expression):
            tick = _tick(expression, (time - 1) // _SECOND_MS, reverse=False)
            return CLOSED if tick is None else tick
        case At(at):
            return at if at is not None and at >= time else CLOSED


def _round_down(part: RefreshPart, time: Time) -> Time | None:
    match part:
        case Every(interval_ms, aligned_to):
            origin = aligned_to or 0
            last = origin + (time - origin) // interval_ms * interval_ms
            return last if last >= TIME_MIN else None
        case Cron(expression):
            return _tick(expression, time // _SECOND_MS + 1, reverse=True)
        case At(at):
            return at if at is not None and at <= time else None


def _tick(expression: str, second: int, *, reverse: bool) -> Time | None:
    """The next or the last time of a cron text strictly after or before a second, if any."""
    try:
        start = _EPOCH + timedelta(seconds=second)
        moment = next(CronSim(expression, start, reverse=reverse), None)
    except (OverflowError, ValueError):
        return None  # outside the years that datetime knows
    if moment is None or moment < _EPOCH:
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1)
