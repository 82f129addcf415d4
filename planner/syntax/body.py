"""Reads the body of a continual task: ``( statement; ... )``."""

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.columns import read_columns
from ctsql.planner.syntax.cursor import Cursor, not_yet, syntax_error
from ctsql.planner.syntax.split import split_tokens
from ctsql.planner.syntax.sqltext import analyse, with_prefixes
from ctsql.planner.syntax.statements import (
    BodyStatement,
    ColumnDef,
    DeleteStatement,
    InsertStatement,
    RelationRef,
)
from ctsql.planner.syntax.tokens import Tokens, at_depth_0, closing, span_of

QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "MAP", "REDUCE")
_CHANGES = ("INSERTS", "DELETES", "CONTENTS", "CHANGES")
_LATER = ("UPDATE", "MERGE")


def read_body(tokens: Tokens, place: Span, name: str) -> tuple[BodyStatement, ...]:
    """Read a body.

    Args:
        tokens: all that follows AS.
        place: where to point when nothing follows.
        name: the task's, for hints.

    Raises:
        SYNTAX_ERROR, INVALID_STATEMENT: it does not have the form, is empty, or holds a
            statement that may not stand there. NOT_SUPPORTED_YET: one of later.
    """
    example = f"Type: AS (INSERT INTO {name} SELECT ...)"
    if not tokens or tokens[0].upper != "(":
        found = f'"{tokens[0].span.text}"' if tokens else "the end of the statement"
        where = tokens[0].span if tokens else place
        raise syntax_error(where, f'found {found}, expected "("', hint=example)
    stop = closing(tokens, 0)
    if stop + 1 < len(tokens):
        cursor = Cursor(tokens)
        cursor.position = stop + 1
        hint = "Options stand in front of AS." if cursor.at("WITH") else ""
        cursor.end(hint)
    statements = [group for group in split_tokens(tokens[1:stop]) if group]
    if not statements:
        raise error(
            "INVALID_STATEMENT",
            span=span_of(tokens),
            message="the body of the continual task is empty",
            detail="",
            hint=example,
        )
    return tuple(_statement(group, name) for group in statements)


def _statement(tokens: Tokens, name: str) -> BodyStatement:
    cursor = Cursor(tokens)
    span = span_of(tokens)
    first = cursor.upper()
    if first == "WITH" and any(
        t.upper == "INSERT" and tokens[i - 1].upper == ")" for i, t in at_depth_0(tokens)
    ):
        hint = f"Put WITH behind INSERT INTO {name}."
        raise not_yet(span, "WITH in front of INSERT", hint)
    if cursor.at("INSERT", "OVERWRITE"):
        hint = f"Type: DELETE FROM {name}; INSERT INTO {name} ..."
        raise not_yet(span, "INSERT OVERWRITE in a continual task", hint)
    if first in _LATER:
        hint = f"Type a DELETE FROM {name} and an INSERT INTO {name} instead."
        raise not_yet(span, f"{first} in a continual task", hint)
    _refuse_change_functions(tokens)
    if first == "INSERT":
        return _insert(cursor, span)
    if first == "DELETE":
        return _delete(cursor, span)
    raise _misplaced(cursor, span, name)


def _misplaced(cursor: Cursor, span: Span, name: str) -> CtsqlError:
    first = cursor.upper() or cursor.here.text
    hint = f"Type: INSERT INTO {name} SELECT ..." if first in QUERY_WORDS else ""
    return error(
        "INVALID_STATEMENT",
        span=span,
        message=f"{first} may not stand in the body of a continual task",
        detail="A body holds INSERT INTO and DELETE FROM statements.",
        hint=hint,
    )


def _insert(cursor: Cursor, span: Span) -> InsertStatement:
    cursor.expect("INSERT", "INTO")
    cursor.accept("TABLE")
    target = cursor.relation("the table to write")
    for words in (("BY", "NAME"), ("PARTITION",), ("REPLACE",)):
        if cursor.at(*words):
            what = f"{' '.join(words)} in a continual task"
            raise not_yet(cursor.here, what)
    columns: tuple[ColumnDef, ...] = ()
    if cursor.at("(") and cursor.upper(1) not in QUERY_WORDS:
        stop = closing(cursor.tokens, cursor.position)
        inside = cursor.tokens[cursor.position + 1 : stop]
        columns = read_columns(inside, cursor.here, typed=False)
        cursor.position = stop + 1
    if cursor.upper() not in QUERY_WORDS:
        cursor.fail("SELECT or VALUES", known=QUERY_WORDS)
    query = analyse(span_of(cursor.rest), form="query", tokens=cursor.rest)
    return InsertStatement(span=span, target=target, query=query, columns=columns)


def _delete(cursor: Cursor, span: Span) -> DeleteStatement:
    cursor.expect("DELETE", "FROM")
    target = cursor.relation("the table to delete from", aliased=False)
    alias = None
    explicit = cursor.accept("AS")
    if cursor.current is not None and (explicit or not cursor.at("WHERE")):
        alias = cursor.name('"WHERE"').text
    if cursor.current is not None and not cursor.at("WHERE"):
        cursor.fail('"WHERE"', known=["WHERE"])
    where = None
    if cursor.accept("WHERE"):
        if cursor.current is None:
            cursor.fail("a condition")
        where = analyse(span_of(cursor.rest), form="predicate", tokens=cursor.rest)
    target = _with_alias(target, cursor.tokens, aliased=alias is not None)
    return DeleteStatement(span=span, target=target, alias=alias, where=where)


def _with_alias(target: RelationRef, tokens: Tokens, *, aliased: bool) -> RelationRef:
    made = RelationRef(parts=target.parts, span=target.span, aliased=aliased)
    return with_prefixes([made], tokens)[0]


def _refuse_change_functions(tokens: Tokens) -> None:
    for index, token in enumerate(tokens[:-1]):
        called = tokens[index + 1].upper == "("
        before = tokens[index - 1].upper if index else ""
        if called and token.upper in _CHANGES and before in ("FROM", "JOIN", ",", "LATERAL"):
            stop = closing(tokens, index + 1)
            inside = tokens[index + 2 : stop]
            if token.upper == "INSERTS" and inside:
                hint = f"Type {span_of(inside).text}: in a body an input's name means its inserts."
            else:
                hint = ""
            span = span_of(tokens[index : stop + 1])
            raise not_yet(span, f"{token.text.lower()}(...) as a relation", hint)
