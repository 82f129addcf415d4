"""Walks over plans: their columns, tables and subqueries, and changed copies."""

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ctsql.planner.ivm.algebra import nodes as alg


def _parts(thing: Any) -> Iterator[Any]:
    """The parts of a node or record, with nested tuples flattened."""
    for f in dataclasses.fields(thing):
        value = getattr(thing, f.name)
        for part in value if isinstance(value, tuple) else (value,):
            yield from part if isinstance(part, tuple) else (part,)


def inputs(node: alg.Node) -> Iterator[alg.Node]:
    """The relations directly below, without subqueries in expressions."""
    for value in _parts(node):
        if isinstance(value, alg.Node):
            yield value
        elif isinstance(value, alg.UnionInput):
            yield value.node


def expressions(node: alg.Node) -> Iterator[alg.Expr]:
    """The expressions of a node itself."""
    for value in _parts(node):
        if isinstance(value, alg.Expr):
            yield value
        elif isinstance(value, alg.Projection | alg.AggregateCall | alg.Order):
            yield value.expr
        elif isinstance(value, alg.Expiry):
            yield value.value


def subqueries(expr: alg.Expr) -> Iterator[alg.Subquery]:
    """The subqueries of an expression, without nested ones."""
    for part in expr.parts:
        if isinstance(part, alg.Subquery):
            yield part
            if part.left is not None:
                yield from subqueries(part.left)


def own_subqueries(node: alg.Node) -> list[alg.Subquery]:
    """The subqueries in the expressions of a node itself."""
    return [s for expr in expressions(node) for s in subqueries(expr)]


def with_subqueries(expr: alg.Expr, change: Callable[[alg.Subquery], alg.Node]) -> alg.Expr:
    """A copy of an expression with changed relations of its subqueries."""
    parts = tuple(
        dataclasses.replace(p, node=change(p)) if isinstance(p, alg.Subquery) else p
        for p in expr.parts
    )
    return dataclasses.replace(expr, parts=parts)


def descend(node: alg.Node, *, subqueries_too: bool = True) -> Iterator[alg.Node]:
    """The node and all nodes below it, including those in subqueries."""
    yield node
    for child in inputs(node):
        yield from descend(child, subqueries_too=subqueries_too)
    for subquery in own_subqueries(node) if subqueries_too else ():
        yield from descend(subquery.node)


def tables(node: alg.Node) -> frozenset[str]:
    """The base tables that a plan reads."""
    return frozenset(n.table for n in descend(node) if isinstance(n, alg.Scan))


def columns_in(expr: alg.Expr) -> frozenset[alg.Col]:
    """The columns that an expression uses, including outer columns of its subqueries."""
    columns: set[alg.Col] = set()
    for part in expr.parts:
        if isinstance(part, alg.Col):
            columns.add(part)
        elif isinstance(part, alg.Subquery):
            columns |= free(part.node)
            if part.left is not None:
                columns |= columns_in(part.left)
    return frozenset(columns)


def _own_columns(node: alg.Node) -> Iterator[alg.Col]:
    for value in _parts(node):
        if isinstance(value, alg.Col):
            yield value
        elif dataclasses.is_dataclass(value) and not isinstance(value, alg.Node | alg.Expr):
            for inner in _parts(value):
                if isinstance(inner, alg.Col):
                    yield inner
                elif isinstance(inner, alg.Expr):
                    yield from columns_in(inner)
        elif isinstance(value, alg.Expr):
            yield from columns_in(value)


def free(node: alg.Node) -> frozenset[alg.Col]:
    """The outer columns that a subquery's plan uses.

    Numbers are unique within a plan, so a column that no node of the subquery produces is outer.
    """
    below = list(descend(node, subqueries_too=False))
    columns = {col for one in below for col in _own_columns(one)}
    return frozenset(columns.difference(*(one.columns for one in below)))


def with_inputs(node: alg.Node, change: Callable[[alg.Node], alg.Node]) -> alg.Node:
    """The operator over other inputs; not for UNION ALL, whose inputs have columns."""
    fields: dict[str, Any] = {}
    for f in dataclasses.fields(node):
        value = getattr(node, f.name)
        if isinstance(value, alg.Node):
            fields[f.name] = change(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], alg.Node):
            fields[f.name] = tuple(change(child) for child in value)
    return dataclasses.replace(node, **fields)


def key_sources(node: alg.Node) -> dict[alg.Col, alg.Col] | None:
    """The columns by which an operator with one child can be restricted, with the child's columns.

    Rows of the child that differ in them do not affect each other. None for other operators.
    """
    match node:
        case alg.Filter() | alg.Distinct() | alg.SemiJoinRestriction() | alg.Generate():
            return {col: col for col in node.child.columns}
        case alg.Project():
            own = {item.col: item.expr.column for item in node.items}
            return {a: b for a, b in own.items() if b is not None and b in node.child.columns}
        case alg.Aggregate(sets=None):
            return {key.col: key.source for key in node.keys}
        case alg.Window():
            return {col: col for col in node.keys}
        case _:
            return None


def rebuild(thing: Any, change: Callable[[Any], Any]) -> Any:
    """A copy with ``change`` applied to every part, leaves first; the same object if unchanged."""
    if isinstance(thing, tuple):
        children = tuple(rebuild(value, change) for value in thing)
        return children if any(a is not b for a, b in zip(children, thing, strict=True)) else thing
    if isinstance(thing, alg.Col):
        return change(thing)
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return thing
    changes = {}
    for f in dataclasses.fields(thing):
        if not f.init or f.name in ("span", "name", "type", "number"):
            continue
        value = getattr(thing, f.name)
        if isinstance(value, tuple) or dataclasses.is_dataclass(value):
            new = rebuild(value, change)
            if new is not value:
                changes[f.name] = new
    return change(dataclasses.replace(thing, **changes) if changes else thing)


def substitute(thing: Any, columns: Mapping[alg.Col, alg.Col]) -> Any:
    """A copy with columns replaced, in subqueries as well."""
    return rebuild(thing, lambda x: columns.get(x, x) if isinstance(x, alg.Col) else x)


def replace_nodes(query: alg.Node, by: Mapping[alg.Aggregate, alg.Node]) -> alg.Node:
    """A copy with some nodes replaced, in subqueries as well."""
    node: alg.Node = rebuild(query, lambda x: by.get(x, x) if isinstance(x, alg.Aggregate) else x)
    return node


def change_scans(node: alg.Node, change: Callable[[alg.Scan], alg.Scan]) -> alg.Node:
    """A copy with changed scans of tables, in subqueries as well."""
    copy: alg.Node = rebuild(node, lambda x: change(x) if isinstance(x, alg.Scan) else x)
    return copy


def at(node: alg.Node, version: alg.Version, only: Collection[str]) -> alg.Node:
    """A relation over another version of some of its tables."""

    def change(scan: alg.Scan) -> alg.Scan:
        is_other = scan.table in only and scan.version is not version
        return dataclasses.replace(scan, version=version) if is_other else scan

    return change_scans(node, change)


def without_rows(node: alg.Node) -> alg.Filter:
    """A relation with the same columns and no rows, which reads no table."""
    nothing = at(node, alg.Version.NONE, tables(node))
    return alg.Filter(child=nothing, predicates=(alg.Expr.of("false"),))


def pass_through(columns: tuple[alg.Col, ...]) -> tuple[alg.Projection, ...]:
    """Items that pass columns on as they are."""
    return tuple(alg.Projection(alg.Expr.of(col), col) for col in columns)


def rename(
    node: alg.Node, columns: Iterable[alg.Col], new_columns: Iterable[alg.Col]
) -> alg.Project:
    """The node's rows with some of its columns, under new numbers."""
    pairs = zip(columns, new_columns, strict=True)
    return alg.Project(
        child=node, items=tuple(alg.Projection(alg.Expr.of(c), to) for c, to in pairs)
    )


def union_all(nodes: Sequence[alg.Node], columns: tuple[alg.Col, ...]) -> alg.UnionAll:
    """The rows of all nodes; the columns of each fill the result's, in order."""
    branches = tuple(alg.UnionInput(node=node, cols=node.columns) for node in nodes)
    return alg.UnionAll(branches=branches, columns=columns)


def equality(expr: alg.Expr) -> tuple[alg.Col, alg.Col] | None:
    """The two columns, if the expression is an equality of columns."""
    parts = expr.parts
    if len(parts) == 5 and parts[0] == "(" and parts[-1] == ")":
        parts = parts[1:-1]
    if len(parts) == 3 and parts[1] in ("=", "=="):
        left, _, right = parts
        if isinstance(left, alg.Col) and isinstance(right, alg.Col):
            return left, right
    return None


def implied_equalities(expr: alg.Expr) -> list[tuple[alg.Col, alg.Col]]:
    """The equalities of columns that a true expression implies, as far as they are found.

    Equalities in every operand of OR count: ``(a = b AND c = 1) OR (a = b AND c = 2)``.
    """
    single = equality(expr)
    if single is not None:
        return [single]
    pairs: list[tuple[alg.Col, alg.Col]] | None = None
    for branch in split_parts(_unwrapped(expr.parts), "OR"):
        parts = [_unwrapped(part) for part in split_parts(_unwrapped(branch), "AND")]
        equal = [e for part in parts if (e := equality(alg.Expr(part))) is not None]
        alike = {frozenset(pair) for pair in equal}
        pairs = equal if pairs is None else [e for e in pairs if frozenset(e) in alike]
    return pairs or []


_CLOSED = ("(", "[", "CASE"), (")", "]", "END")


def split_parts(parts: tuple[alg.ExprPart, ...], word: str) -> list[tuple[alg.ExprPart, ...]]:
    """The operands of a word outside of parentheses; the AND of BETWEEN is not one."""
    pieces: list[list[alg.ExprPart]] = [[]]
    depth = betweens = 0
    for part in parts:
        word_here = part.upper() if isinstance(part, str) else ""
        depth += (word_here in _CLOSED[0]) - (word_here in _CLOSED[1])
        if depth < 0:
            return [parts]  # a field named END
        if depth == 0 and word_here == "BETWEEN":
            betweens += 1
        elif depth == 0 and word_here == "AND" and betweens:
            betweens -= 1
        elif depth == 0 and word_here == word:
            pieces.append([])
            continue
        pieces[-1].append(part)
    return [tuple(one) for one in pieces]


def _unwrapped(parts: tuple[alg.ExprPart, ...]) -> tuple[alg.ExprPart, ...]:
    """Without parentheses around the whole."""
    while len(parts) > 2 and parts[0] == "(" and parts[-1] == ")":
        depth = 0
        for part in parts[:-1]:
            depth += (part == "(") - (part == ")")
            if depth == 0:
                return parts
        parts = parts[1:-1]
    return parts


_WHOLE = frozenset(["tinyint", "smallint", "int", "bigint"])
_MAY_BE_OTHERS = ("", "decimal", "double")
"""Types of columns whose values may be of another one: texts, for example."""


def are_alike(a: alg.Col, b: alg.Col) -> bool:
    """Whether equal values of two columns are identical, because both have one known type.

    Integers of different sizes count as one type.
    """
    kinds = {a.type.lower(), b.type.lower()}
    return kinds.isdisjoint(_MAY_BE_OTHERS) and (len(kinds) == 1 or kinds <= _WHOLE)


def have_one_type(a: alg.Col, b: alg.Col) -> bool:
    """Whether two columns are known to have exactly one type, with digits."""
    return a == b or (a.type == b.type and a.type.lower() not in _MAY_BE_OTHERS)


_SAME_IF_EQUAL = _WHOLE | frozenset(
    ["binary", "boolean", "date", "decimal", "string", "timestamp", "timestamp_ntz"]
)
"""Types, without their digits, whose equal values are identical."""


def is_same_if_equal(col: alg.Col) -> bool:
    """Whether equal values of a column are known to be the same: 0.0 and -0.0 are not."""
    return col.type.lower().split("(")[0] in _SAME_IF_EQUAL


def equal_classes(conditions: Sequence[alg.Expr]) -> list[frozenset[alg.Col]]:
    """The classes of columns that conditions make equal.

    Only columns of one type make a class of more than two: from ``'01' = 1`` and ``1 = '1'`` it
    does not follow that ``'01' = '1'``.
    """
    classes: list[frozenset[alg.Col]] = []
    others: list[frozenset[alg.Col]] = []
    for pair in (pair for condition in conditions for pair in implied_equalities(condition)):
        if not are_alike(*pair):
            others.append(frozenset(pair))
            continue
        overlaps = [c for c in classes if c & set(pair)]
        classes = [c for c in classes if not c & set(pair)]
        classes.append(frozenset(pair).union(*overlaps))
    return classes + others


def is_one_row(node: alg.Node) -> bool:
    """Whether a relation provably has at most one row, as a GROUP BY without columns does."""
    match node:
        case alg.Aggregate():
            return not node.keys and node.sets is None
        case alg.Join():
            return all(map(is_one_row, node.children))
        case alg.Filter() | alg.Project() | alg.Distinct() | alg.Limit() | alg.Window():
            return is_one_row(node.child)
        case _:
            return False


def numbers_above(node: alg.Node) -> "itertools.count[int]":
    """Numbers for new columns, above all numbers of a plan."""
    used = [col.number for below in descend(node) for col in below.columns]
    return itertools.count(max(used, default=0) + 1)
