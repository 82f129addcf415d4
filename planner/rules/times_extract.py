"""A task's due times come from ``TimesExtract`` over its inputs.

    TaskWrite log                               TaskWrite log
      InsertsInput feed                    ->     TimesExtract
                                                    InsertsInput feed

Right, because a body runs at exactly the times at which an input has inserts, or deletes that it
reads. Only times are taken: an update's row is never looked at, so finding them reads the logs
and no data.
"""

import dataclasses
from collections.abc import Iterable

from ctsql.planner.nodes import Node, TaskWrite, TimesExtract, map_nodes
from ctsql.planner.updates import Row, Update


def rule(node: Node) -> Node:
    """Apply to a whole plan."""

    def change(n: Node) -> Node:
        if isinstance(n, TaskWrite) and n.times is None:
            return dataclasses.replace(n, times=TimesExtract(inputs=n.inputs))
        return n

    return map_nodes(node, change)


def times_extract(updates: Iterable[Update[Row]]) -> list[tuple[int, int]]:
    """(row, t, d) to (t, d), summed by time; a time whose diffs add to zero is left out."""
    sums: dict[int, int] = {}
    for _, time, diff in updates:
        sums[time] = sums.get(time, 0) + diff
    return [(time, diff) for time, diff in sums.items() if diff != 0]
