"""Reads ALTER; changes of a table's columns are spelled as in Spark and PostgreSQL."""

from collections.abc import Sequence

from ctsql.catalog.errors import bad_option, not_supported
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.names import quote
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements import options as opts
from ctsql.planner.syntax.statements.body import read_body
from ctsql.planner.syntax.statements.columns import read_columns, read_default, read_type
from ctsql.planner.syntax.statements.constraints import (
    at_constraint,
    check_of_table,
    read_constraint,
)
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, column_names
from ctsql.planner.syntax.tokens.tokenizer import (
    Kind,
    Token,
    Tokens,
    at_depth_0,
    cut_at_commas,
    span_of,
)

FIXED_OPTIONS = ("SNAPSHOT", *opts.KEPT_OPTIONS)
"""Options about a task's beginning and its Ts, which ALTER cannot change."""
_CONSTRAINTS = "ADD CONSTRAINT, DROP CONSTRAINT"
_ALTERS = {
    ObjectKind.TABLE: "ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, "
    f"{_CONSTRAINTS}, RENAME TO",
    ObjectKind.CONTINUAL_TASK: "AS, SET, RESET, RETRY, SKIP, SUSPEND, RESUME, "
    f"{_CONSTRAINTS}, APPLY REPLACEMENT, RENAME TO",
    ObjectKind.MATERIALIZED_VIEW: f"SET, RESET, {_CONSTRAINTS}, APPLY REPLACEMENT, RENAME TO",
}
"""For each kind with more than RENAME TO, the reader of the text after ALTER and the name."""
_REPLACEABLE = (ObjectKind.MATERIALIZED_VIEW, ObjectKind.CONTINUAL_TASK)
VIEW_OPTIONS = ("REFRESH", opts.POLICY, *opts.STORAGE_OPTIONS)


def read_alter(cursor: TokenCursor) -> st.Statement:
    """Read what follows ALTER."""
    kind = cursor.expect_kind()
    if cursor.at("IF", "EXISTS"):
        # What a script types instead works for missing objects too.
        hint = f"Type: CREATE OR REPLACE {kind.keyword} ..., which creates or replaces it."
        if kind is ObjectKind.TABLE:
            hint = "Leave IF EXISTS out; SHOW TABLES LIKE '...' shows whether the table exists."
        raise not_supported(cursor.here, f"ALTER {kind.keyword} IF EXISTS", hint=hint)
    target = cursor.relation("the name of what to alter")
    statement = _read_change(cursor, target, kind)
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


def _read_change(
    cursor: TokenCursor, target: st.RelationRef, kind: ObjectKind
) -> st.Statement | None:
    """Read a change that only some kinds of objects have; None if no such change follows."""
    span = cursor.span
    if kind in _REPLACEABLE and cursor.upper() in ("SET", "RESET"):
        return _read_options(cursor, target, kind)
    if kind in (ObjectKind.TABLE, ObjectKind.MATERIALIZED_VIEW) and (
        cursor.at("DROP", "CONSTRAINT") or (cursor.at("ADD") and at_constraint(cursor, 1))
    ):
        return _read_constraints(cursor, target, kind)
    if kind is ObjectKind.TABLE:
        change = _read_column_change(cursor)
        return None if change is None else st.AlterTable(span=span, target=target, change=change)
    _refuse_columns(cursor, target, kind)
    if kind is not ObjectKind.CONTINUAL_TASK:
        return None
    if cursor.upper() in ("RETRY", "SKIP", "SUSPEND", "RESUME"):
        verb = cursor.take().upper
        cursor.end()
        return st.ControlTask(span=span, target=target, verb=verb)
    if cursor.upper() in ("ADD", "DROP"):
        return _read_constraints(cursor, target, kind)
    if cursor.accept("AS"):
        begin = cursor.here.start
        body = read_body(cursor, target.span.text)
        return st.ReplaceBody(span=span, target=target, body=body, body_span=cursor.since(begin))
    return None


def _refuse_columns(cursor: TokenCursor, target: st.RelationRef, kind: ObjectKind) -> None:
    """Raise NOT_SUPPORTED if ALTER continues with a change of an output's columns."""
    adds = cursor.upper() in ("ADD", "DROP")
    if kind is ObjectKind.CONTINUAL_TASK:  # which has ADD and DROP of constraints
        adds = adds and cursor.upper(1) in ("COLUMN", "COLUMNS")
    if adds or cursor.at("RENAME", "COLUMN") or cursor.at("ALTER"):
        what = f"ALTER {kind.keyword} ... {cursor.upper()} COLUMN"
        why = "Its definition determines its columns."
        hint = f"Change the definition: CREATE OR REPLACE {kind.keyword} {target.span.text} ..."
        raise not_supported(cursor.here, what, why=why, hint=hint)


def _read_constraints(
    cursor: TokenCursor, target: st.RelationRef, kind: ObjectKind
) -> st.ChangeConstraints:
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


def _read_options(cursor: TokenCursor, target: st.RelationRef, kind: ObjectKind) -> st.SetOptions:
    is_task = kind is ObjectKind.CONTINUAL_TASK
    names, read = (
        (opts.TASK_OPTIONS, opts.task_options) if is_task else (VIEW_OPTIONS, opts.view_options)
    )
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
    inside = cursor.group("an option", filled=True, words=options)
    cursor.end()
    return inside


def _names(tokens: Tokens, options: Sequence[str]) -> tuple[str, ...]:
    names = []
    for group in cut_at_commas(tokens):
        name = " ".join(token.upper for token in group)
        if name not in options:
            raise opts.unknown_option(span_of(group or tokens), name, options)
        _check_free(name, span_of(group))
        names.append(name)
    return tuple(names)


def _check_free(name: str, span: Span) -> None:
    if name in FIXED_OPTIONS:
        detail = "It is fixed when the object is created."
        hint = "Drop it and create it again."
        raise bad_option(span, name, detail, value="another value now", hint=hint)


_KNOWN = ("TYPE", "SET", "DROP")


def _read_column_change(cursor: TokenCursor) -> st.ColumnChange | None:
    """Read a change of columns; None if no such change follows."""
    if cursor.accept("ADD"):
        return _add(cursor)
    if cursor.accept("DROP"):
        return _drop(cursor)
    if cursor.at("RENAME") and not cursor.at("RENAME", "TO"):
        cursor.expect("RENAME")
        cursor.expect("COLUMN", hint="RENAME TO gives the table another name.")
        column = _named(cursor.name("a column's name"))
        cursor.expect("TO")
        new = _named(cursor.name("a column's name"))
        cursor.end(hint="One column is renamed at a time.")
        return st.RenameColumn(column=column, new=new)
    if cursor.accept("ALTER"):
        cursor.accept("COLUMN")
        return _alter(cursor)
    return None


def _expect_column(cursor: TokenCursor) -> None:
    if not (cursor.accept("COLUMNS") or cursor.accept("COLUMN")):
        cursor.fail("COLUMN", words=["COLUMN", "COLUMNS"])


def _add(cursor: TokenCursor) -> st.AddColumns:
    _expect_column(cursor)
    quiet = cursor.if_not_exists()
    place = cursor.here
    tokens = cursor.group() if cursor.at("(") else cursor.until(len(cursor.rest), "a column")
    cursor.end()
    _refuse_place(tokens)
    columns = read_columns(tokens, place, typed=True, defaults=True)
    for column in columns:
        if column.default is not None:
            what = "DEFAULT of a column that is added"
            why = "Existing rows would not have it: they have NULL."
            hint = (
                f"Add it, then: ALTER COLUMN {quote(column.name)} SET DEFAULT ...; and UPDATE the "
                "existing rows."
            )
            raise not_supported(column.default.span, what, why=why, hint=hint)
        if not column.nullable:
            what = "NOT NULL of a column that is added"
            why = "Existing rows have no value for it."
            hint = f"Add it, UPDATE the rows, then: ALTER COLUMN {quote(column.name)} SET NOT NULL"
            raise not_supported(column.span, what, why=why, hint=hint)
    return st.AddColumns(columns=columns, if_not_exists=quiet)


def _refuse_place(tokens: Tokens) -> None:
    for group in cut_at_commas(tokens, are_columns=True):
        for i, token in at_depth_0(group):
            if i > 1 and token.upper in ("FIRST", "AFTER"):
                why = "New columns are added at the end."
                hint = "Select the columns in the order that you want."
                raise not_supported(token.span, f"ADD COLUMN ... {token.upper}", why=why, hint=hint)


def _drop(cursor: TokenCursor) -> st.DropColumns:
    _expect_column(cursor)
    quiet = cursor.if_exists()
    columns = column_names(cursor) if cursor.at("(") else [cursor.name("a column's name")]
    cursor.end(hint="Put several columns in parentheses.")
    return st.DropColumns(columns=tuple(map(_named, columns)), if_exists=quiet)


def _alter(cursor: TokenCursor) -> st.ColumnChange:
    token = cursor.name("a column's name")
    column = _named(token)
    if cursor.accept("TYPE"):
        if cursor.current is None:
            cursor.fail("a type")
        text, span = read_type(cursor, token)
        cursor.end()
        return st.RetypeColumn(column=column, type=text, type_span=span)
    change: st.ColumnChange | None = None
    if cursor.accept("SET", "NOT", "NULL") or cursor.at("DROP", "NOT", "NULL"):
        change = st.SetNotNull(column=column, not_null=not cursor.accept("DROP", "NOT", "NULL"))
    elif cursor.accept("SET", "DEFAULT"):
        change = st.SetDefault(column=column, value=read_default(cursor))
    elif cursor.accept("DROP", "DEFAULT"):
        change = st.SetDefault(column=column, value=None)
    if change is not None:
        cursor.end()
        return change
    if cursor.upper() != "COMMENT":
        choices = '"TYPE", "SET NOT NULL", "DROP NOT NULL", "SET DEFAULT" or "DROP DEFAULT"'
        cursor.fail(choices, words=_KNOWN)
    hint = f"Type: COMMENT ON COLUMN <table>.{quote(column.name)} IS '...'"
    raise not_supported(cursor.here, "ALTER COLUMN ... COMMENT", hint=hint)


def _named(token: Token) -> st.ColumnDef:
    return st.ColumnDef(name=token.text, span=token.span)
