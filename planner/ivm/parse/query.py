"""Turns a query's text into nodes: common table expressions, set operations, LIMIT, names."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ctsql.catalog.names import fold
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Span
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.reasons import Refused
from ctsql.planner.ivm.algebra.traversal import pass_through, union_all
from ctsql.planner.ivm.parse.clauses import (
    BodyText,
    CteText,
    QueryText,
    SelectText,
    SetText,
    TableText,
    ValuesText,
    read_query,
)
from ctsql.planner.ivm.parse.expressions import Expressions, Reading, texts, type_of
from ctsql.planner.ivm.parse.from_clause import TableSource, TextSource
from ctsql.planner.ivm.parse.from_relations import Relations
from ctsql.planner.ivm.parse.function_calls import order_item
from ctsql.planner.ivm.parse.scopes import Named, Scope
from ctsql.planner.ivm.parse.select import Block, Selected
from ctsql.planner.syntax.tokens.tokenizer import Tokens, span_of


@dataclass(frozen=True, slots=True)
class PlainView:
    """A relation that is evaluated in place: its query, its columns' names, what it reads."""

    sql: str
    columns: tuple[str, ...]
    relations: "Mapping[str, Relation]"


Relation = Sequence[Column] | PlainView
"""What a query's relation is: a table with these columns, or a plain view."""


@dataclass(slots=True)
class Cte:
    """A common table expression; compiled when it is first read."""

    text: CteText
    ctes: "Ctes"
    compiled: tuple[alg.Node, list[str]] | None = None


Ctes = Mapping[str, Cte]


class Compiler:
    """Compiles one query text.

    Args:
        reading: the text. relations: by name as typed, ``t`` or ``s.t``, folded.
        numbers: the numbers for new columns; shared with the texts of plain views.
    """

    def __init__(
        self, reading: Reading, relations: Mapping[str, Relation], numbers: Iterator[int]
    ) -> None:
        self.reading = reading
        self.known = relations
        self.numbers = numbers

    # ---- what the parts of a query ask for

    def fresh(self, name: str, kind: str = "") -> alg.Col:
        """A new column."""
        return alg.Col(next(self.numbers), name, kind)

    def one_row(self) -> alg.Values:
        """The relation that a SELECT without FROM reads."""
        return alg.Values(text="SELECT 1", columns=(self.fresh("one", "int"),))

    def expressions(self, ctes: Ctes) -> Expressions:
        """A builder of expressions whose subqueries see these common table expressions."""

        def subquery(tokens: Tokens, scope: Scope) -> alg.Node:
            return self.query(read_query(tokens), scope, ctes)[0]

        return Expressions(self.reading, subquery)

    def relations(self, ctes: Ctes) -> Relations:
        """A builder of FROM clauses."""
        return Relations(self, self.expressions(ctes))

    def relation(self, parts: Sequence[str], span: Span) -> tuple[alg.Node, list[str]]:
        """A table or a plain view.

        Raises:
            Refused: RELATION_UNKNOWN.
        """
        name = ".".join(fold(part) for part in parts)
        found = self.known.get(name)
        if found is None:
            raise Refused("RELATION_UNKNOWN", span)
        if isinstance(found, PlainView):
            below = Compiler(Reading.of(found.sql), found.relations, self.numbers)
            try:
                node, _ = below.query(read_query(below.reading.tokens), None, {})
            except Refused as refusal:  # the place is in another text
                raise Refused(refusal.reason.code, span) from refusal
            return node, list(found.columns)
        columns = tuple(self.fresh(c.name, c.type) for c in found)
        names = [c.name for c in found]
        return alg.Scan(table=name, names=tuple(names), columns=columns), names

    def cte(self, entry: Cte) -> tuple[alg.Node, list[str]]:
        """A common table expression under new column numbers."""
        if entry.compiled is None:
            node, names = self.query(entry.text.query, None, entry.ctes)
            entry.compiled = (node, list(entry.text.columns) or names)
        node, names = entry.compiled
        items = tuple(
            alg.Projection(alg.Expr.of(c), self.fresh(c.name, c.type)) for c in node.columns
        )
        return alg.Project(child=node, items=items), names

    # ---- queries

    def query(self, text: QueryText, outer: Scope | None, ctes: Ctes) -> tuple[alg.Node, list[str]]:
        """A query's node and the names of its columns.

        Args:
            outer: what is visible around it, for a subquery.

        Raises:
            Refused: a part has no change rule.
        """
        for one in text.ctes:
            ctes = {**ctes, fold(one.name.text): Cte(one, ctes)}
        limited = bool(text.offset) or (bool(text.limit) and text.limit[0].upper != "ALL")
        order = text.order if limited else ()
        if isinstance(text.body, SelectText):
            selected = Block(self, text.body, outer, ctes).compile(order)
        else:
            node, names = self.body(text.body, outer, ctes)
            items = tuple(self._order_of(o, node, names) for o in order)
            selected = Selected(node, names, items, 0)
        node = selected.node
        if limited:
            node = self._limit(text, selected)
        if selected.hidden:
            kept = node.columns[: -selected.hidden]
            node = alg.Project(child=node, items=pass_through(kept))
        return node, selected.names

    def _limit(self, text: QueryText, selected: Selected) -> alg.Node:
        if not text.order:
            raise Refused("LIMIT_WITHOUT_ORDER", span_of(text.limit or text.offset))
        constant = self.expressions({})
        for tokens in (text.limit, text.offset):
            if tokens:
                constant.build(tokens, Scope())
        return alg.Limit(
            child=selected.node,
            order=selected.order,
            limit=" ".join(texts(text.limit)),
            offset=" ".join(texts(text.offset)),
            span=span_of(text.limit or text.offset),
        )

    def _order_of(self, tokens: Tokens, node: alg.Node, names: Sequence[str]) -> alg.Order:
        """ORDER BY of a set operation: by place, or over the result's columns."""
        if tokens[0].text.isdigit():
            place = int(tokens[0].text)
            if not 1 <= place <= len(names):
                raise Refused("TEXT_NOT_READ", tokens[0].span)
            direction = " ".join(t.text for t in tokens[1:])
            return alg.Order(expr=alg.Expr.of(node.columns[place - 1]), direction=direction)
        named = Named(alias=(), columns=tuple(zip(names, node.columns, strict=True)))
        return order_item(tokens, self.expressions({}), Scope(sources=(named,)))

    def body(self, text: BodyText, outer: Scope | None, ctes: Ctes) -> tuple[alg.Node, list[str]]:
        """A query's body: a SELECT, VALUES, a set operation, a query in parentheses."""
        match text:
            case QueryText():
                return self.query(text, outer, ctes)
            case SelectText():
                selected = Block(self, text, outer, ctes).compile(())
                return selected.node, selected.names
            case ValuesText():
                return self._source(TextSource(tokens=text.tokens, alias=None, columns=()), ctes)
            case TableText():
                name = text.tokens[1:]
                return self._source(TableSource(name=name, alias=None, columns=()), ctes)
            case SetText():
                return self._combine(text, outer, ctes)

    def _source(self, source: TableSource | TextSource, ctes: Ctes) -> tuple[alg.Node, list[str]]:
        found = self.relations(ctes).source(source, Scope(), ctes)
        return found.node, [name for name, _ in found.sources[0].columns]

    def _combine(
        self, text: SetText, outer: Scope | None, ctes: Ctes
    ) -> tuple[alg.Node, list[str]]:
        left, names = self.body(text.left, outer, ctes)
        right, _ = self.body(text.right, outer, ctes)
        if len(left.columns) != len(right.columns):
            raise Refused("TEXT_NOT_READ")
        if text.operator != "union":
            operator = text.operator + (" all" if text.is_all else "")
            return alg.SetOperation(operator=operator, left=left, right=right), names
        columns = tuple(
            self.fresh(name, _wider(a, b))
            for name, a, b in zip(names, left.columns, right.columns, strict=True)
        )
        union = union_all([left, right], columns)
        return (union if text.is_all else alg.Distinct(child=union)), names


def _wider(a: alg.Col, b: alg.Col) -> str:
    if "double" in (type_of(alg.Expr.of(a)), type_of(alg.Expr.of(b))):
        return "double"
    return a.type if a.type == b.type else ""


def compile_query(sql: str, relations: Mapping[str, Relation]) -> tuple[alg.Node, list[str]]:
    """A query's node, and the names of its columns.

    Raises:
        Refused: the query, or a part of it, has no change rule.
    """
    reading = Reading.of(sql)
    folded = {name.lower(): relation for name, relation in relations.items()}
    compiler = Compiler(reading, folded, itertools.count(1))
    return compiler.query(read_query(reading.tokens), None, {})
