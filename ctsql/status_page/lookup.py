"""Reads the logs for the status page, by the functions of the system tables.

A :class:`Lookup` caches the last change of each object, and the objects with what they read
until the catalog changes. It belongs to one thread.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import suppress_conditions
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.times import CLOSED
from ctsql.planner.explain import explain
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.log.protocol import LogTable
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.failures import FailureRow, failures, open_failures
from ctsql.runtime.monitoring.objects import (
    ROWS,
    DependencyRow,
    ObjectRow,
    StorageRow,
    dependencies,
    lags,
    objects,
    storage,
)
from ctsql.runtime.monitoring.refreshes import refreshes
from ctsql.runtime.monitoring.status import State
from ctsql.runtime.statements.inspect.show import current_definition
from ctsql.runtime.subscriptions.cursors import Readers
from ctsql.runtime.warehouse.times.replaced_tables import UNREADABLE
from ctsql.status_page.model import (
    Details,
    GraphNode,
    HistoryPage,
    LastChange,
    Overview,
    QuarantineRows,
    Reader,
    overview,
)

CHANGE_SEARCHED_MAX = 20
"""The most new commits of an object in which one poll searches the last that changed rows."""
REFRESHES_MAX = 100
FAILURES_MAX = 20


def last_change(table: LogTable, before: LastChange | None) -> LastChange:
    """The last change of a table; only commits after ``before``, found earlier, are read."""
    at, since = (None, -1) if before is None else (before.at, before.version)
    newest = table.version()
    for version in range(newest, max(since, newest - CHANGE_SEARCHED_MAX), -1):
        if not table.has(version):
            break
        commit = table.commit_at(version)
        if commit.changes_data:
            at = datetime.fromtimestamp(commit.time_ms / 1000, UTC)
            break
    return LastChange(version=newest, at=at)


class Lookup:
    """The cached state of one warehouse, read by one reader of its logs."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._catalogs = 0
        self._objects: list[ObjectRow] = []
        self._reads: list[DependencyRow] = []
        self._changes: dict[str, LastChange] = {}

    def overview(self, reader: LogReader) -> Overview:
        """All objects, with their state now."""
        with reader.as_stored():
            catalog = reader.refresh_catalog()
            now_t = reader.timeline.refresh()
            if catalog is not self._catalog:
                self._objects = list(objects(reader, catalog))
                self._reads = list(dependencies(reader, catalog))
                self._catalog = catalog
                self._catalogs += 1
            return overview(
                self._objects,
                lags(reader, catalog),
                self._reads,
                open_failures(reader, catalog),
                self._last_changes(reader),
                now_t,
                (self._catalogs, _moves(reader)),
            )

    def details(self, reader: LogReader, object_id: str) -> Details | None:
        """The page of one object; None if there is none with this id."""
        overview = self.overview(reader)
        item = reader.catalog.items.get(object_id)
        summary = overview.of(object_id)
        if item is None or summary is None:
            return None
        with reader.as_stored():
            (row,) = objects(reader, [item])
            item = reader.relations.current(item)
            page = Details(
                node=summary,
                row=row,
                definition=current_definition(reader, item),
                plan=_plan(reader, item, summary),
                refreshes=(),
                failures=tuple(islice(failures(reader, [item]), FAILURES_MAX)),
                reads=tuple(_reads_of(overview, object_id)),
                readers=tuple(_readers_of(reader, overview, object_id)),
                storage=_storage_rows(reader, [item]),
                quarantine=_quarantine_of(reader, item),
            )
            if summary.state == State.UNREADABLE.value:
                return page
            last = tuple(islice(refreshes(reader, [item]), REFRESHES_MAX))
            return replace(page, refreshes=last)

    def history(self, reader: LogReader) -> HistoryPage:
        """The newest refreshes and failures of all objects."""
        overview = self.overview(reader)
        with reader.as_stored():
            readable = {o.id for o in overview.objects if o.state != State.UNREADABLE.value}
            items = [i for i in reader.catalog if i.id in readable]
            last = list(islice(refreshes(reader, items), REFRESHES_MAX))
            since_ms = round(last[-1].at.timestamp() * 1_000) if last else 0
            failure_rows: list[FailureRow] = []
            for item in items:
                of_item = failures(reader, [item], since_ms=since_ms)
                failure_rows += islice(of_item, FAILURES_MAX)
            failure_rows.sort(key=lambda f: f.at, reverse=True)
            return HistoryPage(
                refreshes=tuple(last),
                failures=tuple(failure_rows[:FAILURES_MAX]),
            )

    def _last_changes(self, reader: LogReader) -> dict[str, LastChange]:
        found = {}
        for item in reader.catalog:
            if item.location is None or item.problem:
                continue
            with suppress_conditions(*UNREADABLE):
                table = reader.relations.table(item)
                found[item.id] = last_change(table, self._changes.get(item.id))
        self._changes = found
        return found


def _plan(reader: LogReader, item: Item, row: GraphNode) -> str | None:
    """The plan, as EXPLAIN prints it; None for a table, or if it cannot be bound."""
    kinds = (ObjectKind.CONTINUAL_TASK, ObjectKind.MATERIALIZED_VIEW)
    if item.kind not in kinds or row.state == State.UNREADABLE.value:
        return None
    return explain(reader.relations.bound(item).plan)


def _reads_of(overview: Overview, object_id: str) -> Iterator[Reader]:
    for arrow in overview.arrows:
        read = overview.of(arrow.read)
        if arrow.reader == object_id and read is not None:
            yield Reader(read.name, read.kind, arrow.role, None, read.id)


def _moves(reader: LogReader) -> int:
    """A number that changes when a named reader moves, if the logs are readable."""
    with suppress_conditions(*UNREADABLE):
        return Readers(reader).moves()
    return -1


def _readers_of(reader: LogReader, overview: Overview, object_id: str) -> Iterator[Reader]:
    for arrow in overview.arrows:
        by = overview.of(arrow.reader)
        if arrow.read == object_id and by is not None:
            yield Reader(by.name, by.kind, arrow.role, by.complete_through, by.id)
    for subscription, item, position in Readers(reader).list_all():
        if item.id == object_id:
            needs_from = None if position.next == CLOSED else position.needed_from
            yield Reader(subscription.name, "subscription", "input", needs_from)


def _storage_rows(reader: LogReader, items: Iterable[Item]) -> tuple[StorageRow, ...] | None:
    try:
        return tuple(storage(reader, items))
    except NeedsSpark:
        return None


def _quarantine_of(reader: LogReader, item: Item) -> QuarantineRows | None:
    """The number of rows in an object's quarantine; None without one."""
    if item.quarantine is None:
        return None
    quarantine = reader.catalog.items[item.quarantine]
    files = _storage_rows(reader, [quarantine])
    return QuarantineRows(
        str(quarantine.name), next((f.rows for f in files or () if f.part == ROWS), None)
    )
