"""Views whose definition was replaced, and what their tables hold until the new one is written.

CREATE OR REPLACE changes the catalog first and the view's table after it:

    catalog: other definition, revision + 1, and with other columns another time of creation
    table:   one commit: difference of the rows; with other columns the columns, every row that
             the new query gives, and all files that were there go

Columns that are only added at the end are added before, in a commit without rows. If the view is
read, but none of the columns that are dropped or changed, its history *continues*: the time of
creation is unchanged, and older rows are read by the columns that both versions have
(docs/decisions/0063-columns-of-views.md).

Between the two commits the table *awaits* its columns, and the next writer of the view finishes it.
Until then the new definition has no stored contents: a read is computed, and one of what is stored
is refused.

[never-older-on-newer] one that knows an older definition writes nothing on top of a newer one. Each
    commit says its revision, and goes in only where the upper, and so the newest commit, is the one
    looked at.
[own-columns-only] what was stored before the table got its columns is never read under them, unless
    the view's history continues; :attr:`ctsql.runtime.log.uppers.Entry.anew` of that commit says
    which.

Tests: tests/simulation/test_replacing.py, tests/spark/views/test_replaced_columns.py and
test_replaced_columns_killed.py.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.cutovers import Cutover
from ctsql.catalog.dependencies import fingerprint_of
from ctsql.catalog.errors import CtsqlError, error, not_supported
from ctsql.catalog.items import Item, MaterializedView, altered_meanwhile
from ctsql.catalog.names import fold
from ctsql.catalog.refreshes import RefreshPart, Stretch
from ctsql.catalog.schemas import Column, Schema, keeps_columns, same_columns
from ctsql.catalog.times import CLOSED
from ctsql.planner.binding.binder import refresh_parts
from ctsql.planner.lowering.spark_types import fields_of
from ctsql.planner.nodes import Node, NormalReference, ViewReference, children
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.runtime.log.table_metadata import is_on
from ctsql.runtime.log.write_handle import NO_UPPER, Entry
from ctsql.runtime.warehouse.output_columns import ensure_columns
from ctsql.runtime.warehouse.versions import DEFINITION, REVISION
from ctsql.runtime.warehouse.warehouse import Warehouse

_FEED = "delta.enableChangeDataFeed"
"""The table property that asks for a change data feed."""


def is_redefined(warehouse: Warehouse, item: Item) -> bool:
    """Is what a view holds of another definition than it has now, as far as its log says?"""
    metadata = _newest_metadata(warehouse, item)
    return metadata is not None and is_by_another(warehouse, item, metadata)


def is_by_another(warehouse: Warehouse, item: Item, metadata: Mapping[str, Any]) -> bool:
    """Was a commit of an object made by another definition, as far as it says?

    The words of a view's definition may be the same, over other columns of what it reads.
    """
    is_older = isinstance(item, MaterializedView) and metadata.get(REVISION, 0) < item.revision
    return is_older or metadata.get(DEFINITION) != fingerprint_of(warehouse.catalog, item)


def is_outdated(warehouse: Warehouse, item: Item) -> bool:
    """Is what a view holds of a newer definition than this process knows [never-older-on-newer]?"""
    metadata = _newest_metadata(warehouse, item)
    return metadata is not None and metadata.get(REVISION, 0) > item.revision


def is_closed_by_another(warehouse: Warehouse, item: Item) -> bool:
    """Was a view finished by another definition than it has now, which is never written then?"""
    output = warehouse.relations.output(item)
    if output.fetch_recent_upper() != CLOSED:
        return False
    last_write = output.entries(since=CLOSED - 1)[0]
    metadata = warehouse.relations.table(item).commit_at(last_write.version).metadata
    return is_by_another(warehouse, item, metadata)


def awaits_columns(warehouse: Warehouse, item: Item) -> bool:
    """Has the table of a replaced view still the columns of an older definition?

    Columns behind its own may have come from a replacement that was not completed: they hold
    nothing, and are none of an older definition unless the view was replaced since it was written.
    """
    if not isinstance(item, MaterializedView):
        return False
    # With refresh times it may be replaced before anything was written.
    is_written = warehouse.relations.output(item).fetch_recent_upper() != NO_UPPER
    if is_written and not is_redefined(warehouse, item):
        return False
    stored_columns = warehouse.relations.stored_columns(item)
    if (
        is_written
        and len(stored_columns) > len(item.columns)
        and keeps_columns(item.columns, stored_columns)
    ):
        metadata = _newest_metadata(warehouse, item) or {}
        return int(metadata.get(REVISION, 0)) < item.revision
    return not same_columns(stored_columns, item.columns)


class History(Enum):
    """The action for a view's rows from before it was replaced.

    KEPT: the table has all columns, and goes on. CONTINUED: all rows are written under other
    columns, and those from before are known by what both have. CUT: they are not known. WAITS: it
    is what it became when the view was replaced before, which nobody has written yet.
    """

    KEPT = "kept"
    CONTINUED = "continued"
    CUT = "cut"
    WAITS = "waits"


def give_columns(warehouse: Warehouse, old: Item, columns: Schema, *, is_read: bool) -> History:
    """Give a view's table columns at its end, unless it is to be written under others.

    What it holds stays, with NULL in them, and so does its history. A table that was never
    written by the definition which is known has none.

    Args:
        is_read: whether an object reads the view.

    Raises:
        ALTERED_MEANWHILE: a newer definition has written. Or the error of columns that no table can
            have, before any change.
    """
    if awaits_columns(warehouse, old):
        return History.WAITS if is_read else History.CUT
    if keeps_columns(old.columns, columns):
        if not same_columns(warehouse.relations.stored_columns(old), columns):
            nullable = tuple(replace(c, nullable=True) for c in columns)
            check = partial(_check_newest, warehouse, old)
            ensure_columns(warehouse, old, nullable, exactly=True, check=check)
        return History.KEPT
    _check_takes_others(warehouse, old)
    schema = table_schema(replace(old, columns=columns))
    warehouse.relations.table(old).begin().set_columns(schema)
    return History.CONTINUED if is_read else History.CUT


def refresh_of(view: Item) -> tuple[RefreshPart, ...] | None:
    """A view's refresh times by its definition; None where it is refreshed on commit."""
    text, name = view.definition.text, f"definition of {view.name}"
    return refresh_parts(parse_as(st.CreateMaterializedView, text, name))


def counts_anew(
    before: tuple[RefreshPart, ...] | None,
    after: tuple[RefreshPart, ...] | None,
    histories: Collection[History],
) -> bool:
    """Do refresh times count from the T at which a view is replaced? The same ones just go on.

    Args:
        histories: of the view and of its quarantine, which changes at the same times.
    """
    return before != after or (after is not None and History.CUT in histories)


def cutover_of_views(
    views: Iterable[tuple[MaterializedView, MaterializedView, History]], paced_ids: Collection[str]
) -> Cutover:
    """The cutover to other definitions of views.

    Args:
        views: each as it is by the catalog, as it will be, and the action for its rows. One whose
            history is cut begins at the cutover's T.
        paced_ids: those whose refresh times count from that T.
    """
    items, begun_ids = [], set()
    for now, item, history in views:
        continues = item.following.continues or history is History.CONTINUED
        stretches = item.following.stretches
        if now.id in paced_ids:
            stretches = (*now.following.stretches, Stretch(now.created_at, refresh_of(now)))
        if history is History.CUT:
            continues, stretches = False, ()
        following = replace(item.following, continues=continues, stretches=stretches)
        later = replace(item, following=following)
        if now.id in paced_ids or history is History.CUT:
            begun_ids.add(now.id)
        if later != now or now.id in begun_ids:
            definition = replace(later.definition, number=now.revision + 1)
            later = replace(later, definition=definition)
        items.append(later)
    return Cutover(items=tuple(items), new_ids=frozenset(begun_ids))


def check_history(warehouse: Warehouse, catalog: Catalog, item: Item, history: History) -> None:
    """Raise ALTERED_MEANWHILE where what was decided of a view's history holds no longer."""
    readers = catalog.readers(item.id) if history is History.CUT else []
    if readers:
        raise altered_meanwhile(item, f"Another process made {readers[0].name}, which reads it.")
    if history is History.WAITS and not awaits_columns(warehouse, item):
        raise altered_meanwhile(item)


def _check_takes_others(warehouse: Warehouse, view: Item) -> None:
    """Raise NOT_SUPPORTED where Delta would take no commit of rows under other columns."""
    metadata = warehouse.relations.table(view).metadata
    if metadata.maps_columns and is_on(metadata.configuration, _FEED):
        what = f'other columns for materialized view "{view.name}"'
        why = (
            "Another writer has turned on column mapping for its table. Delta takes no rows "
            "together with columns that go while a table has a change data feed."
        )
        hint = "Add columns at the end, or make a view under another name and read that."
        raise not_supported(None, what, why=why, hint=hint)


def _check_newest(warehouse: Warehouse, item: Item) -> None:
    if is_outdated(warehouse, item):
        raise altered_meanwhile(item)


def is_before_columns(warehouse: Warehouse, item: Item, at: int, entries: Sequence[Entry]) -> bool:
    """Is what was stored of a view as of T under other columns than its present ones?

    Its entries are to begin with the last one that is complete through T.
    """
    if any(e.anew for e in entries if e.upper > at + 1):
        return True
    is_known = item.following.continues and at < warehouse.relations.output(item).upper
    return not is_known and awaits_columns(warehouse, item)


def version_before(warehouse: Warehouse, item: Item, at: int) -> int | None:
    """The version that a view's table had at T, if the log still tells; None before its first."""
    try:
        return warehouse.versions.find_storage(item, at).version
    except CtsqlError as problem:
        if problem.condition != "HISTORY_LOST":
            raise
        return None


def check_known(warehouse: Warehouse, item: Item) -> None:
    """Raise VIEW_REPLACED if this process knows only an older definition of a view."""
    if is_outdated(warehouse, item):
        raise _replaced_meanwhile(item)


def check_written(warehouse: Warehouse, item: Item) -> None:
    """Raise VIEW_REPLACED if a view's new definition was never written."""
    if awaits_columns(warehouse, item):
        raise not_written(item)


def check_columns(warehouse: Warehouse, node: Node) -> None:
    """Raise VIEW_REPLACED for what was bound to columns that a view has no longer.

    What plain views were bound to is looked at where they are analysed.
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
    # What a view's query says of NOT NULL may change with its inputs; a task's is declared.
    keep_not_null = not isinstance(item, MaterializedView)
    return [
        Column(c.name, c.type, c.nullable or not keep_not_null, c.comment) for c in item.columns
    ]


def _newest_metadata(warehouse: Warehouse, item: Item) -> dict[str, Any] | None:
    """What the newest commit of a view says of itself; None before the first, and after the last.

    Nothing where the log of that commit was cleaned up.
    """
    output = warehouse.relations.output(item)
    if output.fetch_recent_upper() in (NO_UPPER, CLOSED):
        return None
    newest = output.uppers.last
    if newest is None:
        return {}
    try:
        return warehouse.relations.table(item).commit_at(newest.version).metadata
    except CtsqlError as problem:
        if problem.condition != "HISTORY_LOST":
            raise
        return {}
