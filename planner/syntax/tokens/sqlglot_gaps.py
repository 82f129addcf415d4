"""Rewrites syntax that Spark accepts and sqlglot cannot parse into syntax that it can.

sqlglot only finds relations: the changed text only needs the same relations at traceable places.
Spark never gets it.
Source: our own trials with sqlglot 30.30; tests/unit/planner/syntax/test_sqltext.py has each case.
"""

from itertools import accumulate

from ctsql.catalog.names import backtick
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import Edit
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.tokenizer import GENERIC_TYPES, Kind, Token, Tokens, word_set

# What a query may follow, so that TABLE there begins one.
_QUERY_MAY_FOLLOW = ("(", "UNION", "EXCEPT", "INTERSECT", "MINUS", "ALL", "DISTINCT", "AS", ")")
_OPERAND_ENDS = (Kind.WORD, Kind.QUOTED)
OPERAND_FOLLOWS = (
    "SELECT", "WHERE", "AND", "OR", "NOT", "BY", "HAVING", "ON", "WHEN", "THEN", "ELSE", "CASE",
    "IN", "LIKE", "BETWEEN", "LIMIT", "OFFSET", "DISTINCT", "ALL", "VALUES", "QUALIFY", "SET",
    "ILIKE", "RLIKE", "REGEXP", "ESCAPE", "DIV", "INTERVAL",
)  # fmt: skip


def table_operands(tokens: Tokens) -> list[Edit]:
    """``TABLE t`` as a query, and ``TABLE(t)`` as an argument: sqlglot sees an alias in them."""
    edits = []
    for index, token in enumerate(tokens[:-1]):
        if token.upper != "TABLE":
            continue
        following = tokens[index + 1]
        before = tokens[index - 1].upper if index else "("
        if following.is_name and before in _QUERY_MAY_FOLLOW:
            edits.append(Edit(span=token.span, text="SELECT * FROM"))
        elif following.upper == "(" and index + 2 < len(tokens):
            stop = tk.closing(tokens, index + 1)
            if tokens[index + 2].is_name and _is_name_only(tokens[index + 2 : stop]):
                edits.append(Edit(span=following.span.behind, text="SELECT * FROM "))
            edits.extend(_argument_clauses(tokens, stop + 1))
    return edits


_TYPE_CALLS = word_set("""
    ARRAY BIGINT BINARY BOOLEAN DATE DECIMAL DOUBLE FLOAT INT MAP SMALLINT STRING STRUCT TIMESTAMP
    TINYINT
""")


def type_calls(tokens: Tokens) -> list[Edit]:
    """Quotes for functions with names of types: sqlglot would read each nested level twice."""
    return [
        Edit(span=token.span, text=backtick(token.text))
        for token, bracket, inside in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if token.upper in _TYPE_CALLS and bracket.upper == "(" and inside.kind is not Kind.NUMBER
    ]


_PIPES = {"LIMIT": "WHERE", **dict.fromkeys(("SET", "RENAME", "EXTEND", "DROP"), "SELECT")}
"""Operators of a pipe that sqlglot lacks, with one that it has and that takes the same."""


_NAMES_IN_SPARK = word_set("GLOB NOTNULL RETURNING XOR")
"""Words that are operators or clauses for sqlglot only."""


def gaps(tokens: Tokens) -> list[Edit]:
    """The edits for a text that sqlglot could not parse unchanged."""
    edits: list[Edit] = []
    types = 0
    for index, token in enumerate(tokens):
        if token.upper == "<" and tk.upper_at(tokens, index - 1) in GENERIC_TYPES:
            types += 1
        elif token.upper in (">", ">>", ">>>") and types:
            types = max(types - len(token.upper), 0)
            continue
        is_schema = token.upper == "DEFAULT" and tk.upper_at(tokens, index + 1) == "."
        if is_schema or token.upper in _NAMES_IN_SPARK:
            edits.append(Edit(span=token.span, text=backtick(token.text)))
        elif token.upper == "WINDOW" and not _is_window_clause(tokens, index):
            edits.append(Edit(span=token.span, text="windo_"))
        elif token.upper == ":" and index and types == 0:
            edits.extend(_path(tokens, index))
        elif token.upper in ("!<", "!>"):
            edits.append(Edit(span=token.span, text=f"{token.upper[1:]} "))
        elif token.upper == ">>>":
            edits.append(Edit(span=token.span, text=">>"))
        elif token.upper == "|>":
            text = _PIPES.get(tk.upper_at(tokens, index + 1))
            edits += [] if text is None else [Edit(span=tokens[index + 1].span, text=text)]
        elif token.upper == "MAX" and tk.words_are(tokens, index, "MAX", "RECURSION", "LEVEL"):
            edits.append(_blank(token, tokens[min(index + 3, len(tokens) - 1)]))
        elif tk.words_are(tokens, index, "WITH", "SCHEMA", "EVOLUTION"):
            edits.append(_blank(token, tokens[index + 2]))
    return edits


def _is_name_only(tokens: Tokens) -> bool:
    return all(
        t.is_name if i % 2 == 0 else t.upper == "." for i, t in enumerate(tokens)
    ) and tokens[0].upper not in ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def _argument_clauses(tokens: Tokens, start: int) -> list[Edit]:
    """PARTITION BY, ORDER BY, WITH SINGLE PARTITION after a table argument."""
    clauses = ("PARTITION", "DISTRIBUTE", "ORDER", "WITH")
    if start >= len(tokens) or tokens[start].upper not in clauses:
        return []
    depths = accumulate({"(": 1, ")": -1}.get(t.upper, 0) for t in tokens[start:])
    stop = next((i for i, depth in enumerate(depths, start) if depth < 0), len(tokens))
    return [_blank(tokens[start], tokens[stop - 1])]


def _is_window_clause(tokens: Tokens, index: int) -> bool:
    """``WINDOW w AS (``, not a column or a function of that name."""
    return (
        index + 2 < len(tokens)
        and tokens[index + 1].is_name
        and tokens[index + 2].upper == "AS"
        and (index == 0 or tokens[index - 1].upper != "AS")
    )


def ends_operand(token: Token) -> bool:
    """Whether a value may end with a token, so that a colon after it is a path into the value."""
    if token.kind is Kind.WORD and token.upper in OPERAND_FOLLOWS:
        return False
    return token.upper in (")", "]") or token.kind in _OPERAND_ENDS


def _path(tokens: Tokens, index: int) -> list[Edit]:
    """``v:a.b[0]``: the colon becomes a dot, or is removed before a bracket."""
    before, token = tokens[index - 1], tokens[index]
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    if not ends_operand(before) or after is None:
        return []  # a named parameter
    return [Edit(span=token.span, text="" if after.upper == "[" else ".")]


def _blank(first: Token, last: Token) -> Edit:
    return Edit(span=Span(first.source, first.start, last.stop), text=" ")
