"""``Get(changes)`` becomes ``ChangesInput``.

    Query INSERT ... SELECT k, diff FROM changes(feed)   Query INSERT ... SELECT k, diff ...
      Get feed (changes)                           ->      ChangesInput feed

Right, because the inserts and the deletes of T together are its change: an update (row, T, diff)
is a row of it with ``diff`` as its last column.
"""

from ctsql.planner.nodes import ChangesInput, Get, Node, Role, map_nodes


def rule(node: Node) -> Node:
    """Apply to a whole plan."""

    def change(n: Node) -> Node:
        if isinstance(n, Get) and n.role is Role.CHANGES:
            return ChangesInput(object_id=n.object_id, name=n.name, columns=n.columns)
        return n

    return map_nodes(node, change)
