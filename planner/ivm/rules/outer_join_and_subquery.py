"""Outer, semi and anti joins, IN, NOT IN, EXISTS, scalar subqueries, lateral joins.

Each of these maps a row l of the left side to rows f(l, R). They depend only on l and a right side
R: a joined relation, or the relations inside subqueries. So

    d op(L, R) = op(dL, R')  +  [ op(A, R') - op(A, R) ]

with A = the old left rows that can see a changed row of R. The first part is the linearity in L
(L' = L + dL); in the second, old left rows outside A cancel. A may be too large, never too small:
it is found by the equalities between the sides, NULL equal to NULL; without equalities by the
join's condition, or it is all of L.

- NOT IN, and IN anywhere but alone in WHERE: one NULL in dR affects every left row, and a left
  row whose value is NULL is always affected.
- An uncorrelated scalar subquery or EXISTS affects all rows or none: its values before and after
  are compared.
- RIGHT is LEFT with the sides exchanged. L full R = (L left R) + pad(R anti L).
Source: our derivation, as in Griffin and Kumar, Algebraic Change Propagation for Semijoin and
Outerjoin Queries (SIGMOD Record 1998), without their auxiliary differences.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import (
    are_alike,
    free,
    have_one_type,
    is_same_if_equal,
    own_subqueries,
    pass_through,
    with_subqueries,
)
from ctsql.planner.ivm.rewrites.correlation import correlation_core, restrict_to_visible
from ctsql.planner.ivm.rewrites.semijoin_pushdown import Pairs, join_pairs, restrict
from ctsql.planner.ivm.rules.context import (
    DeltaDerivation,
    StepRole,
    replacement_delta,
    sum_of_deltas,
)
from ctsql.planner.ivm.rules.narrowing import restrict_in_turn

RULE = "affected left rows"


def change_side_join(node: alg.OuterOrSemiJoin, changes: DeltaDerivation) -> alg.Node | None:
    """The change of an outer, semi or anti join."""
    changes.note(node, RULE)
    if node.kind is alg.JoinKind.FULL:
        return _change_full(node, changes)
    node = _as_left(node)
    left, right = node.left, node.right
    pairs = join_pairs(node.conditions, left.columns, right.columns)
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    terms: list[alg.Node] = []
    left_change = changes.of(left)
    if left_change is not None:
        step = changes.step(StepRole.CHANGE, left_change)
        visible = right
        if pairs:
            keys, names = changes.keys(step, ours)
            visible = restrict(right, keys, tuple(zip(theirs, names, strict=True)))
        terms.append(replace(node, left=step, right=visible))
    right_change = changes.of(right)
    if right_change is not None:
        rows, keys, cut = _affected_rows(node, right_change, pairs, changes)
        if not all(are_alike(a, b) for a, b in pairs):
            # A left row may equal values on the right that differ: '1' and '01' are both 1.
            keys, names = changes.keys(rows, ours)
            cut = tuple(zip(theirs, names, strict=True))
        new = replace(node, left=rows, right=restrict(right, keys, cut))
        before = replace(node, left=rows, right=restrict(changes.old(right), keys, cut))
        terms += replacement_delta(new, before)
    return sum_of_deltas(terms, node.columns)


def _as_left(node: alg.OuterOrSemiJoin) -> alg.OuterOrSemiJoin:
    """A RIGHT JOIN as a LEFT JOIN."""
    if node.kind is not alg.JoinKind.RIGHT:
        return node
    return replace(node, kind=alg.JoinKind.LEFT, left=node.right, right=node.left)


def _affected_rows(
    node: alg.OuterOrSemiJoin, right_change: alg.Node, pairs: Pairs, changes: DeltaDerivation
) -> tuple[alg.Step, alg.Step, Pairs]:
    """The old left rows that can see a change on the right; the keys, and their columns.

    The columns are the right side's, with those of the keys.
    """
    old = changes.old(node.left)
    if not pairs:
        step = changes.step(StepRole.CHANGE, right_change)
        affected_rows: alg.Node = alg.OuterOrSemiJoin(
            kind=alg.JoinKind.SEMI, left=old, right=step, conditions=node.conditions
        )
        return changes.step(StepRole.ROWS, affected_rows), step, ()
    keys, names = changes.keys(right_change, [b for _, b in pairs])
    ours, theirs = (tuple(zip(side, names, strict=True)) for side in zip(*pairs, strict=True))
    rows = restrict_in_turn(old, keys, ours, changes)
    return changes.step(StepRole.ROWS, rows), keys, theirs


def changed_keys_of_side_join(
    node: alg.OuterOrSemiJoin, columns: Sequence[alg.Col], changes: DeltaDerivation
) -> list[tuple[alg.Node, Sequence[alg.Col]]] | None:
    """The sources of all values of some columns in the change of an outer join.

    None if the columns are not all of the preserved side, or not every change of a row below
    changes a row here. If the join equates these columns, the other side has them.
    """
    join = _as_left(node)
    left, right = join.left, join.right
    if join.kind is not alg.JoinKind.LEFT or not set(columns) <= set(left.columns):
        return None
    changes.note(node, RULE)
    places: list[tuple[alg.Node, Sequence[alg.Col]]] = []
    left_change, right_change = changes.of(left), changes.of(right)
    if left_change is not None:
        places.append((left_change, columns))
    if right_change is not None:
        pairs = join_pairs(join.conditions, left.columns, right.columns)
        equal = {a: b for a, b in pairs if have_one_type(a, b)}
        if len(equal) == len(pairs) and set(columns) == set(equal):
            places.append((right_change, [equal[col] for col in columns]))
        else:
            places.append((_affected_rows(join, right_change, pairs, changes)[0], columns))
    return places


def _change_full(node: alg.OuterOrSemiJoin, changes: DeltaDerivation) -> alg.Node | None:
    left_join = replace(node, kind=alg.JoinKind.LEFT)
    lonely = alg.OuterOrSemiJoin(
        kind=alg.JoinKind.ANTI, left=node.right, right=node.left, conditions=node.conditions
    )
    first, second = changes.of(left_join), changes.of(lonely)
    branches: list[alg.UnionInput] = []
    columns = (*node.columns, alg.DIFF)
    if first is not None:
        branches.append(alg.UnionInput(node=first, cols=columns))
    if second is not None:
        fresh = {c: changes.copy(c) for c in node.left.columns}
        items = [alg.Projection(alg.Expr.of("NULL"), fresh[c]) for c in node.left.columns]
        padded_rows = alg.Project(
            child=second, items=(*items, *pass_through((*node.right.columns, alg.DIFF)))
        )
        branches.append(alg.UnionInput(node=padded_rows, cols=padded_rows.columns))
    return alg.UnionAll(branches=tuple(branches), columns=columns) if branches else None


def change_lateral(node: alg.LateralJoin, changes: DeltaDerivation) -> alg.Node | None:
    """The change of a join with LATERAL (subquery)."""
    inner = alg.Subquery(node.right, alg.SubqueryKind.NULL_AWARE_IN)
    changes.note(node, RULE)
    return _change(
        node.left,
        [inner],
        lambda rows, right: replace(node, left=rows, right=right(inner)),
        node,
        changes,
    )


def change_filter(node: alg.Filter, changes: DeltaDerivation) -> alg.Node | None:
    """The change of a filter whose predicates have subqueries."""
    changes.note(node, RULE)

    def rebuild(rows: alg.Node, version: Callable[[alg.Subquery], alg.Node]) -> alg.Node:
        predicates = tuple(with_subqueries(p, version) for p in node.predicates)
        return alg.Filter(child=rows, predicates=predicates)

    return _change(node.child, own_subqueries(node), rebuild, node, changes)


def change_project(node: alg.Project, changes: DeltaDerivation) -> alg.Node | None:
    """The change of a projection with subqueries."""
    changes.note(node, RULE)

    def rebuild(rows: alg.Node, version: Callable[[alg.Subquery], alg.Node]) -> alg.Node:
        items = tuple(alg.Projection(with_subqueries(i.expr, version), i.col) for i in node.items)
        diff = pass_through((alg.DIFF,)) if alg.DIFF in rows.columns else ()
        return alg.Project(child=rows, items=(*items, *diff))

    return _change(node.child, own_subqueries(node), rebuild, node, changes)


def _change(
    left: alg.Node,
    inner: Sequence[alg.Subquery],
    rebuild: Callable[[alg.Node, Callable[[alg.Subquery], alg.Node]], alg.Node],
    node: alg.Node,
    changes: DeltaDerivation,
) -> alg.Node | None:
    terms: list[alg.Node] = []
    left_change = changes.of(left)
    if left_change is not None:
        step = changes.step(StepRole.CHANGE, left_change, must_be_stored=True)
        terms.append(rebuild(step, lambda s: _restrict(s, s.node, step, changes)))
    changed_subqueries = [s for s in inner if changes.touches(s.node)]
    if changed_subqueries:
        affected_rows = _find_affected(changes.old(left), changed_subqueries, node, changes)
        rows = changes.step(StepRole.ROWS, affected_rows, must_be_stored=True)
        new = rebuild(rows, lambda s: _restrict(s, s.node, rows, changes))
        old = rebuild(rows, lambda s: _restrict(s, changes.old(s.node), rows, changes))
        terms += replacement_delta(new, old)
    return sum_of_deltas(terms, node.columns)


def _restrict(
    subquery: alg.Subquery, node: alg.Node, rows: alg.Step, changes: DeltaDerivation
) -> alg.Node:
    """A subquery's relation, restricted to rows that some of these left rows can see."""
    return restrict_to_visible(
        subquery, node, rows.columns, lambda columns: changes.keys(rows, columns)
    )


def _find_affected(
    left: alg.Node, inner: Sequence[alg.Subquery], node: alg.Node, changes: DeltaDerivation
) -> alg.Node:
    """The old left rows that can see a change in one of the subqueries."""
    tests: list[alg.KeyPredicate] = []
    guards: list[alg.Expr] = []
    for subquery in inner:
        test = _test(left, subquery, changes)
        guard = _guard(subquery, changes) if test is None else None
        if test is not None:
            tests.append(test)
        elif guard is not None:
            guards.append(guard)
        else:
            changes.note(node, RULE, "ALL_LEFT_ROWS")
            return left
    if guards and tests:
        changes.note(node, RULE, "ALL_LEFT_ROWS")
        return left
    if guards:
        parts = [part for guard in guards for part in ("OR", *guard.parts)]
        return alg.Filter(child=left, predicates=(alg.Expr(tuple(parts[1:])),))
    if len(tests) == 1 and not tests[0].null_matches:
        (test,) = tests
        assert isinstance(test.keys, alg.Step)  # it is not a hint
        return restrict_in_turn(left, test.keys, test.pairs, changes)
    return alg.SemiJoinRestriction(child=left, tests=tuple(tests))


def _test(
    left: alg.Node, subquery: alg.Subquery, changes: DeltaDerivation
) -> alg.KeyPredicate | None:
    """The test by keys, if the subquery's rows are found by equalities with left columns."""
    core = correlation_core(subquery.node)
    if core is None:
        return None
    pairs = [(a, b) for a, b in core.pairs if a in left.columns]
    operand = subquery.left.column if subquery.left is not None else None
    source = core.source_columns.get(subquery.node.columns[0]) if subquery.node.columns else None
    is_in = subquery.kind in (alg.SubqueryKind.IN, alg.SubqueryKind.NULL_AWARE_IN)
    by_value = is_in and operand in left.columns and source is not None
    if by_value and operand is not None and source is not None:
        pairs.append((operand, source))
    delta = changes.of(core.node)
    if not pairs or delta is None:
        return None
    pairs = list(dict(pairs).items())
    keys, names = changes.keys(delta, [b for _, b in pairs])
    return alg.KeyPredicate(
        keys=keys,
        pairs=tuple((a, name) for (a, _), name in zip(pairs, names, strict=True)),
        null_matches=by_value and subquery.kind is alg.SubqueryKind.NULL_AWARE_IN,
    )


def _guard(subquery: alg.Subquery, changes: DeltaDerivation) -> alg.Expr | None:
    """Whether the value of an uncorrelated subquery changed."""
    if free(subquery.node):
        return None
    old = replace(subquery, node=changes.old(subquery.node), left=None)
    new = replace(subquery, left=None)
    if subquery.kind is alg.SubqueryKind.SCALAR:
        # 0.0 and -0.0 are equal, and so are texts by a collation: then their plain texts decide.
        texts = ("CAST (", old, "AS STRING ) <=> CAST (", new, "AS STRING )")
        same = () if is_same_if_equal(subquery.node.columns[0]) else ("AND", *texts)
        return alg.Expr.of("NOT (", old, "<=>", new, *same, ")")
    if subquery.kind is alg.SubqueryKind.EXISTS:
        return alg.Expr.of("( ( EXISTS", old, ") <> ( EXISTS", new, ") )")
    return None
