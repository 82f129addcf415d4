"""Reads one statement."""

from collections.abc import Callable
from typing import TypeVar

from ctsql.catalog.errors import invalid, nested_too_deeply, not_supported
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax.ast import Explain, Statement
from ctsql.planner.syntax.statements.commands import COMMANDS, named_object
from ctsql.planner.syntax.statements.creates import read_create
from ctsql.planner.syntax.statements.queries import DML_VERBS, read_dml, read_query
from ctsql.planner.syntax.statements.refusals import refuse_statement
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Tokens, span_of, split_tokens, tokenise

_QUERY_STARTS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")

_KNOWN = (*_QUERY_STARTS[:-1], *DML_VERBS, "CREATE", "EXPLAIN", *COMMANDS)
_Known = TypeVar("_Known", bound=Statement)
EXPLAIN_HINT = "Type EXPLAIN; Spark's own plan: con.execute(query).to_spark().explain()"
EXPLAIN_FORMATS = ("PHYSICAL", "EXTENDED", "FORMATTED", "CODEGEN", "COST", "LOGICAL", "ANALYZE")


def parse(span: Span) -> Statement:
    """Read one statement; its span may hold blanks, comments and a last semicolon.

    Raises:
        SYNTAX_ERROR: it cannot be parsed. INVALID_STATEMENT, INVALID_OPTION, INVALID_NAME,
            INVALID_COLUMN_TYPE, DUPLICATE_COLUMN: a part of it is not allowed. NOT_SUPPORTED: it is
            refused by name, or nested too deeply.
    """
    statements = [tokens for tokens in split_tokens(tokenise(span)) if tokens]
    if not statements:
        raise syntax_error(span, "found nothing, expected a statement")
    if len(statements) > 1:
        raise syntax_error(statements[1][0].span, "found a second statement, expected one")
    try:
        return _statement(statements[0])
    except RecursionError as cause:
        raise nested_too_deeply(span_of(statements[0])) from cause


def parse_as(kind: type[_Known], text: str, source_name: str) -> _Known:
    """Parse a text as a statement of a kind; ``source_name`` names it in errors."""
    statement = parse(Source(text, source_name).whole())
    assert isinstance(statement, kind)  # as it was written
    return statement


def _statement(tokens: Tokens) -> Statement:
    refuse_statement(tokens)
    word = tokens[0].upper
    if word in COMMANDS:
        return COMMANDS[word](TokenCursor(tokens, start=1))
    reader = _READERS.get(word)
    if reader is None:
        TokenCursor(tokens).fail("a statement", words=_KNOWN)
    return reader(tokens)


def _explain(tokens: Tokens) -> Explain:
    cursor = TokenCursor(tokens)
    cursor.expect("EXPLAIN")
    span = span_of(tokens)
    # A word alone is a name, though a statement may begin with it.
    is_name = len(cursor.rest) == 2 or cursor.upper(1) not in (*_KNOWN, "")
    if cursor.at("ANALYZE") and is_name:
        cursor.expect("ANALYZE")
        cursor.accept("MATERIALIZED", "VIEW")
        target = cursor.relation("the view's name")
        cursor.end()
        return Explain(span=span, analyze=True, kind=ObjectKind.MATERIALIZED_VIEW, target=target)
    if cursor.upper() in EXPLAIN_FORMATS:
        what = f"EXPLAIN {cursor.upper()}"
        raise not_supported(cursor.here, what, hint=EXPLAIN_HINT)
    if cursor.current is None:
        cursor.fail("a statement or an object")
    subject = named_object(cursor)
    if subject is not None:
        kind, target = subject
        return Explain(span=span, kind=kind, target=target)
    if cursor.at("EXPLAIN"):
        raise invalid(cursor.here, "EXPLAIN cannot be explained")
    return Explain(span=span, statement=_statement(cursor.rest))


_READERS: dict[str, Callable[[Tokens], Statement]] = {
    **dict.fromkeys(_QUERY_STARTS, read_query),
    **dict.fromkeys(DML_VERBS, read_dml),
    "CREATE": read_create,
    "EXPLAIN": _explain,
}
"""The readers of other statements, by their first word."""
