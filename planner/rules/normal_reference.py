"""``Get(reference)`` becomes ``NormalReference``.

    Query SELECT ... FROM feed JOIN pages       Query SELECT ... FROM feed JOIN pages
      Get pages (reference)                ->     NormalReference pages

Right, because a relation that is only read is read whole, as of T. Stored tables, outputs and
sources alike, are read by their binding at T, so the result does not depend on when it is run.
"""

from ctsql.planner.nodes import Get, Node, NormalReference, Role, map_nodes


def rule(node: Node) -> Node:
    """Apply to a whole plan."""

    def change(n: Node) -> Node:
        if isinstance(n, Get) and n.role is Role.REFERENCE:
            return NormalReference(object_id=n.object_id, name=n.name, columns=n.columns)
        return n

    return map_nodes(node, change)
