"""The error for a table in whose place another one lies, and which errors say that."""

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import going_with
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, Table

NOT_THERE = ("TABLE_REPLACED", "NOT_A_DELTA_TABLE")
"""A table to which one of these applies is not the one that an object stands for."""
DAMAGED = "STORED_DATA_INVALID"  # what is said of one whose log is not what was written
UNREADABLE = (DAMAGED, "TRANSACTION_STUCK", *NOT_THERE)
"""What is said of an object that cannot be read, nor what reads it, before somebody mends it."""
LOST = ("HISTORY_LOST", *UNREADABLE)
"""The same, and what is said where versions that are needed are gone."""


def replaced_error(catalog: Catalog, item: Item, facts: str) -> CtsqlError:
    """TABLE_REPLACED; the caller raises it."""
    ids = [item.id] if item.id in catalog.items else []
    readers = ", ".join(str(i.name) for i in going_with(catalog, ids) if i.id != item.id)
    hint = f"Drop it, and create it anew: DROP {item.kind.keyword} {item.name}"
    hint += " CASCADE" if readers else ""
    if isinstance(item, Table):
        place, move = f"'{item.location}'", ""
        if item.managed:
            place, move = "'its new place'", f"move {item.location} out of the warehouse; "
        hint = (
            f"To go on with the new table: DROP TABLE {item.name} CASCADE; {move}then "
            f"CREATE TABLE {item.name} LOCATION {place}, and what read the old one."
        )
    return error(
        "TABLE_REPLACED",
        kind=item.kind.value,
        name=str(item.name),
        location=item.location,
        detail=f"{facts} What was made from the old one is not mixed with it."
        + (f" That is {readers}." if readers else ""),
        hint=hint,
    )
