"""Refusals of a definition whose names and types are resolved."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ctsql.catalog import schemas
from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import outputs_of
from ctsql.catalog.errors import CtsqlError, error, invalid, not_supported
from ctsql.catalog.items import Item
from ctsql.catalog.names import check_new_name, fold, free_name, quote
from ctsql.catalog.reserved_columns import OF_SPARK, PREFIX
from ctsql.catalog.schemas import Column, check_unique
from ctsql.catalog.spans import Span
from ctsql.planner.nodes import Node, Query, descend
from ctsql.planner.syntax.ast import ColumnDef, CreateMaterializedView, FunctionRef, SqlText
from ctsql.planner.syntax.statements.options import NOT_NULL
from ctsql.planner.syntax.tokens.replaceable_calls import SCHEMA_CALLS
from ctsql.planner.syntax.tokens.tokenizer import Kind, tokenise

_CALL = re.compile(r"([A-Za-z_]\w*)\(")
_UNIT = "(?:year|month|day|hour|minute|second)"
_NOT_STORED = re.compile(
    rf"(?:^|[<:,]\s*|\w\s+)(?:interval(?:\s*{_UNIT}(?:\s*to\s*{_UNIT})?)?|time(?:\s*\(\s*\d+\s*\))?)"
    r"\s*(?=[,>]|$)",
    re.IGNORECASE | re.ASCII,
)
"""Types that Delta lacks, also within others; fields may be called so."""
_VOID = re.compile(r"(?<![^<:,\s])void(?=\s*(?:[,>]|$))", re.IGNORECASE)
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
NAME_FORBIDDEN = " ,;{}()\n\t="  # characters that Parquet allows in no column name


def named_columns(
    query: Query, definitions: Sequence[ColumnDef], span: Span, creates: str
) -> tuple[Column, ...]:
    """The query's columns under the names of a column list, if there is one.

    ``creates`` is the statement up to the name, for the hint. Raises COLUMN_COUNT_MISMATCH,
    DUPLICATE_COLUMN.
    """
    columns = query.columns or ()
    if definitions:
        if len(definitions) != len(columns):
            message = (
                f"the query gives {len(columns)} column(s), the column list has {len(definitions)}"
            )
            detail = f"Given: {', '.join(c.name for c in columns)}."
            raise error("COLUMN_COUNT_MISMATCH", span=span, message=message, detail=detail)
        columns = tuple(
            replace(c, name=d.name, comment=d.comment)
            for c, d in zip(columns, definitions, strict=True)
        )
    hint = "" if definitions else column_list_hint(columns, creates)
    return check_unique(columns, [d.span for d in definitions] or [span], hint)


def column_list_hint(columns: Sequence[Column], creates: str) -> str:
    """The column list to type for a query whose names no table can have, or twice.

    >>> column_list_hint([Column("total price", "int"), Column("a", "int"), Column("A", "int")],
    ...     "CREATE VIEW v")
    'Type: CREATE VIEW v (total_price, a, A_2) AS ...'
    """
    names: list[str] = []
    for place, column in enumerate(columns, start=1):
        base = re.sub(f"[{re.escape(NAME_FORBIDDEN)}]+", "_", column.name).strip("_")
        names.append(free_name(base or f"column_{place}", set(map(fold, names))))
    return f"Type: {creates} ({', '.join(map(quote, names))}) AS ..."


def name_unnamed(columns: Sequence[Column], sql: SqlText) -> tuple[Column, ...]:
    """Columns with names that a table can have, in place of names that Spark generated.

    A call gets its function's name, another expression its place: ``count(*)`` becomes ``count``,
    ``a + 1`` in the second place ``column_2``. A name in backticks is unchanged.
    """
    quoted_names = {fold(t.text) for t in tokenise(sql.span) if t.kind is Kind.QUOTED}
    names = {fold(c.name) for c in columns}
    result: list[Column] = []
    for place, column in enumerate(columns, start=1):
        if fold(column.name) not in quoted_names and has_forbidden(column.name):
            call = _CALL.match(column.name)
            name = free_name(call.group(1) if call else f"column_{place}", names)
            names.add(fold(name))
            column = replace(column, name=name)
        result.append(column)
    return tuple(result)


def check_storable(columns: Sequence[Column], span: Span, creates: str = "") -> None:
    """Refuse columns that no table can have; ``creates`` is a query's statement, for the hint."""
    for column in columns:
        check_column_name(column.name, span)
        if has_forbidden(column.name):
            hint = column_list_hint(columns, creates) if creates else ""
            detail = forbidden_in(column.name)
            raise error("INVALID_NAME", span=span, name=column.name, detail=detail, hint=hint)
        check_type(column, span)


def not_assignable(column: Column, given: str, span: Span, text: str) -> CtsqlError:
    """TYPE_MISMATCH for a value that a column cannot store; ``text`` is the value, for the hint."""
    message = f'column "{column.name}" is of type {column.type}, but {given}'
    hint = f"Write CAST({text} AS {column.type}) if that is meant."
    return error("TYPE_MISMATCH", span=span, message=message, hint=hint)


def check_type(column: Column, span: Span) -> None:
    """Refuse a column of a type that no table can have: INVALID_COLUMN_TYPE, NOT_SUPPORTED."""
    check_not_void(column, span)
    if _NOT_STORED.search(_QUOTED.sub("", column.type)):
        what = f'column "{column.name}" of type {column.type.upper()}'
        hint = "Keep a number, as timestampdiff(SECOND, a, b), or CAST(... AS STRING)."
        raise not_supported(span, what, why="Delta tables have no such type.", hint=hint)


def check_listed(columns: Iterable[ColumnDef]) -> None:
    """The same for a column list; what has no type gets one from its query."""
    for column in columns:
        check_column_name(column.name, column.span)
        if column.type is not None:
            check_type(Column(column.name, column.type), column.span)


def check_column_name(name: str, span: Span) -> None:
    """Refuse names of columns that ctsql or Spark adds to rows, and invalid names: INVALID_NAME."""
    check_new_name(name, span)
    detail = ""
    if fold(name).startswith(PREFIX):
        detail = f"Names that begin with {PREFIX} are kept for ctsql."
    elif fold(name) in OF_SPARK:
        detail = "Spark and Delta add a column of this name to rows that they read."
    if detail:
        raise error("INVALID_NAME", span=span, name=name, detail=detail)


def check_not_void(column: Column, span: Span) -> None:
    """Refuse a column of type VOID, or with VOID inside: INVALID_COLUMN_TYPE."""
    if _VOID.search(_QUOTED.sub("", column.type)):
        typed = _VOID.sub("string", column.type)
        value = "NULL" if typed == "string" else "..."
        hint = (
            f'Column "{column.name}" holds NULLs without a type. Give them one, as in a query: '
            f"CAST({value} AS {typed})."
        )
        raise error("INVALID_COLUMN_TYPE", span=span, type=column.type, hint=hint)


def check_updatable(columns: Sequence[Column], span: Span) -> None:
    """Refuse column names that a table cannot have, and those with backticks: INVALID_NAME.

    Delta 4.4 reads backticks wrongly in UPDATE and MERGE.
    """
    for column in columns:
        check_column_name(column.name, span)
        if "`" in column.name:
            detail = "A table's column has no backtick in its name: Delta could not update it."
            raise error("INVALID_NAME", span=span, name=column.name, detail=detail)


def check_table_columns(columns: Sequence[Column], span: Span) -> None:
    """Refuse columns that a table of a user's cannot have: INVALID_COLUMN_TYPE, INVALID_NAME."""
    for column in columns:
        check_not_void(column, span)
    check_updatable(columns, span)


def has_forbidden(name: str) -> bool:
    """Whether a name has characters that no stored column's name may have."""
    return not set(NAME_FORBIDDEN).isdisjoint(name)


def forbidden_in(name: str) -> str:
    """Name the characters that no stored column's name may have, in a sentence.

    >>> forbidden_in("a b;c")
    "It has a space and ;. A stored column's name has no spaces, tabs, line ends nor ,;{}()=."
    """
    names = {" ": "a space", "\t": "a tab", "\n": "a line end"}
    characters = [names.get(c, c) for c in dict.fromkeys(name) if c in NAME_FORBIDDEN]
    return (
        f"It has {' and '.join(characters)}. A stored column's name has no spaces, tabs, line ends "
        "nor ,;{}()=."
    )


def check_holds_rows(catalog: Catalog, item: Item, span: Span | None) -> None:
    """Refuse as a relation a task with several outputs, which holds no rows: WRONG_OBJECT_KIND."""
    if item.outputs:
        names = ", ".join(str(o.name) for o in outputs_of(catalog, item))
        hint = f"Read what it writes: {names}."
        raise item.wrong_kind("relation", hint, span, actual="continual task with outputs")


def not_null_columns(
    statement: CreateMaterializedView, columns: Sequence[Column]
) -> tuple[str, ...]:
    """The asserted columns, by the view's names; raises UNKNOWN_COLUMN, DUPLICATE_COLUMN."""
    names: list[str] = []
    for option in statement.options:
        if option.name != NOT_NULL:
            continue
        text = str(option.value)
        name = schemas.get(columns, text, span=option.value_span, heading="Columns here:").name
        if name in names:
            raise error("DUPLICATE_COLUMN", span=option.value_span, column=text)
        names.append(name)
    return tuple(names)


_AS_COLUMN = "Compute it when the row is inserted into the input, as a column."


def _refusal(
    span: Span, function: str, kind: str, detail: str, hint: str = _AS_COLUMN
) -> CtsqlError:
    return error(
        "NONDETERMINISTIC_FUNCTION",
        span=span,
        function=function,
        kind=kind,
        detail=detail,
        hint=hint,
    )


def indefinite(query: Query, kind: str) -> CtsqlError:
    """The error for a query that Spark says gives another result each time."""
    detail = (
        "Spark marks a part of it as not deterministic, or as one that reads the clock: a "
        "random function, or a text like 'today' that becomes a date."
    )
    function = "a function that gives another result each time"
    return _refusal(query.sql.span, function, kind, detail)


def not_by_row(span: Span, message: str) -> CtsqlError:
    """The refusal of a value that is not computed from one row; the caller raises it."""
    detail = "A value there is computed from one row."
    hint = "Compute it in a subquery: SET v = (SELECT max(v) FROM t)."
    return invalid(span, message, detail, hint)


def refuse_nondeterministic(
    plan: Node, kind: str, is_deterministic: Callable[[Query], bool]
) -> None:
    """Refuse functions whose result is not a function of the data as of T."""
    for node in descend(plan):
        if not isinstance(node, Query):
            continue
        for function in node.sql.nondeterministic:
            refuse_schema_call(function, kind)
            detail = (
                "Computed twice it gives two results, so what is stored at T would not "
                "be definite: replicas and restarts could disagree."
            )
            raise _refusal(function.span, function.name, kind, detail)
        if node.columns and not is_deterministic(node):
            raise indefinite(node, kind)


def refuse_schema_call(function: FunctionRef, kind: str) -> None:
    """Refuse current_schema() in a definition: it would depend on the schema of who reads it."""
    if function.name in SCHEMA_CALLS:
        detail = "It says the schema of the connection that runs it, and any may."
        hint = "Type the name of the schema in quotes."
        raise _refusal(function.span, f"{function.name}()", kind, detail, hint)


def refuse_clock(plan: Node) -> None:
    """Refuse a subscription to a query that reads the clock, which changes at each poll."""
    calls = (c for n in descend(plan) if isinstance(n, Query) for c in n.sql.clocks)
    for call in calls:
        detail = "It gives other rows at each moment, and nothing says when they change."
        hint = "Make it a materialized view: rows come and go there at Ts of their own."
        raise _refusal(call.span, call.span.text, "subscription", detail, hint)
