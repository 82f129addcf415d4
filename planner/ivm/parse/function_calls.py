"""Parses calls of aggregate and window functions, with the facts that change rules need."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ctsql.catalog.names import fold
from ctsql.catalog.schemas import decimal_size
from ctsql.planner.ivm.algebra import spark_functions
from ctsql.planner.ivm.algebra.nodes import AggregateCall, Col, Expr, ExprPart, Order
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.algebra.traversal import subqueries
from ctsql.planner.ivm.parse.expressions import (
    Calls,
    Expressions,
    call_end,
    is_floating,
    is_text,
    texts,
    type_of,
)
from ctsql.planner.ivm.parse.scopes import Scope
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.tokenizer import Kind, Token, Tokens, span_of

_ALL_ROWS = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_SAME_TYPE = ("min", "max", "first", "last", "any_value", "lag", "lead", "mode")
_SUM_OF = dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "bigint") | {"decimal": "decimal"}
_DIGITS_MAX = 38


@dataclass(frozen=True, slots=True)
class WindowDraft:
    """A parsed window function; its columns are resolved after the grouping."""

    function: str
    call: Expr
    partition: tuple[Expr, ...]
    order: tuple[Order, ...]
    frame: tuple[str, ...]


def aggregate_call(
    tokens: Tokens, expressions: Expressions, scope: Scope, fresh: Col
) -> AggregateCall:
    """The call of an aggregate function; ``fresh`` is the column it becomes."""
    name = fold(tokens[0].text)
    inside = expressions.build_piece(tokens[1:], scope)
    if any(subqueries(inside)):
        raise Refusal("SUBQUERY_PLACE", span_of(tokens))
    expr = Expr((tokens[0].span.text, *inside.parts), span_of(tokens))
    argument = _argument(tokens, expressions, scope)
    return AggregateCall(
        expr=expr,
        col=_add_type(fresh, name, argument, expr),
        function=name,
        exact=is_exact(name, argument, expr),
        argument=argument,
    )


def _argument(tokens: Tokens, expressions: Expressions, scope: Scope) -> Expr | None:
    inside = tokens[2:-1]
    alone = tk.closing(tokens, 1) == len(tokens) - 1
    if not alone or not inside or len(tk.cut_at_commas(inside)) != 1:
        return None
    if inside[0].upper in ("*", "DISTINCT", "ALL"):
        return None
    return expressions.build(inside, scope)


def is_exact(name: str, argument: Expr | None, whole: Expr) -> bool:
    """Whether the function gives the same result in any order of its rows."""
    if name in spark_functions.INEXACT:
        return False
    summand = argument or whole
    return name not in spark_functions.SUMS or not (is_floating(summand) or is_text(summand))


def _add_type(col: Col, name: str, argument: Expr | None, whole: Expr) -> Col:
    if name in spark_functions.FLOATING:
        kind = "double"
    elif name in spark_functions.AVERAGES or name == "try_avg":
        kind = _decimal(argument, 4, 4) or "double"
    elif name in spark_functions.SUMS:
        of = "" if argument is None else type_of(argument).lower()
        floating = "double" * (is_floating(argument or whole) or is_text(argument or whole))
        kind = _decimal(argument, 10, 0) or _SUM_OF.get(of, floating)
    elif name in _SAME_TYPE:
        kind = type_of(argument) if argument is not None else ("double" * is_floating(whole))
    else:
        kind = "bigint" if name.startswith("count") else ""
    return Col(col.number, name, kind)


def _decimal(argument: Expr | None, digits: int, places: int) -> str:
    """An argument's decimal type with more digits and places; empty for another type."""
    kind = "" if argument is None else type_of(argument).lower()
    size = decimal_size(kind)
    if size is None:
        return kind if kind == "decimal" else ""
    return f"decimal({min(size[0] + digits, _DIGITS_MAX)},{min(size[1] + places, _DIGITS_MAX)})"


def window_draft(
    tokens: Tokens, over: Tokens, expressions: Expressions, scope: Scope, calls: Calls
) -> WindowDraft:
    """A window function with its parsed call and window."""
    calls = Calls(aggregate=calls.aggregate)
    inside = expressions.build_piece(tokens[1:], scope, calls)
    call = Expr((tokens[0].span.text, *inside.parts), span_of(tokens))
    by, order_groups, frame_tokens = _sections(over)
    partition = tuple(expressions.build(g, scope, calls) for g in by)
    order = tuple(order_item(g, expressions, scope, calls) for g in order_groups)
    frame = tuple(texts(frame_tokens))
    everything = (call, *partition, *(o.expr for o in order))
    if any(any(subqueries(e)) for e in everything):
        raise Refusal("SUBQUERY_PLACE", span_of(tokens))
    return WindowDraft(fold(tokens[0].text), call, partition, order, frame)


def _sections(over: Tokens) -> tuple[list[Tokens], list[Tokens], Tokens]:
    """The parts of OVER (...): the lists of PARTITION BY and ORDER BY, and the frame."""
    marks: list[tuple[str, int, int]] = []
    for index, token in tk.at_depth_0(over, brackets=True):
        word = token.upper
        if word in ("PARTITION", "ORDER") and tk.words_are(over, index + 1, "BY"):
            marks.append((word, index, index + 2))
        elif word in ("ROWS", "RANGE"):
            marks.append(("FRAME", index, index))
    if over and (not marks or marks[0][1] != 0):
        raise Refusal("TEXT_NOT_READ", span_of(over))
    sections: dict[str, Tokens] = {"PARTITION": (), "ORDER": (), "FRAME": ()}
    stops = [begin for _, begin, _ in marks[1:]] + [len(over)] * bool(marks)
    for (name, _, begin), stop in zip(marks, stops, strict=True):
        sections[name] = over[begin:stop]
    partition, order = (
        tk.cut_at_commas(t) if t else [] for t in (sections["PARTITION"], sections["ORDER"])
    )
    return partition, order, sections["FRAME"]


def order_item(
    tokens: Tokens,
    expressions: Expressions,
    scope: Scope,
    calls: Calls | None = None,
    places: Sequence[Expr] | None = None,
) -> Order:
    """One item of an ORDER BY; ``places``: the expressions of ordinals; None if not allowed."""
    stop = len(tokens)
    if stop > 2 and tokens[-2].upper == "NULLS" and tokens[-1].upper in ("FIRST", "LAST"):
        stop -= 2
    if stop > 1 and tokens[stop - 1].upper in ("ASC", "DESC"):
        stop -= 1
    direction, key = " ".join(texts(tokens[stop:])), tokens[:stop]
    while (inside := tk.in_parentheses(key)) is not None:
        key = inside
    number = key[0].text if len(key) == 1 and key[0].kind is Kind.NUMBER else ""
    if places is None or not number.isdigit():
        return Order(expr=expressions.build(tokens[:stop], scope, calls), direction=direction)
    if not 1 <= int(number) <= len(places):
        raise Refusal("TEXT_NOT_READ", key[0].span)
    return Order(expr=places[int(number) - 1], direction=direction)


def window_call(
    draft: WindowDraft, over: tuple[Col, ...], order: tuple[Order, ...], fresh: Col
) -> AggregateCall:
    """The window function, with its partition as columns."""
    parts: list[ExprPart] = [*draft.call.parts, "OVER", "("]
    for index, col in enumerate(over):
        parts += [",", col] if index else ["PARTITION", "BY", col]
    for index, item in enumerate(order):
        parts += [","] if index else ["ORDER", "BY"]
        parts += [*item.expr.parts, *item.direction.split()]
    parts += [*draft.frame, ")"]
    columns = [item.expr.column for item in order]
    words = " ".join(draft.frame).upper()
    # Also without ORDER BY: then the neighbours are arbitrary.
    has_rows = words.startswith("ROWS") and words != _ALL_ROWS
    name = draft.function
    bound = name in spark_functions.ORDER_BOUND
    exact = bound or name in spark_functions.WINDOW_ONLY or is_exact(name, None, draft.call)
    columns_there = tuple(col for col in columns if col is not None)
    return AggregateCall(
        expr=Expr(tuple(parts), draft.call.span),
        col=_add_type(fresh, name, None, draft.call),
        function=name,
        exact=exact,
        over=over,
        order=columns_there if len(columns_there) == len(columns) else None,
        ties=bound or has_rows,
    )


def has_calls(tokens: Tokens) -> bool:
    """Whether an aggregate is called outside subqueries, and not as a window function."""
    return any(
        _is_aggregate(tokens, index) and call_end(tokens, index, {})[1] is None
        for index in range(len(tokens))
    )


def _is_aggregate(tokens: Tokens, index: int) -> bool:
    is_known = fold(tokens[index].text) in spark_functions.AGGREGATES
    return is_known and tk.upper_at(tokens, index + 1) == "("


def outside_calls(tokens: Tokens) -> Iterator[Token]:
    """The tokens outside of calls of aggregates."""
    index = 0
    while index < len(tokens):
        if _is_aggregate(tokens, index):
            index = call_end(tokens, index, {})[0]
            continue
        yield tokens[index]
        index += 1
