"""Refusals of a definition whose names and types are known."""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item
from ctsql.catalog.names import fold
from ctsql.catalog.reserved_columns import PREFIX
from ctsql.catalog.schemas import Column, check_unique
from ctsql.catalog.spans import Span
from ctsql.planner.nodes import Query
from ctsql.planner.syntax.ast import ColumnDef

NAME_FORBIDDEN = " ,;{}()\n\t="
"""Characters that Parquet allows in no column name."""


def named_columns(query: Query, declared: Sequence[ColumnDef], span: Span) -> tuple[Column, ...]:
    """The query's columns under the names of a column list, if there is one."""
    columns = query.columns or ()
    if declared:
        if len(declared) != len(columns):
            raise error(
                "COLUMN_COUNT_MISMATCH",
                span=span,
                message=f"the query gives {len(columns)} column(s), "
                f"the column list has {len(declared)}",
                detail=f"Given: {', '.join(c.name for c in columns)}.",
            )
        columns = tuple(
            replace(c, name=d.name, comment=d.comment)
            for c, d in zip(columns, declared, strict=True)
        )
    return check_unique(columns, [d.span for d in declared] or [span])


def check_storable(columns: Sequence[Column], span: Span) -> None:
    """Columns a table can have: INVALID_NAME, INVALID_COLUMN_TYPE."""
    for column in columns:
        if fold(column.name).startswith(PREFIX):
            raise error(
                "INVALID_NAME",
                span=span,
                name=column.name,
                detail=f"Names that begin with {PREFIX} are kept for ctsql.",
            )
        if any(character in NAME_FORBIDDEN for character in column.name):
            raise error(
                "INVALID_NAME",
                span=span,
                name=column.name,
                detail=f"{forbidden_in(column.name)} Give it a name in the query: ... AS name.",
            )
        check_not_void(column, span)
        if column.type.startswith("interval"):
            raise error(
                "INVALID_COLUMN_TYPE",
                span=span,
                type=column.type,
                hint=f'Column "{column.name}" cannot be stored as an interval; store a number of '
                "seconds or days.",
            )


def check_not_void(column: Column, span: Span) -> None:
    """Delta makes a column of type VOID and writes nothing for it.

    Raises:
        INVALID_COLUMN_TYPE: it is one.
    """
    if column.type == "void":
        raise error(
            "INVALID_COLUMN_TYPE",
            span=span,
            type="void",
            hint=f'Column "{column.name}" is always NULL; give it a type, or in a query write '
            "CAST(NULL AS <type>).",
        )


def check_updatable(columns: Sequence[Column], span: Span) -> None:
    """Columns that UPDATE and MERGE can write: Delta 4.4 reads a backtick in a name wrongly there.

    Raises:
        INVALID_NAME: one has a backtick.
    """
    for column in columns:
        if "`" in column.name:
            raise error(
                "INVALID_NAME",
                span=span,
                name=column.name,
                detail="A table's column has no backtick in its name: Delta could not update it.",
            )


def forbidden_in(name: str) -> str:
    """Name the characters that no stored column's name may have, in a sentence.

    >>> forbidden_in("a b;c")
    "It has a space and ;. A stored column's name has no spaces, tabs, line ends nor ,;{}()=."
    """
    names = {" ": "a space", "\t": "a tab", "\n": "a line end"}
    found = [names.get(c, c) for c in dict.fromkeys(name) if c in NAME_FORBIDDEN]
    return (
        f"It has {' and '.join(found)}. A stored column's name has no spaces, tabs, line ends nor "
        ",;{}()=."
    )


def check_holds_rows(catalog: Catalog, item: Item, span: Span | None) -> None:
    """Refuse a task with several outputs where a relation is wanted: its outputs hold the rows.

    Raises:
        WRONG_OBJECT_KIND: it is one.
    """
    if item.outputs:
        names = ", ".join(str(o.name) for o in catalog.outputs_of(item))
        raise error(
            "WRONG_OBJECT_KIND",
            span=span,
            name=str(item.name),
            found="continual task with outputs",
            wanted="relation",
            hint=f"Read what it writes: {names}.",
        )
