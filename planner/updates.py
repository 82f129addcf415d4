"""Collections as updates: (row, time, diff).

A collection at time T is the sum of the diffs of all updates at times <= T. Rows are opaque
here: the runtime puts handles on commits into them, so that no row of data is touched to decide
what has to run when.

Source: differential dataflow (McSherry, Murray, Isaacs, Isard, CIDR 2013), section 4.
"""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Row = TypeVar("Row", bound=Hashable)
Update = tuple[Row, int, int]


def consolidate(updates: Iterable[Update[Row]]) -> list[Update[Row]]:
    """One update a row and time, diffs added, zeros left out; ordered by time."""
    sums: dict[tuple[Row, int], int] = {}
    for row, time, diff in updates:
        sums[row, time] = sums.get((row, time), 0) + diff
    kept = [(row, time, diff) for (row, time), diff in sums.items() if diff != 0]
    return sorted(kept, key=lambda update: update[1])


def as_of(updates: Iterable[Update[Row]], at: int) -> dict[Row, int]:
    """The collection at a time (inclusive): row to multiplicity, zeros left out."""
    sums: dict[Row, int] = {}
    for row, time, diff in updates:
        if time <= at:
            sums[row] = sums.get(row, 0) + diff
    return {row: count for row, count in sums.items() if count != 0}
