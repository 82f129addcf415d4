"""Finds the places that ctsql replaces or forbids in SQL text, in addition to relations.

These are clock calls, nondeterministic functions, parameters, calls that return the schema, and
Postgres names of types. They are found by tokens, because a parser could misread new syntax.
"""

import dataclasses
import re
from collections.abc import Iterator

from ctsql.catalog.names import backtick
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import ClockCall, ClockKind, Edit, FunctionRef, SqlText
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.sqlglot_gaps import ends_operand
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, span_of, tokenise, word_set

CLOCKS = {
    "NOW": ClockKind.TIMESTAMP,
    "CURRENT_TIMESTAMP": ClockKind.TIMESTAMP,
    "CURRENT_DATE": ClockKind.DATE,
    "CURDATE": ClockKind.DATE,
    "LOCALTIMESTAMP": ClockKind.LOCAL_TIMESTAMP,
    "UNIX_TIMESTAMP": ClockKind.UNIX,
}
"""Functions that read the clock; their calls are replaced."""
NONDETERMINISTIC = word_set("""
    CURRENT_CATALOG CURRENT_DATABASE CURRENT_SCHEMA CURRENT_TIME CURRENT_TIMEZONE CURRENT_USER
    INPUT_FILE_BLOCK_LENGTH INPUT_FILE_BLOCK_START INPUT_FILE_NAME MONOTONICALLY_INCREASING_ID RAND
    RANDN RANDOM RANDSTR SESSION_USER SHUFFLE SPARK_PARTITION_ID UNIFORM USER UUID VERSION
""")
"""Functions whose result depends on more than the data, which are forbidden."""
_BARE = {"CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP", "CURRENT_USER", "SESSION_USER",
         "CURRENT_TIME"}  # fmt: skip
"""Functions that may be called without parentheses."""

_INSTANTS = {"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"}
_MOMENT = re.compile(r"\W*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""The text of a DATE or TIMESTAMP literal that means a time of the clock."""

# Where the two differ in meaning, the wider one: a STRING of Spark has no length, as TEXT has none.
POSTGRES_TYPES = {
    "INT8": "BIGINT",
    "INT4": "INT",
    "INT2": "SMALLINT",
    "TEXT": "STRING",
    "FLOAT8": "DOUBLE",
    "FLOAT4": "FLOAT",
    "BOOL": "BOOLEAN",
    "TIMESTAMPTZ": "TIMESTAMP",
    "BYTEA": "BINARY",
}


def clocks(tokens: Tokens) -> tuple[ClockCall, ...]:
    """The calls that read the clock, in order."""
    calls = []
    for index, token in enumerate(tokens):
        if token.upper not in CLOCKS or _is_no_call(tokens, index):
            continue
        kind = CLOCKS[token.upper]
        if tk.words_are(tokens, index + 1, "(", ")"):
            calls.append(ClockCall(kind=kind, span=span_of(tokens[index : index + 3])))
        elif token.upper in _BARE and tk.upper_at(tokens, index + 1) not in (".", "("):
            calls.append(ClockCall(kind=kind, span=token.span))
    return tuple(calls)


def parameters(tokens: Tokens) -> tuple[Span, ...]:
    """``?`` and ``:name``, in order; a colon after a value is a path into it."""
    spans = []
    for index, token in enumerate(tokens):
        if token.upper == "?":
            spans.append(token.span)
        behind = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.upper != ":" or behind is None or behind.kind is not Kind.WORD:
            continue
        leads_into = index > 0 and ends_operand(tokens[index - 1])
        if not leads_into and behind.start == token.stop:
            spans.append(span_of([token, behind]))
    return tuple(spans)


def nondeterministic(tokens: Tokens) -> tuple[FunctionRef, ...]:
    """Functions of more than the data, TABLESAMPLE, and literals like ``TIMESTAMP 'now'``."""
    calls = []
    for index, token in enumerate(tokens):
        for literal in tokens[index + 1 : index + 2] if token.upper in _INSTANTS else ():
            if literal.kind is Kind.STRING and _MOMENT.match(literal.text):
                name = f"{token.upper} '{literal.text}'"
                calls.append(FunctionRef(name=name, span=token.span))
        if _is_no_call(tokens, index):
            continue
        called = tk.upper_at(tokens, index + 1) == "("
        bare = token.upper in _BARE and tk.upper_at(tokens, index + 1) != "."
        if token.upper == "TABLESAMPLE" and called:
            calls.append(FunctionRef(name="TABLESAMPLE", span=token.span))
        elif token.upper in NONDETERMINISTIC and (called or bare):
            calls.append(FunctionRef(name=token.text.lower(), span=token.span))
    return tuple(calls)


def type_edits(tokens: Tokens) -> tuple[Edit, ...]:
    """Spark's spelling for the Postgres types in CAST, TRY_CAST and ``::``, in order."""
    edits: dict[int, Edit] = {}
    for index, token in enumerate(tokens):
        new_edits: list[Edit] = []
        if token.upper in ("CAST", "TRY_CAST") and tk.upper_at(tokens, index + 1) == "(":
            stop = tk.closing(tokens, index + 1)
            inside = tk.at_depth_0(tokens[:stop], index + 2)
            begin = max((i + 1 for i, t in inside if t.upper == "AS"), default=stop)
            new_edits = spark_types(tokens[begin:stop])
        elif token.upper in ("::", "?::"):
            new_edits = spark_types(tokens[index + 1 : _type_stop(tokens, index + 1)])
        edits.update((edit.span.start, edit) for edit in new_edits)
    return tuple(edits[start] for start in sorted(edits))


def _type_stop(tokens: Tokens, start: int) -> int:
    """Where the type ends that begins at an index."""
    behind = tk.upper_at(tokens, start + 1)
    if behind == "(":
        return tk.closing(tokens, start + 1) + 1
    if behind == "<" and tokens[start].upper in tk.GENERIC_TYPES:
        depth = 0
        for index in range(start + 1, len(tokens)):
            symbol = tokens[index].upper
            depth += {"<": 1, ">": -1, ">>": -2, ">>>": -3}.get(symbol, 0)
            if depth <= 0:
                return index + 1
    return start + 1 + (behind == "PRECISION")


def spark_types(tokens: Tokens) -> list[Edit]:
    """Return the edits of one type's tokens; names of struct fields are unchanged."""
    edits = []
    angles: list[bool] = []  # for each open angle bracket: is it a struct's?
    for index, token in enumerate(tokens):
        before = tk.upper_at(tokens, index - 1)
        if token.upper == "<":
            angles.append(before == "STRUCT")
        elif token.upper in (">", ">>", ">>>"):
            del angles[-len(token.upper) :]
        elif token.kind is Kind.WORD:
            if angles and angles[-1] and before in ("<", ","):
                continue
            spelling = POSTGRES_TYPES.get(token.upper)
            if token.upper == "VARCHAR" and tk.upper_at(tokens, index + 1) != "(":
                spelling = "STRING"
            if spelling is not None:
                edits.append(Edit(span=token.span, text=spelling))
            elif token.upper == "PRECISION" and before == "DOUBLE":
                edits.append(Edit(span=span_of([tokens[index - 1], token]), text="DOUBLE"))
    return edits


def _is_no_call(tokens: Tokens, index: int) -> bool:
    """Whether a word is a part of a name, or an alias."""
    return tk.upper_at(tokens, index - 1) in (".", "AS")


SCHEMA_CALLS = ("current_schema", "current_database")
_BEGINS_ITEM = ("SELECT", "DISTINCT", "ALL")
_ENDS_ITEM = tk.word_set(
    ", ) ; FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT MINUS QUALIFY WINDOW SORT "
    "DISTRIBUTE CLUSTER LATERAL"
)


def with_schema(text: SqlText, schema: str) -> SqlText:
    """The text with a schema in place of calls that return it; a result column keeps its name.

    Spark would return its own schema, which is not one of the warehouse.
    """
    if not any(f.name in SCHEMA_CALLS for f in text.nondeterministic):
        return text
    edits = tuple(_edits(tokenise(text.span), schema))
    others = tuple(f for f in text.nondeterministic if f.name not in SCHEMA_CALLS)
    return dataclasses.replace(text, edits=(*text.edits, *edits), nondeterministic=others)


def _edits(tokens: Tokens, schema: str) -> Iterator[Edit]:
    for index, token in enumerate(tokens):
        is_call = tk.words_are(tokens, index + 1, "(", ")")
        if token.upper.lower() not in SCHEMA_CALLS or not is_call:
            continue
        if tk.upper_at(tokens, index - 1) == ".":
            continue
        span = span_of(tokens[index : index + 3])
        alias = f" AS {backtick(f'{token.text.lower()}()')}" if _is_item(tokens, index) else ""
        yield Edit(span=span, text=quote_text(schema) + alias)


def _is_item(tokens: Tokens, index: int) -> bool:
    """Whether a call is a whole item of a select list, without an alias."""
    behind = tk.upper_at(tokens, index + 3)
    if behind not in _ENDS_ITEM and index + 3 < len(tokens):
        return False
    before = tk.upper_at(tokens, index - 1)
    if before != ",":
        return before in _BEGINS_ITEM
    list_before = tk.at_depth_0(tokens[: index - 1], tk.opening(tokens, index) + 1)
    begins = (_ENDS_ITEM | {"SELECT", "VALUES", "BY", "SET"}) - {","}
    return [t.upper for _, t in list_before if t.upper in begins][-1:] == ["SELECT"]
