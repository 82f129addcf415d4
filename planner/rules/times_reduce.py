"""``TimesReduce`` above ``TimesExtract``: at most one update per time, in order.

    TimesExtract                                TimesReduce
      InsertsInput feed                    ->     TimesExtract
                                                    InsertsInput feed

Right, because running a body twice at one time would propose its rows twice.
"""

import dataclasses
from collections.abc import Iterable

from ctsql.planner.nodes import Node, TaskWrite, TimesExtract, TimesReduce, map_nodes


def rule(node: Node) -> Node:
    """Apply to a whole plan."""

    def change(n: Node) -> Node:
        if isinstance(n, TaskWrite) and isinstance(n.times, TimesExtract):
            return dataclasses.replace(n, times=TimesReduce(times=n.times))
        return n

    return map_nodes(node, change)


def times_reduce(times: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(t, d) added up by time and ordered by time."""
    sums: dict[int, int] = {}
    for time, diff in times:
        sums[time] = sums.get(time, 0) + diff
    return sorted(sums.items())
