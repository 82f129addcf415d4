"""Turns a FROM clause into nodes and the scope its columns are found in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctsql.catalog.names import fold
from ctsql.planner.ivm.algebra import nodes as alg, spark_functions
from ctsql.planner.ivm.algebra.reasons import Refused
from ctsql.planner.ivm.algebra.traversal import columns_in, has_subquery, pass_through, subqueries
from ctsql.planner.ivm.parse import from_clause
from ctsql.planner.ivm.parse.expressions import Expressions, conjuncts, is_floating, texts
from ctsql.planner.ivm.parse.scopes import Named, Scope, merge_sources
from ctsql.planner.syntax.tokens.tokenizer import Tokens, cut_at_commas, in_parentheses, span_of

if TYPE_CHECKING:  # the two compile each other's parts
    from ctsql.planner.ivm.parse.query import Compiler, Ctes

_KINDS = {
    "left": alg.JoinKind.LEFT,
    "right": alg.JoinKind.RIGHT,
    "full": alg.JoinKind.FULL,
    "semi": alg.JoinKind.SEMI,
    "anti": alg.JoinKind.ANTI,
}


@dataclass(frozen=True, slots=True)
class Found:
    """A relation and what its columns are called."""

    node: alg.Node
    sources: tuple[Named, ...]


class Relations:
    """Compiles FROM clauses.

    Args:
        compiler: the query compiler; gives fresh columns, and nodes of nested queries.
    """

    def __init__(self, compiler: "Compiler", expressions: Expressions) -> None:
        self.compiler = compiler
        self.expressions = expressions

    def source(self, source: from_clause.Source, scope: Scope, ctes: "Ctes") -> Found:
        """The node of a source, and its names.

        Raises:
            Refused: what is in it has no change rule.
        """
        match source:
            case from_clause.TableSource():
                return self._table(source, ctes)
            case from_clause.QuerySource():
                node, names = self.compiler.query(source.query, scope.outer, ctes)
                return _name_columns(node, names, source.alias, source.columns)
            case from_clause.TextSource():
                return self._rows(source, scope)
            case from_clause.JoinSource():
                return self._join(source, scope, ctes)
            case from_clause.ViewSource():
                return self._view(source, scope, ctes)

    def _table(self, source: from_clause.TableSource, ctes: "Ctes") -> Found:
        parts = [t.text for t in source.name if t.is_name]
        if len(parts) == 1 and fold(parts[0]) in ctes:
            node, names = self.compiler.cte(ctes[fold(parts[0])])
            return _name_columns(node, names, source.alias or parts[0], source.columns)
        node, names = self.compiler.relation(parts, span_of(source.name))
        found = _name_columns(node, names, source.alias or parts[-1], source.columns)
        if source.alias is None and len(parts) > 1:
            only = found.sources[0]
            alias = tuple(fold(p) for p in parts)
            return Found(found.node, (Named(alias=alias, columns=only.columns),))
        return found

    def _rows(self, source: from_clause.TextSource, scope: Scope) -> Found:
        """VALUES, range() and constants; they read nothing, so they never change."""
        first = source.tokens[0]
        is_function = first.upper != "VALUES"
        if is_function and fold(first.text) in spark_functions.GENERATORS:
            return self._generate(source)
        if is_function and fold(first.text) != "range":
            raise Refused("RELATION_UNKNOWN", first.span)
        inner = source.tokens[1:]
        if inner:
            _refuse_subquery(self.expressions.build_piece(inner, Scope()), inner)
        if is_function:
            names = ["id"]
        else:
            row = cut_at_commas(inner)[0]
            values = cut_at_commas(in_parentheses(row) or row)
            names = [f"col{i + 1}" for i in range(len(values))]
        columns = tuple(self.compiler.fresh(name) for name in names)
        rows = alg.Values(
            text=" ".join(texts(source.tokens)),
            columns=columns,
            is_function=is_function,
        )
        return _name_columns(rows, names, source.alias, source.columns)

    def _generate(self, source: from_clause.TextSource) -> Found:
        """A generator in FROM over constants is the generator over one row."""
        generator = self.expressions.build_generator(source.tokens, Scope())
        _refuse_subquery(generator, source.tokens)
        made = self._generator_columns(source.tokens, generator, source.columns)
        node = alg.Generate(
            child=self.compiler.one_row(), generator=generator, is_outer=False, made=made
        )
        return _name_columns(node, [c.name for c in made], source.alias, source.columns)

    def _generator_columns(
        self, tokens: Tokens, generator: alg.Expr, columns: Sequence[str]
    ) -> tuple[alg.Col, ...]:
        name = fold(tokens[0].text)
        names = list(columns)
        if not names:
            names = {"explode": ["col"], "explode_outer": ["col"]}.get(
                name, ["pos", "col"] if name.startswith("posexplode") else []
            )
        if not names:
            raise Refused("GENERATOR_PLACE", span_of(tokens))
        kind = "double" if is_floating(generator) else ""
        return tuple(self.compiler.fresh(n, kind) for n in names)

    def _view(self, source: from_clause.ViewSource, scope: Scope, ctes: "Ctes") -> Found:
        below = self.source(source.child, scope, ctes)
        inner = Scope(sources=below.sources, outer=scope.outer)
        if fold(source.generator[0].text) not in spark_functions.GENERATORS:
            raise Refused("FUNCTION_UNKNOWN", source.generator[0].span)
        generator = self.expressions.build_generator(source.generator, inner)
        _refuse_subquery(generator, source.generator)
        made = self._generator_columns(source.generator, generator, source.columns)
        node = alg.Generate(
            child=below.node, generator=generator, is_outer=source.is_outer, made=made
        )
        named = Named(alias=(fold(source.alias or ""),), columns=tuple((c.name, c) for c in made))
        return Found(node, (*below.sources, named))

    # ---- joins

    def _join(self, source: from_clause.JoinSource, scope: Scope, ctes: "Ctes") -> Found:
        left = self.source(source.left, scope, ctes)
        seen = Scope(sources=left.sources, outer=scope.outer)
        right_source = source.right
        if isinstance(right_source, from_clause.TextSource) and right_source.is_lateral:
            raise Refused("CLAUSE_UNSUPPORTED", span_of(right_source.tokens))
        if isinstance(right_source, from_clause.QuerySource) and right_source.is_lateral:
            node, names = self.compiler.query(right_source.query, seen, ctes)
            right = _name_columns(node, names, right_source.alias, right_source.columns)
        else:
            right = self.source(right_source, Scope(outer=scope.outer), ctes)
        shared = self._find_shared(source, left, right)
        both = Scope(sources=(*left.sources, *right.sources), outer=scope.outer)
        conditions = tuple(
            self.expressions.build(piece, both)
            for piece in (conjuncts(source.on) if source.on else ())
        )
        conditions += tuple(alg.Expr.of(a, "=", b) for _, a, b in shared)
        if any(any(subqueries(c)) for c in conditions):
            raise Refused("SUBQUERY_PLACE", span_of(source.on))
        if isinstance(right_source, from_clause.QuerySource) and right_source.is_lateral:
            return self._lateral(source, left, right, conditions)
        return self._connect(source.kind, left, right, conditions, shared)

    def _lateral(
        self,
        source: from_clause.JoinSource,
        left: Found,
        right: Found,
        conditions: tuple[alg.Expr, ...],
    ) -> Found:
        if source.kind not in ("inner", "left") or source.using or source.is_natural:
            raise Refused("CLAUSE_UNSUPPORTED", span_of(source.span_tokens))
        node = alg.LateralJoin(
            left=left.node,
            right=right.node,
            is_left=source.kind == "left",
            conditions=conditions,
        )
        return Found(node, (*left.sources, *right.sources))

    def _find_shared(
        self, source: from_clause.JoinSource, left: Found, right: Found
    ) -> list[tuple[str, alg.Col, alg.Col]]:
        """The columns of USING, or of NATURAL: name, left one, right one."""
        ours, theirs = Scope(sources=left.sources), Scope(sources=right.sources)
        if source.is_natural:
            span = span_of(source.span_tokens)
            wanted = {fold(n): n for n, _ in theirs.star(()) or ()}
            names = [(n, span) for n, _ in ours.star(()) or () if fold(n) in wanted]
        else:
            names = [(t.text, t.span) for t in source.using]
        found = []
        for name, span in names:
            a, b = ours.own_column([name], span), theirs.own_column([name], span)
            if a is None or b is None:
                raise Refused("UNKNOWN_COLUMN", span)
            found.append((name, a, b))
        return found

    def _connect(
        self,
        kind: str,
        left: Found,
        right: Found,
        conditions: tuple[alg.Expr, ...],
        shared: list[tuple[str, alg.Col, alg.Col]],
    ) -> Found:
        if kind == "inner":
            node = inner_join(left.node, right.node, conditions)
            return Found(
                node, merge_sources(left.sources, right.sources, {n: a for n, a, _ in shared})
            )
        node = alg.OuterOrSemiJoin(
            kind=_KINDS[kind], left=left.node, right=right.node, conditions=conditions
        )
        if kind in ("semi", "anti"):
            return Found(node, left.sources)
        if kind != "full":
            names = {n: (a if kind == "left" else b) for n, a, b in shared}
            return Found(node, merge_sources(left.sources, right.sources, names))
        items = []
        names = {}
        for name, a, b in shared:
            names[name] = self.compiler.fresh(name, a.type)
            items.append(alg.Projection(alg.Expr.of("coalesce", "(", a, ",", b, ")"), names[name]))
        if items:
            node = alg.Project(child=node, items=(*pass_through(node.columns), *items))
        return Found(node, merge_sources(left.sources, right.sources, names))


def _refuse_subquery(made: alg.Expr, tokens: Tokens) -> None:
    """What a relation of constants is made of must not change with a table."""
    if any(subqueries(made)):
        raise Refused("SUBQUERY_PLACE", span_of(tokens))


def _name_columns(
    node: alg.Node, names: Sequence[str], alias: str | None, columns: Sequence[str]
) -> Found:
    listed = list(zip(columns or names, node.columns, strict=False))
    if columns and len(columns) != len(node.columns):
        raise Refused("TEXT_NOT_READ")
    return Found(node, (Named(alias=(fold(alias or ""),), columns=tuple(listed)),))


def inner_join(left: alg.Node, right: alg.Node, conditions: tuple[alg.Expr, ...]) -> alg.Node:
    """One flat join of all that inner joins connect; conditions of one side go to that side."""
    children: tuple[alg.Node, ...] = ()
    found: tuple[alg.Expr, ...] = ()
    for side in (left, right):
        if isinstance(side, alg.Join):
            children += side.children
            found += side.conditions
        else:
            children += (side,)
    return filter_rows(alg.Join(children=children, conditions=found), conditions)


def filter_rows(node: alg.Node, predicates: Sequence[alg.Expr]) -> alg.Node:
    """The node's rows that pass; each predicate as near to the tables as it may go.

    A predicate with a subquery, or with a column of a query around, stays on top: the rules for
    these look for them there.
    """
    columns = set(node.columns)
    held = []
    for predicate in predicates:
        if any(subqueries(predicate)) or not columns_in(predicate) <= columns:
            held.append(predicate)
        else:
            node = _push(node, predicate)
    for predicate in held:
        node = alg.Filter(child=node, predicates=(predicate,))
    return node


def _push(node: alg.Node, predicate: alg.Expr) -> alg.Node:
    columns = columns_in(predicate)
    match node:
        case alg.Join() if columns:
            for index, child in enumerate(node.children):
                if columns <= set(child.columns):
                    below = _push(child, predicate)
                    children = (*node.children[:index], below, *node.children[index + 1 :])
                    return alg.Join(children=children, conditions=node.conditions)
            return alg.Join(children=node.children, conditions=(*node.conditions, predicate))
        case alg.OuterOrSemiJoin(
            kind=alg.JoinKind.LEFT | alg.JoinKind.SEMI | alg.JoinKind.ANTI
        ) if columns and (columns <= set(node.left.columns)):
            left = _push(node.left, predicate)
            return alg.OuterOrSemiJoin(
                kind=node.kind, left=left, right=node.right, conditions=node.conditions
            )
        case alg.Filter() if not has_subquery(node):
            if isinstance(node.child, alg.Filter | alg.Join | alg.OuterOrSemiJoin):
                return alg.Filter(child=_push(node.child, predicate), predicates=node.predicates)
            return alg.Filter(child=node.child, predicates=(*node.predicates, predicate))
        case _:
            return alg.Filter(child=node, predicates=(predicate,))
