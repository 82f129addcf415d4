"""Finds the outer rows that can see a change inside a subquery.

:func:`correlation_core` removes from a subquery all that does not decide *which* of its rows an
outer row sees. The remaining relation uses no outer column, and an outer row sees only its rows
with equal columns. So an outer row whose values are not in the core's change sees the same rows as
before. Removing a condition enlarges the core, which is safe; removing one that reads another
changed relation would lose a change, so then there is no core.

LIMIT and window functions are removed too. A condition *above* them is removed as well, unless it
is about the window's partition: a row that it excludes may have displaced another one.

:func:`restrict_to_visible` restricts the subquery's relations to rows that some outer rows can see.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import (
    columns_in,
    equality,
    free,
    key_sources,
    own_subqueries,
    subqueries,
)
from ctsql.planner.ivm.rewrites.semijoin_pushdown import join_pairs, restrict


@dataclass(frozen=True, slots=True)
class Core:
    """The relation and the columns that decide which rows an outer row sees."""

    node: alg.Node  # without outer columns
    # an outer column and the node's column that it must equal.
    pairs: tuple[tuple[alg.Col, alg.Col], ...]
    # for columns of the subquery's result, the equal columns of the node.
    source_columns: Mapping[alg.Col, alg.Col]
    # the node's columns by which a condition may leave out rows: those that differ in them have no
    # effect on each other.
    apart: frozenset[alg.Col]


def correlation_core(node: alg.Node) -> Core | None:
    """The core of a subquery's relation; None if there is none."""
    around = free(node)
    if not around:
        return Core(node, (), {col: col for col in node.columns}, frozenset(node.columns))
    match node:
        case alg.Filter():
            below = correlation_core(node.child)
            return None if below is None else _filter(node, below, around)
        case alg.Project() | alg.Aggregate():
            below = correlation_core(node.child)
            if below is None or own_subqueries(node):
                return None
            if isinstance(node, alg.Project):
                sources = {i.col: i.expr.column for i in node.items}
            else:
                sources = {k.col: k.source for k in node.keys}
            traced_columns = {
                c: below.source_columns[s]
                for c, s in sources.items()
                if s in below.source_columns and s
            }
            return replace(below, source_columns=traced_columns)
        case alg.Distinct():
            return correlation_core(node.child)
        case alg.Window() | alg.Limit():
            below = correlation_core(node.child)
            if below is None:
                return None
            # It combines rows, unless they differ in these columns.
            keys = key_sources(node) or {}
            traced = {col: source for col, source in below.source_columns.items() if col in keys}
            return replace(below, source_columns=traced, apart=below.apart & keys.keys())
        case alg.Join():
            return _join(node)
        case _:
            return None


def _filter(node: alg.Filter, below: Core, around: frozenset[alg.Col]) -> Core | None:
    pairs = list(below.pairs)
    predicates: list[alg.Expr] = []
    for predicate in node.predicates:
        columns = columns_in(predicate)
        if not columns & around and columns <= below.apart:
            predicates.append(predicate)
            continue
        if any(subqueries(predicate)):
            return None
        equal = equality(predicate)
        for outer, inner in (equal, equal[::-1]) if equal else ():
            if outer in around and inner in below.source_columns:
                pairs.append((outer, below.source_columns[inner]))
    core_node: alg.Node = below.node
    if predicates:
        core_node = alg.Filter(child=core_node, predicates=tuple(predicates))
    return replace(below, node=core_node, pairs=tuple(dict.fromkeys(pairs)))


def _join(node: alg.Join) -> Core | None:
    """The join of the cores, with the conditions whose columns the cores have.

    None if one of these is about rows that were chosen: without it the join is a product.
    """
    cores = [correlation_core(child) for child in node.children]
    inner_cores = [c for c in cores if c is not None]
    if len(inner_cores) < len(cores):
        return None
    columns = {col for c in inner_cores for col in c.node.columns}
    apart = frozenset().union(*(c.apart for c in inner_cores))
    conditions = tuple(c for c in node.conditions if columns_in(c) <= columns)
    if any(not columns_in(c) <= apart for c in conditions):
        return None
    return Core(
        alg.Join(children=tuple(c.node for c in inner_cores), conditions=conditions),
        tuple(pair for c in inner_cores for pair in c.pairs),
        {a: b for c in inner_cores for a, b in c.source_columns.items()},
        apart,
    )


KeySourceOf = Callable[
    [Sequence[alg.Col]], tuple[alg.Step | alg.SemiJoinRestriction, tuple[alg.Col, ...]]
]
"""Returns where the values of some outer columns are, and their names there."""


def restrict_to_visible(
    subquery: alg.Subquery, node: alg.Node, around: Sequence[alg.Col], keys: KeySourceOf
) -> alg.Node:
    """A subquery's relation, reading only rows that some outer rows can see; tested again above."""
    restriction = _restrict_correlated(node, around, keys)
    operand = subquery.left.column if subquery.left is not None else None
    if subquery.kind is not alg.SubqueryKind.IN or operand is None or operand not in around:
        return restriction
    return _hint(restriction, [(node.columns[0], operand)], keys)


def _restrict_correlated(
    node: alg.Node,
    around: Sequence[alg.Col],
    keys: KeySourceOf,
    pairs_above: Sequence[tuple[alg.Col, alg.Col]] = (),
) -> alg.Node:
    """A node restricted by its equalities with outer columns.

    ``pairs_above`` are the equalities of the filters directly above it.
    """
    match node:
        case alg.Project() | alg.Aggregate() | alg.Distinct() | alg.Window():
            return replace(node, child=_restrict_correlated(node.child, around, keys))
        case alg.Filter():
            pairs = [*pairs_above, *join_pairs(node.predicates, node.child.columns, around)]
            if isinstance(node.child, alg.Filter):
                below = _restrict_correlated(node.child, around, keys, pairs)
                return replace(node, child=below)
            below = _restrict_correlated(node.child, around, keys)
            return replace(node, child=_hint(below, pairs, keys))
        case alg.Join():
            return _hint(node, join_pairs(node.conditions, node.columns, around), keys)
        case _:
            return node


def _hint(node: alg.Node, pairs: Sequence[tuple[alg.Col, alg.Col]], keys: KeySourceOf) -> alg.Node:
    if not pairs:
        return node
    step, names = keys([outer for _, outer in pairs])
    key_pairs = tuple((inner, name) for (inner, _), name in zip(pairs, names, strict=True))
    return restrict(node, step, key_pairs, is_hint=True)
