"""Turns a query's text into nodes: common table expressions, set operations, LIMIT, names."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

from ctsql.catalog.names import fold
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.algebra.traversal import is_one_row, pass_through, rename, union_all
from ctsql.planner.ivm.parse.clauses import BodyText, QueryText, SelectText, SetText, read_query
from ctsql.planner.ivm.parse.expressions import QueryReader, common_type, is_constant, texts
from ctsql.planner.ivm.parse.from_relations import FromCompiler, QueryRelation
from ctsql.planner.ivm.parse.function_calls import order_item
from ctsql.planner.ivm.parse.scopes import Cte, NamedRelation, Scope
from ctsql.planner.ivm.parse.select import Block, CompiledSelect
from ctsql.planner.syntax.tokens.tokenizer import span_of


class Compiler(FromCompiler):
    """Compiles one query text."""

    def query(self, text: QueryText, around: Scope) -> tuple[alg.Node, list[str]]:
        """A query's node and the names of its columns; ``around`` is the outer scope."""
        for one in text.ctes:
            ctes = {**around.ctes, fold(one.name.text): Cte(one, around.ctes)}
            around = replace(around, ctes=ctes)
        limited = bool(text.offset) or (bool(text.limit) and text.limit[0].upper != "ALL")
        order = text.order if limited else ()
        if isinstance(text.body, SelectText):
            select = Block(self, text.body, around).compile(order)
        else:
            node, names = self._body(text.body, around)
            source = NamedRelation(alias=(), columns=tuple(zip(names, node.columns, strict=True)))
            scope, places = Scope(sources=(source,)), [alg.Expr.of(col) for col in node.columns]
            items = (order_item(o, self.expressions, scope, places=places) for o in order)
            keys = tuple(o for o in items if not is_constant(o.expr))
            select = CompiledSelect(node, names, keys, 0)
        node = select.node
        if limited:
            node = self._limit(text, select)
        if select.hidden_count:
            columns = node.columns[: -select.hidden_count]
            node = alg.Project(child=node, items=pass_through(columns))
        return node, select.names

    def _limit(self, text: QueryText, select: CompiledSelect) -> alg.Node:
        limit = texts(text.limit)
        is_some = len(limit) == 1 and limit[0].strip("0").isdigit()
        if is_some and not text.offset and is_one_row(select.node):
            return select.node  # it has one row
        if not select.order:
            raise Refusal("LIMIT_WITHOUT_ORDER", span_of(text.limit or text.offset))
        for tokens in (text.limit, text.offset):
            if tokens:
                self.expressions.build(tokens, Scope())
        return alg.Limit(
            child=select.node,
            order=select.order,
            limit=" ".join(limit),
            offset=" ".join(texts(text.offset)),
            span=span_of(text.limit or text.offset),
        )

    def _body(self, text: BodyText, around: Scope) -> tuple[alg.Node, list[str]]:
        """A query's body: a SELECT, VALUES, a set operation, a query in parentheses."""
        match text:
            case QueryText():
                return self.query(text, around)
            case SelectText():
                select = Block(self, text, around).compile(())
                return select.node, select.names
            case SetText():
                return self._combine(text, around)
            case _:
                relation = self.source(text, around)
                return relation.node, [name for name, _ in relation.sources[0].columns]

    def _combine(self, text: SetText, around: Scope) -> tuple[alg.Node, list[str]]:
        left, names = self._body(text.left, around)
        right, _ = self._body(text.right, around)
        if len(left.columns) != len(right.columns):
            raise Refusal("TEXT_NOT_READ")
        columns = tuple(
            self.fresh(name, common_type(a, b))
            for name, a, b in zip(names, left.columns, right.columns, strict=True)
        )
        if text.operator != "union":
            operator = text.operator + (" all" if text.is_all else "")
            node = alg.SetOperation(operator=operator, left=left, right=right)
            is_typed = all(a.type == c.type for a, c in zip(left.columns, columns, strict=True))
            return (node if is_typed else rename(node, node.columns, columns)), names
        union = union_all([left, right], columns)
        return (union if text.is_all else alg.Distinct(child=union)), names


def compile_query(
    sql: str, relations: Mapping[str, QueryRelation], *, with_subqueries_in_joins: bool = False
) -> tuple[alg.Node, list[str]]:
    """A query's node, and the names of its columns.

    Args:
        with_subqueries_in_joins: allow subqueries in join conditions; they have no change rule.

    Raises:
        Refusal: the query, or a part of it, has no change rule.
    """
    reading = QueryReader.of(sql)
    by_name = {name.lower(): relation for name, relation in relations.items()}
    compiler = Compiler(
        reading, by_name, itertools.count(1), with_subqueries_in_joins=with_subqueries_in_joins
    )
    return compiler.query(read_query(reading.tokens), Scope())
