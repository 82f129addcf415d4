"""Reads ALTER."""

from collections.abc import Sequence

from ctsql.catalog.errors import bad_option, not_supported
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.alter_table import read_column_change
from ctsql.planner.syntax.statements.body import read_body
from ctsql.planner.syntax.statements.constraints import (
    at_constraint,
    check_of_table,
    read_constraint,
)
from ctsql.planner.syntax.statements.options import (
    COALESCE,
    NOT_NULL,
    POLICY,
    STORAGE_OPTIONS,
    TASK_OPTIONS,
    task_options,
    unknown_option,
    view_options,
)
from ctsql.planner.syntax.tokens.token_reader import TokenCursor
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, cut_at_commas, span_of

FIXED_OPTIONS = ("SNAPSHOT", COALESCE, *STORAGE_OPTIONS)
"""Options that say how a task begins, and at which Ts it runs: changes may wait for the next."""
_CONSTRAINTS = "ADD CONSTRAINT, DROP CONSTRAINT"
_ALTERS = {
    ObjectKind.TABLE: "ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, "
    f"{_CONSTRAINTS}, RENAME TO",
    ObjectKind.CONTINUAL_TASK: "AS, SET, RESET, RETRY, SKIP, SUSPEND, RESUME, "
    f"{_CONSTRAINTS}, APPLY REPLACEMENT, RENAME TO",
    ObjectKind.MATERIALIZED_VIEW: f"SET, RESET, {_CONSTRAINTS}, APPLY REPLACEMENT, RENAME TO",
}
"""What stands behind ALTER and a name, for each kind that has more than RENAME TO."""
_REPLACEABLE = (ObjectKind.MATERIALIZED_VIEW, ObjectKind.CONTINUAL_TASK)
VIEW_OPTIONS = ("REFRESH", POLICY, NOT_NULL, *STORAGE_OPTIONS)


def read_alter(cursor: TokenCursor) -> st.Statement:
    """Read what follows ALTER.

    Raises SYNTAX_ERROR, INVALID_OPTION, NOT_SUPPORTED and what a body raises.
    """
    kind = cursor.expect_kind()
    if cursor.at("IF", "EXISTS"):
        # What a script types instead works whether the object is there or not.
        hint = f"Type: CREATE OR REPLACE {kind.keyword} ..., which makes it or changes it."
        if kind is ObjectKind.TABLE:
            hint = "Leave IF EXISTS out; SHOW TABLES LIKE '...' tells whether the table is there."
        raise not_supported(cursor.here, f"ALTER {kind.keyword} IF EXISTS", hint=hint)
    target = cursor.relation("the name of what to alter")
    if kind is ObjectKind.CONTINUAL_TASK:
        statement = _read_alter_task(cursor, target)
    elif kind is ObjectKind.TABLE:
        statement = _read_alter_table(cursor, target)
    else:
        statement = _read_alter_view(cursor, target, kind)
    if statement is not None:
        return statement
    span = cursor.span
    if kind in _REPLACEABLE and cursor.accept("APPLY", "REPLACEMENT"):
        other = cursor.relation("the name of the replacement")
        cursor.end()
        return st.ApplyReplacement(span=span, kind=kind, target=target, replacement=other)
    if cursor.current is not None and cursor.current.kind is Kind.WORD and not cursor.at("RENAME"):
        hint = f"ALTER {kind.keyword} {target.span.text} takes: {_ALTERS.get(kind, 'RENAME TO')}"
        raise not_supported(cursor.here, f"ALTER {kind.keyword} ... {cursor.upper()}", hint=hint)
    cursor.expect("RENAME", "TO")
    new = cursor.relation("the new name")
    cursor.end()
    return st.RenameObject(span=span, kind=kind, target=target, new=new)


def _read_alter_table(cursor: TokenCursor, target: st.RelationRef) -> st.Statement | None:
    if _at_constraint_change(cursor):
        return _read_constraints(cursor, target, ObjectKind.TABLE)
    change = read_column_change(cursor)
    return None if change is None else st.AlterTable(span=cursor.span, target=target, change=change)


def _read_alter_task(cursor: TokenCursor, target: st.RelationRef) -> st.Statement | None:
    """Read RETRY, SKIP, SUSPEND, RESUME, SET, RESET, ADD, DROP or AS."""
    span, kind = cursor.span, ObjectKind.CONTINUAL_TASK
    _refuse_columns(cursor, target, kind)
    if cursor.upper() in ("RETRY", "SKIP", "SUSPEND", "RESUME"):
        verb = cursor.take().upper
        cursor.end()
        return st.ControlTask(span=span, target=target, verb=verb)
    if cursor.at("SET") or cursor.at("RESET"):
        return _read_options(cursor, target, kind)
    if cursor.at("ADD") or cursor.at("DROP"):
        return _read_constraints(cursor, target, kind)
    if cursor.accept("AS"):
        rest = cursor.rest
        body = read_body(rest, cursor.here, target.span.text)
        return st.ReplaceBody(span=span, target=target, body=body, body_span=span_of(rest))
    return None


def _read_alter_view(
    cursor: TokenCursor, target: st.RelationRef, kind: ObjectKind
) -> st.Statement | None:
    """Read SET, RESET, ADD or DROP of a materialized view."""
    if kind is ObjectKind.MATERIALIZED_VIEW:
        if cursor.at("SET") or cursor.at("RESET"):
            return _read_options(cursor, target, kind)
        if _at_constraint_change(cursor):
            return _read_constraints(cursor, target, kind)
    _refuse_columns(cursor, target, kind)
    return None


def _refuse_columns(cursor: TokenCursor, target: st.RelationRef, kind: ObjectKind) -> None:
    """Raise NOT_SUPPORTED where ALTER goes on with a change of an output's columns."""
    adds = cursor.upper() in ("ADD", "DROP")
    if kind is ObjectKind.CONTINUAL_TASK:  # which has ADD and DROP of constraints
        adds = adds and cursor.upper(1) in ("COLUMN", "COLUMNS")
    if adds or cursor.at("RENAME", "COLUMN") or cursor.at("ALTER"):
        what = f"ALTER {kind.keyword} ... {cursor.upper()} COLUMN"
        why = "Its definition says which columns it has."
        hint = f"Give it another one: CREATE OR REPLACE {kind.keyword} {target.span.text} ..."
        raise not_supported(cursor.here, what, why=why, hint=hint)


def _read_constraints(
    cursor: TokenCursor, target: st.RelationRef, kind: ObjectKind
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


def _at_constraint_change(cursor: TokenCursor) -> bool:
    """Whether ADD of a constraint or DROP CONSTRAINT comes next."""
    if cursor.at("DROP", "CONSTRAINT"):
        return True
    return cursor.at("ADD") and at_constraint(cursor, 1)


def _read_options(cursor: TokenCursor, target: st.RelationRef, kind: ObjectKind) -> st.SetOptions:
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


def _inside(cursor: TokenCursor, options: Sequence[str]) -> Tokens:
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
