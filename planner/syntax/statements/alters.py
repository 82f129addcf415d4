"""Reads what ALTER changes of a task or a materialized view besides its name."""

from collections.abc import Sequence

from ctsql.catalog.errors import bad_option
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.body import read_body
from ctsql.planner.syntax.statements.constraints import (
    at_constraint,
    check_of_table,
    read_constraint,
)
from ctsql.planner.syntax.statements.options import (
    COALESCE,
    NOT_NULL,
    STORAGE_OPTIONS,
    TASK_OPTIONS,
    task_options,
    unknown_option,
    view_options,
)
from ctsql.planner.syntax.statements.refreshes import POLICY
from ctsql.planner.syntax.tokens.token_reader import Cursor
from ctsql.planner.syntax.tokens.tokenizer import Tokens, cut_at_commas, span_of

FIXED_OPTIONS = ("SNAPSHOT", COALESCE, *STORAGE_OPTIONS)
"""Options that say how a task begins, and at which Ts it runs: changes may wait for the next."""
VIEW_OPTIONS = ("REFRESH", POLICY, NOT_NULL, *STORAGE_OPTIONS)


def read_alter(cursor: Cursor, target: st.RelationRef, kind: ObjectKind) -> st.Statement | None:
    """Read what ALTER has for a kind besides RENAME TO; None when that does not come.

    Raises SYNTAX_ERROR, INVALID_OPTION and what a body raises.
    """
    match kind:
        case ObjectKind.CONTINUAL_TASK:
            return _read_alter_task(cursor, target)
        case ObjectKind.MATERIALIZED_VIEW:
            return _read_alter_view(cursor, target)
        case _:
            return None


def _read_alter_task(cursor: Cursor, target: st.RelationRef) -> st.Statement | None:
    """Read RETRY, SKIP, SUSPEND, RESUME, SET, RESET, ADD, DROP or AS."""
    span, kind = cursor.span, ObjectKind.CONTINUAL_TASK
    if cursor.upper() in ("RETRY", "SKIP", "SUSPEND", "RESUME"):
        verb = cursor.take().upper
        cursor.end()
        return st.ControlTask(span=span, target=target, verb=verb)
    if cursor.at("SET") or cursor.at("RESET"):
        return _read_options(cursor, target, kind)
    if cursor.at("ADD") or cursor.at("DROP"):
        return read_alter_constraints(cursor, target, kind)
    if cursor.accept("AS"):
        rest = cursor.rest
        body = read_body(rest, cursor.here, target.span.text)
        return st.ReplaceBody(span=span, target=target, body=body, body_span=span_of(rest))
    return None


def read_alter_constraints(
    cursor: Cursor, target: st.RelationRef, kind: ObjectKind
) -> st.ChangeConstraints:
    """Read ADD with a constraint, or DROP CONSTRAINT; raises SYNTAX_ERROR."""
    if cursor.accept("ADD"):
        if not at_constraint(cursor):
            cursor.fail("CONSTRAINT", hint="Type: ADD CONSTRAINT <name> CHECK (<condition>)")
        constraint = read_constraint(cursor)
        cursor.end()
        if kind is ObjectKind.TABLE:
            check_of_table(constraint, target.span.text)
        return st.ChangeConstraints(
            span=cursor.span, kind=kind, target=target, new_constraint=constraint
        )
    cursor.expect("DROP", "CONSTRAINT")
    if_exists = cursor.if_exists()
    name = cursor.name("the name of the constraint")
    cursor.end()
    return st.ChangeConstraints(
        span=cursor.span,
        kind=kind,
        target=target,
        dropped_name=name.text,
        dropped_span=name.span,
        if_exists=if_exists,
    )


def _read_alter_view(cursor: Cursor, target: st.RelationRef) -> st.Statement | None:
    """Read SET or RESET of a materialized view's options, ADD or DROP of a constraint."""
    kind = ObjectKind.MATERIALIZED_VIEW
    if cursor.at("SET") or cursor.at("RESET"):
        return _read_options(cursor, target, kind)
    if at_constraint_change(cursor):
        return read_alter_constraints(cursor, target, kind)
    return None


def at_constraint_change(cursor: Cursor) -> bool:
    """Whether ADD of a constraint or DROP CONSTRAINT comes next."""
    if cursor.at("DROP", "CONSTRAINT"):
        return True
    return cursor.at("ADD") and at_constraint(cursor, 1)


def _read_options(cursor: Cursor, target: st.RelationRef, kind: ObjectKind) -> st.SetOptions:
    is_task = kind is ObjectKind.CONTINUAL_TASK
    names, read = (TASK_OPTIONS, task_options) if is_task else (VIEW_OPTIONS, view_options)
    options: tuple[st.Option, ...] = ()
    reset: tuple[str, ...] = ()
    if cursor.take().upper == "SET":
        options = read([_inside(cursor, names)])
        for option in options:
            _check_free(option.name, option.span)
    else:
        reset = _names(_inside(cursor, names), names)
    return st.SetOptions(span=cursor.span, kind=kind, target=target, options=options, reset=reset)


def _inside(cursor: Cursor, options: Sequence[str]) -> Tokens:
    inside = cursor.group()
    if not inside:
        cursor.position -= 1
        cursor.fail("an option", words=options)
    cursor.end()
    return inside


def _names(tokens: Tokens, options: Sequence[str]) -> tuple[str, ...]:
    names = []
    for group in cut_at_commas(tokens):
        name = " ".join(token.upper for token in group)
        if name not in options:
            raise unknown_option(span_of(group or tokens), name, options)
        _check_free(name, span_of(group))
        names.append(name)
    return tuple(names)


def _check_free(name: str, span: Span) -> None:
    if name in FIXED_OPTIONS:
        detail = "It holds from the creation on, and the object has begun."
        hint = "Drop it and create it anew."
        raise bad_option(span, name, detail, value="another value now", hint=hint)
