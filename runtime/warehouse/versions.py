"""The version of an object's table at a T, the change from one T to the next, and its rows.

The timeline binds a source's versions to times; an output's own commits store their times. Any
writer may change a table's columns in any commit. So rows as of T are those of the version of T, by
its columns, and a change may also reshape rows that it keeps
(docs/decisions/0065-rows-by-their-own-version.md).
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from ctsql.catalog.dependencies import fingerprint_of
from ctsql.catalog.errors import CtsqlError, type_changed
from ctsql.catalog.items import Item, MaterializedView, ObjectKind, Table
from ctsql.catalog.names import fold
from ctsql.catalog.schemas import Column
from ctsql.runtime.log import table_changes
from ctsql.runtime.log.actions import RowChange
from ctsql.runtime.log.failures import Failure, find_error_at
from ctsql.runtime.log.table_changes import StoredVersion, VersionChange
from ctsql.runtime.log.table_metadata import ColumnChanges, compare_columns
from ctsql.runtime.log.uppers import REVISION as REVISION
from ctsql.runtime.warehouse.relations import Relations, columns_of
from ctsql.runtime.warehouse.times.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ctsql.runtime.delta.table import DeltaTable

DEFINITION = "definition"  # in the metadata of an output's commit: the definition that wrote it


def revision_of(item: Item) -> dict[str, object]:
    """The revision for the metadata of a view's commit; empty for a view that was not replaced."""
    is_replaced = isinstance(item, MaterializedView) and item.revision > 0
    return {REVISION: item.revision} if is_replaced else {}


class Versions:
    """The versions of the objects of a registry, and their rows."""

    def __init__(self, relations: Relations, timeline: Timeline) -> None:
        self._relations = relations
        self._timeline = timeline

    def version_at(self, item: Item, at: int) -> int | None:
        """The version that holds an object's contents as of T; None before the first.

        Read rows by :meth:`contents_at`: several Ts around this one may share a later commit.
        """
        return self.find_storage(item, at).version

    def find_storage(self, item: Item, at: int) -> StoredVersion:
        """The version, or the part of a shared version, with an object's contents as of T."""
        if isinstance(item, Table):
            return StoredVersion(self._timeline.version_at(item.id, at))
        entries = self._relations.output(item).entries_around(since=at + 1)
        return table_changes.find_storage(entries, at)

    def stored_upper(self, item: Item) -> int:
        """An output's upper (exclusive), or its time of creation; CLOSED for a finished view."""
        return max(self._relations.output(item).fetch_recent_upper(), item.created_at)

    def version_changes(self, item: Item, *, after: int, until: int) -> list[VersionChange]:
        """The changes of an object's table with after < T <= until, oldest first."""
        if isinstance(item, Table):
            moves = []
            before = self._timeline.version_at(item.id, after)
            for binding in self._timeline.bindings_between(item.id, after, until):
                moves.append(
                    VersionChange(binding.time, -1 if before is None else before, binding.version)
                )
                before = binding.version
            return moves
        entries = self._relations.output(item).entries(since=after + 1)
        return table_changes.version_changes(entries, after=after, until=until)

    def reads_at(self, item: Item, time: int) -> dict[str, object]:
        """The metadata of an output's commit at T: T, the versions that it read, its definition."""
        read = [self._relations.item(r.object_id) for r in item.reads]
        versions = {i.id: self.version_at(i, time) for i in read if i.location is not None}
        definition = fingerprint_of(self._relations.catalog, item)
        metadata = {"t": time, "bindings": versions, DEFINITION: definition, **revision_of(item)}
        number = self._timeline.task(item.id).revision_at(time)
        return {**metadata, REVISION: number} if number else metadata

    def columns_at(self, item: Item, at: int) -> tuple[Column, ...]:
        """An object's columns as of T; for a table those of its version as of T."""
        version = self._settled_at(item, at)
        if version is None:
            return self._relations.columns_now(item)
        return columns_of(self._relations.table(item).schema_at(version))

    def _settled_at(self, item: Item, at: int) -> int | None:
        """The version with the columns of a table's rows as of T; None for the newest."""
        version = self.version_at(item, at) if isinstance(item, Table) else None
        return None if version is None else self.settled(self._relations.table(item), version)

    def reshape_of(
        self, item: Item, version_change: VersionChange, columns: Collection[str] | None = None
    ) -> ColumnChanges:
        """How a version change alters columns of a table, or all; a view has no such changes."""
        is_view = isinstance(item, MaterializedView)
        follows = isinstance(item, Table) or (not is_view and self._may_have_grown(item))
        if not follows or version_change.before < 0:
            return ColumnChanges()
        table = self._relations.table(item)
        old, new = (
            table.metadata_at(version_change.before),
            table.metadata_at(version_change.version),
        )
        return ColumnChanges() if old is new else compare_columns(old, new, columns)

    def only_loses_columns(
        self, item: Item, version_change: VersionChange, columns: Collection[str]
    ) -> bool:
        """Whether a change drops some of these columns, and changes nothing in the others.

        Then no remaining value has changed, which the log shows without reading a row.
        """
        shape = self.reshape_of(item, version_change, columns)
        if not shape.removed_columns or shape.other or shape.lossy_columns:
            return False
        return (
            table_changes.change_of(self._relations.table(item), version_change) is RowChange.NONE
        )

    def present(
        self, item: Item, version_change: VersionChange, columns: Collection[str]
    ) -> list[str]:
        """Those of some columns that a table or a view has after a change.

        A view's column that was dropped and added again, or got another type, is another column;
        earlier readers of the view do not read it.
        """
        if item.kind not in (ObjectKind.TABLE, ObjectKind.MATERIALIZED_VIEW):
            return list(columns)
        table = self._relations.table(item)
        now = table.metadata_at(version_change.version)
        there = {*now.columns}
        is_replaced = isinstance(item, MaterializedView) and item.revision > 0
        if is_replaced and version_change.before >= 0:
            shape = compare_columns(table.metadata_at(version_change.before), now)
            there -= {
                *map(fold, (*shape.added_columns, *shape.lossy_columns, *shape.widened_columns))
            }
        return [c for c in columns if fold(c) in there]

    def change_of(
        self, item: Item, version_change: VersionChange, columns: Collection[str] | None = None
    ) -> RowChange:
        """What a change does to the rows, from the log alone.

        Only the ``columns`` that are read of a table count; None for all.
        """
        table = self._relations.table(item)
        try:
            shape = self.reshape_of(item, version_change, columns)
        except CtsqlError as problem:
            if problem.condition != "HISTORY_LOST":
                raise
            return RowChange.MIXED  # it may be any; a reader of the old rows gets the error
        if shape.changes_rows or (columns is None and shape):
            return RowChange.MIXED
        failure = self.error_as_of(item, version_change.version)
        if failure is not None:
            before = self.error_as_of(item, version_change.before)
            return (
                RowChange.NONE
                if before is not None and before.is_like(failure)
                else RowChange.FAILED
            )
        change = table_changes.change_of(table, version_change)
        if change is RowChange.NONE and self.error_as_of(item, version_change.before) is not None:
            return RowChange.MIXED  # an error became rows, perhaps those from before the error
        return change

    def rows_count(self, item: Item, at: int) -> int | None:
        """The number of an object's rows as of T, from the log; None if the log lacks it."""
        if item.location is None:
            return None
        storage = self.find_storage(item, at)
        if storage.shared_version is not None:
            return None
        if storage.version is None:
            return 0
        # During an error the table still has the earlier rows, which are not the view's contents.
        failure = self.error_as_of(item, storage.version)
        return None if failure else self._relations.table(item).rows_count(storage.version)

    def changed_by(
        self, item: Item, version_change: VersionChange, columns: list[str], *, only_inserts: bool
    ) -> "DataFrame":
        """The rows of these columns that a change inserts and deletes, as :meth:`change_rows`.

        ``only_inserts`` allows to leave out deletions.

        Raises:
            VIEW_FAILED: a view's contents became an error.
            COLUMN_TYPE_CHANGED: deleted rows cannot be shown.
        """
        from ctsql.runtime.delta.change_feed import as_inserts  # imports Spark

        failure = self.error_as_of(item, version_change.version)
        if failure is not None:
            raise failure.view_error(item)
        if only_inserts and self.reshape_of(item, version_change, columns).lossy_columns:
            # A row with another type is another row, so no earlier row equals it.
            rows = self._relations.table(item).come_rows(
                version_change.before, version_change.version
            )
            return as_inserts(rows)
        return self.change_rows(item, version_change, columns)

    def change_rows(
        self, item: Item, version_change: VersionChange, columns: Collection[str]
    ) -> "DataFrame":
        """The rows that a version change touches, with the ``_change_type`` of a change feed.

        Raises COLUMN_TYPE_CHANGED if old values of a wanted column cannot be shown as it is now.
        """
        lossy_columns = self.reshape_of(item, version_change, columns).lossy_columns
        if lossy_columns:
            raise self._type_changed(item, version_change, lossy_columns[0])
        from ctsql.runtime.delta.change_feed import change_rows  # imports Spark

        return change_rows(self._relations.table(item), version_change)

    def _type_changed(self, item: Item, version_change: VersionChange, column: str) -> CtsqlError:
        table = self._relations.table(item)
        new = table.metadata_at(version_change.version).columns[fold(column)]
        was = table.metadata_at(version_change.before).counterpart(new)
        assert was is not None  # otherwise there was no type
        return type_changed(column, item.name, was.type, new.type)

    def error_as_of(self, item: Item, version: int) -> Failure | None:
        """The error that is a view's contents as of a version; None for rows."""
        if not isinstance(item, MaterializedView):
            return None
        return find_error_at(self._relations.table(item), version)

    def contents(self, item: Item, version: int | None) -> "DataFrame":
        """The rows of an object's table at a version, none at None; raises VIEW_FAILED."""
        table = self._relations.table(item)
        if version is None:
            return self.with_added(item, table.frame_of(()), table.version())
        failure = self.error_as_of(item, version)
        if failure is not None:
            raise failure.view_error(item)
        version = self.settled(table, version)
        return self.with_added(item, table.frame(version), version)

    def _may_have_grown(self, item: Item) -> bool:
        """Whether its table may have new columns: its task or view had other definitions."""
        match item.kind:
            case ObjectKind.CONTINUAL_TASK:
                task = item.id
            case ObjectKind.TASK_OUTPUT:
                task = item.owner
            case ObjectKind.MATERIALIZED_VIEW:
                return item.revision > 0
            case _:
                return False
        return bool(self._timeline.task(task).revisions)

    def with_added(self, item: Item, rows: "DataFrame", version: int) -> "DataFrame":
        """Rows of an output read at a version, with its present columns; new ones are NULL.

        Extra columns of the rows are kept.
        """
        if not self._may_have_grown(item):
            return rows
        from ctsql.runtime.delta.log.reshaping import shown_under, with_nulls  # imports Spark

        table = self._relations.table(item)
        if isinstance(item, MaterializedView):
            return shown_under(rows, columns_of(table.schema_at(version)), item.columns)
        there = table.metadata_at(version).columns
        missing_columns = [c for c in item.columns if fold(c.name) not in there]
        return with_nulls(rows, missing_columns) if missing_columns else rows

    def nothing_at(self, item: Item, at: int) -> "DataFrame":
        """No rows, with an object's columns as of T."""
        return self._relations.table(item).frame_of((), self._settled_at(item, at))

    def contents_as_now(self, item: Item, at: int) -> "DataFrame":
        """As :meth:`contents_at`, with a table's later columns: NULL, or renamed."""
        rows, version = self.contents_at(item, at), self._settled_at(item, at)
        return rows if version is None else self.as_now(item, rows, version)

    def as_now(self, item: Item, rows: "DataFrame", version: int) -> "DataFrame":
        """Rows read at a version, with the columns that the object got later."""
        if not isinstance(item, Table):
            return self.with_added(item, rows, version)
        table = self._relations.table(item)
        old, new = table.metadata_at(version), table.metadata
        if new.columns.keys() <= old.columns.keys():
            return rows
        from ctsql.runtime.delta.log.reshaping import fill  # imports Spark

        return fill(rows, old, new, table.schema)

    def contents_at(self, item: Item, at: int) -> "DataFrame":
        """The rows of an object's table as of T, none before the first; raises VIEW_FAILED."""
        storage = self.find_storage(item, at)
        rows = self.contents(item, storage.version)
        if storage.shared_version is None:
            return rows
        shared_rows = self._relations.table(item).added_rows(
            [storage.shared_version], range(at + 1)
        )
        if not self._may_have_grown(item):
            return rows.unionByName(shared_rows)
        shared_rows = self.with_added(item, shared_rows, storage.shared_version)
        return rows.unionByName(shared_rows, allowMissingColumns=True)

    def settled(self, table: "DeltaTable", version: int) -> int:
        """The newest version with the same rows: compaction may have replaced the files."""
        while table.has(version + 1):
            following = table.commit_at(version + 1)
            if following.changes_data or table.reshapes(version + 1):
                break
            version += 1
        return version
