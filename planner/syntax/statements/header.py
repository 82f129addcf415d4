"""Reads the headers of CREATE CONTINUAL TASK and CREATE MATERIALIZED VIEW, AS included.

    CONTINUAL TASK [IF NOT EXISTS] name [(columns) | OUTPUTS (name (columns), ...)] [clauses]
        ON INPUT source [[AS] alias] [WHERE condition], ... [clauses] AS
    MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [clauses] AS

Clauses are COMMENT 'text', WITH (...) and, of a task, BACKFILL FROM table. A replacement's name is
followed by FOR and the replaced object, with [SNAPSHOT | FROM t] for a task, which may then lack ON
INPUT.
"""

from dataclasses import dataclass, replace
from typing import NoReturn

from ctsql.catalog.errors import invalid
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import Instant, RelationRef, SqlText, TaskInput, rows_of
from ctsql.planner.syntax.statements.queries import TIME_HINT, read_instant
from ctsql.planner.syntax.statements.refusals import refusal
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.name_scopes import source_of
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Tokens

_NO_NAMES = ("AS", "CREATE", "IF", "NOT", "ON", "OR", "WHERE", "WITH")
_NO_ALIAS = (*_NO_NAMES, "COMMENT")
_BEHIND_ALIAS = ("AS", "BACKFILL", "COMMENT", "WHERE", "WITH", ",")
_ENDS = ("AS", "WITH", ",")
_BACKFILL = ("BACKFILL", "FROM")
_BODY = "INSERT INTO {} SELECT ..."
_CLAUSES_REFUSED = (
    "FROM TRANSFORM", "FROM RETAIN", "REFRESH", "SCHEDULE", "PARTITIONED BY", "CLUSTER BY",
    "TBLPROPERTIES", "IN CLUSTER",
)  # fmt: skip


@dataclass(slots=True)
class Header:
    """The parts of a header; lists are given as the tokens between their parentheses."""

    target: RelationRef
    if_not_exists: bool
    columns: Tokens | None = None
    # the column list with its parentheses, or OUTPUTS with its list.
    columns_span: Span | None = None
    options: tuple[Tokens, ...] = ()  # one entry for each WITH (...)
    options_span: Span | None = None  # the whole of the first
    # a task's inputs; a view has none, and a replacement may leave them out.
    inputs: tuple[TaskInput, ...] = ()
    # of a task with OUTPUTS each output's name and its columns.
    outputs: tuple[tuple[RelationRef, Tokens], ...] = ()
    comment: str | None = None
    replaces: RelationRef | None = None  # the object after FOR
    begin: Instant | None = None  # the time after FROM
    backfill: RelationRef | None = None  # of BACKFILL FROM
    beginning_span: Span | None = None  # from FOR or BACKFILL to the end of that clause


def read_header(cursor: TokenCursor, *, task: bool, replacement: bool) -> Header:
    """Read a header after the words of the kind; raises SYNTAX_ERROR, NOT_SUPPORTED."""
    if_not_exists = cursor.if_not_exists()
    header = Header(_name(cursor), if_not_exists)
    if replacement:
        _read_replaced(cursor, header, task=task)
    start = cursor.here.start
    if cursor.at("("):
        header.columns = cursor.group()
        header.columns_span = cursor.since(start)
    elif task and cursor.accept("OUTPUTS"):
        header.outputs = _outputs(cursor)
        header.columns_span = cursor.since(start)
    _read_clauses(cursor, header, task=task)
    if task and cursor.accept("ON"):
        cursor.expect("INPUT")
        inputs = [_input(cursor)]
        while cursor.accept(","):
            inputs.append(_input(cursor))
        header.inputs = tuple(inputs)
        _read_clauses(cursor, header, task=task)
    is_complete = bool(header.inputs) or replacement or not task
    if not is_complete and cursor.upper() in ("", "AS", "INPUT"):
        name = header.target.span.text
        hint = f"Type: CREATE CONTINUAL TASK {name} ON INPUT <table> AS ({_BODY.format(name)})"
        raise syntax_error(cursor.here, "ON INPUT is missing", hint=hint)
    if not is_complete or not cursor.accept("AS"):
        _refuse(cursor, '"AS"' if is_complete else '"ON INPUT"')
    return header


def _name(cursor: TokenCursor, what: str = "a name", *, aliased: bool = True) -> RelationRef:
    if cursor.upper() in _NO_NAMES:
        cursor.fail(what)
    return cursor.relation(what, aliased=aliased)


def _read_replaced(cursor: TokenCursor, header: Header, *, task: bool) -> None:
    start = cursor.here.start
    cursor.expect("FOR")
    header.replaces = _name(cursor, f"the name of the {'task' if task else 'view'} that it is for")
    if task and cursor.accept("FROM"):
        header.begin = read_instant(cursor, TIME_HINT)
    elif task:
        cursor.accept("SNAPSHOT")
    header.beginning_span = cursor.since(start)


def _read_clauses(cursor: TokenCursor, header: Header, *, task: bool) -> None:
    has_options = False
    while cursor.current is not None:
        start = cursor.here.start
        if cursor.accept("COMMENT"):
            text = cursor.string("a string")
            if header.comment is not None:
                raise syntax_error(text.span, "COMMENT is given twice")
            header.comment = text.text
        elif cursor.at("WITH") and has_options:
            message = 'found a second "WITH", expected "ON INPUT" or "AS"'
            raise syntax_error(cursor.here, message)
        elif cursor.accept("WITH"):
            header.options = (*header.options, cursor.group())
            header.options_span = header.options_span or cursor.since(start)
            has_options = True
        elif task and header.beginning_span is None and cursor.accept(*_BACKFILL):
            header.backfill = cursor.relation("the table that it begins with")
            header.beginning_span = cursor.since(start)
        else:
            return


def _outputs(cursor: TokenCursor) -> tuple[tuple[RelationRef, Tokens], ...]:
    """``(name (columns), ...)``."""
    cursor.expect("(")
    outputs: list[tuple[RelationRef, Tokens]] = []
    while not outputs or cursor.accept(","):
        name = _name(cursor)
        if not cursor.at("("):
            text = name.span.text
            hint = f"Write its columns behind the name: {text} (k INT, ...)"
            cursor.fail("the columns of the output", hint=hint)
        outputs.append((name, cursor.group()))
    cursor.expect(")")
    return tuple(outputs)


def _input(cursor: TokenCursor) -> TaskInput:
    start = cursor.here.start
    ref = _name(cursor, aliased=False)
    alias = None
    # AS in front of the body is followed by a parenthesis.
    if cursor.at("AS") and cursor.upper(1) != "(" and cursor.upper(2) in _BEHIND_ALIAS:
        cursor.take()
        alias = cursor.name("a name").text
    elif cursor.is_at_name and not (cursor.upper() in _NO_ALIAS or cursor.at(*_BACKFILL)):
        alias = cursor.take().text
    condition = None
    if cursor.accept("WHERE"):
        rest = cursor.rest
        words = tk.at_depth_0(rest)
        ends = (i for i, t in words if t.upper in _ENDS or tk.words_are(rest, i, *_BACKFILL))
        condition = cursor.until(next(ends, len(rest)), "a condition")
    ref = replace(ref, aliased=condition is None or alias is not None)
    return TaskInput(
        ref=ref,
        alias=alias,
        span=cursor.since(start),
        rows=None if condition is None else _rows_where(ref, alias, condition),
    )


def _rows_where(ref: RelationRef, alias: str | None, condition: Tokens) -> SqlText:
    """The query of the rows for which a condition is true; it may read only columns of the row."""
    source = source_of(ref, alias)
    text = analyse(condition, form="predicate", outer=[(source,)])
    other = [ref.span for ref in text.relations] + [call.span for call in text.clocks]
    other += [call.span for call in text.nondeterministic] + list(text.parameters)
    if other:
        message = "the condition behind ON INPUT may read only columns of the input"
        detail = (
            "It selects the changes for which the task runs, so it must not depend on the time."
        )
        hint = "Put such a condition into the statements of the body."
        raise invalid(other[0], message, detail, hint)
    rows = rows_of(ref)
    span = Span(ref.span.source, ref.span.start, text.span.stop)
    return replace(rows, span=span, edits=(*rows.edits, *text.edits), names=text.names)


def _refuse(cursor: TokenCursor, expected: str) -> NoReturn:
    for clause in _CLAUSES_REFUSED:
        if cursor.at(*clause.split()):
            what = "REFRESH outside of WITH (...)" if clause == "REFRESH" else clause
            raise refusal(cursor.here, what)
    known = ("AS", "COMMENT", "WITH", "WHERE", "OUTPUTS", "BACKFILL", "INPUT")
    cursor.fail(expected, words=known)
