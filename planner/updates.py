"""Changes as updates (row, time, diff), as in differential dataflow.

A collection at time T is the sum of the diffs of all updates at times <= T. Rows are opaque here:
the runtime uses handles on commits, so deciding what has to run reads no data.

Source: differential dataflow (McSherry, Murray, Isaacs, Isard, CIDR 2013), section 4.
"""

from collections.abc import Hashable, Iterable
from typing import TypeVar

from ctsql.catalog import times

Row = TypeVar("Row", bound=Hashable)
RowUpdate = tuple[Row, int, int]


def consolidate(updates: Iterable[RowUpdate[Row]]) -> list[RowUpdate[Row]]:
    """One update a row and time, diffs added, zeros left out; ordered by time."""
    sums: dict[tuple[Row, int], int] = {}
    for row, time, diff in updates:
        sums[row, time] = sums.get((row, time), 0) + diff
    net_updates = [(row, time, diff) for (row, time), diff in sums.items() if diff != 0]
    return sorted(net_updates, key=lambda update: update[1])


def as_of(updates: Iterable[RowUpdate[Row]], at: int) -> dict[Row, int]:
    """The collection at a time (inclusive): row to multiplicity, zeros left out."""
    sums: dict[Row, int] = {}
    for row, time, diff in updates:
        if time <= at:
            sums[row] = sums.get(row, 0) + diff
    return {row: count for row, count in sums.items() if count != 0}


def step_forward(updates: Iterable[RowUpdate[Row]], *, what: str) -> list[RowUpdate[Row]]:
    """Every update (row, t, d) becomes (row, t + 1, d)."""
    return [(row, times.step_forward(time, what=what), diff) for row, time, diff in updates]


def inserts_input(updates: Iterable[RowUpdate[Row]]) -> list[RowUpdate[Row]]:
    """At each time the inserts (diff > 0) of that time, taken back at the next."""
    inserts = [(row, time, diff) for row, time, diff in updates if diff > 0]
    retractions = [(row, time, -diff) for row, time, diff in inserts]
    return consolidate([*inserts, *step_forward(retractions, what="an input's inserts")])


def times_extract(updates: Iterable[RowUpdate[Row]]) -> list[tuple[int, int]]:
    """(row, t, d) to (t, d), summed by time; a time whose diffs add to zero is left out."""
    return [(time, diff) for time, diff in _sum_by_time((t, d) for _, t, d in updates) if diff != 0]


def times_reduce(due: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(t, d) added up by time and ordered by time."""
    return sorted(_sum_by_time(due))


def _sum_by_time(diffs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    sums: dict[int, int] = {}
    for time, diff in diffs:
        sums[time] = sums.get(time, 0) + diff
    return list(sums.items())
