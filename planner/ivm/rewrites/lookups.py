"""Restricts tables to the keys of other restricted tables.

A few orders have a few lines, and these have a few parts: the rows of one table give the keys of
the next. Each restriction is a hint: the join or subquery compares the values again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import (
    descend,
    equal_classes,
    own_subqueries,
    rebuild,
    with_subqueries,
)
from ctsql.planner.ivm.rewrites.correlation import KeySourceOf, restrict_to_visible
from ctsql.planner.ivm.rewrites.semijoin_pushdown import equated, restrict


def cut_by_others(node: alg.Node) -> alg.Node:
    """A plan in which tables that join a restricted table are restricted to its rows."""

    def change(thing: Any) -> Any:
        match thing:
            case alg.Join():
                return _cut_operands(thing)
            case alg.Filter() if own_subqueries(thing):
                return _cut_subqueries(thing)
            case _:
                return thing

    copy: alg.Node = rebuild(node, change)
    return node if copy is node else cut_by_others(copy)


def is_plain(node: alg.Node) -> bool:
    """Whether a node is a table under filters and projections, where Spark pushes a join's keys."""
    match node:
        case alg.Scan():
            return True
        case alg.Filter() | alg.Project():
            return not own_subqueries(node) and is_plain(node.child)
        case _:
            return False


def _cut_operands(join: alg.Join) -> alg.Join:
    classes = equal_classes(join.conditions)
    restrictions = [one for child in join.children for one in _cut_scans(child)]
    children = tuple(
        _cut_by(child, restrictions, classes) if is_plain(child) else child
        for child in join.children
    )
    return join if children == join.children else replace(join, children=children)


def _cut_by(
    operand: alg.Node,
    restrictions: Sequence[alg.SemiJoinRestriction],
    classes: Sequence[frozenset[alg.Col]],
) -> alg.Node:
    for other in restrictions:
        pairs = equated(operand.columns, other.columns, classes)
        restriction = restrict(operand, other, pairs, is_hint=True)
        if restriction != operand:
            return restriction
    return operand


def _cut_subqueries(node: alg.Filter) -> alg.Filter:
    restrictions = _cut_scans(node.child)

    def narrow(subquery: alg.Subquery) -> alg.Node:
        inside = subquery.node
        if any(isinstance(below, alg.SemiJoinRestriction) for below in descend(inside)):
            return inside
        for other in restrictions:
            restriction = restrict_to_visible(subquery, inside, other.columns, _keys_of(other))
            if restriction != inside:
                return restriction
        return inside

    predicates = tuple(with_subqueries(p, narrow) for p in node.predicates)
    return node if predicates == node.predicates else replace(node, predicates=predicates)


def _keys_of(restriction: alg.SemiJoinRestriction) -> KeySourceOf:
    return lambda columns: (restriction, tuple(columns))


def _cut_scans(node: alg.Node) -> list[alg.SemiJoinRestriction]:
    """The tables restricted to keys, below filters, projections and inner joins."""
    match node:
        case alg.Filter() | alg.Project():
            return _cut_scans(node.child)
        case alg.Join():
            return [one for child in node.children for one in _cut_scans(child)]
        case alg.SemiJoinRestriction(child=alg.Scan()):
            return [node]
        case _:
            return []
