"""``Get(deletes)`` becomes ``DeletesInput``.

    Query DELETE ... SELECT k FROM deletes(feed)   Query DELETE ... SELECT k FROM deletes(feed)
      Get feed (deletes)                     ->      DeletesInput feed

Right, because ``deletes(feed)`` is the mirror of an input's inserts: the rows deleted at T, gone
again at T + 1. Does not apply to references and to the output itself.
"""

from collections.abc import Iterable

from ctsql.planner.nodes import DeletesInput, Get, Node, Role, map_nodes
from ctsql.planner.rules.inserts_input import inserts_input
from ctsql.planner.updates import Row, Update


def rule(node: Node) -> Node:
    """Apply to a whole plan."""

    def change(n: Node) -> Node:
        if isinstance(n, Get) and n.role is Role.DELETES:
            return DeletesInput(object_id=n.object_id, name=n.name, columns=n.columns)
        return n

    return map_nodes(node, change)


def deletes_input(updates: Iterable[Update[Row]]) -> list[Update[Row]]:
    """The mirror of inserts: at each time the rows deleted then, taken back at the next."""
    return inserts_input((row, time, -diff) for row, time, diff in updates)
