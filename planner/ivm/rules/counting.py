"""COUNT, SUM and AVG by group: add the change to the stored groups.

The state table is an auxiliary table of the view. It holds for each group the number n of its rows,
and for each argument x the number n_x of its non-NULL values and their sum s. With dR, the exact
change of the input,

    n' = n + sum(d)     n_x' = n_x + sum(d where x is not null)     s' = s + sum(d * x)

for the groups in dR; no others are read. From the state: COUNT(*) = n, COUNT(x) = n_x, SUM(x) = s
or NULL if n_x = 0, AVG(x) = s / n_x or NULL. A group with n = 0 is removed, except the one group of
an aggregate without GROUP BY. The operator's change is the new rows of these groups minus their old
rows, so it composes like any other change.

Results are exact. Sums of floating-point numbers depend on the order of addition, so they have no
state and their groups are recomputed. A diff d becomes |d| rows, because d * x would round decimals
of large scale. AVG of decimals divides as Spark does for at most 15 digits: Spark rounds the
quotient to 9 digits more than the result has. A quotient of integers with a divisor under 10^9 is
never that near to a half, so rounding twice equals rounding once. Spark's AVG of integers is a sum
of doubles. It is exact in any order while |x| adds up to at most 2^53: the state holds this sum
too, and each use checks it.

Source: Gupta, Mumick and Subrahmanian, Maintaining Views Incrementally (SIGMOD 1993), the counting
algorithm; Larson and Zhou for the counters that outer joins need (here: n_x).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ctsql.catalog.schemas import decimal_size
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.spark_functions import AVERAGES
from ctsql.planner.ivm.algebra.traversal import pass_through, union_all
from ctsql.planner.ivm.rewrites.semijoin_pushdown import restrict
from ctsql.planner.ivm.rules.context import (
    DeltaDerivation,
    StepRole,
    replacement_delta,
    sum_of_deltas,
)

RULE = "state table: stored groups with the change added"

_INTEGERS = ("tinyint", "smallint", "int", "integer", "bigint", "byte", "short", "long")
_DIGITS_MAX = 15

BOUND = 2**53  # up to this value every sum of integers is exact as a double


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePlan:
    """The state table of an aggregate."""

    number: int  # among the plan's states, from 1
    # their names: ``k1`` and so on for the keys, ``n``, then for each argument ``x1`` and, if it is
    # summed, ``s1``; their types are those of the query that fills it.
    columns: tuple[str, ...]
    key_columns: int  # how many of them, from the first, are keys
    # the arguments, and whether each is summed or only counted.
    arguments: tuple[tuple[alg.Expr, bool], ...] = ()
    # those whose values must not exceed :data:`BOUND`; else averages cannot be computed
    # from the state.
    bounded_columns: tuple[str, ...] = ()

    def places(self, start: int) -> dict[alg.Expr, tuple[int, int | None]]:
        """The positions of each argument's columns, if the first argument's are at ``start``."""
        positions: dict[alg.Expr, tuple[int, int | None]] = {}
        for argument, is_summed in self.arguments:
            positions[argument] = (start, start + 1 if is_summed else None)
            start += 2 if is_summed else 1
        return positions


def state_of(node: alg.Aggregate, number: int) -> StatePlan | None:
    """The state table that an aggregate can have; None if a function has none."""
    if node.sets is not None or not all(_has_state(call) for call in node.calls):
        return None
    arguments: dict[alg.Expr, bool] = {}
    sizes: dict[alg.Expr, None] = {}
    for call in node.calls:
        if call.argument is not None:
            summed = call.function != "count"
            arguments[call.argument] = arguments.get(call.argument, False) or summed
            if call.function in AVERAGES and _average_type(call.argument) == "DOUBLE":
                sizes[_size(call.argument)] = None
    arguments |= dict.fromkeys(sizes, True)
    names = [f"k{i + 1}" for i in range(len(node.keys))] + ["n"]
    bounded_columns = []
    for index, (argument, is_summed) in enumerate(arguments.items(), 1):
        names += [f"x{index}", f"s{index}"] if is_summed else [f"x{index}"]
        if argument in sizes:
            bounded_columns.append(f"s{index}")
    return StatePlan(
        number=number,
        columns=tuple(names),
        key_columns=len(node.keys),
        arguments=tuple(arguments.items()),
        bounded_columns=tuple(bounded_columns),
    )


def _size(argument: alg.Expr) -> alg.Expr:
    """|x|, in a type that holds every integer and sums without overflow."""
    return alg.Expr.of("abs ( CAST (", argument, "AS DECIMAL ( 20 , 0 ) ) )")


def _has_state(call: alg.AggregateCall) -> bool:
    if not call.exact or call.grouping is not None:
        return False
    if call.function == "count":
        return call.argument is not None or call.expr.parts[1:] == ("(", "*", ")")
    if call.function == "sum":
        return call.argument is not None
    if call.function in AVERAGES and call.argument is not None:
        return _average_type(call.argument) is not None
    return False


def _average_type(argument: alg.Expr) -> str | None:
    """The type that Spark gives AVG of a column; None if the average cannot be computed exactly."""
    kind = argument.column.type.lower() if argument.column is not None else ""
    if kind in _INTEGERS:
        return "DOUBLE"
    size = decimal_size(kind)
    if size is None or size[0] > _DIGITS_MAX:
        return None
    return f"DECIMAL ( {size[0] + 4} , {size[1] + 4} )"


def initial(node: alg.Aggregate, state: StatePlan, numbers: Iterator[int]) -> alg.Aggregate:
    """The state's rows computed from all rows, its columns in the order of the state's names."""
    wanted: list[tuple[str, str | alg.Expr]] = [("count", "*")]
    for argument, is_summed in state.arguments:
        wanted += [("count", argument), ("sum", argument)] if is_summed else [("count", argument)]
    calls = [alg.call_of(name, inside, alg.Col(next(numbers), name)) for name, inside in wanted]
    keys = tuple(replace(k, col=replace(k.col, number=next(numbers))) for k in node.keys)
    return alg.Aggregate(child=node.child, keys=keys, calls=tuple(calls))


def change_aggregate(node: alg.Aggregate, changes: DeltaDerivation) -> alg.Node | None:
    """The change of GROUP BY: the affected groups after minus before, without empty groups."""
    groups = _groups(node, changes)
    if groups is None:
        return None
    changes.note(node, RULE)
    state, *rows = groups
    new, old = (_result(node, state, there) for there in rows)
    return sum_of_deltas(replacement_delta(new, old), node.columns)


def all_groups(node: alg.Aggregate, changes: DeltaDerivation) -> alg.Node | None:
    """All rows of GROUP BY after the change, from its state; None if nothing changed."""
    delta, groups = changes.of(node.child), _groups(node, changes)
    if delta is None or groups is None:
        return None
    changes.note(node, RULE)
    state, rows, _ = groups
    if node.keys:
        stored_groups = _scan_groups(state, changes)
        columns = stored_groups.columns
        step = changes.step(StepRole.CHANGE, delta)
        keys, names = changes.keys(step, [k.source for k in node.keys])
        equal = zip(columns, names, strict=False)
        others = alg.OuterOrSemiJoin(
            kind=alg.JoinKind.ANTI,
            left=stored_groups,
            right=keys,
            conditions=tuple(alg.Expr.of(a, "<=>", b) for a, b in equal),
        )
        rows = union_all([others, rows], tuple(changes.fresh(c.name) for c in columns))
    return _result(node, state, rows)


def stored_groups(node: alg.Aggregate, changes: DeltaDerivation) -> alg.Node | None:
    """All rows of GROUP BY from its stored state; None if it has no state."""
    number = changes.state(node)
    state = None if number is None else state_of(node, number)
    return None if state is None else _result(node, state, _scan_groups(state, changes))


def _scan_groups(state: StatePlan, changes: DeltaDerivation) -> alg.StoredGroups:
    columns = tuple(changes.fresh(name) for name in state.columns)
    return alg.StoredGroups(number=state.number, names=state.columns, columns=columns)


def _groups(
    node: alg.Aggregate, changes: DeltaDerivation
) -> tuple[StatePlan, alg.Node, alg.Node] | None:
    delta = changes.of(node.child)
    number = changes.state(node)
    state = None if number is None else state_of(node, number)
    if delta is None or state is None:
        return None
    step = changes.step(StepRole.CHANGE, delta)
    stored_groups: alg.Node = _scan_groups(state, changes)
    if node.keys:
        keys, names = changes.keys(step, [k.source for k in node.keys])
        pairs = tuple(zip(stored_groups.columns, names, strict=False))
        stored_groups = restrict(stored_groups, keys, pairs)
        key_names = tuple((n, key.sql) for n, key in zip(state.columns, names, strict=False))
        changes.state_keys.setdefault(state.number, (keys.name, key_names))
    groups = changes.groups.get(state.number)
    if groups is None:
        before = changes.step(StepRole.STORED_GROUPS, stored_groups)
        new_groups = _merge(node, state, step, before, changes)
        groups = changes.groups[state.number] = (changes.step(StepRole.GROUPS, new_groups), before)
    return (state, *groups)


def change_groups(
    node: alg.Aggregate, state: StatePlan, delta: alg.Node, changes: DeltaDerivation
) -> alg.Aggregate:
    """The change by group: keys, n, then for each argument n_x and the added and removed sums.

    The sums exist for summed arguments only, and are NULL without rows.
    """
    unit = changes.fresh("unit", "int")
    each = changes.repeat(delta, alg.Expr.of("abs (", alg.DIFF, ")"))
    sign = alg.Expr.of("CASE WHEN", alg.DIFF, "> 0 THEN 1 ELSE - 1 END")
    rows = alg.Project(child=each, items=(*pass_through(delta.columns), alg.Projection(sign, unit)))
    calls = [_sum(changes, unit)]
    for argument, is_summed in state.arguments:
        calls.append(
            _sum(changes, "CASE WHEN (", argument, ") IS NOT NULL THEN", unit, "ELSE 0 END")
        )
        for sign_is in ("> 0", "< 0") if is_summed else ():
            calls.append(_sum(changes, "CASE WHEN", unit, sign_is, "THEN (", argument, ") END"))
    keys = tuple(replace(k, col=changes.copy(k.col)) for k in node.keys)
    return alg.Aggregate(child=rows, keys=keys, calls=tuple(calls))


def _merge(
    node: alg.Aggregate,
    state: StatePlan,
    delta: alg.Node,
    stored_groups: alg.Node,
    changes: DeltaDerivation,
) -> alg.Node:
    """The stored groups and the change's, added up: keys, n, then n_x and s of each argument."""
    change = change_groups(node, state, delta, changes)
    columns = stored_groups.columns
    mine = [alg.Expr.of(c) for c in columns[: len(node.keys) + 1]]
    for count, total in state.places(len(node.keys) + 1).values():
        mine.append(alg.Expr.of(columns[count]))
        if total is not None:
            mine += [alg.Expr.of(columns[total]), alg.Expr.of("NULL")]
    items = tuple(alg.Projection(expr, changes.fresh("")) for expr in mine)
    before = alg.Project(child=stored_groups, items=items)
    both = union_all([change, before], tuple(changes.fresh("") for _ in before.columns))
    return _add_up(state, both, len(node.keys), changes)


def _add_up(state: StatePlan, both: alg.UnionAll, at: int, changes: DeltaDerivation) -> alg.Node:
    """The sums over both; a sum is the added minus the removed values."""
    waiting = iter(both.columns[at:])
    calls = [_sum(changes, next(waiting), or_zero=True)]
    for _, is_summed in state.arguments:
        calls.append(_sum(changes, next(waiting), or_zero=True))
        if is_summed:
            plus, minus = next(waiting), next(waiting)
            expr = alg.Expr.of(
                "coalesce ( sum (", plus, ") , 0 ) - coalesce ( sum (", minus, ") , 0 )"
            )
            calls.append(alg.AggregateCall(expr=expr, col=changes.fresh("s"), function="sum"))
    keys = tuple(alg.Key(source=c, col=changes.copy(c)) for c in both.columns[:at])
    return alg.Aggregate(child=both, keys=keys, calls=tuple(calls))


def _result(node: alg.Aggregate, state: StatePlan, rows: alg.Node) -> alg.Node:
    columns = rows.columns
    at = len(node.keys)
    count = columns[at]
    items = [
        alg.Projection(alg.Expr.of(c), k.col) for c, k in zip(columns[:at], node.keys, strict=True)
    ]
    for call in node.calls:
        if call.argument is None:
            items.append(alg.Projection(alg.Expr.of(count), call.col))
            continue
        many, total = state.places(at + 1)[call.argument]
        items.append(alg.Projection(_value(call, columns[many], columns[total or many]), call.col))
    there = rows
    if node.keys:
        there = alg.Filter(child=rows, predicates=(alg.Expr.of(count, ">", "0"),))
    return alg.Project(child=there, items=tuple(items))


def _value(call: alg.AggregateCall, count: alg.Col, total: alg.Col) -> alg.Expr:
    if call.function == "count":
        return alg.Expr.of(count)
    if call.function == "sum":
        value = alg.Expr.of(total)
    else:
        kind = _average_type(call.argument) if call.argument is not None else None
        assert kind is not None  # or state_of would have found no state
        if kind == "DOUBLE":
            value = alg.Expr.of("CAST (", total, "AS DOUBLE ) /", count)
        else:
            value = alg.Expr.of("CAST (", total, "/", count, "AS", kind, ")")
    return alg.Expr.of("CASE WHEN", count, "> 0 THEN", value, "END")


def _sum(
    changes: DeltaDerivation, *inside: alg.ExprPart | alg.Expr, or_zero: bool = False
) -> alg.AggregateCall:
    expr = alg.Expr.of("sum (", *inside, ")")
    if or_zero:
        expr = alg.Expr.of("coalesce (", expr, ", 0 )")
    return alg.AggregateCall(expr=expr, col=changes.fresh("sum"), function="sum")
