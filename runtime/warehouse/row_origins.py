"""The commit that last wrote each row of a stored object, and its T.

A row was written by the commit that added its file, unless that commit may have copied it. If a
commit removes whole files and adds others (compaction, or an UPDATE without deletion vectors), rows
equal to removed ones are older: as many as were removed. So the removed files are read as of the
version before, and so on back, as long as they exist.

[only-proven-times] a T is returned only if the log and the files prove it; otherwise a sentence
    gives the reason.
[rows-stay-in-spark] memory is bounded: rows stay in Spark, the driver holds a record for each file.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from urllib.parse import unquote

from pyspark.sql import DataFrame, Window, functions as F

from ctsql.catalog.errors import suppress_conditions
from ctsql.catalog.items import Item
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import (
    FILE_COLUMN,
    GROUP_,
    NOTE,
    NUMBER,
    ORIGIN,
    ROW_COLUMN,
    TEXT_,
    TIME,
    VERSION,
)
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.table_rows import locate_in
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.log.table_changes import FileOrigin, added_files, file_origins
from ctsql.runtime.rows.multiset import equality_keys
from ctsql.runtime.warehouse.warehouse import Warehouse

COPIES_MAX = 8  # the most copies of a row that are followed back
WRITTEN = (TIME, VERSION, NOTE)
"""The columns added to a row: the T and the commit that wrote it, or why they are unknown."""


@dataclass(frozen=True, slots=True)
class LocatedContents:
    """Rows with ``FILE_COLUMN`` and ``ROW_COLUMN``, of files that are live at a version."""

    rows: DataFrame
    table: DeltaTable
    item: Item
    version: int
    paths: tuple[str, ...]
    # a later version; those of its files that are listed count too.
    shared_version: int | None = None


def located_contents(warehouse: Warehouse, item: Item, at: int) -> LocatedContents | None:
    """The rows of a stored object as of T with their locations; None before its first version.

    Raises VIEW_FAILED.
    """
    storage = warehouse.versions.find_storage(item, at)
    table = warehouse.relations.table(item)
    if storage.version is not None:
        failure = warehouse.versions.error_as_of(item, storage.version)
        if failure is not None:
            raise failure.view_error(item)
    frames, paths, version = [], [], -1
    if storage.version is not None:
        version = warehouse.versions.settled(table, storage.version)
        frames.append(warehouse.versions.as_now(item, table.locate_rows(version), version))
        paths += list(table.files(version))
    if storage.shared_version is not None:
        adds = list(added_files(table.commit_at, [storage.shared_version], range(at + 1)))
        shared_rows = locate_in(table, adds, storage.shared_version)
        frames.append(warehouse.versions.as_now(item, shared_rows, storage.shared_version))
        paths += [a.path for a in adds]
    if not frames:
        return None
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
    return LocatedContents(rows, table, item, version, tuple(paths), storage.shared_version)


def with_writers(warehouse: Warehouse, contents: LocatedContents, rows: DataFrame) -> DataFrame:
    """Add the columns ``WRITTEN`` to some of the located rows."""
    search = _Search(warehouse, contents)
    names = [c for c in rows.columns if c not in (FILE_COLUMN, ROW_COLUMN)]
    start = rows.withColumn(ORIGIN, F.col(FILE_COLUMN))
    newest = contents.version if contents.shared_version is None else contents.shared_version
    rows_with_writers = search.with_commits(start, names, contents.paths, newest, COPIES_MAX)
    return rows_with_writers.drop(ORIGIN)


_END = f"{ORIGIN}_end"
_TOLD = f"{_END} STRING, {TIME} BIGINT, {VERSION} BIGINT, {NOTE} STRING"


class _Search:
    """One search through the log of a table."""

    def __init__(self, warehouse: Warehouse, contents: LocatedContents) -> None:
        self._warehouse = warehouse
        self._table = contents.table
        self._item = contents.item
        self._bindings = (
            []
            if contents.item.is_output
            else warehouse.timeline.bindings_between(contents.item.id, -1, warehouse.timeline.now)
        )

    def with_commits(
        self,
        rows: DataFrame,
        names: Sequence[str],
        paths: Collection[str],
        version: int,
        copies: int,
    ) -> DataFrame:
        """Rows of some files that are live at a version, with the commits that wrote them."""
        origins = file_origins(self._table, paths, version)
        commits: dict[str, tuple[int | None, int | None, str | None]] = {}
        paths_by_version: dict[int, list[str]] = {}
        for path, origin in origins.items():
            if origin is not None and self._may_be_copied(origin):
                paths_by_version.setdefault(origin.version, []).append(path)
            else:
                commits[path] = self._commit_of(origin)
        older: list[DataFrame] = []
        for at, among in paths_by_version.items():
            reason = self._why_lost(at, among, origins, copies)
            if reason is not None:
                commits.update(dict.fromkeys(among, (None, None, reason)))
                continue
            older.append(self._before(rows, names, among, origins, at, copies))
        return reduce(DataFrame.unionByName, [self._join_commits(rows, commits, paths), *older])

    def _join_commits(
        self,
        rows: DataFrame,
        commits: Mapping[str, tuple[int | None, int | None, str | None]],
        among: Collection[str],
    ) -> DataFrame:
        """Join the rows of some files with the records about these files.

        ``among``: the files that rows may be in. They are joined by as many last parts of their
        paths as distinguish them, because other writers may repeat names.
        """
        full = {path: f"{self._table.location}/{path}".split("/") for path in among}
        depth = 1
        while len({tuple(parts[-depth:]) for parts in full.values()}) < len(full):
            depth += 1
        entries = [("/".join(full[path][-depth:]), *what) for path, what in commits.items()]
        commit_rows = self._table.gateway.rows_of(entries, _TOLD).frame
        end = F.substring_index(F.col(ORIGIN), "/", -depth)
        return rows.join(F.broadcast(commit_rows), end == F.col(_END)).drop(_END)

    def _may_be_copied(self, origin: FileOrigin) -> bool:
        # A commit in memory never copies rows.
        return bool(origin.copied_from) and self._table.is_stored(origin.version)

    def _commit_of(self, origin: FileOrigin | None) -> tuple[int | None, int | None, str | None]:
        if origin is None:
            return None, None, "the log no longer has the commit"
        at = origin.time if origin.time is not None else self._time(origin.version)
        note = None
        if at is None:
            at, note = self._first_time()
            note = note or "written by another program"
        return at, origin.version, note

    def _time(self, version: int) -> int | None:
        """The T of a commit; None if it has none."""
        if self._item.is_output:
            upper = self._table.commit_at(version).transaction(self._item.app)
            return None if upper is None else upper - 1
        below = -1
        for binding in self._bindings:
            if below < version <= binding.version:
                is_first = below == -1 and version < binding.version
                return None if is_first else binding.time
            below = binding.version
        return None

    def _first_time(self) -> tuple[int | None, str | None]:
        """The table's first T, for commits made before the table had Ts."""
        if self._item.is_output or not self._bindings:
            return None, None
        return self._bindings[0].time, "before the table was known"

    def _why_lost(
        self,
        version: int,
        among: Sequence[str],
        origins: Mapping[str, FileOrigin | None],
        copies: int,
    ) -> str | None:
        """Why the origin of rows that a commit copied is unknown; None if it can be found."""
        if copies == 0:
            return f"copied more than {COPIES_MAX} times since; not after version {version}"
        origin = origins[among[0]]
        assert origin is not None  # it is one of the copied files
        there: Mapping[str, DataFile] = {}
        with suppress_conditions("HISTORY_LOST"):
            files = self._table.files(version - 1)
            if not self._table.versions.read_alike(version - 1, version):
                return f"the columns changed; not after version {version}"
            there = files
        # Commits in a read-only engine's memory have no files.
        table = self._warehouse.gateway.table(self._table.location)
        paths = origin.copied_from
        if any(path not in there for path in paths) or table.missing(map(unquote, paths)):
            return f"what version {version} was copied from is removed; not after it"
        return None

    def _before(
        self,
        rows: DataFrame,
        names: Sequence[str],
        among: Sequence[str],
        origins: Mapping[str, FileOrigin | None],
        version: int,
        copies: int,
    ) -> DataFrame:
        """Rows of files into which a commit copied rows, with the commits that wrote them."""
        origin = origins[among[0]]
        assert origin is not None
        files = self._table.files(version - 1)
        old = locate_in(self._table, [files[p] for p in origin.copied_from], version - 1)
        old = self._warehouse.versions.as_now(self._item, old, version - 1)
        mine = self._join_commits(rows, dict.fromkeys(among, (None, None, None)), origins)
        mine = mine.drop(*WRITTEN)
        keys = [c for c in names if c in old.columns]
        numbered_rows = _number(mine, keys)
        earlier = _number(old.withColumn(ORIGIN, F.col(FILE_COLUMN)), keys)
        columns = [F.col(f"a.{backtick(c)}") for c in [*names, FILE_COLUMN, ROW_COLUMN]]
        pairs = _pair(numbered_rows.drop(ORIGIN), earlier, "left", ORIGIN)
        both = pairs.select(*columns, F.col(f"b.{ORIGIN}"))
        fresh = both.where(F.col(ORIGIN).isNull())
        at, commit, note = self._commit_of(FileOrigin(version, origin.time))
        new = _with(fresh, at, commit, note)
        again = both.where(F.col(ORIGIN).isNotNull())
        return new.unionByName(
            self.with_commits(again, names, origin.copied_from, version - 1, copies - 1)
        )


def _with(rows: DataFrame, at: int | None, version: int | None, note: str | None) -> DataFrame:
    return rows.select(
        "*",
        F.lit(at).cast("bigint").alias(TIME),
        F.lit(version).cast("bigint").alias(VERSION),
        F.lit(note).cast("string").alias(NOTE),
    )


def _number(rows: DataFrame, columns: list[str]) -> DataFrame:
    """Add to rows their key of equality, and each row's number among equal rows."""
    keys = equality_keys(rows, columns)
    keyed_rows = rows.select("*", *keys)
    helper_columns = [backtick(c) for c in keyed_rows.columns if c.startswith((GROUP_, TEXT_))]
    order = Window.partitionBy(*helper_columns).orderBy(FILE_COLUMN, ROW_COLUMN)
    return keyed_rows.withColumn(NUMBER, F.row_number().over(order))


def _pair(left: DataFrame, right: DataFrame, how: str, *columns: str) -> DataFrame:
    """Join numbered rows ``a`` with equal rows ``b``, keeping some columns of ``b``."""
    on = [c for c in right.columns if c.startswith((GROUP_, TEXT_, NUMBER))]
    same = reduce(and_, [F.col(f"a.{c}").eqNullSafe(F.col(f"b.{c}")) for c in on])
    return left.alias("a").join(right.select(*on, *columns).alias("b"), same, how)
