"""What is refused of a definition whose names and types are known."""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.errors import error
from ctsql.catalog.names import fold
from ctsql.catalog.schemas import Column, check_unique
from ctsql.catalog.spans import Span
from ctsql.planner.binding.analyst import Analyst
from ctsql.planner.nodes import Node, Query, descend
from ctsql.planner.syntax.statements import ColumnDef

COLUMN_PREFIX = "__ct_"
NAME_FORBIDDEN = " ,;{}()\n\t="
"""Characters that Parquet allows in no column name."""


def refuse_nondeterministic(plan: Node, kind: str, analyst: Analyst, *, clocks: bool) -> None:
    """Refuse functions whose result is not a function of the data as of T."""
    for node in descend(plan):
        if not isinstance(node, Query):
            continue
        for function in node.sql.nondeterministic:
            raise error(
                "NONDETERMINISTIC_FUNCTION",
                span=function.span,
                function=function.name,
                kind=kind,
                detail="Computed twice it gives two results, so what is stored at T would not "
                "be definite: replicas and restarts could disagree.",
                hint="Compute it when the row is inserted into the input, as a column.",
            )
        if node.columns and not analyst.is_deterministic(node):
            raise error(
                "NONDETERMINISTIC_FUNCTION",
                span=node.sql.span,
                function="a function that gives another result each time",
                kind=kind,
                detail="Spark marks a function of this query as not deterministic.",
                hint="Compute it when the row is inserted into the input, as a column.",
            )
        if clocks and node.sql.clocks:
            call = node.sql.clocks[0]
            raise error(
                "NONDETERMINISTIC_FUNCTION",
                span=call.span,
                function=call.span.text,
                kind=kind,
                detail="The view would change when nothing is written, only because time passes.",
                hint="Compare with a column of a small clock table that a job updates, or use "
                "a continual task, where it means the time T of the change.",
            )


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
                hint="",
            )
        columns = tuple(
            replace(c, name=d.name, comment=d.comment)
            for c, d in zip(columns, declared, strict=True)
        )
    return check_unique(columns, [d.span for d in declared] or [span])


def check_storable(columns: Sequence[Column], span: Span) -> None:
    """Columns a table can have: INVALID_NAME, INVALID_COLUMN_TYPE."""
    for column in columns:
        if fold(column.name).startswith(COLUMN_PREFIX):
            raise error(
                "INVALID_NAME",
                span=span,
                name=column.name,
                detail=f"Names that begin with {COLUMN_PREFIX} are kept for ctsql.",
            )
        if any(character in NAME_FORBIDDEN for character in column.name):
            raise error(
                "INVALID_NAME",
                span=span,
                name=column.name,
                detail="A stored column's name may have no spaces and none of ,;{}()=. "
                "Give it a name in the query: ... AS name.",
            )
        if column.type == "void":
            raise error(
                "INVALID_COLUMN_TYPE",
                span=span,
                type="void",
                hint=f'Column "{column.name}" is always NULL; write CAST(NULL AS <type>).',
            )
        if column.type.startswith("interval"):
            raise error(
                "INVALID_COLUMN_TYPE",
                span=span,
                type=column.type,
                hint=f'Column "{column.name}" cannot be stored as an interval; store a number of '
                "seconds or days.",
            )
