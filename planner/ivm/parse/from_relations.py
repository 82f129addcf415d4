"""Turns a FROM clause into nodes and the scope of its columns."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.names import fold
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Span
from ctsql.planner.ivm.algebra import nodes as alg, spark_functions
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.algebra.traversal import (
    columns_in,
    own_subqueries,
    pass_through,
    rename,
    subqueries,
)
from ctsql.planner.ivm.parse import clauses
from ctsql.planner.ivm.parse.clock_comparisons import ClockCondition
from ctsql.planner.ivm.parse.expressions import (
    Expressions,
    QueryReader,
    common_type,
    conjuncts,
    is_floating,
    texts,
)
from ctsql.planner.ivm.parse.scopes import Cte, NamedRelation, Scope, merge_sources
from ctsql.planner.syntax.tokens.tokenizer import Tokens, cut_at_commas, in_parentheses, span_of


@dataclass(frozen=True, slots=True)
class PlainView:
    """A plain view, which is inlined: its query, its column names, the relations that it reads."""

    sql: str
    columns: tuple[str, ...]
    relations: "Mapping[str, QueryRelation]"


QueryRelation = Sequence[Column] | PlainView
"""A relation of a query: a table with these columns, or a plain view."""


@dataclass(frozen=True, slots=True)
class CompiledRelation:
    """A relation and the names of its columns."""

    node: alg.Node
    sources: tuple[NamedRelation, ...]


class FromCompiler(ABC):
    """Compiles the FROM clauses of one query text.

    Args:
        reading: the text. relations: by name as typed, ``t`` or ``s.t``, folded.
        numbers: the numbers for new columns; shared with the texts of plain views.
        with_subqueries_in_joins: as for :func:`compile_query`.
    """

    def __init__(
        self,
        reading: QueryReader,
        relations: Mapping[str, QueryRelation],
        numbers: Iterator[int],
        *,
        with_subqueries_in_joins: bool = False,
    ) -> None:
        self.with_subqueries_in_joins = with_subqueries_in_joins
        self.reading = reading
        self.relations = relations
        self.numbers = numbers
        self.expressions = Expressions(
            reading, lambda tokens, scope: self.query(clauses.read_query(tokens), scope)[0]
        )

    @abstractmethod
    def query(self, text: clauses.QueryText, around: Scope) -> tuple[alg.Node, list[str]]:
        """A query's node and the names of its columns."""

    def fresh(self, name: str, kind: str = "") -> alg.Col:
        """A new column."""
        return alg.Col(next(self.numbers), name, kind)

    def one_row(self) -> alg.Values:
        """The relation that a SELECT without FROM reads."""
        return alg.Values(text="SELECT 1", columns=(self.fresh("one", "int"),))

    def source(self, source: clauses.FromSource, scope: Scope) -> CompiledRelation:
        """The node of a source, and its names; ``scope`` is the outer scope."""
        match source:
            case clauses.TableSource():
                return self._table(source, scope)
            case clauses.QuerySource():
                node, names = self.query(source.query, scope)
                return _name_columns(node, names, source)
            case clauses.TextSource():
                return self._rows(source, Scope(ctes=scope.ctes))
            case clauses.JoinSource():
                return self._join(source, scope)
            case clauses.ViewSource():
                return self._view(source, scope)

    def _table(self, source: clauses.TableSource, scope: Scope) -> CompiledRelation:
        parts = [t.text for t in source.name if t.is_name]
        cte = scope.ctes.get(fold(parts[0])) if len(parts) == 1 else None
        if cte is not None:
            node, names = self._cte(cte)
        else:
            node, names = self._relation(parts, span_of(source.name))
        qualifier = parts if source.alias is None else [source.alias]
        return _name_columns(node, names, source, qualifier)

    def _cte(self, entry: Cte) -> tuple[alg.Node, list[str]]:
        """A common table expression under new column numbers."""
        if entry.node_and_names is None:
            node, names = self.query(entry.text.query, Scope(ctes=entry.ctes))
            entry.node_and_names = (node, list(entry.text.columns) or names)
        node, names = entry.node_and_names
        return rename(node, node.columns, [self.fresh(c.name, c.type) for c in node.columns]), names

    def _relation(self, parts: Sequence[str], span: Span) -> tuple[alg.Node, list[str]]:
        """A table or a plain view."""
        name = ".".join(fold(part) for part in parts)
        relation = self.relations.get(name)
        if relation is None:
            raise Refusal("RELATION_UNKNOWN", span)
        if isinstance(relation, PlainView):
            below = type(self)(
                QueryReader.of(relation.sql),
                relation.relations,
                self.numbers,
                with_subqueries_in_joins=self.with_subqueries_in_joins,
            )
            try:
                node, _ = below.query(clauses.read_query(below.reading.tokens), Scope())
            except Refusal as refusal:  # the position is in another text
                raise Refusal(refusal.declined.reason, span) from refusal
            return node, list(relation.columns)
        columns = tuple(self.fresh(c.name, c.type) for c in relation)
        names = [c.name for c in relation]
        return alg.Scan(table=name, names=tuple(names), columns=columns), names

    def _rows(self, source: clauses.TextSource, scope: Scope) -> CompiledRelation:
        """VALUES, range(), constants and a generator over these, which never change."""
        first = source.tokens[0]
        is_function = first.upper != "VALUES"
        if is_function and fold(first.text) in spark_functions.GENERATORS:
            node = self._generator(source.tokens, source.columns, self.one_row(), scope)
            return _name_columns(node, [c.name for c in node.generated_columns], source)
        if is_function and fold(first.text) != "range":
            raise Refusal("RELATION_UNKNOWN", first.span)
        inner = source.tokens[1:]
        if inner:
            _refuse_subquery(self.expressions.build_piece(inner, scope), inner)
        if is_function:
            names = ["id"]
        else:
            row = cut_at_commas(inner)[0]
            values = cut_at_commas(in_parentheses(row) or row)
            names = [f"col{i + 1}" for i in range(len(values))]
        columns = tuple(self.fresh(name) for name in names)
        text = " ".join(texts(source.tokens))
        rows = alg.Values(text=text, columns=columns, is_function=is_function)
        return _name_columns(rows, names, source)

    def _generator(
        self, tokens: Tokens, columns: Sequence[str], child: alg.Node, scope: Scope
    ) -> alg.Generate:
        """The generator over each row of a child."""
        inside = tokens[2:-1]
        arguments = self.expressions.build_piece(inside, scope) if inside else alg.Expr(())
        parts = (tokens[0].span.text, "(", *arguments.parts, ")")
        generator = alg.Expr(parts, span_of(tokens))
        _refuse_subquery(generator, tokens)
        name = fold(tokens[0].text)
        if not columns and name.startswith("posexplode"):
            columns = ("pos", "col")
        elif not columns and name in ("explode", "explode_outer"):
            columns = ("col",)
        elif not columns:
            raise Refusal("GENERATOR_PLACE", span_of(tokens))
        kind = "double" if is_floating(generator) else ""
        new_columns = tuple(self.fresh(n, kind) for n in columns)
        return alg.Generate(
            child=child, generator=generator, is_outer=False, generated_columns=new_columns
        )

    def _view(self, source: clauses.ViewSource, scope: Scope) -> CompiledRelation:
        below = self.source(source.child, scope)
        if fold(source.generator[0].text) not in spark_functions.GENERATORS:
            raise Refusal("FUNCTION_UNKNOWN", source.generator[0].span)
        inner = _inside(scope, below.sources)
        generate = self._generator(source.generator, source.columns, below.node, inner)
        lateral_view = NamedRelation(
            alias=(fold(source.alias or ""),),
            columns=tuple((c.name, c) for c in generate.generated_columns),
        )
        return CompiledRelation(
            replace(generate, is_outer=source.is_outer), (*below.sources, lateral_view)
        )

    def _join(self, source: clauses.JoinSource, scope: Scope) -> CompiledRelation:
        left = self.source(source.left, scope)
        right_source = source.right
        if isinstance(right_source, clauses.TextSource) and right_source.is_lateral:
            raise Refusal("CLAUSE_UNSUPPORTED", span_of(right_source.tokens))
        is_lateral = isinstance(right_source, clauses.QuerySource) and right_source.is_lateral
        right = self.source(right_source, _inside(scope, left.sources) if is_lateral else scope)
        shared_columns = self._find_shared(source, left, right)
        sources = (*left.sources, *right.sources)
        both = _inside(scope, sources)
        pieces = conjuncts(source.on) if source.on else ()
        conditions = tuple(self.expressions.build(piece, both) for piece in pieces)
        conditions += tuple(alg.Expr.of(a, "=", b) for _, a, b in shared_columns)
        if any(any(subqueries(c)) for c in conditions) and not self.with_subqueries_in_joins:
            raise Refusal("SUBQUERY_PLACE", span_of(source.on))
        if not is_lateral:
            return self._connect(source.kind, left, right, conditions, shared_columns)
        if source.kind not in ("inner", "left") or source.using or source.is_natural:
            raise Refusal("CLAUSE_UNSUPPORTED", span_of(source.span_tokens))
        is_left = source.kind == "left"
        node = alg.LateralJoin(
            left=left.node, right=right.node, is_left=is_left, conditions=conditions
        )
        return CompiledRelation(node, sources)

    def _find_shared(
        self, source: clauses.JoinSource, left: CompiledRelation, right: CompiledRelation
    ) -> list[tuple[str, alg.Col, alg.Col]]:
        """The columns of USING, or of NATURAL: name, left one, right one."""
        ours, theirs = Scope(sources=left.sources), Scope(sources=right.sources)
        if source.is_natural:
            span = span_of(source.span_tokens)
            right_names = {fold(n): n for n, _ in theirs.star(()) or ()}
            names = [(n, span) for n, _ in ours.star(()) or () if fold(n) in right_names]
        else:
            names = [(t.text, t.span) for t in source.using]
        columns = []
        for name, span in names:
            a, b = ours.own_column([name], span), theirs.own_column([name], span)
            if a is None or b is None:
                raise Refusal("UNKNOWN_COLUMN", span)
            columns.append((name, a, b))
        return columns

    def _connect(
        self,
        kind: str,
        left: CompiledRelation,
        right: CompiledRelation,
        conditions: tuple[alg.Expr, ...],
        shared_columns: list[tuple[str, alg.Col, alg.Col]],
    ) -> CompiledRelation:
        node: alg.Node
        if kind == "inner":
            node = inner_join(left.node, right.node, conditions)
        else:
            node = alg.OuterOrSemiJoin(
                kind=alg.JoinKind[kind.upper()],
                left=left.node,
                right=right.node,
                conditions=conditions,
            )
        if kind in ("semi", "anti"):
            return CompiledRelation(node, left.sources)
        names = {n: (b if kind == "right" else a) for n, a, b in shared_columns}
        if kind == "full" and shared_columns:
            names = {n: self.fresh(n, common_type(a, b)) for n, a, b in shared_columns}
            items = (
                alg.Projection(alg.Expr.of("coalesce (", a, ",", b, ")"), names[n])
                for n, a, b in shared_columns
            )
            node = alg.Project(child=node, items=(*pass_through(node.columns), *items))
        return CompiledRelation(node, merge_sources(left.sources, right.sources, names))


def _inside(around: Scope, sources: tuple[NamedRelation, ...]) -> Scope:
    """The scope of expressions over relations in FROM."""
    return Scope(sources=sources, outer=around, ctes=around.ctes)


def _refuse_subquery(expr: alg.Expr, tokens: Tokens) -> None:
    """Refuse a subquery in a relation of constants, which must not change with a table."""
    if any(subqueries(expr)):
        raise Refusal("SUBQUERY_PLACE", span_of(tokens))


def _name_columns(
    node: alg.Node,
    names: Sequence[str],
    source: clauses.FromItem,
    qualifier: Sequence[str] | None = None,
) -> CompiledRelation:
    """A relation under the names of its columns, or those that an alias gives them."""
    if source.columns and len(source.columns) != len(node.columns):
        raise Refusal("TEXT_NOT_READ")
    columns = tuple(zip(source.columns or names, node.columns, strict=False))
    parts = qualifier or [source.alias or ""]
    return CompiledRelation(
        node, (NamedRelation(alias=tuple(fold(p) for p in parts), columns=columns),)
    )


def inner_join(left: alg.Node, right: alg.Node, conditions: tuple[alg.Expr, ...]) -> alg.Node:
    """One flat join of nested inner joins; conditions on one side are moved to that side."""
    children: tuple[alg.Node, ...] = ()
    conditions_here: tuple[alg.Expr, ...] = ()
    for side in (left, right):
        if isinstance(side, alg.Join):
            children += side.children
            conditions_here += side.conditions
        else:
            children += (side,)
    join = alg.Join(children=children, conditions=conditions_here)
    return filter_rows(join, [ClockCondition(c) for c in conditions])


def filter_rows(node: alg.Node, conditions: Sequence[ClockCondition]) -> alg.Node:
    """The node's rows that pass; each predicate is moved as close to the tables as possible.

    Predicates with a subquery or an outer column stay on top, where their rules expect them. Raises
    CLOCK_READ as :class:`Refusal` if one of these reads the clock.
    """
    columns = set(node.columns)
    top_predicates = []
    for condition in conditions:
        predicate = condition.predicate
        is_own = not any(subqueries(predicate)) and columns_in(predicate) <= columns
        if condition.expiries and not (is_own and columns_in(predicate)):
            raise Refusal("CLOCK_READ", predicate.span)
        if is_own:
            node = _push(node, condition)
        else:
            top_predicates.append(predicate)
    for predicate in top_predicates:
        node = alg.Filter(child=node, predicates=(predicate,))
    return node


def _push(node: alg.Node, condition: ClockCondition) -> alg.Node:
    """The node's rows that pass a predicate, moved as close to the tables as possible.

    A comparison with the clock never becomes a join's condition.
    """
    predicate, is_timed = condition.predicate, bool(condition.expiries)
    columns = columns_in(predicate)
    below: tuple[type[alg.Node], ...] = (alg.Filter, alg.Join, alg.OuterOrSemiJoin)
    if is_timed:
        below = (*below, alg.Temporal)
    match node:
        case alg.Join() if columns:
            index = next((i for i, c in enumerate(node.children) if columns <= {*c.columns}), None)
            if index is not None:
                children = list(node.children)
                children[index] = _push(children[index], condition)
                return replace(node, children=tuple(children))
            if not is_timed:
                return replace(node, conditions=(*node.conditions, predicate))
        case alg.OuterOrSemiJoin(
            kind=alg.JoinKind.LEFT | alg.JoinKind.SEMI | alg.JoinKind.ANTI
        ) if columns and columns <= set(node.left.columns):
            return replace(node, left=_push(node.left, condition))
        case alg.Temporal() if is_timed:
            predicates = (*node.predicates, predicate)
            return replace(
                node, predicates=predicates, expiries=(*node.expiries, *condition.expiries)
            )
        case alg.Temporal():
            return replace(node, child=_push(node.child, condition))
        case alg.Filter() if not own_subqueries(node):
            if isinstance(node.child, below):
                return replace(node, child=_push(node.child, condition))
            if not is_timed:
                return replace(node, predicates=(*node.predicates, predicate))
        case _:
            pass
    if is_timed:
        return alg.Temporal(child=node, predicates=(predicate,), expiries=condition.expiries)
    return alg.Filter(child=node, predicates=(predicate,))
