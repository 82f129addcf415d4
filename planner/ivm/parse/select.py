"""Turns one SELECT into nodes: rows, groups, windows, the select list, DISTINCT."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.names import fold
from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.algebra.traversal import pass_through, subqueries
from ctsql.planner.ivm.parse.clauses import SelectText, read_source, starts_query
from ctsql.planner.ivm.parse.clock_comparisons import ClockCondition, read_expiries
from ctsql.planner.ivm.parse.expressions import Calls, conjuncts, is_constant, type_of
from ctsql.planner.ivm.parse.from_relations import FromCompiler, filter_rows
from ctsql.planner.ivm.parse.function_calls import (
    WindowDraft,
    aggregate_call,
    has_calls,
    order_item,
    outside_calls,
    window_call,
    window_draft,
)
from ctsql.planner.ivm.parse.grouping import KeyRewriter, read_grouping
from ctsql.planner.ivm.parse.scopes import Scope
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.tokenizer import Token, Tokens, span_of


@dataclass(slots=True)
class _Output:
    """An item of the select list: its name, its tokens (None if from a star), its expression."""

    name: str
    tokens: Tokens | None
    expr: alg.Expr


@dataclass(frozen=True, slots=True)
class CompiledSelect:
    """A compiled SELECT; the last ``hidden_count`` columns of the node are for ORDER BY only."""

    node: alg.Node
    names: list[str]
    order: tuple[alg.Order, ...]
    hidden_count: int


class Block:
    """Compiles one SELECT in its outer scope."""

    def __init__(self, compiler: FromCompiler, text: SelectText, around: Scope) -> None:
        self.compiler = compiler
        self.expressions = compiler.expressions
        self.text = text
        self.around = around
        self.aggregates: dict[alg.Expr, alg.AggregateCall] = {}
        self.grouping_arguments: dict[alg.Col, tuple[alg.Expr, ...]] = {}
        self.windows: dict[WindowDraft, alg.Col] = {}
        self.scope = Scope(outer=around, ctes=around.ctes)
        self.calls = Calls(self._aggregate, self._window, dict(text.windows))

    def compile(self, order: Sequence[Tokens]) -> CompiledSelect:
        """The SELECT, with the ORDER BY items that a LIMIT needs."""
        node = self._rows()
        outputs = self._outputs()
        aliases = {fold(o.name): o.expr for o in outputs if o.name}
        having = self._conditions(self.text.having, aliases)
        qualify = self._conditions(self.text.qualify, aliases)
        exprs = [o.expr for o in outputs]
        # Names of the select list have priority over columns in FROM.
        scope = Scope(aliases=aliases, outer=self.scope, ctes=self.scope.ctes)
        order_items = [order_item(o, self.expressions, scope, self.calls, exprs) for o in order]
        if self.text.group or self.text.having or self.aggregates:
            node, groups = self._group(node, outputs, aliases)
            exprs = [groups.rewrite(e) for e in exprs]
            having = [c.rewrite_with(groups.rewrite) for c in having]
            qualify = [c.rewrite_with(groups.rewrite) for c in qualify]
            order_items = [replace(o, expr=groups.rewrite(o.expr)) for o in order_items]
            self.windows = {self._draft_over(d, groups): c for d, c in self.windows.items()}
        node = filter_rows(node, having)
        if self.windows:
            node = self._add_windows(node)
        node = filter_rows(node, qualify)
        return self._project(node, outputs, exprs, order_items)

    def _rows(self) -> alg.Node:
        if self.text.source:
            source = self.compiler.source(read_source(self.text.source), self.around)
            node = source.node
            self.scope = replace(self.scope, sources=source.sources)
        else:
            node = self.compiler.one_row()
        pieces = conjuncts(self.text.where) if self.text.where else []
        where = Calls(is_condition=True)
        return filter_rows(node, [self._condition(p, self.scope, where) for p in pieces])

    def _outputs(self) -> list[_Output]:
        outputs: list[_Output] = []
        aliases: dict[str, alg.Expr] = {}
        for tokens in self.text.items:
            star = self._star(tokens)
            if star is not None:
                outputs += [_Output(name, None, alg.Expr.of(col)) for name, col in star]
                continue
            name, value = self._alias(tokens)
            scope = replace(self.scope, aliases=dict(aliases))
            expr = self.expressions.build(value, scope, self.calls)
            outputs.append(_Output(name, value, expr))
            if name:
                aliases.setdefault(fold(name), expr)
        return outputs

    def _alias(self, tokens: Tokens) -> tuple[str, Tokens]:
        if not tokens:
            raise Refusal("TEXT_NOT_READ", span_of(self.text.tokens))
        last = tokens[-1]
        if last.is_name and last.start in self.compiler.reading.aliases and len(tokens) > 1:
            stop = -2 if tokens[-2].upper == "AS" else -1
            return last.text, tokens[:stop]
        if last.is_name and (len(tokens) == 1 or tokens[-2].upper == "."):
            return last.text, tokens
        return "", tokens

    def _star(self, tokens: Tokens) -> list[tuple[str, alg.Col]] | None:
        """Return the columns of ``*``, ``t.*`` and ``* EXCEPT (c)``; None for anything else."""
        place = next((i for i, t in enumerate(tokens) if t.upper == "*"), None)
        if place is None or (place and tokens[place - 1].upper != "."):
            return None
        if any(not (t.is_name or t.upper == ".") for t in tokens[:place]):
            return None
        columns = self.scope.star([t.text for t in tokens[:place] if t.is_name])
        if columns is None:
            raise Refusal("UNKNOWN_COLUMN", span_of(tokens))
        rest = tokens[place + 1 :]
        if not rest:
            return columns
        if rest[0].upper != "EXCEPT" or tk.closing(rest, 1) != len(rest) - 1:
            return None
        except_names = {fold(t.text) for t in rest[2:-1] if t.is_name}
        if not except_names <= {fold(name) for name, _ in columns}:
            raise Refusal("UNKNOWN_COLUMN", span_of(rest))
        return [(name, col) for name, col in columns if fold(name) not in except_names]

    def _condition(self, tokens: Tokens, scope: Scope, calls: Calls) -> ClockCondition:
        clocks = self.compiler.reading.clocks
        if not any(t.start in clocks for t in _outside_queries(tokens)):
            return ClockCondition(self.expressions.build(tokens, scope, calls))
        expiries = read_expiries(tokens, clocks, lambda t: self.expressions.build(t, scope, calls))
        calls = replace(calls, reads_clock=True)
        return ClockCondition(self.expressions.build(tokens, scope, calls), expiries)

    def _conditions(self, tokens: Tokens, aliases: dict[str, alg.Expr]) -> list[ClockCondition]:
        if not tokens:
            return []
        self._check_aliases(tokens, aliases)
        scope = replace(self.scope, aliases=aliases)
        calls = replace(self.calls, is_condition=True)
        return [self._condition(p, scope, calls) for p in conjuncts(tokens)]

    def _check_aliases(self, tokens: Tokens, aliases: dict[str, alg.Expr]) -> None:
        """Refuse a name that is both a column and an alias of another expression.

        In arguments of aggregates names are columns.
        """
        for token in outside_calls(tokens):
            is_column = token.is_name and token.start in self.compiler.reading.columns
            alias = aliases.get(fold(token.text)) if is_column else None
            column = self.scope.own_column([token.text], token.span) if alias else None
            if column is not None and alias is not None and alias.column != column:
                raise Refusal("AMBIGUOUS_COLUMN", token.span)

    def _aggregate(self, tokens: Tokens) -> alg.Col:
        call = aggregate_call(tokens, self.expressions, self.scope, self.compiler.fresh(""))
        column = self.aggregates.get(call.expr)
        if column is not None:
            return column.col
        self.aggregates[call.expr] = call
        if call.function in ("grouping", "grouping_id"):
            inside = tokens[2:-1]
            self.grouping_arguments[call.col] = tuple(
                self.expressions.build(g, self.scope)
                for g in (tk.cut_at_commas(inside) if inside else ())
            )
        return call.col

    def _group(
        self, node: alg.Node, outputs: Sequence[_Output], aliases: dict[str, alg.Expr]
    ) -> tuple[alg.Node, KeyRewriter]:
        items = [None if o.tokens is not None and has_calls(o.tokens) else o.expr for o in outputs]
        scope = replace(self.scope, aliases=aliases)
        exprs: tuple[alg.Expr, ...] = ()
        sets = None
        if self.text.group:
            exprs, sets = read_grouping(
                self.text.group, lambda t: self.expressions.build(t, scope), items
            )
        if any(any(subqueries(e)) for e in exprs):
            raise Refusal("SUBQUERY_PLACE", span_of(self.text.group))
        for expr in exprs:
            if "map<" in type_of(expr).lower():
                raise Refusal("GROUPED_BY_MAP", expr.span)
        keys: dict[alg.Expr, alg.Key] = {}
        projections: list[alg.Projection] = []
        for expr in exprs:
            source = expr.column
            if source is None:
                source = self.compiler.fresh("", type_of(expr))
                projections.append(alg.Projection(expr, source))
            keys[expr] = alg.Key(source=source, col=self.compiler.fresh(source.name, source.type))
        rows = node.columns
        if projections:
            node = alg.Project(child=node, items=(*pass_through(node.columns), *projections))
        calls = tuple(self._with_grouping(call, list(keys)) for call in self.aggregates.values())
        if not keys and not calls:  # HAVING alone makes one group of all rows
            calls = (alg.call_of("count", "*", self.compiler.fresh("count", "bigint")),)
        aggregate = alg.Aggregate(child=node, keys=tuple(keys.values()), calls=calls, sets=sets)
        return aggregate, KeyRewriter({e: k.col for e, k in keys.items()}, rows)

    def _with_grouping(self, call: alg.AggregateCall, keys: list[alg.Expr]) -> alg.AggregateCall:
        """grouping(a) and grouping_id(a, b) with the numbers of their keys."""
        arguments = self.grouping_arguments.get(call.col)
        if arguments is None:
            return call
        if not arguments:
            return replace(call, grouping=tuple(range(len(keys))))
        if any(argument not in keys for argument in arguments):
            raise Refusal("GROUPING_UNSUPPORTED", call.expr.span)
        return replace(call, grouping=tuple(keys.index(a) for a in arguments))

    def _window(self, tokens: Tokens, over: Tokens) -> alg.Col:
        draft = window_draft(tokens, over, self.expressions, self.scope, self.calls)
        if draft not in self.windows:
            self.windows[draft] = self.compiler.fresh(draft.function)
        return self.windows[draft]

    def _draft_over(self, draft: WindowDraft, groups: KeyRewriter) -> WindowDraft:
        call, partition = groups.rewrite(draft.call), tuple(map(groups.rewrite, draft.partition))
        order = tuple(replace(o, expr=groups.rewrite(o.expr)) for o in draft.order)
        return replace(draft, call=call, partition=partition, order=order)

    def _add_windows(self, node: alg.Node) -> alg.Node:
        columns: dict[alg.Expr, alg.Col] = {}

        def column(expr: alg.Expr) -> alg.Col:
            if expr.column is not None:
                return expr.column
            return columns.setdefault(expr, self.compiler.fresh("", type_of(expr)))

        calls = tuple(
            window_call(draft, tuple(column(e) for e in draft.partition), draft.order, col)
            for draft, col in self.windows.items()
        )
        if columns:
            items = tuple(alg.Projection(expr, col) for expr, col in columns.items())
            node = alg.Project(child=node, items=(*pass_through(node.columns), *items))
        return alg.Window(child=node, calls=calls)

    def _project(
        self,
        node: alg.Node,
        outputs: Sequence[_Output],
        exprs: Sequence[alg.Expr],
        requested_order: Sequence[alg.Order],
    ) -> CompiledSelect:
        items = [
            alg.Projection(expr, self.compiler.fresh(output.name, type_of(expr)))
            for output, expr in zip(outputs, exprs, strict=True)
        ]
        by_expr = {item.expr: item.col for item in reversed(items) if not is_constant(item.expr)}
        shown = KeyRewriter(by_expr, node.columns)
        order = []
        for one in requested_order:
            if is_constant(one.expr):
                continue  # it has no effect
            key = None if any(subqueries(one.expr)) else shown.find(one.expr)
            if key is None and self.text.is_distinct:
                raise Refusal("TEXT_NOT_READ", one.expr.span)
            if key is None:
                items.append(alg.Projection(one.expr, self.compiler.fresh("", type_of(one.expr))))
                key = alg.Expr.of(items[-1].col)
            order.append(replace(one, expr=key))
        project: alg.Node = alg.Project(child=node, items=tuple(items))
        if self.text.is_distinct:
            project = alg.Distinct(child=project)
        hidden_count = len(items) - len(outputs)
        return CompiledSelect(project, [o.name for o in outputs], tuple(order), hidden_count)


def _outside_queries(tokens: Tokens) -> Iterator[Token]:
    """The tokens outside of subqueries."""
    index = 0
    while index < len(tokens):
        if starts_query(tokens, index):
            index = tk.closing(tokens, index)
        yield tokens[index]
        index += 1
