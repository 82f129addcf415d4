"""Tables in whose place another one lies: what is said, and by what an object's table is known.

An object remembers the id of its Delta table from its creation, or, in a warehouse that an older
version made, from the first time that it is seen. A commit of the table's own log may give it
another id; then that one is remembered.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ctsql.catalog.errors import CatalogError, CtsqlError, error
from ctsql.catalog.items import Catalog, Item, ObjectKind

if TYPE_CHECKING:
    from ctsql.runtime.warehouse.catalog_store import DeltaCatalog
    from ctsql.runtime.warehouse.relations import Objects

NOT_THERE = ("TABLE_REPLACED", "NOT_A_DELTA_TABLE")
"""A table of which one of these is said is not the one that an object stands for."""
UNREADABLE = ("STORED_DATA_INVALID", *NOT_THERE)
"""What is said of an object that cannot be read, nor what reads it, before somebody mends it."""


def replaced_error(catalog: Catalog, item: Item, facts: str) -> CtsqlError:
    """TABLE_REPLACED; the caller raises it."""
    known = [item.id] if item.id in catalog.items else []
    readers = ", ".join(str(i.name) for i in catalog.going_with(known) if i.id != item.id)
    hint = f"Drop it, and create it anew: DROP {item.kind.keyword} {item.name}"
    if item.kind is ObjectKind.TABLE:
        hint = (
            f"To go on with the new table: DROP TABLE {item.name} CASCADE; then "
            f"CREATE TABLE {item.name} LOCATION '{item.location}', and what read the old one."
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


def identified(objects: "Objects", item: Item) -> Item:
    """An object with the id that its table has now; as it is where it has none."""
    if item.location is None:
        return item
    return replace(item, table_id=objects.table(item).table_id)


def remember_tables(objects: "Objects", store: "DeltaCatalog") -> bool:
    """Write down which tables the objects stand for, where that is not known; True if it was not.

    It is looked up for objects of which nothing is known; of others, what this process has seen.
    """
    found = {}
    for item in objects.catalog:
        if item.location is None or item.problem:
            continue
        try:
            table = objects.table(item)
            known = table.identity.expected if item.table_id else table.table_id
        except CtsqlError as problem:
            if problem.condition not in NOT_THERE:
                raise
            continue
        if known is not None and known != item.table_id:
            found[item.id] = known
    if not found:
        return False

    def remembered(current: Catalog) -> Catalog:
        told = (i for i in current if i.id in found)
        return current.with_items(replace(i, table_id=found[i.id]) for i in told)

    store.change(remembered)
    return True


def check_tables(objects: "Objects", items: Iterable[Item]) -> None:
    """Refuse to go on from tables in whose place others lie.

    Raises:
        TABLE_REPLACED, NOT_A_DELTA_TABLE: one of them is not there any more.
    """
    for item in items:
        if item.location is not None:
            table = objects.table(item)
            table.check_same(near=True)
            bound = objects.timeline.bound(item.id) or 0
            if table.identity.newest < bound and (newest := table.version()) < bound:
                facts = f"Version {bound} was read, and {newest} is its last."
                raise replaced_error(objects.catalog, item, facts)


def missing_table(objects: "Objects", items: Iterable[Item]) -> CatalogError | None:
    """What :func:`check_tables` would raise; None for nothing."""
    try:
        check_tables(objects, items)
    except CatalogError as problem:
        if problem.condition not in NOT_THERE:
            raise
        return problem
    return None


def is_replaced(objects: "Objects", item: Item) -> bool:
    """Does another table lie in the place of an object's?"""
    problem = missing_table(objects, [item])
    return problem is not None and problem.condition == "TABLE_REPLACED"
