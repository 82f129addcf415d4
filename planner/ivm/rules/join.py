"""Inner joins of any number of relations, self-joins among them: one term for each change.

    d(R1 x .. x Rn) = sum over i of  R1' x .. x R(i-1)' x dRi x R(i+1) x .. x Rn

where R is before and R' after the change. The sum telescopes: term i is (R1'..Ri' x R(i+1)..Rn) -
(R1'..R(i-1)' x Ri..Rn). There are as many terms as changed operands, not 2^n - 1, because the
tables' former versions can be read. Two occurrences of one table are two operands with the same
change. Each term starts at its change and follows the join conditions. The order of FROM could
multiply unconnected relations.
Source: Gupta and Mumick, Maintenance of Materialized Views (1995), section on join views.
"""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.planner.ivm.algebra.nodes import Col, Expr, Join, Node, Step
from ctsql.planner.ivm.algebra.traversal import columns_in, equal_classes
from ctsql.planner.ivm.rewrites.lookups import is_plain
from ctsql.planner.ivm.rewrites.semijoin_pushdown import equated, restrict
from ctsql.planner.ivm.rules.context import DeltaDerivation, StepRole, sum_of_deltas
from ctsql.planner.ivm.rules.narrowing import join_filtered_first


def change_join(node: Join, changes: DeltaDerivation) -> Node | None:
    """The change of an inner join."""
    classes = equal_classes(node.conditions)
    terms: list[Node] = []
    for index, child in enumerate(node.children):
        delta = changes.of(child)
        if delta is None:
            continue
        step = changes.step(StepRole.CHANGE, delta)
        others = [
            other if place < index else changes.old(other)
            for place, other in enumerate(node.children)
            if place != index
        ]
        first, rest, conditions = join_filtered_first(step, others, node.conditions, changes, child)
        operands = [first, *(_narrow(other, first, classes, changes) for other in rest)]
        children = _order_operands(operands, conditions)
        terms.append(replace(node, children=tuple(children), conditions=conditions))
    changes.note(node, "one term for each changed operand")
    return sum_of_deltas(terms, node.columns)


def _narrow(
    other: Node, step: Step, classes: Sequence[frozenset[Col]], changes: DeltaDerivation
) -> Node:
    """An operand restricted to rows that can join with the change.

    For a plain scan this is a hint, because the join excludes other rows anyway; below an aggregate
    or another join it is worth a semi join with the keys.
    """
    pairs = equated(other.columns, step.columns, classes)
    if not pairs:
        return other
    if is_plain(other):
        return restrict(other, step, pairs, is_hint=True)
    keys, names = changes.keys(step, tuple(ours for _, ours in pairs))
    key_pairs = ((theirs, name) for (theirs, _), name in zip(pairs, names, strict=True))
    return restrict(other, keys, tuple(key_pairs))


def _order_operands(operands: Sequence[Node], conditions: Sequence[Expr]) -> list[Node]:
    """The operands in an order in which a condition joins each to earlier ones, if possible."""
    order, waiting = [operands[0]], [*operands[1:]]
    needs = [columns_in(c) for c in conditions]
    while waiting:
        columns_before = {col for o in order for col in o.columns}

        def connects(operand: Node, before: set[Col] = columns_before) -> bool:
            both = before | set(operand.columns)
            return any(n <= both and n & set(operand.columns) and n & before for n in needs)

        following = next((o for o in waiting if connects(o)), waiting[0])
        order.append(following)
        waiting = [o for o in waiting if o is not following]
    return order
