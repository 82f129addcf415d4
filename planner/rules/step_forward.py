"""``Get(self)`` becomes ``SelfReference``: the output, stepped forward by one time.

    Delete                                      Delete
      Get totals (self)                    ->     SelfReference totals

Right, because a task at T may only depend on what its output was before T: contents at T - 1 are
the output's collection with every update moved to the next time. What earlier statements of the
same run proposed is added when the plan is lowered.
"""

from collections.abc import Iterable

from ctsql.catalog import times
from ctsql.planner.nodes import Get, Node, Role, SelfReference, map_nodes
from ctsql.planner.updates import Row, Update


def rule(node: Node) -> Node:
    """Apply to a whole plan."""

    def change(n: Node) -> Node:
        if isinstance(n, Get) and n.role is Role.SELF:
            return SelfReference(object_id=n.object_id, name=n.name, columns=n.columns)
        return n

    return map_nodes(node, change)


def step_forward(updates: Iterable[Update[Row]], *, what: str) -> list[Update[Row]]:
    """Every update (row, t, d) becomes (row, t + 1, d)."""
    return [(row, times.step_forward(time, what=what), diff) for row, time, diff in updates]
