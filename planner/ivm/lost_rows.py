"""At which operator of a query a row was lost that is not in its result. Pure.

A predicate says which row is missed. It is moved down the query as far as it can be: through a
projection by its expression, through GROUP BY where it is about the keys, to the sides of a join
by their columns, and to the other side by what the join equates. Parts that cannot be moved on are
left behind: they are about what is only computed there. So each operator has a number of rows that
may still become the missed row, by all parts and by those that were moved on. Where the latter is
none although all that the operator reads has some, the row was lost; where only the former is none,
the row is there with other values; where a table has none, there never was one.

W1: a part that computes something is not moved below what leaves rows out: it might be asked of
    rows for which it cannot be computed.
Source: Chapman and Jagadish, Why Not? (SIGMOD 2009): the picky manipulation, found from below.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from ctsql.catalog.spans import Span
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.reasons import Reason, Refused
from ctsql.planner.ivm.algebra.traversal import (
    columns_in,
    equal_classes,
    expressions,
    inputs,
    numbers_above,
    subqueries,
    substitute,
    union_all,
)
from ctsql.planner.ivm.explain import label, text_of
from ctsql.planner.ivm.parse.from_relations import PlainView, Relation
from ctsql.planner.ivm.parse.query import compile_query
from ctsql.planner.ivm.sql.queries import Text

_UNSEEN = (alg.Project, alg.Window, alg.Distinct)
"""Operators that lose no row, which a person need not see."""


class Verdict(Enum):
    """What became of the missed row at an operator."""

    PASSES = "passes"
    LOST = "lost here"
    OTHER_VALUES = "has other values here"
    NEVER_THERE = "never there"
    GONE = "lost below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An operator, and what of the predicate can be asked of its rows.

    Attributes:
        below: the numbers of the stages that it needs rows of.
        needs_all: whether it needs rows of all of them, not of any one.
        candidates: the rows that may still become the missed row; kept: the same by the parts that
            are also asked of what is below.
        asked: the predicate in the user's names. table: what is read, of a table.
        span: the operator's place in the text.
    """

    operator: str
    below: tuple[int, ...]
    needs_all: bool
    candidates: alg.Filter
    kept: alg.Filter
    asked: str
    table: str | None
    span: Span | None


@dataclass(frozen=True, slots=True)
class Search:
    """Where to look for a missed row: the stages, each behind what it reads."""

    stages: tuple[Stage, ...]

    def counts(self) -> Text:
        """One query: the number of each stage, how many candidates it has, and how many kept."""
        numbers = numbers_above(self.stages[-1].candidates)
        names = ("stage", "candidates", "kept")
        columns = tuple(alg.Col(next(numbers), name, "bigint") for name in names)
        rows: list[alg.Node] = []
        for i, stage in enumerate(self.stages):
            for at, node in ((1, stage.candidates), (2, stage.kept)):
                count = columns[at]
                counted = alg.Aggregate(child=node, keys=(), calls=(alg.count_rows(count),))
                values = {columns[0]: alg.Expr.of(str(i)), count: alg.Expr.of(count)}
                items = tuple(alg.Projection(values.get(c, alg.Expr.of("0")), c) for c in columns)
                rows.append(alg.Project(child=counted, items=items))
        return Text(node=union_all(rows, columns), columns=columns, names=names)

    def verdicts(self, candidates: Sequence[int], kept: Sequence[int]) -> list[Verdict]:
        """What became of the row at each stage, by how many rows each has."""
        found = []
        for stage, count, rest in zip(self.stages, candidates, kept, strict=True):
            some = [candidates[i] > 0 for i in stage.below]
            if count:
                found.append(Verdict.PASSES)
            elif not some and stage.table is not None:
                found.append(Verdict.NEVER_THERE)
            elif rest:
                found.append(Verdict.OTHER_VALUES)
            elif all(some) if stage.needs_all else any(some):
                found.append(Verdict.LOST)
            else:
                found.append(Verdict.GONE)
        return found


def named(node: alg.Filter) -> tuple[Text, tuple[str, ...]]:
    """The rows of a node, and its columns' names for people."""
    shown: list[str] = []
    for col in node.columns:
        name = col.name or "expression"
        shown.append(name if name not in shown else f"{name}_{len(shown) + 1}")
    names = tuple(c.sql for c in node.columns)
    return Text(node=node, columns=node.columns, names=names), tuple(shown)


def search(
    asked: str, name: str, sql: str, columns: Sequence[str], relations: Mapping[str, Relation]
) -> Search | Reason:
    """Where to look for a row that a query's result lacks; or why that cannot be told.

    Args:
        asked: ``SELECT * FROM name WHERE predicate``. sql: the query that ``name`` stands for, with
            its columns and what the names in it mean.
    """
    view = PlainView(sql, tuple(columns), relations)
    try:
        node, _ = compile_query(asked, {name: view})
    except Refused as refusal:
        return refusal.reason
    while not isinstance(node, alg.Filter):
        node = next(inputs(node))
    if any(list(subqueries(p)) for p in node.predicates):
        return Reason("SUBQUERY_PLACE", node.predicates[0].span)
    stages: list[Stage] = []
    _walk(node.child, [_Part(p, _computes(p)) for p in node.predicates], stages)
    return Search(tuple(stages))


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the predicate; ``computes``: it might fail where a value is not what it expects."""

    expr: alg.Expr
    computes: bool


_Move = Callable[[_Part], _Part | None]
"""A part as it is asked of an input; None where that cannot be."""


def _computes(expr: alg.Expr) -> bool:
    words = [p.upper() if isinstance(p, str) else "" for p in expr.parts]
    calls = any(b == "(" and a.isidentifier() and a not in _BEFORE for a, b in pairwise(words))
    return calls or bool({"/", "%", "DIV", "+", "-", "*", "::"} & set(words))


_BEFORE = ("IN", "AND", "OR", "NOT", "")


def _walk(node: alg.Node, asked: Sequence[_Part], stages: list[Stage]) -> int:
    """Add the stages of a node and of what is below it; returns the number of its own."""
    there = set(node.columns)
    asked = [p for p in asked if columns_in(p.expr) <= there]
    moves = _moves(node)
    moved: set[_Part] = set()
    needed: list[int] = []
    for child, move in moves:
        found = [(p, m) for p in asked if (m := move(p)) is not None]
        moved |= {p for p, _ in found}
        needed.append(_walk(child, [m for _, m in found], stages))
    if isinstance(node, _UNSEEN) and all(p in moved for p in asked):
        return needed[0]
    span = next((e.span for e in expressions(node) if e.span is not None), None)
    stages.append(
        Stage(
            operator=label(node),
            below=tuple(needed),
            needs_all=not isinstance(node, alg.UnionAll),
            candidates=_where(node, asked),
            kept=_where(node, [p for p in asked if p in moved]),
            asked=" AND ".join(text_of(p.expr) for p in asked),
            table=node.table if isinstance(node, alg.Scan) else None,
            span=getattr(node, "span", None) or span,
        )
    )
    return len(stages) - 1


def _where(node: alg.Node, asked: Sequence[_Part]) -> alg.Filter:
    predicates = tuple(p.expr for p in asked) or (alg.Expr.of("true"),)
    return alg.Filter(child=node, predicates=predicates)


def _moves(node: alg.Node) -> list[tuple[alg.Node, _Move]]:
    """What a node needs rows of, and how a part of the predicate is asked of that."""
    match node:
        case alg.Project():
            return [(node.child, _expressed({i.col: i.expr for i in node.items}))]
        case alg.Aggregate():
            keys = {} if node.sets is not None else {k.col: k.source for k in node.keys}
            return [(node.child, _renamed(keys))]
        case alg.Join():
            return [(c, _of_side(node.conditions, c.columns)) for c in node.children]
        case alg.OuterOrSemiJoin():
            return _sides(node)
        case alg.LateralJoin():
            return [(node.left, _renamed({c: c for c in node.left.columns}))]
        case alg.SetOperation():
            left = (node.left, _renamed({c: c for c in node.columns}))
            right = dict(zip(node.columns, node.right.columns, strict=True))
            is_except = node.operator.lower().startswith("except")
            return [left] if is_except else [left, (node.right, _renamed(right))]
        case alg.UnionAll():
            places = [dict(zip(node.columns, b.cols, strict=True)) for b in node.branches]
            return [
                (b.node, _renamed(place, leaves_out=False))
                for b, place in zip(node.branches, places, strict=True)
            ]
        case alg.Window() | alg.Distinct():
            return [(node.child, _renamed({c: c for c in node.child.columns}, leaves_out=False))]
        case alg.Scan() | alg.Values():
            return []
        case _:
            return [(c, _renamed({col: col for col in c.columns})) for c in inputs(node)]


def _sides(node: alg.OuterOrSemiJoin) -> list[tuple[alg.Node, _Move]]:
    """The side whose rows stay; of a semi join both. Of a full join that is neither."""
    kind = alg.JoinKind
    if node.kind is kind.FULL:
        return []
    kept = node.right if node.kind is kind.RIGHT else node.left
    found: list[tuple[alg.Node, _Move]] = [(kept, _renamed({c: c for c in kept.columns}))]
    if node.kind is kind.SEMI:
        found.append((node.right, _of_side(node.conditions, node.right.columns)))
    return found


def _renamed(place: Mapping[alg.Col, alg.Col], *, leaves_out: bool = True) -> _Move:
    """Over other columns; ``leaves_out``: whether the operator leaves rows out (W1)."""

    def move(part: _Part) -> _Part | None:
        if not columns_in(part.expr) <= set(place) or (leaves_out and part.computes):
            return None
        return replace(part, expr=substitute(part.expr, place))

    return move


def _of_side(conditions: Sequence[alg.Expr], columns: Sequence[alg.Col]) -> _Move:
    """Over one side of a join, with its columns that equal the other sides'."""
    place = {c: c for c in columns}
    for one in equal_classes(conditions):
        mine = sorted((c for c in one if c in columns), key=lambda c: c.number)
        place = {**{c: mine[0] for c in one if mine}, **place}
    return _renamed(place)


def _expressed(texts: Mapping[alg.Col, alg.Expr]) -> _Move:
    """With what computes each column in its place."""

    def move(part: _Part) -> _Part | None:
        parts: list[alg.Part] = []
        computes = part.computes
        for one in part.expr.parts:
            if not isinstance(one, alg.Col):
                parts.append(one)
            elif one not in texts or list(subqueries(texts[one])):
                return None
            elif texts[one].column is None:
                parts += ["(", *texts[one].parts, ")"]
                computes = True
            else:
                parts += texts[one].parts
        return _Part(replace(part.expr, parts=tuple(parts)), computes)

    return move
