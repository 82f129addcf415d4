"""Drops the columns that a view does not read, so their changes do not matter.

The runtime computes a table's change over the remaining columns, where versions of a row that
differ only elsewhere cancel.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import (
    columns_in,
    expressions,
    free,
    with_inputs,
    with_subqueries,
)


def prune(node: alg.Node, columns: Collection[alg.Col]) -> alg.Node:
    """A node with at least the wanted columns that reads as little as possible.

    Rows keep their multiplicity: fewer columns never merge rows.
    """
    need = frozenset(columns)
    match node:
        case alg.Scan():
            pairs = [(n, c) for n, c in zip(node.names, node.columns, strict=True) if c in need]
            return replace(
                node, names=tuple(n for n, _ in pairs), columns=tuple(c for _, c in pairs)
            )
        case alg.Values():
            return node
        case alg.Filter():
            predicates = tuple(_inside(p) for p in node.predicates)
            return alg.Filter(
                child=prune(node.child, need | _uses(predicates)), predicates=predicates
            )
        case alg.Project():
            items = tuple(replace(i, expr=_inside(i.expr)) for i in node.items if i.col in need)
            return alg.Project(child=prune(node.child, _uses(i.expr for i in items)), items=items)
        case alg.Join() | alg.OuterOrSemiJoin():
            conditions = tuple(_inside(c) for c in node.conditions)
            need |= _uses(conditions)
            join = replace(node, conditions=conditions)
            return with_inputs(join, lambda child: prune(child, need))
        case alg.Generate() | alg.Limit():
            need |= _uses(expressions(node))
            return with_inputs(node, lambda child: prune(child, need))
        case alg.Distinct() | alg.SetOperation():
            return with_inputs(node, lambda child: prune(child, child.columns))
        case alg.LateralJoin():
            conditions = tuple(_inside(c) for c in node.conditions)
            need |= _uses(conditions)
            right = prune(node.right, need)
            left = prune(node.left, need | free(right))
            return replace(node, left=left, right=right, conditions=conditions)
        case alg.Aggregate():
            return _aggregate(node, need)
        case alg.UnionAll():
            places = [i for i, col in enumerate(node.columns) if col in need]
            branches = []
            for branch in node.branches:
                cols = tuple(branch.cols[i] for i in places)
                branches.append(alg.UnionInput(node=prune(branch.node, cols), cols=cols))
            return alg.UnionAll(
                branches=tuple(branches), columns=tuple(node.columns[i] for i in places)
            )
        case alg.Window():
            calls = tuple(c for c in node.calls if c.col in need)
            below = prune(node.child, need | _uses(c.expr for c in calls))
            return alg.Window(child=below, calls=calls) if calls else below
        case _:
            raise TypeError(f"{type(node).__name__} is no part of a query")


def _uses(exprs: Iterable[alg.Expr]) -> frozenset[alg.Col]:
    return frozenset().union(*(columns_in(expr) for expr in exprs))


def _aggregate(node: alg.Aggregate, need: frozenset[alg.Col]) -> alg.Aggregate:
    """Keep all keys, which define the groups. Without keys keep one call, for the one row."""
    calls = tuple(call for call in node.calls if call.col in need)
    if not calls and not node.keys:
        calls = node.calls[:1]
    below = frozenset(k.source for k in node.keys) | _uses(c.expr for c in calls)
    return replace(node, child=prune(node.child, below), calls=calls)


def _inside(expr: alg.Expr) -> alg.Expr:
    """The expression with pruned subqueries: EXISTS needs no column."""

    def pruned(part: alg.Subquery) -> alg.Node:
        return prune(part.node, () if part.kind is alg.SubqueryKind.EXISTS else part.node.columns)

    return with_subqueries(expr, pruned)
