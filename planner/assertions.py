"""Which columns a materialized view asserts to hold no NULL: WITH (ASSERT NOT NULL a, ...)."""

from collections.abc import Sequence

from ctsql.catalog.errors import error
from ctsql.catalog.names import did_you_mean, fold
from ctsql.catalog.schemas import Column
from ctsql.planner.syntax.options import NOT_NULL
from ctsql.planner.syntax.statements import CreateMaterializedView


def not_null_columns(
    statement: CreateMaterializedView, columns: Sequence[Column]
) -> tuple[str, ...]:
    """The asserted columns, by the names that the view gives them.

    Raises:
        UNKNOWN_COLUMN: the view has no such column. DUPLICATE_COLUMN: it is asserted twice.
    """
    by_key = {fold(c.name): c.name for c in columns}
    found: list[str] = []
    for option in statement.options:
        if option.name != NOT_NULL:
            continue
        wanted = str(option.value)
        name = by_key.get(fold(wanted))
        if name is None:
            listed = ", ".join(by_key.values())
            raise error(
                "UNKNOWN_COLUMN",
                span=option.value_span,
                column=wanted,
                detail=f"Columns here: {listed}.",
                hint=did_you_mean(wanted, by_key.values()),
            )
        if name in found:
            raise error("DUPLICATE_COLUMN", span=option.value_span, column=wanted)
        found.append(name)
    return tuple(found)
