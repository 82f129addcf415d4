"""Reads what ALTER CONTINUAL TASK changes of a task besides its name."""

from ctsql.catalog.errors import error
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import (
    RelationRef,
    ReplaceBody,
    ResumeTask,
    SetTaskOptions,
    Statement,
    SwitchTask,
)
from ctsql.planner.syntax.statements.body import read_body
from ctsql.planner.syntax.statements.options import TASK_OPTIONS, task_options
from ctsql.planner.syntax.tokens.token_reader import Cursor
from ctsql.planner.syntax.tokens.tokenizer import Tokens, closing, groups, span_of

FIXED_OPTIONS = ("SNAPSHOT", "COALESCE")
"""Options that say how a task begins, and at which Ts it runs: changes may wait for the next."""


def read_alter_task(cursor: Cursor, target: RelationRef) -> Statement | None:
    """Read RETRY, SKIP, SUSPEND, RESUME, SET, RESET or AS; None when none of them comes.

    Raises:
        SYNTAX_ERROR, INVALID_OPTION and what a body raises.
    """
    span = span_of(cursor.tokens)
    if cursor.upper() in ("RETRY", "SKIP"):
        skip = cursor.take().upper == "SKIP"
        cursor.end()
        return ResumeTask(span=span, target=target, skip=skip)
    if cursor.upper() in ("SUSPEND", "RESUME"):
        suspend = cursor.take().upper == "SUSPEND"
        cursor.end()
        return SwitchTask(span=span, target=target, suspend=suspend)
    if cursor.accept("SET"):
        inside = _inside(cursor)
        options = task_options([inside])
        for option in options:
            _check_free(option.name, option.span)
        return SetTaskOptions(span=span, target=target, options=options)
    if cursor.accept("RESET"):
        return SetTaskOptions(span=span, target=target, reset=_names(_inside(cursor)))
    if cursor.accept("AS"):
        rest = cursor.rest
        body = read_body(rest, cursor.here, target.span.text)
        return ReplaceBody(span=span, target=target, body=body, body_span=span_of(rest))
    return None


def _inside(cursor: Cursor) -> Tokens:
    if not cursor.at("("):
        cursor.fail('"("')
    stop = closing(cursor.tokens, cursor.position)
    inside = cursor.tokens[cursor.position + 1 : stop]
    if not inside:
        cursor.take()
        cursor.fail("an option", known=TASK_OPTIONS)
    cursor.position = stop + 1
    cursor.end()
    return inside


def _names(tokens: Tokens) -> tuple[str, ...]:
    found = []
    for group in groups(tokens, ","):
        name = " ".join(token.upper for token in group)
        if name not in TASK_OPTIONS:
            raise error(
                "INVALID_OPTION",
                span=span_of(group or tokens),
                option=name,
                value="any value here",
                detail=f"There is no such option. The options are: {', '.join(TASK_OPTIONS)}.",
                hint=did_you_mean(name, TASK_OPTIONS),
            )
        _check_free(name, span_of(group))
        found.append(name)
    return tuple(found)


def _check_free(name: str, span: Span) -> None:
    if name in FIXED_OPTIONS:
        raise error(
            "INVALID_OPTION",
            span=span,
            option=name,
            value="another value now",
            detail="It holds from the task's creation on, and the task has begun.",
            hint="Drop the task and create it anew.",
        )
