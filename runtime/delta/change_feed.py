"""The change of a task's input at one T: its inserts, its deletes, its changes.

All three derive from one net change, so a commit that deletes a row and inserts an equal one
changes nothing. A commit that only adds files needs no netting.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.declined import Declined
from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import DIFF, FILE_COLUMN
from ctsql.runtime.delta.keyed_scan import FILES_MAX, change_of
from ctsql.runtime.delta.local_scan import CHANGE_BYTES_MAX, CHANGES_KEPT_MAX, live_rows
from ctsql.runtime.delta.table import CHANGE_TYPE, DeltaTable, FewChanged
from ctsql.runtime.delta.version_difference import changed_between, has_few_files
from ctsql.runtime.log.table_changes import Movement, files_of, numbered_files
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX, TOO_MANY
from ctsql.runtime.rows.multiset import consolidate, repeat_by_diff
from ctsql.runtime.rows.row_set import LocalRows

NOT_STORED = Declined("not all of it is committed")


@dataclass(frozen=True)
class InputChange:
    """The change of one input at one time.

    Attributes:
        added_rows: of a change that only inserts; None for another one, and where they are few.
        few: the rows inserted, held by the driver, where all that changes is few rows.
        net_change: of one that does not only insert: rows with ``DIFF``.
        nothing: gives a table like the input without rows.
    """

    nothing: Callable[[], DataFrame]
    added_rows: DataFrame | None = None
    few: LocalRows | None = None
    net_change: DataFrame | None = None

    @cached_property
    def _columns(self) -> list[str]:
        frame = self._inserted_rows if self.net_change is None else self.net_change
        return [c for c in frame.columns if c != DIFF]

    @property
    def inserts(self) -> DataFrame:
        """The rows inserted, with multiplicity."""
        if self.net_change is not None:
            return repeat_by_diff(self.net_change.where(F.col(DIFF) > 0), self._columns)
        return self._inserted_rows

    @cached_property
    def _inserted_rows(self) -> DataFrame:
        if self.few is not None:
            return self.few.frame
        return self.nothing() if self.added_rows is None else self.added_rows

    @property
    def deletes(self) -> DataFrame:
        """The rows deleted, with multiplicity."""
        if self.net_change is None:
            return self.nothing()
        rows = self.net_change.where(F.col(DIFF) < 0).withColumn(DIFF, -F.col(DIFF))
        return repeat_by_diff(rows, self._columns)

    @property
    def changes(self) -> DataFrame:
        """Each changed row once, with its diff."""
        names = backtick_all(self._columns)
        change = self.net_change
        if change is None:
            rows = self._inserted_rows
            change = consolidate(rows.select(*names, F.lit(1).alias(DIFF)), self._columns)
        return change.select(*names, F.col(DIFF).cast("bigint").alias(DIFF))


def as_inserts(rows: DataFrame) -> DataFrame:
    """Rows as a change that inserts them, with ``_change_type``."""
    return rows.withColumn(CHANGE_TYPE, F.lit("insert"))


def added_rows(table: DeltaTable, movement: Movement) -> DataFrame:
    """The rows that a movement of kind APPEND inserts."""
    parts = (table.added_rows(m.versions, m.times) for m in movement.parts or (movement,))
    return reduce(lambda rows, more: rows.unionByName(more), parts)


def few_added(table: DeltaTable, movement: Movement) -> LocalRows | Declined:
    """The same, read without Spark; declined for many rows, and where only Spark reads them.

    All that follow the table share them, and what the JVM made of them.
    """
    if not all(map(table.is_stored, movement.versions)):
        return NOT_STORED

    def read() -> FewChanged | Declined:
        rows = live_rows(table, list(files_of(table, movement)), movement.version)
        return rows if isinstance(rows, Declined) else FewChanged(rows, None)

    change = _shared(table, (movement,), read)
    return change if isinstance(change, Declined) else change.inserts


def few_changed(table: DeltaTable, movement: Movement, columns: list[str]) -> FewChanged | Declined:
    """What a movement of any kind changes of some columns, consolidated without Spark, and shared.

    Declined for many rows, and where only Spark reads them or says which of them are equal.
    """
    if not all(map(table.is_stored, movement.versions)):
        return NOT_STORED

    def read() -> FewChanged | Declined:
        if not has_few_files(table, movement.version):
            return Declined(f"more than {FILES_MAX} files, or nobody knows")
        net = change_of(table, movement, columns)
        if isinstance(net, Declined):
            return net
        diffs = net.arrow.column(DIFF).to_pylist()
        numbers = [i for i, diff in enumerate(diffs) for _ in range(diff)]
        if max(len(diffs), len(numbers)) > DRIVER_ROWS_MAX:
            return TOO_MANY
        return FewChanged(net.take(numbers).select(columns), net)

    return _shared(table, (movement, *columns), read)


def _shared(
    table: DeltaTable, which: tuple[object, ...], read: Callable[[], FewChanged | Declined]
) -> FewChanged | Declined:
    recent, which = table.gateway.recent_changes, (table.log_files, *which)
    change = recent.get(which)
    if change is None:
        now = read()
        if isinstance(now, Declined):
            return now
        change = now
        sets = [rows for rows in (now.inserts, now.net) if rows is not None]
        if sum(rows.arrow.nbytes for rows in sets) <= CHANGE_BYTES_MAX:
            recent[which] = now
            if len(recent) > CHANGES_KEPT_MAX:
                recent.popitem(last=False)
    return change


def change_rows(table: DeltaTable, movement: Movement) -> DataFrame:
    """The rows that a movement changes, with ``_change_type``; to be consolidated."""
    first, last = movement.before + 1, movement.version
    if movement.parts:
        names = [*table.schema_at(movement.version).names, CHANGE_TYPE]
        columns = [F.col(backtick(n)) for n in names]
        parts = (change_rows(table, m).select(*columns) for m in movement.parts)
        return reduce(DataFrame.unionAll, parts)
    if not movement.is_shared:
        return changed_between(table, movement.before, last)
    rows = table.added_rows([last], movement.times).withColumn(CHANGE_TYPE, F.lit("insert"))
    if first == last:
        return rows
    earlier = changed_between(table, movement.before, last - 1)
    return rows.unionByName(earlier.select(*rows.columns))


def numbered_rows(
    table: DeltaTable, movements: Sequence[Movement], number: str
) -> DataFrame | Declined:
    """The rows that movements of kind APPEND insert, with the index of each in a column ``number``.

    Declined if file names do not identify the movement.
    """
    numbers = numbered_files(table, movements)
    first, last = movements[0].before, movements[-1].version
    if numbers is None or not table.versions.read_alike(max(first, 0), last):
        return Declined("files of different movements cannot be told apart")
    rows = table.added_rows(sorted({v for m in movements for v in m.versions}))
    columns = [F.col(backtick(c)) for c in rows.columns]
    file = F.substring_index(F.col("_metadata.file_path"), "/", -1).alias(FILE_COLUMN)
    file_numbers = table.gateway.session.createDataFrame(
        list(numbers.items()), f"{FILE_COLUMN} STRING, {number} INT"
    )
    return (
        rows.select(*columns, file).join(F.broadcast(file_numbers), FILE_COLUMN).drop(FILE_COLUMN)
    )
