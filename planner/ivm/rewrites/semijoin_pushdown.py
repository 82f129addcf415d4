"""Pushes a semi join with a set of keys as close to the scans as possible.

``restrict(R, S, pairs)`` gives the rows r of R for which S has a key that equals r's columns, NULL
equal to NULL. It passes projections and filters, which work row by row; a join, whose equated
columns must equal the key too; GROUP BY, DISTINCT, INTERSECT, EXCEPT and windows, which never mix
rows of different keys. It does not pass a UNION ALL that casts a branch's values: '1' and '01'
differ as texts but not as numbers.

Spark pushes a semi join through an aggregate only for few known keys, and never through a join.
"""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import (
    are_alike,
    equal_classes,
    equality,
    key_sources,
    with_inputs,
)

Pairs = tuple[tuple[alg.Col, alg.Col], ...]


KeySource = alg.Step | alg.SemiJoinRestriction
"""The source of keys: a step, or a restricted table."""


def restrict(node: alg.Node, keys: KeySource, pairs: Pairs, *, is_hint: bool = False) -> alg.Node:
    """The node's rows that have a key.

    Args:
        pairs: columns of the node, each with the column of the keys that it must equal. Without
            pairs every row has a key. is_hint: the caller joins with the keys anyway; restrict only
            to read less.
    """
    if not pairs:
        return node
    below, held_pairs = _push(node, keys, pairs, is_hint)
    if held_pairs == frozenset(pairs) or is_hint:
        return below
    return alg.SemiJoinRestriction(child=below, tests=(alg.KeyPredicate(keys=keys, pairs=pairs),))


def _push(
    node: alg.Node, keys: KeySource, pairs: Pairs, is_hint: bool
) -> tuple[alg.Node, frozenset[tuple[alg.Col, alg.Col]]]:
    """The node with the restriction inside, and the pairs that its rows then satisfy."""

    def inside(child: alg.Node, child_pairs: Sequence[tuple[alg.Col, alg.Col]]) -> alg.Node:
        return restrict(child, keys, tuple(child_pairs), is_hint=is_hint)

    own = [(a, b) for a, b in pairs if a in node.columns]
    sources = key_sources(node)
    if sources is not None:
        plain = [(a, b) for a, b in own if a in sources]
        child_pairs = [(sources[a], b) for a, b in plain]
        return with_inputs(node, lambda child: inside(child, child_pairs)), frozenset(plain)
    match node:
        case alg.Scan():
            test = alg.KeyPredicate(keys=keys, pairs=tuple(own), is_hint=is_hint)
            return alg.SemiJoinRestriction(child=node, tests=(test,)), frozenset(own)
        case alg.Join():
            return _join(node, keys, own, is_hint)
        case alg.OuterOrSemiJoin():
            return _side_join(node, keys, own, is_hint)
        case alg.LateralJoin():
            left_pairs = [(a, b) for a, b in own if a in node.left.columns]
            return replace(node, left=inside(node.left, left_pairs)), frozenset(left_pairs)
        case alg.SetOperation():
            right_of = dict(zip(node.columns, node.right.columns, strict=True))
            kept = [(a, b) for a, b in own if are_alike(a, right_of[a])]
            theirs = [(right_of[a], b) for a, b in kept]
            operation = replace(
                node, left=inside(node.left, kept), right=inside(node.right, theirs)
            )
            return operation, frozenset(kept)
        case alg.UnionAll():
            branches, held_pairs = [], set(own)
            for branch in node.branches:
                col_of = dict(zip(node.columns, branch.cols, strict=True))
                kept = [(a, k) for a, k in own if a == col_of[a] or are_alike(a, col_of[a])]
                held_pairs.intersection_update(kept)
                below = inside(branch.node, [(col_of[a], k) for a, k in kept])
                branches.append(replace(branch, node=below))
            return replace(node, branches=tuple(branches)), frozenset(held_pairs)
        case _:
            return node, frozenset()


def _join(
    node: alg.Join, keys: KeySource, own: Sequence[tuple[alg.Col, alg.Col]], is_hint: bool
) -> tuple[alg.Node, frozenset[tuple[alg.Col, alg.Col]]]:
    """Restrict every child through the join's equalities.

    One fully restricted child is enough for the result.
    """
    classes = equal_classes(node.conditions)
    children = []
    held_pairs: frozenset[tuple[alg.Col, alg.Col]] = frozenset()
    for child in node.children:
        child_pairs = pairs_of_operand(child, own, classes)
        children.append(restrict(child, keys, child_pairs, is_hint=is_hint))
        if len(child_pairs) == len(own):
            held_pairs = frozenset(own)
    return replace(node, children=tuple(children)), held_pairs


def equated(
    columns: Sequence[alg.Col], others: Sequence[alg.Col], classes: Sequence[frozenset[alg.Col]]
) -> Pairs:
    """For each class with columns of both lists, one column of each."""
    pairs = {}
    for equal in classes:
        mine = sorted(equal & set(columns), key=lambda c: c.number)
        theirs = sorted(equal & set(others), key=lambda c: c.number)
        if mine and theirs:
            pairs[mine[0]] = theirs[0]
    return tuple(pairs.items())


def pairs_of_operand(
    operand: alg.Node,
    pairs: Sequence[tuple[alg.Col, alg.Col]],
    classes: Sequence[frozenset[alg.Col]],
) -> Pairs:
    """The pairs over an operand's own columns, as far as the join equates some with the first."""
    key_of = {}
    for mine, key in pairs:
        same = next((c for c in classes if mine in c), frozenset()) | {mine}
        same = frozenset(c for c in same if c == mine or are_alike(c, mine))
        here = sorted(same & set(operand.columns), key=lambda c: (c != mine, c.number))
        if here:
            key_of[mine, key] = (here[0], key)
    return tuple(key_of.values())


def _side_join(
    node: alg.OuterOrSemiJoin,
    keys: KeySource,
    own: Sequence[tuple[alg.Col, alg.Col]],
    is_hint: bool,
) -> tuple[alg.Node, frozenset[tuple[alg.Col, alg.Col]]]:
    """Restrict the preserved side, and the other side if the join equates the columns."""
    left, right = node.left, node.right
    if node.kind is alg.JoinKind.FULL:
        return node, frozenset()
    side, other = (right, left) if node.kind is alg.JoinKind.RIGHT else (left, right)
    plain = [(a, b) for a, b in own if a in side.columns]
    partners = []
    for mine, key in plain:
        for a, b in join_pairs(node.conditions, side.columns, other.columns):
            if a == mine and are_alike(a, b):
                partners.append((b, key))
                break
    side = restrict(side, keys, tuple(plain), is_hint=is_hint)
    if len(partners) == len(plain):
        other = restrict(other, keys, tuple(partners), is_hint=is_hint)
    left, right = (other, side) if node.kind is alg.JoinKind.RIGHT else (side, other)
    return replace(node, left=left, right=right), frozenset(plain)


def join_pairs(
    conditions: Sequence[alg.Expr], left: Sequence[alg.Col], right: Sequence[alg.Col]
) -> Pairs:
    """The columns of both sides that conditions of the form ``a = b`` equate."""
    pairs = []
    for condition in conditions:
        pair = equality(condition)
        if pair is None:
            continue
        a, b = pair
        if a in left and b in right:
            pairs.append((a, b))
        elif b in left and a in right:
            pairs.append((b, a))
    return tuple(pairs)
