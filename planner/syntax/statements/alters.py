"""Reads what ALTER CONTINUAL TASK changes of a task besides its name."""

from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.body import read_body
from ctsql.planner.syntax.statements.options import (
    STORAGE_OPTIONS,
    TASK_OPTIONS,
    task_options,
    unknown_option,
)
from ctsql.planner.syntax.tokens.token_reader import Cursor, bad_option
from ctsql.planner.syntax.tokens.tokenizer import Tokens, cut_at_commas, span_of

FIXED_OPTIONS = ("SNAPSHOT", "COALESCE", *STORAGE_OPTIONS)
"""Options that say how a task begins, and at which Ts it runs: changes may wait for the next."""


def read_alter_task(cursor: Cursor, target: st.RelationRef) -> st.Statement | None:
    """Read RETRY, SKIP, SUSPEND, RESUME, SET, RESET or AS; None when none of them comes.

    Raises SYNTAX_ERROR, INVALID_OPTION and what a body raises.
    """
    span = cursor.span
    if cursor.upper() in ("RETRY", "SKIP"):
        skip = cursor.take().upper == "SKIP"
        cursor.end()
        return st.ResumeTask(span=span, target=target, skip=skip)
    if cursor.upper() in ("SUSPEND", "RESUME"):
        suspend = cursor.take().upper == "SUSPEND"
        cursor.end()
        return st.SwitchTask(span=span, target=target, suspend=suspend)
    if cursor.accept("SET"):
        inside = _inside(cursor)
        options = task_options([inside])
        for option in options:
            _check_free(option.name, option.span)
        return st.SetTaskOptions(span=span, target=target, options=options)
    if cursor.accept("RESET"):
        return st.SetTaskOptions(span=span, target=target, reset=_names(_inside(cursor)))
    if cursor.accept("AS"):
        rest = cursor.rest
        body = read_body(rest, cursor.here, target.span.text)
        return st.ReplaceBody(span=span, target=target, body=body, body_span=span_of(rest))
    return None


def _inside(cursor: Cursor) -> Tokens:
    inside = cursor.group()
    if not inside:
        cursor.position -= 1
        cursor.fail("an option", known=TASK_OPTIONS)
    cursor.end()
    return inside


def _names(tokens: Tokens) -> tuple[str, ...]:
    found = []
    for group in cut_at_commas(tokens):
        name = " ".join(token.upper for token in group)
        if name not in TASK_OPTIONS:
            raise unknown_option(span_of(group or tokens), name, TASK_OPTIONS)
        _check_free(name, span_of(group))
        found.append(name)
    return tuple(found)


def _check_free(name: str, span: Span) -> None:
    if name in FIXED_OPTIONS:
        detail = "It holds from the task's creation on, and the task has begun."
        hint = "Drop the task and create it anew."
        raise bad_option(span, name, detail, value="another value now", hint=hint)
