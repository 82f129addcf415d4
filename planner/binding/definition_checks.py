"""Checks of definitions: asserted columns exist, and functions are deterministic."""

from collections.abc import Callable, Sequence

from ctsql.catalog import schemas
from ctsql.catalog.errors import error
from ctsql.catalog.schemas import Column
from ctsql.planner.nodes import Node, Query, descend
from ctsql.planner.syntax.ast import CreateMaterializedView
from ctsql.planner.syntax.statements.options import NOT_NULL


def not_null_columns(
    statement: CreateMaterializedView, columns: Sequence[Column]
) -> tuple[str, ...]:
    """The asserted columns, by the names that the view gives them.

    Raises:
        UNKNOWN_COLUMN: the view has no such column. DUPLICATE_COLUMN: it is asserted twice.
    """
    found: list[str] = []
    for option in statement.options:
        if option.name != NOT_NULL:
            continue
        wanted = str(option.value)
        name = schemas.get(columns, wanted, span=option.value_span, known="Columns here:").name
        if name in found:
            raise error("DUPLICATE_COLUMN", span=option.value_span, column=wanted)
        found.append(name)
    return tuple(found)


def refuse_nondeterministic(
    plan: Node, kind: str, is_deterministic: Callable[[Query], bool], *, clocks: bool
) -> None:
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
        if node.columns and not is_deterministic(node):
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
