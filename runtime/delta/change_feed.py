"""The change of a table at one T: inserts, deletes, net changes.

All derive from one net change: a commit that deletes a row and inserts an equal one changes
nothing. A commit that only adds files needs no netting.

Delta's change feed reads the files that each commit adds, removes, or deletes rows of. Without a
stored feed these are whole files: a file is read thirty times if thirty commits deleted rows of it.
Then the first and the last version are compared, which differ by one deletion vector.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import DIFF, FILE_COLUMN
from ctsql.runtime.delta.deletion_vectors import Vectors
from ctsql.runtime.delta.keyed_scan import FILES_MAX, change_of
from ctsql.runtime.delta.local_scan import live_rows
from ctsql.runtime.delta.table import CHANGE_TYPE, DeltaTable, FewChanged
from ctsql.runtime.log.actions import Commit, DataFile, select_changed
from ctsql.runtime.log.table_changes import VersionChange, files_of, numbered_files
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX, TOO_MANY
from ctsql.runtime.rows.multiset import consolidate, repeat_by_diff
from ctsql.runtime.rows.row_set import LocalRows

Files = Mapping[str, DataFile]  # the files of a version, by path


def changed_between(table: DeltaTable, before: int, after: int) -> DataFrame:
    """The changes of the commits before + 1 .. after, with ``_change_type``; not consolidated.

    ``before`` is -1 for an empty table.
    """
    commits = [table.commit_at(version) for version in range(before + 1, after + 1)]
    is_alike = table.is_stored(after) and table.versions.read_alike(max(before, 0), after)
    has_feed = any(commit.change_paths for commit in commits)
    if has_feed or not is_alike or not has_few_files(table, after):
        return table.change_rows(before + 1, after)
    old, new = table.files(before) if before >= 0 else {}, table.files(after)
    if not reads_less(commits, old, new):
        return table.change_rows(before + 1, after)
    new_files = files_to_read(table.vectors, new, old)
    old_files = files_to_read(table.vectors, old, new)
    if new_files is None or old_files is None:
        return table.change_rows(before + 1, after)
    inserts = table.frame_of(new_files, after).withColumn(CHANGE_TYPE, F.lit("insert"))
    deletes = table.frame_of(old_files, after).withColumn(CHANGE_TYPE, F.lit("delete"))
    return inserts.unionAll(deletes)


def has_few_files(table: DeltaTable, version: int) -> bool:
    """Whether this process lists the files of a version; False if their number is unknown."""
    count = table.files_count(version)
    return count is not None and count <= FILES_MAX


def reads_less(commits: Iterable[Commit], old: Files, new: Files) -> bool:
    """Whether the files that differ have fewer bytes than those of each commit. Pure.

    Not if files were compacted in between: their rows did not change.
    """
    per_commit = 0
    for commit in commits:
        sizes = {a.path: a.size for a in commit.adds if a.data_change}
        paths = [r.path for r in commit.removes if r.data_change and r.path not in sizes]
        files = (old.get(path) or new.get(path) for path in paths)
        per_commit += sum(sizes.values()) + sum(file.size for file in files if file is not None)
    differ = {**select_changed(old, new), **select_changed(new, old)}
    return sum(file.size for file in differ.values()) <= per_commit


def files_to_read(vectors: Vectors, files: Files, others: Files) -> list[DataFile] | None:
    """The files with rows that others lack; of a file in both only these rows, if counted.

    None if these rows are too many for a vector in a task.
    """
    files_to_read = []
    for path, file in select_changed(files, others).items():
        other = others.get(path)
        # The writer may not have counted the rows; both sides must be read alike.
        counts = () if other is None else (file.records_count, other.records_count)
        count = next((n for n in counts if n is not None), None)
        if other is None or count is None:
            files_to_read.append(file)
        elif rows := vectors.deleted_rows(other) - vectors.deleted_rows(file):
            part = vectors.show_only(file, rows, count)
            if part is None:
                return None
            files_to_read.append(part)
    return files_to_read


NOT_STORED = Declined("not all of it is committed")
CHANGES_KEPT_MAX = 8  # changes whose rows are cached; the oldest is evicted
CHANGE_BYTES_MAX = 8 * 1024 * 1024  # bytes of a cached change


@dataclass(frozen=True)
class InputChange:
    """The change of one input at one time."""

    nothing: Callable[[], DataFrame]  # returns the input's columns without rows
    added_rows: DataFrame | None = None  # if it only inserts many rows; else None
    # the inserted rows, in the driver, if the whole change is few rows
    few: LocalRows | None = None
    net_change: DataFrame | None = None  # otherwise: rows with ``DIFF``

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
    """Rows as inserts, with ``_change_type``."""
    return rows.withColumn(CHANGE_TYPE, F.lit("insert"))


def added_rows(table: DeltaTable, version_change: VersionChange) -> DataFrame:
    """The rows that a change of kind APPEND inserts."""
    parts = (
        table.added_rows(m.versions, m.times) for m in version_change.parts or (version_change,)
    )
    return reduce(lambda rows, more: rows.unionByName(more), parts)


def few_added(table: DeltaTable, version_change: VersionChange) -> LocalRows | Declined:
    """The same, read without Spark; declined if many, or if only Spark reads them.

    All readers of the table share them, with their copy in the JVM.
    """
    if not all(map(table.is_stored, version_change.versions)):
        return NOT_STORED

    def read() -> FewChanged | Declined:
        rows = live_rows(table, list(files_of(table, version_change)), version_change.version)
        return rows if isinstance(rows, Declined) else FewChanged(rows, None)

    change = _shared(table, (version_change,), read)
    return change if isinstance(change, Declined) else change.inserts


def few_changed(
    table: DeltaTable, version_change: VersionChange, columns: list[str]
) -> FewChanged | Declined:
    """The net rows of a version change over some columns, computed without Spark, and shared.

    Declined if many rows, or if only Spark reads or compares them.
    """
    if not all(map(table.is_stored, version_change.versions)):
        return NOT_STORED

    def read() -> FewChanged | Declined:
        if not has_few_files(table, version_change.version):
            return Declined(f"more than {FILES_MAX} files, or nobody knows")
        net = change_of(table, version_change, columns)
        if isinstance(net, Declined):
            return net
        diffs = net.arrow.column(DIFF).to_pylist()
        numbers = [i for i, diff in enumerate(diffs) for _ in range(diff)]
        if max(len(diffs), len(numbers)) > DRIVER_ROWS_MAX:
            return TOO_MANY
        return FewChanged(net.take(numbers).select(columns), net)

    return _shared(table, (version_change, *columns), read)


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


def change_rows(table: DeltaTable, version_change: VersionChange) -> DataFrame:
    """The rows that a version change touches, with ``_change_type``; not consolidated."""
    first, last = version_change.before + 1, version_change.version
    if version_change.parts:
        names = [*table.schema_at(version_change.version).names, CHANGE_TYPE]
        columns = [F.col(backtick(n)) for n in names]
        parts = (change_rows(table, m).select(*columns) for m in version_change.parts)
        return reduce(DataFrame.unionAll, parts)
    if not version_change.is_shared:
        return changed_between(table, version_change.before, last)
    rows = table.added_rows([last], version_change.times).withColumn(CHANGE_TYPE, F.lit("insert"))
    if first == last:
        return rows
    earlier = changed_between(table, version_change.before, last - 1)
    return rows.unionByName(earlier.select(*rows.columns))


def numbered_rows(
    table: DeltaTable, version_changes: Sequence[VersionChange], number: str
) -> DataFrame | Declined:
    """The rows that changes of kind APPEND insert, with their index in a column ``number``.

    Declined if file names do not identify the change.
    """
    numbers = numbered_files(table, version_changes)
    first, last = version_changes[0].before, version_changes[-1].version
    if numbers is None or not table.versions.read_alike(max(first, 0), last):
        return Declined("files of different changes cannot be distinguished")
    rows = table.added_rows(sorted({v for m in version_changes for v in m.versions}))
    columns = [F.col(backtick(c)) for c in rows.columns]
    file = F.substring_index(F.col("_metadata.file_path"), "/", -1).alias(FILE_COLUMN)
    file_numbers = table.gateway.rows_of([*numbers.items()], f"{FILE_COLUMN} STRING, {number} INT")
    numbered = rows.select(*columns, file).join(F.broadcast(file_numbers.frame), FILE_COLUMN)
    return numbered.drop(FILE_COLUMN)
