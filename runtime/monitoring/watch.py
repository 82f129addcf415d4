"""What a screen shows of each task and view: how far it is, what stops it, its last refreshes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.failures import OPEN, failures
from ctsql.runtime.monitoring.objects import LagRow, lags
from ctsql.runtime.monitoring.refreshes import Refresh, refreshes
from ctsql.runtime.monitoring.row_request import ALL, RowRequest
from ctsql.runtime.monitoring.status import WORST_FIRST, State


@dataclass(frozen=True, slots=True)
class WatchedObject:
    """An object on the screen.

    Attributes:
        refreshes: those of the last ones that say what they took, oldest first.
        what_to_do: what to type where it has failed.
    """

    lag: LagRow
    refreshes: tuple[Refresh, ...]
    what_to_do: str | None = None


def watched(reader: LogReader, refreshes_max: int) -> list[WatchedObject]:
    """Every task and view, those that need somebody first.

    Args:
        refreshes_max: how many of each object are looked at.
    """
    with reader.as_stored():
        reader.refresh_catalog()
        reader.timeline.refresh()
        rows = list(lags(reader, ALL))
        open_failures = {
            f.object: f for f in failures(reader, RowRequest(states=frozenset({OPEN})))
        }
        readable = {r.object for r in rows if r.state != State.UNREADABLE.value}
        watched_rows = []
        for row in rows:
            request = RowRequest(objects=frozenset({row.object}))
            last = refreshes(reader, request) if row.object in readable else iter(())
            # Of an older version's commits none says what it took: do not look for one that does.
            near = list(islice(last, refreshes_max))
            failure = open_failures.get(row.object)
            do = None if failure is None else failure.what_to_do
            timed_refreshes = tuple(r for r in reversed(near) if r.seconds is not None)
            watched_rows.append(WatchedObject(row, timed_refreshes, do))
    return in_order(watched_rows)


def in_order(objects: Sequence[WatchedObject]) -> list[WatchedObject]:
    """Failed ones first, then those that are behind, the longest lag first; else by name."""
    places = {state.value: n for n, state in enumerate(WORST_FIRST)}
    return sorted(objects, key=lambda w: (places[w.lag.state], -w.lag.lag_seconds, w.lag.object))
