"""At which operator of a query a row was lost that is not in its result. Pure.

A predicate says which row is missed. It is moved down the query as far as it can be: through a
projection by its expression, through GROUP BY where it is about the keys, to the sides of a join
by their columns, and to the other side by what the join equates. Parts that cannot be moved on are
left behind: they are about what is only computed there. An EXISTS, an IN or a comparison with a
scalar subquery is asked what a semi join is: what the row must find there, by what is equated with
the row around. So each operator has a number of rows that
may still become the missed row, by all parts and by those that were moved on. Where the latter is
none although all that the operator reads has some, the row was lost; where only the former is none,
the row is there with other values; where a table has none, there never was one.

A condition of a subquery on the row around that equates nothing is left out, so more rows may seem
to be there than are; where there are none, none are.

[computed-above-filters] a part that computes something is not moved below what leaves rows out: it
    might be asked of rows for which it cannot be computed.
Source: Chapman and Jagadish, Why Not? (SIGMOD 2009): the picky manipulation, found from below.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from ctsql.catalog.spans import Span
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.reasons import Reason, Refusal
from ctsql.planner.ivm.algebra.traversal import (
    columns_in,
    equal_classes,
    expressions,
    free,
    inputs,
    numbers_above,
    rebuild,
    subqueries,
    substitute,
    union_all,
)
from ctsql.planner.ivm.explain import label, text_of
from ctsql.planner.ivm.parse.from_relations import PlainView, Relation
from ctsql.planner.ivm.parse.query import compile_query
from ctsql.planner.ivm.rewrites.semijoin_pushdown import join_pairs
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
        candidates: the rows that may still become the missed row; pushdown_candidates: the
            same by the parts that are also asked of what is below.
        predicate: the predicate in the user's names. table: what is read, of a table.
        span: the operator's place in the text.
    """

    operator: str
    below: tuple[int, ...]
    needs_all: bool
    candidates: alg.Filter
    pushdown_candidates: alg.Filter
    predicate: str
    table: str | None
    span: Span | None


@dataclass(frozen=True, slots=True)
class Search:
    """Where to look for a missed row: the stages, each behind what it reads."""

    stages: tuple[Stage, ...]

    def counts(self) -> Text:
        """One query: the number of each stage, how many candidates it has, of both kinds."""
        numbers = numbers_above(self.stages[-1].candidates)
        names = ("stage", "candidates", "kept")
        columns = tuple(alg.Col(next(numbers), name, "bigint") for name in names)
        rows: list[alg.Node] = []
        for i, stage in enumerate(self.stages):
            for at, node in ((1, stage.candidates), (2, stage.pushdown_candidates)):
                count = columns[at]
                count_query = alg.Aggregate(child=node, keys=(), calls=(alg.count_rows(count),))
                values = {columns[0]: alg.Expr.of(str(i)), count: alg.Expr.of(count)}
                items = tuple(alg.Projection(values.get(c, alg.Expr.of("0")), c) for c in columns)
                rows.append(alg.Project(child=count_query, items=items))
        return Text(node=union_all(rows, columns), columns=columns, names=names)

    def verdicts(
        self, candidates: Sequence[int], pushdown_candidates: Sequence[int]
    ) -> list[Verdict]:
        """What became of the row at each stage, by how many rows each has."""
        verdicts = []
        for stage, count, rest in zip(self.stages, candidates, pushdown_candidates, strict=True):
            some = [candidates[i] > 0 for i in stage.below]
            if count:
                verdicts.append(Verdict.PASSES)
            elif stage.table is not None:
                verdicts.append(Verdict.NEVER_THERE)
            elif rest:
                verdicts.append(Verdict.OTHER_VALUES)
            elif all(some) if stage.needs_all else any(some):
                verdicts.append(Verdict.LOST)
            else:
                verdicts.append(Verdict.GONE)
        return verdicts


def rows_and_names(node: alg.Filter) -> tuple[Text, tuple[str, ...]]:
    """The rows of a node, and its columns' names for people."""
    labels: list[str] = []
    for col in node.columns:
        name = col.name or "expression"
        labels.append(name if name not in labels else f"{name}_{len(labels) + 1}")
    names = tuple(c.sql for c in node.columns)
    return Text(node=node, columns=node.columns, names=names), tuple(labels)


def search(
    query: str, name: str, sql: str, columns: Sequence[str], relations: Mapping[str, Relation]
) -> Search | Reason:
    """Where to look for a row that a query's result lacks; or why that cannot be told.

    Args:
        query: ``SELECT * FROM name WHERE predicate``. sql: the query that ``name`` stands for, with
            its columns and what the names in it mean.
    """
    view = PlainView(sql, tuple(columns), relations)
    try:
        node, _ = compile_query(query, {name: view}, with_subqueries_in_joins=True)
    except Refusal as refusal:
        return refusal.reason
    while not isinstance(node, alg.Filter):
        node = next(inputs(node))
    if any(list(subqueries(p)) for p in node.predicates):
        return Reason("SUBQUERY_PLACE", node.predicates[0].span)
    walk = _Walk()
    walk.add(node.child, [_Part(p, _computes(p)) for p in node.predicates])
    return Search(tuple(walk.stages))


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


@dataclass
class _Walk:
    """One way through a query, from its result down.

    Attributes:
        stages: those found, each behind what it reads. found_by: what of the predicate is asked of
            a relation in a subquery, as it is equated there with the row around.
    """

    stages: list[Stage] = field(default_factory=list)
    found_by: dict[alg.Node, list[_Part]] = field(default_factory=dict)

    def add(self, node: alg.Node, parts: Sequence[_Part]) -> int:
        """Add the stages of a node and of what is below it; returns the number of its own."""
        there = set(node.columns)
        parts = [p for p in (*parts, *self.found_by.get(node, ())) if columns_in(p.expr) <= there]
        pushed_parts: set[_Part] = set()
        numbers: list[int] = []
        for child, move in _moves(node):
            moves = [(p, m) for p in parts if (m := move(p)) is not None]
            pushed_parts |= {p for p, _ in moves}
            numbers.append(self.add(child, [m for _, m in moves]))
        for predicate, around in _needed_predicates(node):
            numbers += self._add_subquery(predicate, around, parts)
        if isinstance(node, _UNSEEN) and all(p in pushed_parts for p in parts):
            return numbers[0]
        span = next((e.span for e in expressions(node) if e.span is not None), None)
        self.stages.append(
            Stage(
                operator=label(node),
                below=tuple(numbers),
                needs_all=not isinstance(node, alg.UnionAll),
                candidates=_where(node, parts),
                pushdown_candidates=_where(node, [p for p in parts if p in pushed_parts]),
                predicate=" AND ".join(text_of(p.expr) for p in parts),
                table=node.table if isinstance(node, alg.Scan) else None,
                span=getattr(node, "span", None) or span,
            )
        )
        return len(self.stages) - 1

    def _add_subquery(
        self, predicate: alg.Expr, around: Sequence[alg.Col], parts: Sequence[_Part]
    ) -> Iterator[int]:
        """Add the stages of a subquery without whose rows a predicate is true for no row."""
        inner = _needed_subquery(predicate)
        if inner is None:
            return
        node = self._alone(inner.node, around, parts)
        if free(node):
            return  # it depends on the row around in another way
        inner_parts: list[_Part] = []
        if inner.left is not None and inner.left.column is not None:
            move = _renaming({inner.left.column: node.columns[0]})
            inner_parts = [m for p in parts if (m := move(p)) is not None]
        yield self.add(node, inner_parts)

    def _alone(self, node: alg.Node, around: Sequence[alg.Col], parts: Sequence[_Part]) -> alg.Node:
        """A subquery without its conditions on the row around; what they equate is noted."""

        def change(thing: object) -> object:
            if not isinstance(thing, alg.Filter):
                return thing
            own = tuple(p for p in thing.predicates if not columns_in(p) & set(around))
            if len(own) == len(thing.predicates):
                return thing
            move = _renaming(dict(join_pairs(thing.predicates, around, thing.child.columns)))
            parts_below = self.found_by.setdefault(thing.child, [])
            parts_below += [m for p in parts if (m := move(p)) is not None]
            return replace(thing, predicates=own) if own else thing.child

        copy: alg.Node = rebuild(node, change)
        return copy


_COMPARING = frozenset(["=", "==", "<>", "!=", "<", ">", "<=", ">=", "+", "-", "*", "(", ")"])
"""Words of a predicate that is NULL where the one value in it is."""


def _needed_predicates(node: alg.Node) -> Iterator[tuple[alg.Expr, Sequence[alg.Col]]]:
    """The predicates without which no row of a node is there, with the columns around them."""
    match node:
        case alg.Filter():
            yield from ((p, node.child.columns) for p in node.predicates)
        case alg.OuterOrSemiJoin(kind=alg.JoinKind.SEMI) | alg.LateralJoin(is_left=False):
            around = node.left.columns + node.right.columns
            yield from ((c, around) for c in node.conditions)
        case _:
            pass


def _needed_subquery(predicate: alg.Expr) -> alg.Subquery | None:
    """The subquery that must have rows for a predicate to be true; None if there is none."""
    subqueries_in = [p for p in predicate.parts if isinstance(p, alg.Subquery)]
    if len(subqueries_in) != 1:
        return None
    (inner,) = subqueries_in
    words = [p.upper() for p in predicate.parts if isinstance(p, str)]
    match inner.kind:
        case alg.SubqueryKind.EXISTS:
            return inner if words == ["EXISTS"] else None
        case alg.SubqueryKind.IN:
            return inner
        case alg.SubqueryKind.SCALAR:
            compares = all(w in _COMPARING or w.isdigit() for w in words)
            return inner if compares and len(words) > 0 else None
        case _:
            return None


def _where(node: alg.Node, parts: Sequence[_Part]) -> alg.Filter:
    predicates = tuple(p.expr for p in parts) or (alg.Expr.of("true"),)
    return alg.Filter(child=node, predicates=predicates)


def _moves(node: alg.Node) -> list[tuple[alg.Node, _Move]]:
    """What a node needs rows of, and how a part of the predicate is asked of that."""
    match node:
        case alg.Project():
            return [(node.child, _expressed({i.col: i.expr for i in node.items}))]
        case alg.Aggregate():
            keys = {} if node.sets is not None else {k.col: k.source for k in node.keys}
            return [(node.child, _renaming(keys, leaves_out=False))]
        case alg.Join():
            return [(c, _of_side(node.conditions, c.columns)) for c in node.children]
        case alg.OuterOrSemiJoin():
            return _sides(node)
        case alg.LateralJoin():
            return [(node.left, _renaming({c: c for c in node.left.columns}))]
        case alg.SetOperation():
            left = (node.left, _renaming({c: c for c in node.columns}))
            right = dict(zip(node.columns, node.right.columns, strict=True))
            is_except = node.operator.lower().startswith("except")
            return [left] if is_except else [left, (node.right, _renaming(right))]
        case alg.UnionAll():
            places = [dict(zip(node.columns, b.cols, strict=True)) for b in node.branches]
            return [
                (b.node, _renaming(place, leaves_out=False))
                for b, place in zip(node.branches, places, strict=True)
            ]
        case alg.Window() | alg.Distinct():
            return [(node.child, _renaming({c: c for c in node.child.columns}, leaves_out=False))]
        case alg.Scan() | alg.Values():
            return []
        case _:
            return [(c, _renaming({col: col for col in c.columns})) for c in inputs(node)]


def _sides(node: alg.OuterOrSemiJoin) -> list[tuple[alg.Node, _Move]]:
    """The side whose rows stay; of a semi join both. Of a full join that is neither."""
    kind = alg.JoinKind
    if node.kind is kind.FULL:
        return []
    stays = node.right if node.kind is kind.RIGHT else node.left
    sides: list[tuple[alg.Node, _Move]] = [(stays, _renaming({c: c for c in stays.columns}))]
    if node.kind is kind.SEMI:
        sides.append((node.right, _of_side(node.conditions, node.right.columns)))
    return sides


def _renaming(place: Mapping[alg.Col, alg.Col], *, leaves_out: bool = True) -> _Move:
    """Over other columns; ``leaves_out``: whether the operator leaves rows out."""

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
    return _renaming(place)


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
