"""``Get(input)`` becomes ``InsertsInput``.

    Query INSERT ... SELECT * FROM feed          Query INSERT ... SELECT * FROM feed
      Get feed (input)                      ->     InsertsInput feed

Right, because a task's body sees of its input the rows inserted at T and nothing else; the same
collection is empty again at T + 1. Does not apply to references and to the output itself.
"""

from collections.abc import Iterable

from ctsql.planner.nodes import Get, InsertsInput, Node, Role, map_nodes
from ctsql.planner.rules.step_forward import step_forward
from ctsql.planner.updates import Row, Update, consolidate


def rule(node: Node) -> Node:
    """Apply to a whole plan."""

    def change(n: Node) -> Node:
        if isinstance(n, Get) and n.role is Role.INPUT:
            return InsertsInput(object_id=n.object_id, name=n.name, columns=n.columns)
        return n

    return map_nodes(node, change)


def inserts_input(updates: Iterable[Update[Row]]) -> list[Update[Row]]:
    """At each time the inserts (diff > 0) of that time, taken back at the next."""
    inserts = [(row, time, diff) for row, time, diff in updates if diff > 0]
    negated = [(row, time, -diff) for row, time, diff in inserts]
    taken_back = step_forward(negated, what="an input's inserts")
    return consolidate([*inserts, *taken_back])
