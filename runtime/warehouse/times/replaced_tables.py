"""The error for a replaced table, and the conditions of tables that cannot be read."""

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import going_with
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, Table

NOT_THERE = ("TABLE_REPLACED", "NOT_A_DELTA_TABLE")
"""Conditions of a table that is not the object's table."""
DAMAGED = "STORED_DATA_INVALID"  # the condition of a damaged log
UNREADABLE = (DAMAGED, "TRANSACTION_STUCK", *NOT_THERE)
"""Conditions of an object that is unreadable, with its readers, until it is repaired."""
LOST = ("HISTORY_LOST", *UNREADABLE)
"""The same, and the condition of removed versions."""


def replaced_error(catalog: Catalog, item: Item, facts: str) -> CtsqlError:
    """TABLE_REPLACED; the caller raises it."""
    ids = [item.id] if item.id in catalog.items else []
    readers = ", ".join(str(i.name) for i in going_with(catalog, ids) if i.id != item.id)
    hint = f"Drop it, and create it again: DROP {item.kind.keyword} {item.name}"
    hint += " CASCADE" if readers else ""
    if isinstance(item, Table):
        place, move = f"'{item.location}'", ""
        if item.managed:
            place, move = "'its new place'", f"move {item.location} out of the warehouse; "
        hint = (
            f"To use the new table: DROP TABLE {item.name} CASCADE; {move}then "
            f"CREATE TABLE {item.name} LOCATION {place}, and the objects that read the old one."
        )
    return error(
        "TABLE_REPLACED",
        kind=item.kind.value,
        name=str(item.name),
        location=item.location,
        detail=f"{facts} Rows computed from the old one are not mixed with it."
        + (f" Its readers: {readers}." if readers else ""),
        hint=hint,
    )
