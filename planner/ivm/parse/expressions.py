"""Turns the tokens of an expression into an expression with resolved columns.

Tokens are unchanged; column references (their places come from sqlglot's tree), calls of aggregate
and window functions, and subqueries are found among them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from ctsql.catalog.names import backtick, fold
from ctsql.catalog.spans import Source
from ctsql.planner.ivm.algebra import spark_functions
from ctsql.planner.ivm.algebra.nodes import Clock, Col, Expr, ExprPart, Node, Subquery, SubqueryKind
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.parse.scopes import Scope
from ctsql.planner.syntax.ast import ClockCall
from ctsql.planner.syntax.tokens import replaceable_calls, tokenizer as tk
from ctsql.planner.syntax.tokens.rewrite import splice
from ctsql.planner.syntax.tokens.sqlglot_gaps import type_calls
from ctsql.planner.syntax.tokens.sqltext import parse_tree
from ctsql.planner.syntax.tokens.tokenizer import Kind, Token, Tokens, span_of

# Words before a parenthesis that are not functions.
_NO_FUNCTION = tk.word_set("""
    ALL AND ANY AS BETWEEN BY CASE CUBE DISTINCT ELSE ESCAPE EXISTS FILTER FROM GROUP GROUPING
    ILIKE IN INTERVAL IS LIKE NOT ON OR ORDER OVER PARTITION REGEXP RLIKE ROLLUP SELECT SETS
    SOME THEN USING VALUES WHEN WHERE WITHIN
""")
_TYPES = tk.word_set("""
    BIGINT BINARY BOOLEAN BYTE CHAR CHARACTER DATE DEC DECIMAL DOUBLE FLOAT INT INTEGER INTERVAL
    LONG NUMERIC REAL SHORT SMALLINT STRING TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TINYINT
    VARCHAR VARIANT TIME
""")
_REFUSED_FUNCTIONS = (
    (spark_functions.SESSION, "NONDETERMINISTIC"),
    (spark_functions.CLOCKS, "CLOCK_READ"),
    (spark_functions.GENERATORS, "GENERATOR_PLACE"),
)
_NO_QUERY_WORDS = ("SELECT", "UNION", "INTERSECT", "EXCEPT", "MINUS")
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE")
_FLOATING_NUMBER = re.compile(r"(?i)^[0-9.]+(e[+-]?[0-9]+)?[df]$|^[0-9.]+e[+-]?[0-9]+$")


@dataclass(frozen=True, slots=True)
class QueryReader:
    """A query's text: its tokens, and the positions of its column references and aliases.

    ``clocks`` are the calls that read the clock, by position.
    """

    source: Source
    tokens: Tokens
    columns: frozenset[int]
    aliases: frozenset[int]
    clocks: Mapping[int, ClockCall]

    @staticmethod
    def of(text: str) -> "QueryReader":
        """Parse a text."""
        source = Source(text)
        tokens = tuple(t for t in tk.tokenise(source.whole()) if t.upper != ";")
        sql = splice(source.whole(), type_calls(tokens))
        try:
            tree = parse_tree(sql)
        except (ParseError, TokenError) as cause:
            raise Refusal("TEXT_NOT_READ", source.whole()) from cause
        if not isinstance(tree, exp.Query):
            raise Refusal("TEXT_NOT_READ", source.whole())
        columns = (_start(c.find_all(exp.Identifier)) for c in tree.find_all(exp.Column))
        aliases = (
            a.args["alias"].meta.get("start")
            for a in tree.find_all(exp.Alias)
            if isinstance(a.args.get("alias"), exp.Identifier)
        )
        return QueryReader(
            source,
            tokens,
            frozenset(sql.origin(c) for c in columns if c is not None),
            frozenset(sql.origin(a) for a in aliases if a is not None),
            {call.span.start: call for call in replaceable_calls.clocks(tokens)},
        )


def _start(identifiers: Iterable[exp.Expr]) -> int | None:
    starts = [i.meta["start"] for i in identifiers if "start" in i.meta]
    return min(starts) if starts else None


@dataclass(slots=True)
class Calls:
    """Handlers of calls of functions over many rows; None if such calls are not allowed."""

    # given the call's tokens, the column it becomes.
    aggregate: Callable[[Tokens], Col] | None = None
    # given the call's tokens and those in OVER (...), the column it becomes.
    window: Callable[[Tokens, Tokens], Col] | None = None
    windows: dict[str, Tokens] = field(default_factory=dict)  # the named windows
    # the expression is a whole predicate of WHERE, HAVING or QUALIFY, in which NULL counts as
    # false.
    is_condition: bool = False
    reads_clock: bool = False  # it is a comparison with the clock


_BEFORE_OPERAND = ("AND", "OR", "NOT", "WHEN", "THEN", "ELSE", "CASE", "(", ",")


def _operand(parts: Sequence[ExprPart]) -> Expr | None:
    """The operand of an IN at the end of some parts; None if its beginning is uncertain."""
    depth, start = 0, len(parts)
    for start in range(len(parts), -1, -1):
        word = parts[start - 1] if start else "("
        word = word.upper() if isinstance(word, str) else ""
        if word == "END" or isinstance(parts[start - 1], Subquery):
            return None
        if not depth and word in _BEFORE_OPERAND:
            break
        depth += (word == ")") - (word == "(")
    return Expr(tuple(parts[start:])) if parts[start:] else None


class Expressions:
    """Builds expressions of a text; ``subquery`` compiles a query's tokens in a scope."""

    def __init__(self, reading: QueryReader, subquery: Callable[[Tokens, Scope], Node]) -> None:
        self.reading = reading
        self.subquery = subquery

    def build(self, tokens: Tokens, scope: Scope, calls: Calls | None = None) -> Expr:
        """The expression of some tokens, without parentheses around it."""
        if not tokens:
            raise Refusal("TEXT_NOT_READ")
        return self.build_piece(unwrapped(tokens), scope, calls)

    def build_piece(self, tokens: Tokens, scope: Scope, calls: Calls | None = None) -> Expr:
        """Build a part of an expression, for example the tokens behind a function's name."""
        calls = calls or Calls()
        parts: list[ExprPart] = []
        index = 0
        while index < len(tokens):
            index = self._next(tokens, index, scope, calls, parts)
        return Expr(tuple(parts), span_of(tokens))

    def _next(
        self, tokens: Tokens, index: int, scope: Scope, calls: Calls, parts: list[ExprPart]
    ) -> int:
        token = tokens[index]
        behind = tk.upper_at(tokens, index + 1)
        clock = self.reading.clocks.get(token.start)
        if clock is not None:
            if not calls.reads_clock:
                raise Refusal("CLOCK_READ", clock.span)
            parts.append(Clock(clock.kind))
            return index + sum(clock.span.start <= t.start < clock.span.stop for t in tokens)
        if token.upper == "(" and behind in _QUERY_WORDS:
            return self._subquery(tokens, index, scope, calls, parts)
        if token.kind in (Kind.WORD, Kind.QUOTED) and token.start in self.reading.columns:
            return self._column(tokens, index, scope, parts)
        if token.kind is Kind.WORD and behind == "(" and _is_call(tokens, index):
            return self._call(tokens, index, calls, parts)
        if token.kind is Kind.WORD:
            _check_word(token, tk.upper_at(tokens, index - 1))
        if token.upper == "?" or (token.is_name and self._hides_column(tokens, index, scope)):
            raise Refusal("TEXT_NOT_READ", token.span)
        parts.append(token.span.text)
        return index + 1

    def _subquery(
        self, tokens: Tokens, index: int, scope: Scope, calls: Calls, parts: list[ExprPart]
    ) -> int:
        stop = tk.closing(tokens, index)
        node = self.subquery(tokens[index + 1 : stop], scope)
        before = tk.upper_at(tokens, index - 1)
        if before != "IN":
            is_test = before == "EXISTS"
            parts.append(Subquery(node, SubqueryKind.EXISTS if is_test else SubqueryKind.SCALAR))
            return stop + 1
        negated = index > 1 and tokens[index - 2].upper == "NOT"
        operand = parts[: -2 if negated else -1]
        # NULL and false are equal only if the whole predicate is this IN.
        is_whole = len(operand) == 1 and stop + 1 == len(tokens)
        plain = calls.is_condition and is_whole and not negated
        kind = SubqueryKind.IN if plain else SubqueryKind.NULL_AWARE_IN
        parts.append(Subquery(node, kind, _operand(operand)))
        return stop + 1

    def _column(self, tokens: Tokens, index: int, scope: Scope, parts: list[ExprPart]) -> int:
        chain = tk.name_chain(tokens, index)
        stop = index + 2 * len(chain) - 1
        span = span_of(chain)
        match = scope.resolve([t.text for t in chain], span)
        if match is None:
            raise Refusal("UNKNOWN_COLUMN", span)
        expr, name_count = match
        is_whole = index == 0 and stop == len(tokens)
        if expr.column is not None or (is_whole and name_count == len(chain)):
            parts += expr.parts
        else:
            parts += ["(", *expr.parts, ")"]
        for name in chain[name_count:]:
            parts += [".", name.span.text]
        if _is_field(tokens, index, stop):
            # A plan renames columns, and a struct's field has the name of its column.
            parts += ["AS", backtick(chain[-1].text)]
        return stop

    def _call(self, tokens: Tokens, index: int, calls: Calls, parts: list[ExprPart]) -> int:
        name = fold(tokens[index].text)
        stop, over = call_end(tokens, index, calls.windows)
        call = tokens[index:stop]
        if over is not None:
            if calls.window is None:
                raise Refusal("CLAUSE_UNSUPPORTED", span_of(call))
            parts.append(calls.window(call, over[0]))
            return over[1]
        is_quantifier = tk.upper_at(tokens, index - 1) in ("LIKE", "ILIKE")
        if name in spark_functions.AGGREGATES and not is_quantifier:
            if calls.aggregate is None:
                raise Refusal("KEY_NOT_MATCHED", span_of(call))
            parts.append(calls.aggregate(call))
            return stop
        token = tokens[index]
        for words, code in _REFUSED_FUNCTIONS:
            if name in words:
                raise Refusal(code, token.span)
        if name not in spark_functions.SCALARS and token.upper not in _TYPES:
            raise Refusal("FUNCTION_UNKNOWN", token.span)
        parts.append(token.span.text)
        return index + 1

    def _hides_column(self, tokens: Tokens, index: int, scope: Scope) -> bool:
        """Whether a name is a column of a relation, but no column in sqlglot's tree.

        It may be a unit, a type or the parameter of a lambda.
        """
        token = tokens[index]
        is_literal = any(t.kind is Kind.STRING for t in tokens[index + 1 : index + 2])
        if is_literal or tk.upper_at(tokens, index - 1) in (".", "AS"):
            return False
        return scope.own_column([token.text], token.span) is not None


def _is_field(tokens: Tokens, start: int, stop: int) -> bool:
    """Whether the tokens from ``start`` to ``stop`` are a whole argument of ``struct(...)``."""
    is_argument = tk.upper_at(tokens, stop) in (",", ")")
    is_whole = tk.upper_at(tokens, start - 1) in (",", "(")
    call = tk.upper_at(tokens, tk.opening(tokens, start) - 1)
    return is_argument and is_whole and call == "STRUCT"


def texts(tokens: Tokens) -> list[str]:
    """Tokens as typed."""
    return [token.span.text for token in tokens]


def _is_call(tokens: Tokens, index: int) -> bool:
    word = tokens[index].upper
    before = tk.upper_at(tokens, index - 1)
    if before == ".":  # a method call without an object: Spark has none
        return False
    if word in ("GROUPING", "ANY", "SOME"):
        return word == "GROUPING" or before not in ("LIKE", "ILIKE")
    if word == "EXISTS":
        return tk.upper_at(tokens, index + 2) not in _QUERY_WORDS
    if word in _NO_FUNCTION:
        return False
    return not (word in _TYPES and before in ("AS", "<", ":", ","))


def call_end(
    tokens: Tokens, index: int, windows: dict[str, Tokens]
) -> tuple[int, tuple[Tokens, int] | None]:
    """Find the end of the call at ``index``, and the tokens in its OVER with their end."""
    stop = tk.closing(tokens, index + 1) + 1
    while stop < len(tokens):
        if tk.words_are(tokens, stop, "FILTER", "("):
            stop = tk.closing(tokens, stop + 1) + 1
        elif tk.words_are(tokens, stop, "WITHIN", "GROUP", "("):
            stop = tk.closing(tokens, stop + 2) + 1
        elif tokens[stop].upper in ("IGNORE", "RESPECT") and tk.words_are(
            tokens, stop + 1, "NULLS"
        ):
            stop += 2
        else:
            break
    if not tk.words_are(tokens, stop, "OVER") or stop + 1 >= len(tokens):
        return stop, None
    if tokens[stop + 1].upper == "(":
        end = tk.closing(tokens, stop + 1)
        inside = tokens[stop + 2 : end]
        if len(inside) == 1 and fold(inside[0].text) in windows:
            inside = windows[fold(inside[0].text)]
        return stop, (inside, end + 1)
    window = windows.get(fold(tokens[stop + 1].text))
    if window is None:
        raise Refusal("TEXT_NOT_READ", tokens[stop + 1].span)
    return stop, (window, stop + 2)


def _check_word(token: Token, before: str) -> None:
    name = fold(token.text)
    if before in (".", "AS"):
        return
    if token.upper in _NO_QUERY_WORDS:
        raise Refusal("TEXT_NOT_READ", token.span)
    if name in ("current_user", "session_user", "user"):
        raise Refusal("NONDETERMINISTIC", token.span)
    if name in spark_functions.CLOCKS and name not in ("now", "curdate", "unix_timestamp"):
        raise Refusal("CLOCK_READ", token.span)


def unwrapped(tokens: Tokens) -> Tokens:
    """An expression without the parentheses around all of it; a query and a struct keep them."""
    while inside := tk.in_parentheses(tokens):
        if inside[0].upper in _QUERY_WORDS or len(tk.cut_at_commas(inside)) > 1:
            break
        tokens = inside
    return tokens


def conjuncts(tokens: Tokens) -> list[Tokens]:
    """The operands of AND at the top of a condition; the condition itself if there is none."""
    tokens = unwrapped(tokens)
    words = tk.top_words(tokens)
    pieces, begin, betweens = [], 0, 0
    for index, word in words:
        betweens += word == "BETWEEN"
        if word != "AND":
            continue
        if betweens:
            betweens -= 1
            continue
        pieces.append(tokens[begin:index])
        begin = index + 1
    pieces.append(tokens[begin:])
    # An empty piece: a keyword is a name.
    if len(pieces) == 1 or not all(pieces) or any(word == "OR" for _, word in words):
        return [tokens]
    return [conjunct for piece in pieces for conjunct in conjuncts(piece)]


def is_constant(expr: Expr) -> bool:
    """Whether the text shows that the value is the same for all rows of a query."""
    return all(isinstance(part, str) for part in expr.parts)


def is_floating(expr: Expr) -> bool:
    """Whether the value may be a floating-point number; true if unknown.

    A quotient of integers is one, and one of decimals is not.
    """
    columns = [part for part in expr.parts if isinstance(part, Col)]
    words = {part.lower() for part in expr.parts if isinstance(part, str)}
    inner = [col for p in expr.parts if isinstance(p, Subquery) for col in p.node.columns[:1]]
    is_typed_by_text = not spark_functions.TYPED_BY_TEXT.isdisjoint(words)
    exact = all(col.type.lower().startswith("decimal") for col in columns) and bool(columns)
    return (
        any(_is_float_type(col.type) for col in columns + inner)
        or not words.isdisjoint(spark_functions.FLOATING | {"real", "double", "float"})
        or any(_FLOATING_NUMBER.match(word) for word in words)
        # from_json(s, 'x DOUBLE').x
        or (is_typed_by_text and any(w[:1] in "'\"" and _is_float_type(w) for w in words))
        or ("/" in words and not exact)
    )


def is_text(expr: Expr) -> bool:
    """Whether the value is a text, which Spark adds up as a floating-point number."""
    if expr.column is not None:
        return expr.column.type.lower().startswith(("string", "varchar", "char"))
    first = expr.parts[0] if expr.parts else ""
    return isinstance(first, str) and first.lower() in spark_functions.TEXTS


def _is_float_type(name: str) -> bool:
    lower = name.lower()
    return "double" in lower or "float" in lower or "variant" in lower


def common_type(a: Col, b: Col) -> str:
    """The type of a column with the values of two columns, in the form of :func:`type_of`."""
    if "double" in (type_of(Expr.of(a)), type_of(Expr.of(b))):
        return "double"
    return a.type if a.type == b.type else ""


def type_of(expr: Expr) -> str:
    """The type of an expression as far as the rules need it; see :class:`Col`."""
    if expr.column is not None:
        return expr.column.type
    if is_floating(expr):
        return "double"
    columns = [part for part in expr.parts if isinstance(part, Col)]
    pairs = pairwise(expr.parts)
    calls = any(p == "(" and isinstance(q, str) and q.isidentifier() for q, p in pairs)
    if columns and not calls and all(c.type.lower().startswith("decimal") for c in columns):
        return "decimal"
    return ""
