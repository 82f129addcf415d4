"""Reads what ALTER TABLE changes of a table's columns, as Spark and PostgreSQL spell it."""

from ctsql.catalog.errors import not_supported
from ctsql.catalog.names import quote
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.columns import read_columns, read_default, read_type
from ctsql.planner.syntax.tokens.token_reader import TokenCursor
from ctsql.planner.syntax.tokens.tokenizer import Tokens, at_depth_0, cut_at_commas

_KNOWN = ("TYPE", "SET", "DROP")


def read_column_change(cursor: TokenCursor) -> st.ColumnChange | None:
    """Read a change of columns; None when none comes.

    Raises SYNTAX_ERROR, NOT_SUPPORTED and what a column list raises.
    """
    if cursor.accept("ADD"):
        return _add(cursor)
    if cursor.accept("DROP"):
        return _drop(cursor)
    if cursor.at("RENAME") and not cursor.at("RENAME", "TO"):
        cursor.expect("RENAME")
        cursor.expect("COLUMN", hint="RENAME TO gives the table another name.")
        column = _column(cursor)
        cursor.expect("TO")
        new = _column(cursor)
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
            why = "Rows that are there would not have it: they have NULL."
            hint = (
                f"Add it, then: ALTER COLUMN {quote(column.name)} SET DEFAULT ...; and UPDATE the "
                "rows that are there."
            )
            raise not_supported(column.default.span, what, why=why, hint=hint)
        if not column.nullable:
            what = "NOT NULL of a column that is added"
            why = "Rows that are there have no value for it."
            hint = f"Add it, UPDATE the rows, then: ALTER COLUMN {quote(column.name)} SET NOT NULL"
            raise not_supported(column.span, what, why=why, hint=hint)
    return st.AddColumns(columns=columns, if_not_exists=quiet)


def _refuse_place(tokens: Tokens) -> None:
    for group in cut_at_commas(tokens, are_columns=True):
        for i, token in at_depth_0(group):
            if i > 1 and token.upper in ("FIRST", "AFTER"):
                why = "A column comes at the end."
                hint = "Name the columns in the order that you want where you read them."
                raise not_supported(token.span, f"ADD COLUMN ... {token.upper}", why=why, hint=hint)


def _drop(cursor: TokenCursor) -> st.DropColumns:
    _expect_column(cursor)
    quiet = cursor.if_exists()
    if cursor.at("("):
        inside = cursor.group()
        groups = [TokenCursor(g, of="column") for g in cut_at_commas(inside) if g]
        if not groups:
            cursor.fail("a column's name")
    else:
        groups = [cursor]
    columns = [_column(group) for group in groups]
    for group in groups:
        group.end()
    cursor.end(hint="Several columns stand in parentheses.")
    return st.DropColumns(columns=tuple(columns), if_exists=quiet)


def _alter(cursor: TokenCursor) -> st.ColumnChange:
    token = cursor.name("a column's name")
    column = st.ColumnDef(name=token.text, span=token.span)
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


def _column(cursor: TokenCursor) -> st.ColumnDef:
    token = cursor.name("a column's name")
    return st.ColumnDef(name=token.text, span=token.span)
