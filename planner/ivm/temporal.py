"""When a view over the clock changes because time passes, and its query as of a T.

A :class:`~ctsql.planner.ivm.algebra.nodes.Temporal` node lets each row of its child pass for an
interval of T: from when all its comparisons that become true have, until the first of the others
turns. From T on, as long as no table changes, the first T at which one of its rows turns is the
least of these that is greater than T; so the first T at which the view can change is the least
over all such nodes, each over what its child holds as of T.

    value <  now()   in from floor(value) + 1 ms     value >  now()   in until ceil(value)
    value <= now()   in from ceil(value)             value >= now()   in until floor(value) + 1 ms

Values are microseconds, T is milliseconds, or for current_date() days: rounding is by these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctsql.planner.ivm.algebra.nodes import (
    Clock,
    Col,
    Expr,
    Filter,
    Node,
    Project,
    Projection,
    Temporal,
    Turn,
)
from ctsql.planner.ivm.algebra.reasons import Reason, Refused
from ctsql.planner.ivm.algebra.traversal import descend, free, numbers_above, rebuild
from ctsql.planner.ivm.parse.from_relations import Relation
from ctsql.planner.ivm.parse.query import compile_query
from ctsql.planner.ivm.sql.queries import Query, Text
from ctsql.planner.ivm.sql.spark import Names

_MS, _DAY = 1_000, 86_400_000_000
"""Microseconds in what the clock moves by."""
_NEVER, _ALWAYS = 2**63 - 1, -(2**63) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn(Query):
    """One row with one BIGINT, ``due``: the first T after a T at which a row turns; NULL for none.

    Attributes:
        values: the columns are what is compared, in microseconds. turns: one for each of them.
    """

    values: Text
    turns: tuple[Turn, ...]
    after: int

    def sql(self, name: Names) -> str:
        """The query in Spark's SQL."""
        rows = f"SELECT {interval_of(self.turns, self.values.names)} FROM ({self.values.sql(name)})"
        later = (
            f"CASE WHEN enters > {self.after} THEN enters "
            f"WHEN leaves > {self.after} AND leaves < {_NEVER} THEN leaves END"
        )
        return f"SELECT min({later}) AS due FROM ({rows}) WHERE enters < leaves"


@dataclass(frozen=True, slots=True)
class TemporalPlan:
    """A query that compares with the clock.

    Attributes:
        query: with no T yet.
    """

    query: Node
    names: tuple[str, ...]

    def whole(self, at: int) -> Text:
        """The whole query as of T."""
        return Text(node=as_of(self.query, at), columns=self.query.columns, names=self.names)

    def next_turns(self, after: int) -> tuple[NextTurn, ...]:
        """Which turn comes next, for every place where the clock is compared."""
        found = []
        for node in _temporal(self.query):
            values = _values(node, after, [_micros(t) for t in node.turns])
            found.append(NextTurn(values=values, turns=node.turns, after=after))
        return tuple(found)

    def compared(self) -> tuple[Text, ...]:
        """What is compared with the clock; the types of these columns matter."""
        return tuple(_values(n, 0, [t.value for t in n.turns]) for n in _temporal(self.query))


def interval_of(turns: Sequence[Turn], values: Sequence[str]) -> str:
    """``enters`` and ``leaves``, in T, as a select list over the columns of the values.

    Both are NULL where a value is: such a row is never in.
    """
    known = " AND ".join(f"{v} IS NOT NULL" for v in values)
    times = [(turn.is_entry, _time(turn, v)) for turn, v in zip(turns, values, strict=True)]
    enters = ", ".join([str(_ALWAYS), *(t for is_entry, t in times if is_entry)])
    leaves = ", ".join([str(_NEVER), *(t for is_entry, t in times if not is_entry)])
    return (
        f"CASE WHEN {known} THEN array_max(array({enters})) END AS enters, "
        f"CASE WHEN {known} THEN array_min(array({leaves})) END AS leaves"
    )


def _time(turn: Turn, value: str) -> str:
    """The first T at which the answer is another one."""
    unit = _DAY if turn.is_day else _MS
    ms = unit // _MS
    if turn.is_strict:
        return f"(({value} - pmod({value}, {unit})) DIV {unit} + 1) * {ms}"
    return f"(({value} + pmod(-{value}, {unit})) DIV {unit}) * {ms}"


def _micros(turn: Turn) -> Expr:
    moved = Expr.of("unix_micros ( CAST (", turn.value, "AS TIMESTAMP )")
    return Expr((*moved.parts, *turn.shift.parts, ")"))


def _values(node: Temporal, at: int, exprs: Sequence[Expr]) -> Text:
    numbers = numbers_above(node)
    child = as_of(node.child, at)
    items = tuple(Projection(expr, Col(next(numbers), "compared")) for expr in exprs)
    made = Project(child=child, items=items)
    return Text(node=made, columns=made.columns, names=tuple(c.sql for c in made.columns))


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

    made: Node = rebuild(node, change)
    return made


def temporal_plan(sql: str, relations: Mapping[str, Relation]) -> TemporalPlan | Reason:
    """The plan of a query in which the clock is read, or why there is none.

    Args:
        sql, relations: as for :func:`ctsql.planner.ivm.plan.change_plan`.
    """
    try:
        node, _ = compile_query(sql, relations)
    except Refused as refusal:
        return refusal.reason
    for one in _temporal(node):
        if free(one.child):
            return Reason("CLOCK_READ", one.predicates[0].span)
    return TemporalPlan(node, tuple(col.sql for col in node.columns))
