"""Linear operators, and inner joins: the change of the result from the changes of the inputs.

Tables, filters, projections, explode and UNION ALL map each row by itself. With the diff carried
along, the change of the result is the operator on the change:

    d sigma_p(R) = sigma_p(dR)    d pi_e(R) = pi_e(dR)    d explode(R) = explode(dR)
    d(A + B) = dA + dB

This needs expressions that are equal for equal rows, which the parser checks. LATERAL VIEW OUTER is
linear too: whether an array is empty depends on its row alone. A UNION ALL branch without a change
is dropped, or kept without rows if it may define the result's types. A table's change is that in
its log, consolidated; VALUES and range() have none.

An inner join of any number of relations, self-joins among them, has one term for each change:

    d(R1 x .. x Rn) = sum over i of  R1' x .. x R(i-1)' x dRi x R(i+1) x .. x Rn

where R is before and R' after the change. The sum telescopes: term i is (R1'..Ri' x R(i+1)..Rn) -
(R1'..R(i-1)' x Ri..Rn). There are as many terms as changed operands, not 2^n - 1, because the
tables' former versions can be read. Two occurrences of one table are two operands with the same
change. Each term starts at its change and follows the join conditions. The order of FROM could
multiply unconnected relations.
Source: the linear operators of DBSP (Budiu et al., VLDB 2023, section 4); Gupta and Mumick,
Maintenance of Materialized Views (1995), section on join views.
"""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.nodes import DIFF, Col, Expr, Join, Node, Step
from ctsql.planner.ivm.algebra.traversal import (
    columns_in,
    equal_classes,
    have_one_type,
    pass_through,
    without_rows,
)
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


def change_scan(node: alg.Scan, changes: DeltaDerivation) -> alg.Node:
    """The change of a table."""
    changes.note(node, "the table's own change")
    names, columns = (*node.names, DIFF.sql), (*node.columns, DIFF)
    return replace(node, names=names, columns=columns, version=alg.Version.DELTA)


def change_linear(
    node: alg.Filter | alg.Project | alg.Generate, changes: DeltaDerivation
) -> alg.Node | None:
    """The change of a filter or a projection without subqueries, or of LATERAL VIEW [OUTER]."""
    below = changes.of(node.child)
    if below is None:
        return None
    changes.note(node, "linear")
    if isinstance(node, alg.Project):
        return alg.Project(child=below, items=(*node.items, *pass_through((DIFF,))))
    return replace(node, child=below)


def change_union_all(node: alg.UnionAll, changes: DeltaDerivation) -> alg.Node | None:
    """The change of UNION ALL."""
    branch_changes = [changes.of(branch.node) for branch in node.branches]
    changes.note(node, "sum of the branches' changes")
    if not any(branch_changes):
        return None
    branches = []
    for branch, below in zip(node.branches, branch_changes, strict=True):
        if below is None and not all(map(have_one_type, branch.cols, node.columns)):
            below = alg.ConstantDiff(child=without_rows(branch.node), diff=1)
        if below is not None:
            branches.append(alg.UnionInput(node=below, cols=(*branch.cols, DIFF)))
    return alg.UnionAll(branches=tuple(branches), columns=(*node.columns, DIFF))
