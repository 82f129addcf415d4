"""The rows and columns of stored objects, and what a movement does to them.

Part of :class:`ctsql.runtime.warehouse.relations.Objects`. A table belongs to who writes it, so its
columns may change at any commit: rows as of T are those of the version of T, by the columns of that
version, and a movement may change what the rows that stay look like
(docs/decisions/0065-rows-by-their-own-version.md).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import fold
from ctsql.catalog.schemas import Column
from ctsql.planner.lowering import declared_type
from ctsql.runtime.delta.change_feed import added_rows, change_rows, few_added
from ctsql.runtime.delta.reshaping import filled
from ctsql.runtime.delta.table import CHANGE_TYPE, DeltaTable
from ctsql.runtime.log import table_changes as moved
from ctsql.runtime.log.actions import Change
from ctsql.runtime.log.failures import Failure, held_at
from ctsql.runtime.log.table_changes import Movement, Stored
from ctsql.runtime.log.table_metadata import Reshaped, reshaped
from ctsql.runtime.rows.multiset import net_change


class ObjectRows(ABC):
    """Rows and columns of objects whose tables and versions are known."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[str, tuple[Column, ...]]] = {}

    @abstractmethod
    def table(self, item: Item) -> DeltaTable:
        """The Delta table of an object that has one."""

    @abstractmethod
    def version_at(self, item: Item, at: int) -> int | None:
        """The version that holds an object's contents as of T; None before there were any."""

    @abstractmethod
    def stored_at(self, item: Item, at: int) -> Stored:
        """Where an object's contents as of T are."""

    # ---- columns

    def columns_now(self, item: Item) -> tuple[Column, ...]:
        """An object's columns; for a table as its log has them, whoever changed it."""
        if item.kind is not ObjectKind.TABLE:
            return item.columns
        text = self.table(item).schema_text()
        known = self._columns.get(item.id)
        if known is None or known[0] != text:
            known = self._columns[item.id] = (text, self.stored_columns(item))
        return known[1]

    def stored_columns(self, item: Item) -> tuple[Column, ...]:
        """The columns of an object's table."""
        return _columns_of(self.table(item).frame_of(()).schema)

    def columns_at(self, item: Item, at: int) -> tuple[Column, ...]:
        """An object's columns as of T; for a table as the version that it had then has them."""
        version = self.version_at(item, at) if item.kind is ObjectKind.TABLE else None
        if version is None:
            return self.columns_now(item)
        table = self.table(item)
        return _columns_of(table.schema_at(self.settled(table, version)))

    def reshaped(
        self, item: Item, movement: Movement, columns: Collection[str] | None = None
    ) -> Reshaped:
        """What a movement of a table changes of its columns; of an output's it is nothing.

        Args:
            columns: those that count; None for all.
        """
        if item.kind is not ObjectKind.TABLE or movement.before < 0:
            return Reshaped()
        table = self.table(item)
        old, new = table.metadata_at(movement.before), table.metadata_at(movement.version)
        return Reshaped() if old is new else reshaped(old, new, columns)

    # ---- rows

    def present(self, item: Item, movement: Movement, columns: Collection[str]) -> list[str]:
        """Some columns, as far as a table has them after a movement."""
        if item.kind is not ObjectKind.TABLE:
            return list(columns)
        there = self.table(item).metadata_at(movement.version).columns
        return [c for c in columns if fold(c) in there]

    def change_of(
        self, item: Item, movement: Movement, columns: Collection[str] | None = None
    ) -> Change:
        """What a movement does to the rows, from the log alone.

        Args:
            columns: what is read of a table, whose other columns may change; None for all of it.
        """
        table = self.table(item)
        try:
            shape = self.reshaped(item, movement, columns)
        except CtsqlError as problem:
            if problem.condition != "HISTORY_LOST":
                raise
            return Change.MIXED  # it may be any; who needs the rows from before is told
        if shape.changes_rows or (columns is None and shape):
            return Change.MIXED
        held = self.held_error(item, movement.version)
        if held is not None:
            before = self.held_error(item, movement.before)
            return Change.NONE if before is not None and before.is_like(held) else Change.FAILED
        change = moved.change_of(table, movement)
        if change is Change.NONE and self.held_error(item, movement.before) is not None:
            return Change.MIXED  # what was an error is rows again, be they those from before it
        return change

    def rows_inserted(self, item: Item, movement: Movement) -> int | None:
        """How many rows a movement of kind APPEND inserts; None when the log does not say."""
        return moved.rows_inserted(self.table(item), movement)

    def rows_count(self, item: Item, at: int) -> int | None:
        """How many rows an object holds as of T, from the log; None when it does not say."""
        if item.location is None:
            return None
        stored = self.stored_at(item, at)
        if stored.shared is not None:
            return None
        if stored.version is None:
            return 0
        # Under an error lie the rows from before it, which are not what the view holds.
        held = self.held_error(item, stored.version)
        return None if held else self.table(item).rows_count(stored.version)

    def added_by(self, item: Item, movement: Movement) -> DataFrame:
        """The rows a movement of kind APPEND inserts."""
        return added_rows(self.table(item), movement)

    def few_added_by(self, item: Item, movement: Movement) -> pa.Table | None:
        """The same, if they are few and this process may read them."""
        return few_added(self.table(item), movement)

    def changed_by(
        self, item: Item, movement: Movement, columns: list[str], *, only_inserts: bool = False
    ) -> DataFrame:
        """What a movement changes of these columns, net: each row once, with ``DIFF``.

        Args:
            only_inserts: what it deletes is not wanted, and may be left out.

        Raises:
            VIEW_FAILED: a view's contents became an error.
            COLUMN_TYPE_CHANGED: rows that go cannot be shown.
        """
        held = self.held_error(item, movement.version)
        if held is not None:
            raise held.view_error(item)
        if only_inserts and self.reshaped(item, movement, columns).untold:
            # A row of another type is another row, so none of those from before is like it.
            rows = self.table(item).come_rows(movement.before, movement.version)
            return net_change(rows.withColumn(CHANGE_TYPE, F.lit("insert")), columns)
        return net_change(self.change_rows(item, movement, columns), columns)

    def change_rows(self, item: Item, movement: Movement, columns: Collection[str]) -> DataFrame:
        """The rows that a movement changes, with ``_change_type`` as Delta's change feed has it.

        Args:
            columns: those that are wanted.

        Raises:
            COLUMN_TYPE_CHANGED: of one, values from before cannot be shown as it is now.
        """
        untold = self.reshaped(item, movement, columns).untold
        if untold:
            raise self._type_changed(item, movement, untold[0])
        return change_rows(self.table(item), movement)

    def _type_changed(self, item: Item, movement: Movement, column: str) -> CtsqlError:
        table, name = self.table(item), fold(column)
        old = table.metadata_at(movement.before)
        new = table.metadata_at(movement.version).columns[name]
        was = old.counterpart(new)
        assert was is not None  # otherwise there was no type
        return error(
            "COLUMN_TYPE_CHANGED",
            column=column,
            relation=str(item.name),
            before=was.type,
            now=new.type,
        )

    def held_error(self, item: Item, version: int) -> Failure | None:
        """The error that a view holds since a commit that moved its upper."""
        if item.kind is not ObjectKind.MATERIALIZED_VIEW:
            return None
        return held_at(self.table(item), version)

    def contents(self, item: Item, version: int | None) -> DataFrame:
        """The rows of an object's table at a version; none at None.

        Raises:
            VIEW_FAILED: what a view holds there is an error.
        """
        table = self.table(item)
        if version is None:
            return table.frame_of(())
        held = self.held_error(item, version)
        if held is not None:
            raise held.view_error(item)
        return table.frame(self.settled(table, version))

    def nothing_at(self, item: Item, at: int) -> DataFrame:
        """No rows, under the columns that an object has as of T."""
        version = self.version_at(item, at) if item.kind is ObjectKind.TABLE else None
        table = self.table(item)
        return table.frame_of((), None if version is None else self.settled(table, version))

    def contents_as_now(self, item: Item, at: int) -> DataFrame:
        """As :meth:`contents_at`, with the columns that a table has got since: NULL, or renamed."""
        rows = self.contents_at(item, at)
        version = self.version_at(item, at) if item.kind is ObjectKind.TABLE else None
        if version is None:
            return rows
        table = self.table(item)
        old, new = table.metadata_at(self.settled(table, version)), table.metadata
        return (
            rows
            if new.columns.keys() <= old.columns.keys()
            else filled(rows, old, new, table.schema)
        )

    def contents_at(self, item: Item, at: int) -> DataFrame:
        """The rows of an object's table as of T, none before the first; raises VIEW_FAILED."""
        stored = self.stored_at(item, at)
        rows = self.contents(item, stored.version)
        if stored.shared is None:
            return rows
        return rows.unionByName(self.table(item).added_rows([stored.shared], range(at + 1)))

    def settled(self, table: DeltaTable, version: int) -> int:
        """The newest version with the same rows: compaction may have replaced the files."""
        while table.has(version + 1):
            following = table.commit_at(version + 1)
            if following.changes_data or table.reshapes(version + 1):
                break
            version += 1
        return version


def _columns_of(schema: StructType) -> tuple[Column, ...]:
    return tuple(
        Column(f.name, declared_type(f), f.nullable, f.metadata.get("comment")) for f in schema
    )
