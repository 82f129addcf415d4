"""Adds the change by group to the view's stored rows; only changes of tables are read.

If the view shows the keys and every COUNT and SUM of its topmost GROUP BY, its rows nearly replace
a state table (:mod:`ctsql.planner.ivm.rules.counting`):

    COUNT(*)' = COUNT(*) + n     COUNT(x)' = COUNT(x) + n_x     SUM(x)' = SUM(x) + s

The view may not show whether a group, or the non-NULL values of a sum, have ended. A group is
*certain* if it was not stored and rows were added; or if it was stored and

- COUNT(*) is shown, or the group lost no rows; and
- for each sum, COUNT(x) is shown, or no non-NULL value was lost; a sum that was NULL had none.

Other groups, and all sums of floating-point numbers, are recomputed from all their rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import pass_through, rename, union_all
from ctsql.planner.ivm.rewrites.semijoin_pushdown import restrict
from ctsql.planner.ivm.rules.context import DeltaDerivation, StepRole
from ctsql.planner.ivm.rules.counting import StatePlan, change_groups, state_of
from ctsql.planner.ivm.strategies.stored_view import KeyedTop, place_of, put_above

_ADDED = ("count", "sum")

Desired = tuple[alg.Node, alg.Step, tuple[tuple[int, alg.Col], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certain:
    """The affected groups if all of them are certain."""

    node: alg.Node  # their desired rows
    rows: alg.Step  # the step with all affected groups
    flag: alg.Col  # its column that is 1 for a group that is not certain, else 0
    keys: alg.Step  # the step with the keys of these groups, which reads no stored row
    names: tuple[alg.Col, ...]  # its columns


def can_add(top: KeyedTop, query: alg.Node) -> bool:
    """Whether a change can be added to groups of the view."""
    return _places_shown(top, query) is not None


def sums_shown(top: KeyedTop, query: alg.Node) -> tuple[int, ...]:
    """The places of the sums in the view; () if the view lacks a needed column."""
    places, node = _places_shown(top, query), top.operator
    if places is None or not isinstance(node, alg.Aggregate):
        return ()
    calls = zip(node.calls, places[len(node.keys) :], strict=True)
    return tuple(place for call, place in calls if call.function == "sum")


def shows_counts(node: alg.Aggregate) -> bool:
    """Whether an aggregate counts rows and every summed value: then all its groups are certain."""
    arguments = {call.argument for call in node.calls if call.function == "count"}
    return None in arguments and arguments >= {call.argument for call in node.calls}


def added_rows(
    top: KeyedTop,
    query: alg.Node,
    names: tuple[str, ...],
    types: Mapping[str, str],
    changes: DeltaDerivation,
) -> tuple[Desired, Certain] | None:
    """The desired rows of the affected groups.

    As :func:`~ctsql.planner.ivm.strategies.stored_view.desired_rows`, and the same without groups
    to recompute; None if nothing changed, or groups cannot be added to.
    """
    node, shown_places = top.operator, _places_shown(top, query)
    if shown_places is None or not isinstance(node, alg.Aggregate):
        return None
    state, delta = state_of(node, 1), changes.of(node.child)
    if state is None or delta is None:
        return None
    step = changes.step(StepRole.CHANGE, delta)
    key_names = tuple(changes.fresh("key") for _ in node.keys)
    key_rows = rename(step, [k.source for k in node.keys], key_names)
    # No step for the keys, which would need its own job: the rows below have them too.
    keys = changes.step(StepRole.CHANGE, alg.Distinct(child=key_rows))
    change = change_groups(node, state, step, changes)
    stored_groups = alg.StoredGroups(
        number=alg.VIEW,
        names=tuple(names[place] for place in shown_places),
        columns=tuple(changes.fresh(names[place]) for place in shown_places),
    )
    there = changes.fresh("there", "int")
    marked_groups = alg.Project(
        child=restrict(
            stored_groups, keys, tuple(zip(stored_groups.columns, key_names, strict=False))
        ),
        items=(*pass_through(stored_groups.columns), alg.Projection(alg.Expr.of("1"), there)),
    )
    equal = zip(change.columns, stored_groups.columns[: len(node.keys)], strict=False)
    both = alg.OuterOrSemiJoin(
        kind=alg.JoinKind.LEFT,
        left=change,
        right=marked_groups,
        conditions=tuple(alg.Expr.of(a, "<=>", b) for a, b in equal),
    )
    kinds = tuple(types.get(name, "") for name in stored_groups.names[len(node.keys) :])
    groups = _Groups(node, state, change, stored_groups, there, kinds)
    flag = changes.fresh("doubtful", "int")
    flagged_groups = alg.Project(
        child=both, items=(*pass_through(both.columns), alg.Projection(groups.is_doubtful(), flag))
    )
    rows = changes.step(StepRole.ROWS, flagged_groups, must_be_stored=True)
    added_groups = _add(groups, rows, flag)
    rows_of_view = union_all([added_groups, _recompute(groups, rows, flag, changes)], node.columns)
    places = [place for place in top.places if place is not None]
    desired = put_above(top.above, rows_of_view), rows, tuple(zip(places, groups.keys, strict=True))
    certain = put_above(top.above, added_groups)
    return desired, Certain(node=certain, rows=rows, flag=flag, keys=keys, names=key_names)


def _places_shown(top: KeyedTop, query: alg.Node) -> tuple[int, ...] | None:
    """The places of the keys and calls in the view; None if it does not show them all."""
    node = top.operator
    if not isinstance(node, alg.Aggregate) or not node.keys or state_of(node, 1) is None:
        return None
    if any(isinstance(one, alg.Filter) for one in top.above):
        return None  # a group that is not stored may still exist
    if any(call.function not in _ADDED for call in node.calls):
        return None
    places = [place_of(col, top.above, query) for col in node.columns]
    return None if None in places else tuple(place for place in places if place is not None)


class _Groups:
    """The affected groups: the change of each, and the stored values."""

    def __init__(
        self,
        node: alg.Aggregate,
        state: StatePlan,
        change: alg.Aggregate,
        stored_groups: alg.StoredGroups,
        there: alg.Col,
        kinds: tuple[str, ...],
    ) -> None:
        at = len(node.keys)
        self.node = node
        self.there = there
        self.keys = change.columns[:at]
        self.rows = change.columns[at]
        self.parts: dict[alg.Expr, tuple[alg.Col, ...]] = {}
        waiting = iter(change.columns[at + 1 :])
        for argument, is_summed in state.arguments:
            self.parts[argument] = tuple(next(waiting) for _ in range(3 if is_summed else 1))
        self.stored_column_of = dict(zip(node.calls, stored_groups.columns[at:], strict=True))
        self.kind_of = dict(zip(node.calls, kinds, strict=True))

    def _stored_count(self, argument: alg.Expr | None) -> alg.Col | None:
        """The stored COUNT of an argument (None: of rows), if the view shows it."""
        return next(
            (
                c
                for k, c in self.stored_column_of.items()
                if k.function == "count" and k.argument == argument
            ),
            None,
        )

    def is_doubtful(self) -> alg.Expr:
        """1 if the group must be recomputed, else 0."""
        cases = [alg.Expr.of(self.there, "IS NULL AND", self.rows, "<= 0")]
        counts = [(None, self.rows), *((a, parts[0]) for a, parts in self.parts.items())]
        for argument, change in counts:
            stored_count = self._stored_count(argument)
            after = (
                alg.Expr.of(change)
                if stored_count is None
                else alg.Expr.of(stored_count, "+", change)
            )
            cases.append(alg.Expr.of(self.there, "IS NOT NULL AND", after, "< 0"))
        whens = (part for case in cases for part in ("WHEN", case, "THEN 1"))
        return alg.Expr.of("CASE", *whens, "ELSE 0 END")

    def _count(self, argument: alg.Expr | None, change: alg.Col) -> alg.Expr | None:
        stored_count = self._stored_count(argument)
        return (
            None
            if stored_count is None
            else alg.Expr.of("coalesce (", stored_count, ", 0 ) +", change)
        )

    def values(self) -> list[alg.Projection]:
        """The keys and calls of a certain group."""
        items = [
            alg.Projection(alg.Expr.of(c), k.col)
            for c, k in zip(self.keys, self.node.keys, strict=True)
        ]
        return items + [alg.Projection(self._value(call), call.col) for call in self.node.calls]

    def _value(self, call: alg.AggregateCall) -> alg.Expr:
        many, *sums = (self.rows,) if call.argument is None else self.parts[call.argument]
        count = self._count(call.argument, many)
        if call.function == "count":
            assert count is not None  # the view shows it
            return count
        plus, minus = sums
        was = self.stored_column_of[call]
        total = alg.Expr.of(
            *("coalesce (", was, ", 0 ) + coalesce (", plus, ", 0 ) - coalesce (", minus, ", 0 )")
        )
        kind = self.kind_of[call]
        if kind:  # a sum of decimals has more digits, and expressions over it fewer places
            total = alg.Expr.of("CAST (", total, "AS", alg.Expr((kind,)), ")")
        some = alg.Expr.of(was, "IS NOT NULL OR", many, "> 0")
        if count is not None:
            some = alg.Expr.of(count, "> 0")
        return alg.Expr.of("CASE WHEN", some, "THEN", total, "END")

    def remains(self) -> tuple[alg.Expr, ...]:
        """The test whether a certain group still has rows; none if rows are not counted."""
        count = self._count(None, self.rows)
        return () if count is None else (alg.Expr.of(count, "> 0"),)


def _add(groups: _Groups, rows: alg.Step, flag: alg.Col) -> alg.Node:
    """The certain groups, by addition."""
    certain = alg.Filter(child=rows, predicates=(alg.Expr.of(flag, "=", "0"), *groups.remains()))
    return alg.Project(child=certain, items=tuple(groups.values()))


def _recompute(
    groups: _Groups, rows: alg.Step, flag: alg.Col, changes: DeltaDerivation
) -> alg.Node:
    """The doubtful groups, from all their rows."""
    node = groups.node
    doubtful = alg.Filter(child=rows, predicates=(alg.Expr.of(flag, "=", "1"),))
    names = tuple(changes.fresh("key") for _ in node.keys)
    step = changes.step(StepRole.KEYS, alg.Distinct(child=rename(doubtful, groups.keys, names)))
    pairs = tuple((k.source, n) for k, n in zip(node.keys, names, strict=True))
    return alg.Aggregate(
        child=restrict(node.child, step, pairs), keys=node.keys, calls=node.calls, sets=None
    )
