"""Finds when a view with now() changes as time passes, and its query as of a T.

A :class:`~ctsql.planner.ivm.algebra.nodes.Temporal` node passes each row of its child for an
interval of T. The interval begins when the last comparison that becomes true is true, and ends when
the first of the others becomes false. While no table changes, the view next changes at the smallest
later T at which a row of any such node enters or expires.

    value <  now()   in from floor(value) + 1 ms     value >  now()   in until ceil(value)
    value <= now()   in from ceil(value)             value >= now()   in until floor(value) + 1 ms

Values are microseconds, T is milliseconds, or for current_date() days: rounding is by these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import backtick
from ctsql.planner.ivm.algebra.nodes import (
    Clock,
    Col,
    Expiry,
    Expr,
    ExprPart,
    Filter,
    Node,
    Project,
    Projection,
    Scan,
    Temporal,
)
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.algebra.traversal import (
    columns_in,
    descend,
    free,
    numbers_above,
    own_subqueries,
    rebuild,
)
from ctsql.planner.ivm.parse.from_relations import QueryRelation
from ctsql.planner.ivm.parse.query import compile_query
from ctsql.planner.ivm.sql.queries import PrintedQuery, Text
from ctsql.planner.ivm.sql.spark import Names, join_texts
from ctsql.planner.syntax.ast import ClockKind

_MS, _DAY = 1_000, 86_400_000_000  # microseconds in a unit of the clock
NEVER, _ALWAYS = 2**63 - 1, -(2**63) + 1
_FAR = "100000-01-01"
"""Farther from year 0 than any T. Days and instants beyond it are replaced by it: Spark may fail to
add to them, or to cast such a DATE to TIMESTAMP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextExpiry(PrintedQuery):
    """One row, one BIGINT ``due``: the first T after a T at which a row expires; NULL for none."""

    values: Text  # the columns are the compared values, in microseconds
    expiries: tuple[Expiry, ...]  # one for each of them
    after: int

    def sql(self, name: Names) -> str:
        """The query in Spark's SQL."""
        enters, leaves = interval_of(self.expiries, self.values.names)
        rows = f"SELECT {enters} AS enters, {leaves} AS leaves FROM ({self.values.sql(name)})"
        later = (
            f"CASE WHEN enters > {self.after} THEN enters "
            f"WHEN leaves > {self.after} AND leaves < {NEVER} THEN leaves END"
        )
        return f"SELECT min({later}) AS due FROM ({rows}) WHERE enters < leaves"


@dataclass(frozen=True, slots=True)
class TemporalPlan:
    """A query that compares with the clock."""

    query: Node  # without a T
    names: tuple[str, ...]

    def whole(self, at: int) -> Text:
        """The whole query as of T."""
        return Text(node=as_of(self.query, at), columns=self.query.columns, names=self.names)

    def next_expiries(self, after: int, until: int | None = None) -> tuple[NextExpiry, ...]:
        """The next expiry up to ``until`` for every place that compares with the clock."""
        expiries = []
        for node in _temporal(self.query):
            if until is not None:
                near = Expr(tuple(_near(node.expiries, after, until)))
                child = Filter(child=node.child, predicates=(near,))
                node = replace(node, child=child)
            values = _values(node, after, [_micros(t) for t in node.expiries])
            expiries.append(NextExpiry(values=values, expiries=node.expiries, after=after))
        return tuple(expiries)

    def compared(self) -> tuple[Text, ...]:
        """The values that are compared with the clock, for their types."""
        return tuple(_values(n, 0, [t.value for t in n.expiries]) for n in _temporal(self.query))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockWindow:
    """The rows of a table that pass comparisons of its own columns with the clock.

    For a change plan it is a table, so every change rule applies above it. Its change is the change
    of the table's rows that pass, and the rows that expire.
    """

    table: str  # the table's name in the plan's texts
    columns: tuple[str, ...]  # the columns that the comparisons read
    predicates: tuple[Expr, ...]
    expiries: tuple[Expiry, ...]
    # the query's other conditions on a single row. The window also has rows without
    # it too, but when these expire does not matter.
    filters: tuple[Expr, ...] = ()

    def passes(self, at: int) -> str:
        """Whether a row passes at T, as a condition over the table's columns; never NULL."""
        return _all_true(self.predicates, at)

    @property
    def matters(self) -> str:
        """Whether a row gets through the filters, as a condition; never NULL."""
        return _all_true(self.filters, None) or "true"

    @property
    def interval(self) -> tuple[str, str]:
        """The Ts from which and until which a row passes, over the table's columns."""
        values = [f"({join_texts(_words(_micros(expiry), None))})" for expiry in self.expiries]
        return interval_of(self.expiries, values)

    def may_expire(self, after: int, until: int) -> str:
        """A condition that is true of each row that expires in (after, until], to skip files by."""
        return join_texts(_words(Expr(tuple(_near(self.expiries, after, until))), 0))

    @property
    def comparisons(self) -> str:
        """The comparisons, as text."""
        return " AND ".join(join_texts(_words(p, None)) for p in self.predicates)


def split_windows(query: Node) -> tuple[Node, dict[str, ClockWindow]]:
    """The query with windows in place of tables with compared columns, and the windows by name."""
    windows: dict[str, ClockWindow] = {}

    def change(thing: Any) -> Any:
        return _sink(thing, windows) if isinstance(thing, Temporal) else thing

    copy: Node = rebuild(query, change)
    read = {node.table for node in descend(copy) if isinstance(node, Scan)}
    return copy, {name: window for name, window in windows.items() if name in read}


def _sink(node: Temporal, windows: dict[str, ClockWindow], filters: tuple[Expr, ...] = ()) -> Node:
    """The node with comparisons of one table's columns moved to that table.

    Args:
        windows: the windows so far, by name. filters: passed on the way, over the columns of the
            node's child; they may prevent errors in what is above them.
    """
    child = node.child
    match child:
        case Filter() if not own_subqueries(child):
            own = tuple(p for p in child.predicates if columns_in(p) <= set(child.columns))
            below = _sink(replace(node, child=child.child), windows, (*own, *filters))
        case Project() if not own_subqueries(child):
            items = {item.col: item.expr for item in child.items}
            predicates = tuple(_with_columns(p, items) for p in node.predicates)
            expiries = tuple(replace(t, value=_with_columns(t.value, items)) for t in node.expiries)
            temporal = Temporal(child=child.child, predicates=predicates, expiries=expiries)
            below = _sink(temporal, windows, tuple(_with_columns(f, items) for f in filters))
        case Scan():
            return _narrow(child, node, windows, filters)
        case _:
            return node
    bottom = below
    while isinstance(bottom, Filter | Project):
        bottom = bottom.child
    return node if isinstance(bottom, Temporal) else replace(child, child=below)


def _narrow(
    scan: Scan, node: Temporal, windows: dict[str, ClockWindow], filters: tuple[Expr, ...]
) -> Scan:
    """The scan of a window over a scanned table or window."""
    names = dict(zip(scan.columns, scan.names, strict=True))
    expr_of = {col: Expr((backtick(name),)) for col, name in names.items()}
    used = {col for predicate in node.predicates for col in columns_in(predicate)}
    window = ClockWindow(
        table=scan.table,
        columns=tuple(name for col, name in names.items() if col in used),
        predicates=tuple(_with_columns(p, expr_of) for p in node.predicates),
        expiries=tuple(replace(t, value=_with_columns(t.value, expr_of)) for t in node.expiries),
        filters=tuple(_with_columns(f, expr_of) for f in filters),
    )
    below = windows.get(scan.table)
    if below is not None:
        window = ClockWindow(
            table=below.table,
            columns=tuple(dict.fromkeys((*below.columns, *window.columns))),
            predicates=(*below.predicates, *window.predicates),
            expiries=(*below.expiries, *window.expiries),
            filters=tuple(dict.fromkeys((*below.filters, *window.filters))),
        )
    same = next((name for name, one in windows.items() if one == window), None)
    name = same or f"{window.table}@{len(windows) + 1}"
    windows[name] = window
    return replace(scan, table=name)


def _with_columns(expr: Expr, by: Mapping[Col, Expr]) -> Expr:
    """An expression with its columns replaced by others."""
    parts: list[ExprPart] = []
    for part in expr.parts:
        own = by.get(part) if isinstance(part, Col) else None
        if own is None:
            parts.append(part)
        else:
            parts += own.parts if len(own.parts) == 1 else ("(", *own.parts, ")")
    return replace(expr, parts=tuple(parts))


def _all_true(predicates: Sequence[Expr], at: int | None) -> str:
    conditions = (join_texts(_words(p, at)) for p in predicates)
    return " AND ".join(f"coalesce(({text}), false)" for text in conditions)


def _words(expr: Expr, at: int | None) -> list[str]:
    """The words of an expression over a table's columns, as of T or for display."""
    words = []
    for part in expr.parts:
        match part:
            case str():
                words.append(part)
            case Clock(kind):
                text = "current_date()" if kind is ClockKind.DATE else "now()"
                words.append(text if at is None else kind.sql(at))
            case _:
                raise TypeError(f"{type(part).__name__} is no part of a comparison with the clock")
    return words


def _near(expiries: Sequence[Expiry], after: int, until: int) -> Iterator[ExprPart]:
    """A condition that is true of each row that expires in (after, until].

    It compares the values unchanged, so that files and pages can be skipped, and days if the query
    does, because not every DATE has a TIMESTAMP.
    """
    for place, expiry in enumerate(expiries):
        value, bound, day = expiry.value.parts, expiry.bound.parts, _DAY // _MS
        first, last = (after - day, until + day) if expiry.is_day else (after - 1, until)
        prefix, suffix = (("CAST", "("), ("AS", "DATE", ")")) if expiry.is_day else ((), ())
        yield from ("OR", "(") if place else ("(",)
        yield from (*value, ">=", *prefix, f"timestamp_millis({first})", *bound, *suffix, "AND")
        yield from (*value, "<=", *prefix, f"timestamp_millis({last})", *bound, *suffix, ")")


def interval_of(expiries: Sequence[Expiry], values: Sequence[str]) -> tuple[str, str]:
    """The Ts from which and until which a row passes, over the values, as expressions.

    Both are NULL if a value is NULL: such a row never passes. A T that never comes is
    :data:`NEVER`.
    """
    all_known = " AND ".join(f"{v} IS NOT NULL" for v in values)
    times = [
        (expiry.is_entry, _time(expiry, v)) for expiry, v in zip(expiries, values, strict=True)
    ]
    enters = ", ".join([str(_ALWAYS), *(t for is_entry, t in times if is_entry)])
    leaves = ", ".join([str(NEVER), *(t for is_entry, t in times if not is_entry)])
    return (
        f"CASE WHEN {all_known} THEN array_max(array({enters})) END",
        f"CASE WHEN {all_known} THEN array_min(array({leaves})) END",
    )


def _time(expiry: Expiry, value: str) -> str:
    """The first T at which the result is another one."""
    unit = _DAY if expiry.is_day else _MS
    ms = unit // _MS
    if expiry.is_strict:
        return f"(({value} - pmod({value}, {unit})) DIV {unit} + 1) * {ms}"
    return f"(({value} + pmod(-{value}, {unit})) DIV {unit}) * {ms}"


def _micros(expiry: Expiry) -> Expr:
    near = Expr.of(
        *("unix_micros ( CASE WHEN", expiry.value, f"> DATE '{_FAR}' THEN TIMESTAMP '{_FAR}'"),
        *("WHEN", expiry.value, f"< DATE '-{_FAR}' THEN TIMESTAMP '-{_FAR}'"),
        *("ELSE CAST (", expiry.value, "AS TIMESTAMP ) END"),
    )
    return Expr((*near.parts, *expiry.shift.parts, ")"))


def _values(node: Temporal, at: int, exprs: Sequence[Expr]) -> Text:
    numbers = numbers_above(node)
    child = as_of(node.child, at)
    items = tuple(Projection(expr, Col(next(numbers), "compared")) for expr in exprs)
    project = Project(child=child, items=items)
    return Text(node=project, columns=project.columns, names=tuple(c.sql for c in project.columns))


def _temporal(query: Node) -> list[Temporal]:
    return list(dict.fromkeys(n for n in descend(query) if isinstance(n, Temporal)))


def as_of(node: Node, at: int) -> Node:
    """The node with T in place of the clock."""

    def change(thing: Any) -> Any:
        match thing:
            case Clock(kind):
                return kind.sql(at)
            case Temporal():
                return Filter(child=thing.child, predicates=thing.predicates)
            case _:
                return thing

    copy: Node = rebuild(node, change)
    return copy


def temporal_plan(sql: str, relations: Mapping[str, QueryRelation]) -> TemporalPlan | Declined:
    """The plan of a query that reads the clock, or the reason why there is none.

    ``sql``, ``relations``: as for :func:`ctsql.planner.ivm.plan.change_plan`.
    """
    try:
        node, _ = compile_query(sql, relations)
    except Refusal as refusal:
        return refusal.declined
    for one in _temporal(node):
        if free(one.child):
            return Declined("CLOCK_READ", span=one.predicates[0].span)
    return TemporalPlan(node, tuple(col.sql for col in node.columns))
