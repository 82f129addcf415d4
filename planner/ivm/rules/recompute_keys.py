"""GROUP BY, DISTINCT, INTERSECT, EXCEPT, window functions, LIMIT: recompute the affected keys.

    S = the distinct keys of dR
    d op(R) = op(R' restricted to S) - op(R restricted to S)

An operator is local to a key K if op(R) = sum over k of op(R|k). For k outside S the rows R|k did
not change, so op(R|k) cancels, provided op gives equal results for equal multisets. S may be too
large, never too small. No state is needed. Without a key both sides are computed whole.

- GROUP BY g, any aggregates: K = g. GROUPING SETS: UNION ALL over the sets, each with its own key.
- DISTINCT, INTERSECT [ALL], EXCEPT [ALL]: K = all columns, keys from both sides' changes.
- Window functions: K = the columns that every function is partitioned by.
- ORDER BY .. LIMIT: no key, and a total order, so that the same rows are chosen again.
Source: Palpanas et al., Incremental Maintenance for Non-Distributive Aggregate Functions (VLDB
2002); Snowflake's dynamic tables also recompute changed groups and partitions.
"""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import (
    have_one_type,
    key_sources,
    own_subqueries,
    union_all,
    with_inputs,
    without_rows,
)
from ctsql.planner.ivm.rules.context import DeltaDerivation, replacement_delta, sum_of_deltas
from ctsql.planner.ivm.rules.narrowing import restrict_in_turn
from ctsql.planner.ivm.rules.outer_join_and_subquery import changed_keys_of_side_join

Found = list[tuple[alg.Node, Sequence[alg.Col]]]


def changed_keys(node: alg.Node, columns: Sequence[alg.Col], changes: DeltaDerivation) -> Found:
    """The sources of all values that some columns have in a node's change; empty without a change.

    The change itself is one such source. If it holds all former and new rows of each key, the keys
    follow from the changes below, and it is computed once, for these keys. So it is for an outer
    join, whose change has the changed rows of the side that it keeps, and those that can see a
    changed row of the other side, before and after.
    """
    if not columns or not changes.touches(node):
        return _by_change(node, columns, changes)
    match node:
        case alg.OuterOrSemiJoin():
            keys = changed_keys_of_side_join(node, columns, changes)
            return _by_change(node, columns, changes) if keys is None else keys
        case alg.Project() if not own_subqueries(node):
            sources = key_sources(node) or {}
            if all(col in sources for col in columns):
                changes.note(node, "linear")
                return changed_keys(node.child, [sources[col] for col in columns], changes)
    return _by_change(node, columns, changes)


def _by_change(node: alg.Node, columns: Sequence[alg.Col], changes: DeltaDerivation) -> Found:
    delta = changes.of(node)
    return [] if delta is None else [(delta, columns)]


RULE = "affected keys"
NO_KEY = "whole, before and after"


Keyed = alg.Aggregate | alg.Distinct | alg.SetOperation | alg.Window
"""Operators that can be computed key by key."""

_WITHOUT_KEY = {
    alg.Aggregate: "GLOBAL_AGGREGATE",
    alg.Window: "WINDOW_WITHOUT_PARTITION",
    alg.Limit: "LIMIT_FROM_ALL_ROWS",
}


def change_grouping_sets(node: alg.Aggregate, changes: DeltaDerivation) -> alg.Node | None:
    """The change of GROUPING SETS, ROLLUP and CUBE."""
    changes.note(node, "sum over the grouping sets")
    # A UNION ALL of plain groupings, in the columns of the original. For empty input Spark returns
    # no row for the empty set among several, but one row for an aggregate without GROUP BY.
    sets = node.sets or ()
    branches = [_one_set(node, one, len(sets) == 1, changes) for one in sets]
    return changes.of(union_all(branches, node.columns))


def change_by_keys(node: Keyed | alg.Limit, changes: DeltaDerivation) -> alg.Node | None:
    """The change of an operator, recomputed for the affected keys; a LIMIT's order is total."""
    children, keys = inputs_and_keys(node)
    before = [changes.old(child) for child in children]
    if keys[0]:
        changes.note(node, RULE)
        step_and_names = affected_keys(children, keys, changes)
        if step_and_names is None:
            return None
        children = restrict_all(children, keys, *step_and_names, changes)
        before = restrict_all(before, keys, *step_and_names, changes)
    else:
        changes.note(node, NO_KEY, _WITHOUT_KEY[type(node)])
    delta = replacement_delta(replace_inputs(node, children), replace_inputs(node, before))
    return sum_of_deltas(delta, node.columns)


def inputs_and_keys(node: Keyed | alg.Limit) -> tuple[list[alg.Node], list[Sequence[alg.Col]]]:
    """The inputs of an operator, and the key columns of each."""
    match node:
        case alg.Aggregate():
            return [node.child], [[k.source for k in node.keys]]
        case alg.Window():
            return [node.child], [node.keys]
        case alg.Distinct():
            return [node.child], [node.child.columns]
        case alg.SetOperation():
            return [node.left, node.right], [node.left.columns, node.right.columns]
        case alg.Limit():
            return [node.child], [()]


def replace_inputs(node: Keyed | alg.Limit, inputs: Sequence[alg.Node]) -> alg.Node:
    """The operator over other inputs."""
    rest = iter(inputs)
    return with_inputs(node, lambda _: next(rest))


def affected_keys(
    children: Sequence[alg.Node], keys: Sequence[Sequence[alg.Col]], changes: DeltaDerivation
) -> tuple[alg.Step, tuple[alg.Col, ...]] | None:
    """The keys that the children's changes affect; None if nothing changed."""
    places_of = [
        changed_keys(child, cols, changes) for child, cols in zip(children, keys, strict=True)
    ]
    places = list(itertools.chain.from_iterable(places_of))
    if not places:
        return None
    if not all(have_one_type(a, b) for cols in zip(*keys, strict=True) for a, b in pairwise(cols)):
        # The types of the keys depend on both sides.
        for child, cols, own in zip(children, keys, places_of, strict=True):
            places += [] if own else [(without_rows(child), cols)]
    return changes.keys_of(places)


def restrict_all(
    children: Sequence[alg.Node],
    keys: Sequence[Sequence[alg.Col]],
    step: alg.Step,
    names: Sequence[alg.Col],
    changes: DeltaDerivation,
) -> list[alg.Node]:
    """The children restricted to the keys."""
    return [
        restrict_in_turn(child, step, tuple(zip(cols, names, strict=True)), changes)
        for child, cols in zip(children, keys, strict=True)
    ]


def _one_set(
    node: alg.Aggregate, grouping_set: Sequence[int], is_only: bool, changes: DeltaDerivation
) -> alg.Node:
    numbers = sorted(set(grouping_set))
    keys = tuple(replace(node.keys[i], col=changes.copy(node.keys[i].col)) for i in numbers)
    key_of = dict(zip(numbers, keys, strict=True))
    calls: list[alg.AggregateCall] = []
    items: list[alg.Projection] = []
    for index, key in enumerate(node.keys):
        if index in key_of:
            items.append(alg.Projection(alg.Expr.of(key_of[index].col), changes.copy(key.col)))
            continue
        # A NULL whose type Spark derives from the key.
        text = alg.Expr.of("any_value (", key.source, ") FILTER ( WHERE false )")
        null = alg.AggregateCall(
            expr=text, col=changes.fresh("null", key.col.type), function="any_value"
        )
        calls.append(null)
        items.append(alg.Projection(alg.Expr.of(null.col), changes.copy(key.col)))
    for call in node.calls:
        col = changes.copy(call.col)
        if call.grouping is None:
            copied_call = replace(call, col=changes.copy(call.col))
            calls.append(copied_call)
            items.append(alg.Projection(alg.Expr.of(copied_call.col), col))
        else:
            items.append(alg.Projection(_grouping_value(call, key_of), col))
    count = alg.call_of("count", "*", changes.fresh("count", "bigint"))
    total = not keys and not is_only
    if total or (not keys and not calls):
        calls.append(count)
    groups: alg.Node = alg.Aggregate(child=node.child, keys=keys, calls=tuple(calls))
    if total:
        groups = alg.Filter(child=groups, predicates=(alg.Expr.of(count.col, ">", "0"),))
    return alg.Project(child=groups, items=tuple(items))


def _grouping_value(call: alg.AggregateCall, key_numbers: Collection[int]) -> alg.Expr:
    """grouping(a) is 1 where a is not in the set; grouping_id puts such bits side by side."""
    value = 0
    for index in call.grouping or ():
        value = value * 2 + (index not in key_numbers)
    kind = "TINYINT" if call.function == "grouping" else "BIGINT"
    return alg.Expr.of("CAST (", str(value), "AS", kind, ")")
