"""Calls that ask for the schema of the connection: what they are replaced with in a query.

Spark would answer with its own schema, which has nothing to do with the warehouse's. In a
definition they are refused: it would depend on who reads it.
"""

import dataclasses
from collections.abc import Iterator

from ctsql.catalog.names import backtick
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import Edit, SqlText
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.tokenizer import Tokens, tokenise

SCHEMA_CALLS = ("current_schema", "current_database")
_BEGINS_ITEM = ("SELECT", "DISTINCT", "ALL")
_ENDS_ITEM = tk.word_set(
    ", ) ; FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT MINUS QUALIFY WINDOW SORT "
    "DISTRIBUTE CLUSTER LATERAL"
)


def with_schema(text: SqlText, schema: str) -> SqlText:
    """The text in which a schema stands for the calls that ask for it.

    A call that is a column of the result keeps its name.
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
        stop = tokens[index + 2].stop
        span = Span(token.source, token.start, stop)
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
    depth = 0
    for token in reversed(tokens[: index - 1]):
        depth += {")": 1, "(": -1}.get(token.upper, 0)
        if depth < 0:
            return False  # a list in parentheses, such as arguments
        if depth == 0 and token.upper in (_ENDS_ITEM | {"SELECT", "VALUES", "BY", "SET"}) - {","}:
            return token.upper == "SELECT"
    return False
