"""The rows of a table's versions, and the rows that commits change, read by Spark.

Each read names the version whose metadata defines how files are read
(:mod:`ctsql.runtime.log.table_metadata`).
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from ctsql.catalog.errors import Declined, not_supported
from ctsql.catalog.names import table_at
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.delta.deletion_vectors import Vectors
from ctsql.runtime.delta.internals.handle import DeltaHandle
from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.delta.log.reshaping import align
from ctsql.runtime.delta.log.table_log import TableLog
from ctsql.runtime.delta.stores.file_stores import FileStore, path_in_store, pattern_of
from ctsql.runtime.log.actions import DataFile, is_elsewhere, select_changed
from ctsql.runtime.log.table_changes import added_files
from ctsql.runtime.log.table_metadata import compare_columns, is_on
from ctsql.runtime.spark.failures.errors import translate_spark_errors

CHANGE_TYPE = "_change_type"
PLAIN_FILES_MAX = 32  # appended files up to which Parquet is read without Delta
ENABLE_VECTORS = "delta.enableDeletionVectors"


class DeltaRows(TableLog):
    """The rows of a table."""

    gateway: JvmObjects
    handle: DeltaHandle
    vectors: Vectors
    store: FileStore
    """The store of the table's files, for this process."""

    @cached_property
    def jpath(self) -> Any:
        """The folder, for Hadoop."""
        return self.gateway.path(self.location)

    @property
    def _fs(self) -> Any:
        return self.handle.file_system

    def snapshot_in_jvm(self, version: int) -> Any:
        """Delta's own snapshot of a version."""
        mark = self.log_files.mark(version)
        return self.handle.snapshot_at(version, None if mark is None else mark[0])

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files by path below the table; a missing one is no error."""
        with translate_spark_errors():
            for path in paths:
                self._fs.delete(self.gateway.path(self.jpath, path), False)

    def frame(self, version: int) -> DataFrame:
        """The rows at a version, lazily."""
        return self.frame_of(self.files(version).values(), version)

    def frame_of(self, files: Iterable[DataFile], version: int | None = None) -> DataFrame:
        """The rows of some files, lazily, by the metadata of a version; None for the newest."""
        as_of = self.update().version if version is None else self.versions.read_like(version)
        return self.handle.frame_of(self.snapshot_in_jvm(as_of), files)

    def locate_rows(self, version: int) -> DataFrame:
        """The rows at a version with their locations (``FILE_COLUMN``, ``ROW_COLUMN``)."""
        return locate_in(self, self.files(version).values(), version)

    def add_locations(self, rows: DataFrame) -> DataFrame:
        """Add their locations to rows read from files."""
        return rows.select(
            "*",
            F.col("_metadata.file_path").alias(FILE_COLUMN),
            F.col("_metadata.row_index").alias(ROW_COLUMN),
        )

    def is_stored(self, version: int) -> bool:
        """Whether all rows of a version are in committed files."""
        return True

    @property
    def schema(self) -> StructType:
        """The newest schema, as rows are read."""
        return self.schema_at(self.update().version)

    def schema_at(self, version: int) -> StructType:
        """The schema of a version, as rows are read."""
        schemas, layout = self.versions.schemas, self.metadata_at(version).layout
        if layout not in schemas:
            schemas[layout] = self.frame_of((), version).schema
        return schemas[layout]

    def added_rows(self, versions: Sequence[int], times: range | None = None) -> DataFrame:
        """The rows of the files added by commits that do nothing else.

        ``times``: the Ts of the last version that count, if several share it; None for all.
        """
        adds = list(added_files(self.commit_at, versions, times))
        paths, last = [a.path for a in adds], versions[-1]
        # Delta plans each scan with a query over the list of files: slow for a few small files.
        is_plain = 0 < len(paths) <= PLAIN_FILES_MAX and not any(a.deleted_count for a in adds)
        if is_plain and self._are_plain(paths, last):
            return self.plain_rows([f"{self.location}/{unquote(p)}" for p in paths], last)
        return self.frame_of(adds, last)

    def paths_in_store(
        self, files: Iterable[DataFile], version: int
    ) -> tuple[FileStore, list[str]] | Declined:
        """The paths for this process, with the store."""
        paths = [file.path for file in files]
        if not self._are_plain(paths, version):
            return Declined("Delta knows where columns are in files of this table")
        folder = path_in_store(self.location)
        return self.store, [f"{folder}/{unquote(p)}" for p in paths]

    def _are_plain(self, paths: Iterable[str], version: int) -> bool:
        """Whether the files are in the table's folder, with all columns under the table's names."""
        return self._has_plain_columns(version) and not any(map(is_elsewhere, paths))

    def _has_plain_columns(self, version: int) -> bool:
        metadata = self.metadata_at(version)
        return not metadata.maps_columns and not metadata.partition_columns

    def plain_rows(self, paths: Sequence[str], version: int) -> DataFrame:
        """The rows of files, read as plain Parquet."""
        schema = self.schema_at(version)
        return self.gateway.session.read.schema(schema).parquet(*map(pattern_of, paths))

    def change_rows(self, first: int, last: int) -> DataFrame:
        """Rows changed by the commits first..last, both inclusive, with ``_change_type``.

        Whole rewritten files are compared if there is no change feed, the commits change how files
        are read, or a deletion vector is too long for a task. Equal rows may then be both deleted
        and inserted, so consolidate. All rows have the columns of the last version.
        """
        versions = range(first, last + 1)
        coarse = not all(
            self._has_feed(v) and self._are_vectors_distinct(v, coarse=False) for v in versions
        )
        is_alike = self.versions.read_alike(max(first - 1, 0), last)
        is_distinct = not coarse or all(
            self._are_vectors_distinct(v, coarse=True) for v in versions
        )
        if not is_alike or not is_distinct:
            return self._difference(first - 1, last)
        snapshot = self.snapshot_in_jvm(self.versions.read_like(last))
        return self.handle.change_feed(first, last, snapshot, coarse=coarse)

    def _has_feed(self, version: int) -> bool:
        """Whether the change feed has a commit's changed rows, and not only whole files."""
        configuration = self.metadata_at(version).configuration
        is_kept = bool(is_on(configuration, "delta.enableChangeDataFeed"))
        return is_kept or bool(self.commit_at(version).change_paths)

    def _are_vectors_distinct(self, version: int, *, coarse: bool) -> bool:
        """Whether the vectors of a commit's deleted rows are short enough for tasks.

        With ``coarse`` Delta computes vectors only of files that had one before.
        """
        commit = self.commit_at(version)
        if commit.change_paths and not coarse:
            return True
        removes = {file.path: file for file in commit.removes if file.data_change}
        both = [(removes[a.path], a) for a in commit.adds if a.data_change and a.path in removes]
        return all(
            self.vectors.distinguish(before, after)
            for before, after in both
            if not coarse or (before.vector_id and after.vector_id)
        )

    def _difference(self, before: int, after: int) -> DataFrame:
        """The rows of files that differ between two versions, each read by its own metadata."""
        old_files = {} if before < 0 else dict(self.files(before))
        rows = self.come_rows(before, after).withColumn(CHANGE_TYPE, F.lit("insert"))
        if old_files:
            old, new = self.metadata_at(before), self.metadata_at(after)
            if not compare_columns(old, new).changes_rows:
                old_files = select_changed(old_files, self.files(after))
            old_rows = align(
                self.frame_of(old_files.values(), before), old, new, self.schema_at(after)
            )
            rows = rows.unionByName(old_rows.withColumn(CHANGE_TYPE, F.lit("delete")))
        return rows.withColumn("_commit_version", F.lit(after).cast("bigint"))

    def come_rows(self, before: int, after: int) -> DataFrame:
        """The inserted rows of :meth:`change_rows` over a change of columns."""
        new_files = self.files(after)
        if before >= 0:
            old, new = self.metadata_at(before), self.metadata_at(after)
            if not compare_columns(old, new).changes_rows:
                new_files = select_changed(new_files, self.files(before))
        return self.frame_of(new_files.values(), after)


def has_no_vectors(table: DeltaRows) -> bool:
    """Whether a table's properties switch deletion vectors off."""
    return is_on(table.metadata.configuration, ENABLE_VECTORS) is False


def locate_in(table: DeltaRows, files: Iterable[DataFile], version: int) -> DataFrame:
    """The rows of some files at a version with their locations.

    Delta numbers rows only if vectors may delete them; other files are read as plain ones.

    Raises NOT_SUPPORTED if Delta does not number them, and only Delta reads their columns.
    """
    file_list = list(files)
    paths = [file.path for file in file_list]
    if paths and not _may_have_vectors(table, file_list, version):
        if table._has_plain_columns(version):
            root = f"{table.location}/"
            full = [("" if is_elsewhere(path) else root) + unquote(path) for path in paths]
            return table.add_locations(table.plain_rows(full, version))
        if not table.has_feature("deletionVectors"):
            why = f"The table at {table.location} has partitions or mapped columns, and no "
            why += "deletion vectors, so that Delta does not number its rows."
            hint = f"Type in Spark: ALTER TABLE {table_at(table.location)} SET TBLPROPERTIES "
            hint += f"('{ENABLE_VECTORS}' = 'true')"
            raise not_supported(None, "to distinguish the rows of this table", why=why, hint=hint)
    rows = table.frame_of(file_list, version)
    if paths:
        return table.add_locations(rows)
    nowhere = (F.lit("").alias(FILE_COLUMN), F.lit(0).cast("bigint").alias(ROW_COLUMN))
    return rows.select("*", *nowhere)


def _may_have_vectors(table: DeltaRows, files: Iterable[DataFile], version: int) -> bool:
    """Whether rows of some files may be deleted by vectors at a version."""
    says = is_on(table.metadata_at(version).configuration, ENABLE_VECTORS)
    return bool(says) or any(file.vector_id for file in files)
