"""The changes of a view's tables between its last write and the T of the refresh.

Commits that change no rows are ignored, and so is a change that cancels over the columns that the
view reads. A few changed rows become a local relation in the driver's JVM: Spark broadcasts joins
with it and removes empty relations from a plan.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import CtsqlError, Declined
from ctsql.catalog.items import Item, MaterializedView, ObjectKind
from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import DIFF
from ctsql.planner.ivm import ClockWindow, TableUse
from ctsql.planner.ivm.algebra.nodes import Version
from ctsql.runtime.delta.change_feed import added_rows
from ctsql.runtime.delta.keyed_scan import KeyPairs, change_of, rows_of, rows_with_keys
from ctsql.runtime.delta.table_rows import ENABLE_VECTORS
from ctsql.runtime.log.actions import RowChange, rows_changed
from ctsql.runtime.log.table_changes import StoredVersion, VersionChange, merge, rows_inserted
from ctsql.runtime.log.table_metadata import is_on
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX
from ctsql.runtime.rows.key_predicates import may_equal
from ctsql.runtime.rows.multiset import consolidate_all, consolidate_change_feed
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows
from ctsql.runtime.spark.internals.plans import empty
from ctsql.runtime.views.expiry_table import ExpiryTable
from ctsql.runtime.warehouse.query_engine import StoredTable
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse

FEW_MAX = 200
"""A table with at most so many rows is read whole, even if only some keys are needed."""


@dataclass(frozen=True, slots=True)
class TableMove:
    """A table whose version changed between two Ts."""

    item: Item
    since: int  # the T of the first
    version_change: VersionChange
    kind: RowChange  # the actions of the commits, from the log
    # rows inserted and deleted by them; None if unknown.
    rows: int | None


def find_move(
    warehouse: Warehouse, item: Item, columns: Sequence[str], *, before: int, at: int
) -> TableMove | Declined | None:
    """The change of a table in (before, at], over the columns read; None if no commit changed rows.

    Declined if its versions are not those that a view read, or are no longer in the log.
    """
    old = stored_as_of(warehouse, item, before)
    if isinstance(old, Declined):
        return old
    new = stored_as_of(warehouse, item, at)
    if isinstance(new, Declined):
        return new
    if old == new and new.shared_version is None:
        return None  # if Ts share a commit, their versions are equal but not their rows
    try:
        version_change = VersionChange(at, old.version or 0, new.version or 0)
        if old.shared_version is not None or new.shared_version is not None:
            parts = warehouse.versions.version_changes(item, after=before, until=at)
            if not parts:
                return None
            version_change = merge(parts)
        table = warehouse.relations.table(item)
        commits = [table.commit_at(v) for v in version_change.versions]
        kind = warehouse.versions.change_of(item, version_change, columns)
        shape = warehouse.versions.reshape_of(item, version_change, columns)
    except CtsqlError as problem:
        if problem.condition != "HISTORY_LOST":
            raise
        return Declined("HISTORY_LOST", f"{item.name}: {problem.detail}")
    is_view = isinstance(item, MaterializedView)
    if kind is RowChange.NONE and not shape.changes_types:
        return None  # only the storage of columns has changed, not rows
    if shape or (is_view and kind is not RowChange.NONE and any(c.changes_schema for c in commits)):
        return Declined("SCHEMA_CHANGED", f"{item.name}")
    if kind is RowChange.NONE:
        return None
    if kind is RowChange.FAILED:
        return Declined("ERROR_HELD", f"{item.name}")
    counts = [n for c in commits if c.changes_data for n in rows_changed(c)]
    has_feed = any(c.change_paths for c in commits)
    if has_feed and not is_on(table.metadata.configuration, ENABLE_VECTORS):
        counts = [None]  # files with unchanged rows were written again
    if version_change.is_shared or version_change.parts:
        counts = [rows_inserted(table, version_change) if kind is RowChange.APPEND else None]
    row_counts = [n for n in counts if n is not None]
    return TableMove(
        item,
        before,
        version_change,
        kind,
        sum(row_counts) if len(row_counts) == len(counts) else None,
    )


def stored_as_of(warehouse: Warehouse, item: Item, at: int) -> StoredVersion | Declined:
    """The version with an object's contents as of T; Declined if they are not stored."""
    if isinstance(item, MaterializedView) and not StoredSources(warehouse).is_exact(item, at):
        return Declined("NOT_STORED", f"{item.name} at T = {at}")
    storage = warehouse.versions.find_storage(item, at)
    if storage.version is None and item.kind is ObjectKind.TABLE:
        return Declined("HISTORY_LOST", f"{item.name} at T = {at}")
    return storage


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """A window from one T on."""

    window: ClockWindow
    before: int  # the T
    expiries: ExpiryTable | None = None  # None if the table must be read


@dataclass
class ChangeRelations:
    """The rows of the relations that a change plan's queries name."""

    warehouse: Warehouse
    tables: Mapping[str, StoredTable]  # by the plan's name
    at: int  # T, for unchanged tables
    moves: Mapping[str, TableMove]  # the moves of changed tables
    reads: Mapping[str, Sequence[str]]  # the needed columns of each
    changes: dict[str, RowSet] = field(default_factory=dict)  # the net change of changed tables
    # the rows of finished steps; a query runs after those that it reads.
    steps: dict[str, RowSet] = field(default_factory=dict)
    # for tables that are windows of another.
    spans: Mapping[str, WindowSpan] = field(default_factory=dict)
    # for windows: the change of their tables, without the condition.
    table_changes: dict[str, RowSet] = field(default_factory=dict)
    _cache: dict[Hashable, RowSet] = field(default_factory=dict)

    @property
    def has_many(self) -> bool:
        """Whether a table's change is too large for the driver."""
        return not all(rows.is_local for rows in self.changes.values())

    def rows(self, use: TableUse) -> RowSet:
        """The rows of a table at one place of a query; with keys, at least the rows with these."""
        key = self._cache_key(use)
        rows = self._cache.get(key)
        if rows is None:
            rows = self._cache[key] = self._rows(use)
        return rows

    def _cache_key(self, use: TableUse) -> Hashable:
        """The key of the cache: another strategy may run a step again."""
        if not use.keys:
            return use.table, use.version
        return use, tuple(
            self._cache_key(keys) if isinstance(keys, TableUse) else self.steps[keys]
            for keys, _ in use.keys
        )

    def _keys(self, use: TableUse) -> list[KeyPairs] | Declined:
        """The keys that are needed of a table; Declined if some are not in the driver."""
        keys_to_read: list[KeyPairs] = []
        for keys, pairs in use.keys:
            rows = self._local_rows(keys) if isinstance(keys, TableUse) else self.steps[keys].local
            if isinstance(rows, Declined):
                return rows
            keys_to_read.append((rows, pairs))
        return keys_to_read

    def _local_rows(self, use: TableUse) -> LocalRows | Declined:
        """The rows of a table, or those with the needed keys, if they are few."""
        if use.table in self.spans:
            return Declined("only Spark can compute the rows of a window")
        return self._near(use)

    def _rows(self, use: TableUse) -> RowSet:
        if use.version is Version.NONE:
            session = self.warehouse.gateway.session
            return LocalRows.of(empty(session, self.tables[use.table].columns))
        is_change = use.version is Version.DELTA
        span = None if is_change else self.spans.get(use.table)
        row_set: RowSet | Declined = self.changes[use.table] if is_change else self._local_rows(use)
        if not isinstance(row_set, Declined) and row_set.is_local:
            return row_set
        rows = self._read(use) if isinstance(row_set, Declined) else row_set.frame
        if span is not None:
            at = span.before if use.version is Version.OLD else self.at
            rows = rows.where(span.window.passes(at))
        keys = self._keys(use)
        if keys and not isinstance(keys, Declined):
            tests = (may_equal(rows, few.plain_frame, pairs) for few, pairs in keys)
            rows = rows.where(reduce(or_, tests))
        return SparkRows(rows)

    def _time(self, use: TableUse) -> int:
        """The T as of which a table is read."""
        was = self.moves.get(use.table)
        if was is None:
            return self.at
        return was.since if use.version is Version.OLD else was.version_change.time

    def _near(self, use: TableUse) -> LocalRows | Declined:
        """The rows read by this process, if they are few: all, or those with some keys."""
        item = self.warehouse.relations.item(self.tables[use.table].object_id)
        storage = stored_as_of(self.warehouse, item, self._time(use))
        if (
            isinstance(storage, Declined)
            or storage.version is None
            or storage.shared_version is not None
        ):
            return Declined("the rows are not those of one version")
        if self.warehouse.versions.error_as_of(item, storage.version) is not None:
            return Declined("the contents are an error")
        table, columns = self.warehouse.relations.table(item), self.reads[use.table]
        if not use.keys:
            return rows_of(table, storage.version, columns)
        if any(isinstance(keys, TableUse) for keys, _ in use.keys):
            rows = rows_of(table, storage.version, columns, FEW_MAX)
            if not isinstance(rows, Declined):
                return rows
        keys = self._keys(use)
        if isinstance(keys, Declined):
            return keys
        return rows_with_keys(table, storage.version, use.columns, keys)

    def _read(self, use: TableUse) -> DataFrame:
        table = self.tables[use.table]
        item = self.warehouse.relations.item(table.object_id)
        if use.table in self.moves:
            rows = self.warehouse.versions.contents_at(item, self._time(use))
        else:
            rows = StoredSources(self.warehouse).contents(item.id, self.at)
        return rows.select(*backtick_all([c.name for c in table.columns]))


@contextmanager
def opened(
    warehouse: Warehouse,
    tables: Mapping[str, StoredTable],
    moves: Mapping[str, TableMove],
    reads: Mapping[str, Sequence[str]],
    at: int,
    spans: Mapping[str, WindowSpan] | None = None,
) -> Iterator[ChangeRelations]:
    """The rows of a refresh; entering the block computes the changes that are not empty.

    ``reads``: the needed columns of each table; ``spans`` as in :class:`ChangeRelations`.
    """
    with ExitStack() as stack:
        relations = ChangeRelations(warehouse, tables, at, moves, reads, spans=spans or {})
        for name, span in relations.spans.items():
            window_change = _window_change(relations, name, span, stack)
            if window_change is not None and not (change := window_change.keep(stack)).is_empty:
                relations.changes[name] = change
        for name, one in moves.items():
            if name in relations.spans:
                continue
            rows = _moved_rows(warehouse, one, list(reads[name]), stack)
            if not rows.is_empty:
                relations.changes[name] = rows
        yield relations


def _moved_rows(
    warehouse: Warehouse, one: TableMove, columns: list[str], stack: ExitStack
) -> RowSet:
    """The net change of a table over some columns, with the diff, computed once."""
    local = change_of(warehouse.relations.table(one.item), one.version_change, columns)
    if isinstance(local, Declined):
        many = one.rows is None or one.rows > DRIVER_ROWS_MAX
        return SparkRows(_change(warehouse, one, columns)).keep(stack, many=many)
    return local


def _change(warehouse: Warehouse, one: TableMove, columns: list[str]) -> DataFrame:
    """The net change of a table over some columns, with the diff."""
    diff = F.col(DIFF).cast("bigint").alias(DIFF)
    if one.kind is RowChange.APPEND:
        table = warehouse.relations.table(one.item)
        rows = added_rows(table, one.version_change).withColumn(DIFF, F.lit(1))
    else:
        rows = consolidate_change_feed(
            warehouse.versions.change_rows(one.item, one.version_change, columns), columns
        )
    return rows.select(*backtick_all(columns), diff)


def _window_change(
    relations: ChangeRelations, name: str, span: WindowSpan, stack: ExitStack
) -> RowSet | None:
    """The net change of a window between two Ts; None if nothing can have changed.

    It is the passing part of the table's change, and earlier rows that expire in between.
    """
    columns, window = list(relations.reads[name]), span.window
    parts: list[RowSet] = []
    if name in relations.moves:
        both = list(dict.fromkeys([*columns, *window.columns]))
        change = relations.table_changes[name] = _moved_rows(
            relations.warehouse, relations.moves[name], both, stack
        )
        if not change.is_empty:
            parts.append(SparkRows(change.plain_frame.where(window.passes(relations.at))))
    if span.before < relations.at:
        if span.expiries is None:
            expiries: RowSet | None = SparkRows(_expired_by_table(relations, name, span))
        else:
            expiries = span.expiries.between(span.before, relations.at)
        parts += [] if expiries is None else [expiries]
    if not parts:
        return None
    return consolidate_all([part.select([*columns, DIFF]) for part in parts], columns)


def _expired_by_table(relations: ChangeRelations, name: str, span: WindowSpan) -> DataFrame:
    """The expiring rows, skipping files whose statistics exclude them."""
    item = relations.warehouse.relations.item(relations.tables[name].object_id)
    now, then = (
        f"CASE WHEN {span.window.passes(at)} THEN 1 ELSE 0 END"
        for at in (relations.at, span.before)
    )
    rows = StoredSources(relations.warehouse).contents(item.id, span.before)
    candidates = rows.where(span.window.may_expire(span.before, relations.at))
    signed_rows = candidates.withColumn(DIFF, F.expr(f"CAST({now} - {then} AS BIGINT)"))
    return signed_rows.where(F.col(DIFF) != 0)
