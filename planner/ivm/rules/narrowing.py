"""Reduces many keys by a filtered table before other tables are looked up.

For example, a thousand changed order lines join a filter on the brand of their parts. Then the
parts are read first, and the other tables only for the remaining lines. This takes a separate job,
so it is done for large changes only.
"""

from collections.abc import Sequence

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import (
    columns_in,
    equal_classes,
    key_sources,
    own_subqueries,
    subqueries,
    tables,
    with_inputs,
)
from ctsql.planner.ivm.rewrites.lookups import is_plain
from ctsql.planner.ivm.rewrites.semijoin_pushdown import Pairs, equated, pairs_of_operand, restrict
from ctsql.planner.ivm.rules.context import DeltaDerivation, StepRole


def restrict_in_turn(
    node: alg.Node, keys: alg.Step, pairs: Pairs, changes: DeltaDerivation
) -> alg.Node:
    """The node's rows that have a key, for the keys that remain after a filtered operand of a join.

    Each row of the join has the operand's value, which is equal and of one type with the key's.
    """
    if not pairs or not changes.large:
        return restrict(node, keys, pairs)
    match node:
        case alg.Filter() | alg.Project() if not own_subqueries(node):
            sources = key_sources(node) or {}
            if all(mine in sources for mine, _ in pairs):
                below = tuple((sources[mine], key) for mine, key in pairs)
                return with_inputs(
                    node, lambda child: restrict_in_turn(child, keys, below, changes)
                )
        case alg.Join():
            classes = equal_classes(node.conditions)
            for operand in node.children:
                operand_pairs = pairs_of_operand(operand, pairs, classes)
                if len(operand_pairs) == len(pairs) and is_plain(operand) and _is_filtered(operand):
                    passing = restrict(operand, keys, operand_pairs)
                    step, names = changes.keys(passing, [mine for mine, _ in operand_pairs])
                    key_pairs = tuple((mine, n) for (mine, _), n in zip(pairs, names, strict=True))
                    return restrict(node, step, key_pairs)
    return restrict(node, keys, pairs)


def join_filtered_first(
    step: alg.Step,
    operands: Sequence[alg.Node],
    conditions: Sequence[alg.Expr],
    changes: DeltaDerivation,
    changed_node: alg.Node,
) -> tuple[alg.Step, tuple[alg.Node, ...], tuple[alg.Expr, ...]]:
    """A change joined with its filtered tables, and the remaining operands and conditions.

    ``changed_node`` is the changed operand.
    """
    classes = equal_classes(conditions)
    pairs_of = {
        operand: pairs
        for operand in operands
        if is_plain(operand) and (pairs := equated(operand.columns, step.columns, classes))
    }
    filtered_operands = [operand for operand in pairs_of if _is_filtered(operand)]
    is_large = bool(tables(changed_node) & changes.large)
    if not is_large or not filtered_operands or len(filtered_operands) == len(pairs_of):
        return step, tuple(operands), tuple(conditions)
    columns = set(step.columns).union(*(one.columns for one in filtered_operands))
    ready = tuple(c for c in conditions if columns_in(c) <= columns and not any(subqueries(c)))
    restrictions = [restrict(one, step, pairs_of[one], is_hint=True) for one in filtered_operands]
    join = alg.Join(children=(step, *restrictions), conditions=ready)
    return (
        changes.step(StepRole.CHANGE, join),
        tuple(one for one in operands if one not in filtered_operands),
        tuple(c for c in conditions if c not in ready),
    )


def _is_filtered(node: alg.Node) -> bool:
    """Whether a node is a plain table under a filter."""
    match node:
        case alg.Filter():
            return True
        case alg.Project():
            return _is_filtered(node.child)
        case _:
            return False
