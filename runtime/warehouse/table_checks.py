"""Checks whether the table of an object still exists and is the same table.

An object remembers the id of its Delta table. If a commit of the table's own log changes the id,
the new id is remembered.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError, suppress_conditions
from ctsql.catalog.items import Item, Record
from ctsql.runtime.spark.failures.storage_errors import lost_commit
from ctsql.runtime.warehouse.relations import Relations
from ctsql.runtime.warehouse.stores.catalog_store import DeltaCatalog
from ctsql.runtime.warehouse.times.replaced_tables import NOT_THERE, UNREADABLE
from ctsql.runtime.warehouse.times.timeline import check_not_stuck, is_stuck


def identify(relations: Relations, item: Record) -> Record:
    """An object with its table's present id; unchanged if it has no table."""
    return item if item.storage is None else _known_as(item, relations.table(item).table_id)


def _known_as(item: Record, table_id: str) -> Record:
    storage = item.storage
    return item if storage is None else replace(item, storage=replace(storage, table_id=table_id))


def remember_tables(relations: Relations, store: DeltaCatalog) -> bool:
    """Store the Delta table ids of objects that lack one; True if there were any.

    Objects that this process has not read yet are looked up; for others its memory is used.
    """
    table_ids = {}
    for item in relations.catalog:
        if item.storage is None or item.problem:
            continue
        with suppress_conditions(*NOT_THERE):
            table = relations.table(item)
            table_id = table.identity.expected if item.storage.table_id else table.table_id
            if table_id is not None and table_id != item.storage.table_id:
                table_ids[item.id] = table_id
    if not table_ids:
        return False

    def remembered(current: Catalog) -> Catalog:
        items = (i for i in current if i.id in table_ids)
        return current.with_items(_known_as(i, table_ids[i.id]) for i in items)

    store.change(remembered)
    return True


def check_tables(relations: Relations, items: Iterable[Item]) -> None:
    """Raise TABLE_REPLACED or NOT_A_DELTA_TABLE if one of the tables no longer exists.

    Raises STORED_DATA_INVALID if the log of a source is damaged, so its commits get no T, or if
    commits with a T are missing. Raises TRANSACTION_STUCK for a transaction that cannot finish.
    """
    for item in items:
        if item.location is not None:
            table = relations.table(item)
            table.check_same(near=True)
            if item.id in relations.timeline.damaged_sources:
                relations.timeline.unbound(item.id, item.name.qualified(), table)
            bound = relations.timeline.bound(item.id) or 0
            if table.identity.newest < bound and (newest := table.version()) < bound:
                raise lost_commit(table.location, newest + 1)
            check_not_stuck(relations.timeline, item.id)


def check_table_to_write(relations: Relations, item: Item, mint: Callable[[], object]) -> None:
    """As :func:`check_tables`, for a table that is to be written.

    ``mint`` first retries an unfinished transaction on it: the obstacle may have been removed.
    """
    if is_stuck(relations.timeline, item.id):
        mint()
    check_tables(relations, [item])


def missing_table(relations: Relations, items: Iterable[Item]) -> CtsqlError | None:
    """The error of :func:`check_tables` for a table that does not exist; None if all do."""
    problem = unreadable_table(relations, items)
    if problem is not None and problem.condition not in NOT_THERE:
        raise problem
    return problem


def are_there(relations: Relations, items: Iterable[Item]) -> bool:
    """Whether the tables exist, even if they are unreadable."""
    problems = (unreadable_table(relations, [item]) for item in items)
    return not any(p is not None and p.condition in NOT_THERE for p in problems)


def unreadable_table(relations: Relations, items: Iterable[Item]) -> CtsqlError | None:
    """The error of :func:`check_tables`; None without one."""
    try:
        check_tables(relations, items)
    except CtsqlError as problem:
        if problem.condition not in UNREADABLE:
            raise
        return problem
    return None


def is_replaced(relations: Relations, item: Item) -> bool:
    """Whether another table is in the place of an object's table; False if its log is damaged."""
    problem = unreadable_table(relations, [item])
    return problem is not None and problem.condition == "TABLE_REPLACED"
