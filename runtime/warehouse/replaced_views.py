"""Views with a replaced definition, and the contents of their tables until the new one is written.

CREATE OR REPLACE changes the catalog first and the view's table after it:

    catalog: other definition, revision + 1
    table:   one commit: the rows that differ; with other columns new columns, all rows of the new
             query, and the removal of all old files

Between the two commits the table *awaits* its columns, and the next writer of the view finishes it.
Until then the new definition has no stored contents: a read is computed, and a read of stored rows
is refused.

The view's history continues: older rows are read by the columns that both versions have
(docs/decisions/0100-other-columns.md).

[never-older-on-newer] a process that has loaded an older definition writes nothing on top of a
    newer one: each commit stores its revision and expects the upper that was read.
[own-columns-only] rows are read by the columns that their version has and the view still has; a
    column of another type is another column.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ctsql.catalog.dependencies import fingerprint_of
from ctsql.catalog.errors import CtsqlError, error, suppress_conditions
from ctsql.catalog.items import Item, MaterializedView
from ctsql.catalog.names import fold
from ctsql.catalog.schemas import Column, same_columns
from ctsql.catalog.times import CLOSED
from ctsql.planner.lowering.spark_types import fields_of
from ctsql.planner.nodes import Node, NormalReference, ViewReference, children
from ctsql.runtime.log.write_handle import NO_UPPER
from ctsql.runtime.warehouse.versions import DEFINITION, REVISION
from ctsql.runtime.warehouse.warehouse import Warehouse


def is_redefined(warehouse: Warehouse, item: Item) -> bool:
    """Whether a view's stored rows were written by another definition, according to its log."""
    metadata = _newest_metadata(warehouse, item)
    return metadata is not None and is_by_another(warehouse, item, metadata)


def is_by_another(warehouse: Warehouse, item: Item, metadata: Mapping[str, Any]) -> bool:
    """Whether a commit of an object was certainly made by another definition.

    The text may be the same, over other columns of the tables.
    """
    is_older = isinstance(item, MaterializedView) and metadata.get(REVISION, 0) < item.revision
    return is_older or metadata.get(DEFINITION) != fingerprint_of(warehouse.catalog, item)


def is_outdated(warehouse: Warehouse, item: Item) -> bool:
    """Whether a newer definition than the loaded one wrote a view [never-older-on-newer]."""
    metadata = _newest_metadata(warehouse, item)
    return metadata is not None and metadata.get(REVISION, 0) > item.revision


def is_closed_by_another(warehouse: Warehouse, item: Item) -> bool:
    """Whether another definition finished a view, so its present definition is never written."""
    output = warehouse.relations.output(item)
    if output.fetch_recent_upper() != CLOSED:
        return False
    last_write = output.entries(since=CLOSED - 1)[0]
    metadata = warehouse.relations.table(item).commit_at(last_write.version).metadata
    return is_by_another(warehouse, item, metadata)


def awaits_columns(warehouse: Warehouse, item: Item) -> bool:
    """Whether a replaced view's table still has the columns of an older definition."""
    if not isinstance(item, MaterializedView):
        return False
    # With refresh times it may be replaced before anything was written.
    is_written = warehouse.relations.output(item).fetch_recent_upper() != NO_UPPER
    if is_written and not is_redefined(warehouse, item):
        return False
    return not same_columns(warehouse.relations.stored_columns(item), item.columns)


def check_known(warehouse: Warehouse, item: Item) -> None:
    """Raise VIEW_REPLACED if this process has loaded only an older definition of a view."""
    if is_outdated(warehouse, item):
        raise _replaced_meanwhile(item)


def check_written(warehouse: Warehouse, item: Item) -> None:
    """Raise VIEW_REPLACED if a view's new definition was never written."""
    if awaits_columns(warehouse, item):
        raise not_written(item)


def check_columns(warehouse: Warehouse, node: Node) -> None:
    """Raise VIEW_REPLACED for a definition bound to columns that a view no longer has.

    Plain views are checked when they are analysed.
    """
    for read in _read_itself(node):
        item = warehouse.catalog.items.get(getattr(read, "object_id", ""))
        if not isinstance(read, NormalReference) or item is None:
            continue
        has = {fold(c.name) for c in item.columns}
        if isinstance(item, MaterializedView) and not has.issuperset(map(fold, read.columns)):
            raise _replaced_meanwhile(item)


def _read_itself(node: Node) -> Iterator[Node]:
    yield node
    if not isinstance(node, ViewReference):
        for child in children(node):
            yield from _read_itself(child)


def not_written(item: Item) -> CtsqlError:
    """VIEW_REPLACED for a view with nothing stored; the caller raises it."""
    detail = "Nothing is stored by its new definition yet."
    hint = f"Type: REFRESH MATERIALIZED VIEW {item.name}"
    return error("VIEW_REPLACED", name=str(item.name), detail=detail, hint=hint)


def _replaced_meanwhile(item: Item) -> CtsqlError:
    detail, hint = "That was while the statement ran.", "Run the statement again."
    return error("VIEW_REPLACED", name=str(item.name), detail=detail, hint=hint)


def table_columns(item: Item) -> str:
    """The columns of an output's table, as CREATE TABLE takes them."""
    return ", ".join(c.ddl() for c in _columns(item))


def table_schema(item: Item) -> str:
    """The same, as the log writes them."""
    return fields_of(_columns(item)).json()


def _columns(item: Item) -> list[Column]:
    # NOT NULL of a view's query may change with its inputs; that of a task is declared.
    keep_not_null = not isinstance(item, MaterializedView)
    return [
        Column(c.name, c.type, c.nullable or not keep_not_null, c.comment) for c in item.columns
    ]


def _newest_metadata(warehouse: Warehouse, item: Item) -> dict[str, Any] | None:
    """The metadata of a view's newest commit; None before the first and after the last.

    Empty if that commit's log file was cleaned up.
    """
    output = warehouse.relations.output(item)
    if output.fetch_recent_upper() in (NO_UPPER, CLOSED):
        return None
    newest = output.uppers.last
    if newest is None:
        return {}
    with suppress_conditions("HISTORY_LOST"):
        return warehouse.relations.table(item).commit_at(newest.version).metadata
    return {}
