"""One optimistic transaction on a Delta table.

Source: the Delta protocol, "Deletion Vectors", "Transaction Identifiers", "Domain Metadata".
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import Declined
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.delta.deletion_vectors import VectorFile, vector_file
from ctsql.runtime.delta.internals.handle import DeltaTransaction
from ctsql.runtime.delta.parquet.parquet_writer import has_forbidden_null, is_plain, write
from ctsql.runtime.delta.stores.file_stores import path_in_store
from ctsql.runtime.delta.stores.locks import commit_lock, split_location
from ctsql.runtime.delta.table_rows import DeltaRows, has_no_vectors, locate_in
from ctsql.runtime.log import clock
from ctsql.runtime.log.actions import DataFile, is_elsewhere, select_changed
from ctsql.runtime.log.batches import StagedDelete, StagedFile
from ctsql.runtime.log.protocol import Conflict, RowsGone
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.rows.collect import unadaptive
from ctsql.runtime.rows.row_set import LocalRows, RowSet, row_set
from ctsql.runtime.spark.failures.errors import conflict_errors, translate_spark_errors
from ctsql.runtime.spark.failures.storage_errors import translate_os_errors


class OptimisticTransaction(DeltaTransaction):
    """One optimistic Delta transaction: it becomes one commit, or nothing."""

    def __init__(self, table: DeltaRows, started: Any) -> None:
        super().__init__(table.gateway, started)
        self.table = table
        self.gateway = table.gateway

    @cached_property
    def metadata(self) -> TableMetadata:
        """The table's metadata."""
        return self.table.metadata_at(self.version_read)

    def stage(self, rows: RowSet | DataFrame) -> list[StagedFile]:
        """Write rows into invisible files of the table's folder; none without rows."""
        rows_to_stage = row_set(rows)
        local = rows_to_stage.local
        if not isinstance(local, Declined):
            if local.is_empty:
                return []
            file = self.stage_local(local)
            if not isinstance(file, Declined):
                return [file]
            with unadaptive(rows_to_stage.session):
                return self._write_by_spark(rows_to_stage.frame)
        return self._write_by_spark(rows_to_stage.frame)

    def _write_by_spark(self, rows: DataFrame) -> list[StagedFile]:
        with translate_spark_errors():
            return self.write(rows)

    def stage_local(self, rows: LocalRows) -> StagedFile | Declined:
        """Write few rows into a file without Spark; declined if Delta has to write them."""
        if not is_plain(self.metadata, rows.schema):
            return Declined("Delta writes such columns in a way of its own")
        if has_forbidden_null(self.metadata, rows.arrow):
            return Declined("a NULL is not allowed, and Delta has the error")
        folder, spark = path_in_store(self.table.location), self.gateway.session.version
        with translate_os_errors(self.table.location):
            return write(rows.arrow, rows.schema, self.table.store, folder, spark)

    def add_files(self, files: Iterable[StagedFile]) -> None:
        """Add staged files."""
        for file in files:
            self.add_action(file.action)

    def stage_deletes(
        self, victims: Iterable[tuple[str, Collection[int]]]
    ) -> tuple[list[StagedDelete], list[StagedFile]]:
        """Stage deletions of rows of the version read, as vectors in one new file.

        In a table without vectors: removed files, and new files with the remaining rows.
        """
        if has_no_vectors(self.table):
            return self._stage_without(victims)
        by_name = files_by_name(self.table, self.version_read)
        deletes = []
        with translate_spark_errors(), self._vector_file() as vectors:
            for path, rows in victims:
                file = by_name[relative_path(path, self.table.location)]
                deleted_rows = self.table.vectors.deleted_rows(file) | BitMap64(rows)
                deletes.append(
                    _without(vectors, file, deleted_rows, len(deleted_rows) - file.deleted_count)
                )
        return deletes, []

    def _stage_without(
        self, victims: Iterable[tuple[str, Collection[int]]]
    ) -> tuple[list[StagedDelete], list[StagedFile]]:
        by_name = files_by_name(self.table, self.version_read)
        deletes, partial_files = [], []
        names: list[str] = []
        numbers: list[int] = []
        for path, rows in victims:
            file = by_name[relative_path(path, self.table.location)]
            deletes.append(replace(whole_file(file), rows_count=len(rows)))
            if file.rows_count != len(rows):
                partial_files.append(file)
                names += [path.rpartition("/")[2]] * len(rows)
                numbers += rows
        if not partial_files:
            return deletes, []
        with translate_spark_errors():
            locations = locate_in(self.table, partial_files, self.version_read)
            # By file name: the driver has the log's paths, Spark has full ones.
            name = F.substring_index(FILE_COLUMN, "/", -1)
            locations = locations.withColumn(FILE_COLUMN, name)
            places = pa.table({FILE_COLUMN: names, ROW_COLUMN: pa.array(numbers, pa.int64())})
            places_frame = self.gateway.session.createDataFrame(places)
            on = [FILE_COLUMN, ROW_COLUMN]
            return deletes, self.stage(
                locations.join(F.broadcast(places_frame), on, "left_anti").drop(*on)
            )

    def delete(self, deletions: Iterable[StagedDelete]) -> set[str]:
        """Add staged deletions; see :meth:`LogTransaction.delete`."""
        by_file: dict[str, list[StagedDelete]] = {}
        for one in deletions:
            by_file.setdefault(one.path, []).append(one)
        live = self.table.files(self.version_read)
        now_ms = clock.now_ms()
        used: set[str] = set()
        read: list[Any] = []
        with translate_spark_errors(), self._vector_file() as vectors:
            for path, deletes in by_file.items():
                file = live.get(path)
                if file is None:
                    raise RowsGone(path)
                if len(deletes) > 1 or deletes[0].known_vector != file.vector_id:
                    deletes = [self._join(vectors, file, deletes)]
                (one,) = deletes
                if one.vector_file is not None:
                    used.add(one.vector_file)
                read.append(self.remove(file, now_ms))
                if one.action is not None:
                    self.add_action(one.action)
            self.depend_on_files(read)
        return used

    def _vector_file(self) -> AbstractContextManager[VectorFile]:
        return vector_file(self.table.vectors, self.table.discard)

    def _join(
        self, vectors: VectorFile, file: DataFile, deletes: Sequence[StagedDelete]
    ) -> StagedDelete:
        """Join deletions of a file that were staged separately or against an older vector."""
        bitmap = self.table.vectors.deleted_rows(file)
        rows_count = sum(one.rows_count for one in deletes)
        count = len(bitmap) + rows_count
        for one in deletes:
            if one.action is None:
                raise RowsGone(one.path)  # it deletes all remaining rows, and some are gone
            bitmap = bitmap | self.table.vectors.deleted_rows(DataFile(one.action))
        if len(bitmap) != count:
            raise RowsGone(file.path)
        return _without(vectors, file, bitmap, rows_count)

    def set_columns(self, schema: str) -> None:
        """Replace the columns by those of Delta's JSON text, for rows staged later.

        Raises the error of columns that Delta refuses.
        """
        with translate_spark_errors():
            action = self.metadata_action()
            action["metaData"]["schemaString"] = schema
            # Delta enables the features that types need only for new tables.
            for feature in self.features_of(action):
                action["metaData"]["configuration"][f"delta.feature.{feature}"] = "supported"
            self.set_metadata(action)
            self.metadata = TableMetadata(action["metaData"])

    def overwrite_with_schema(self, schema: str) -> None:
        """Replace the table's columns and delete all its rows; depends on every row."""
        self.set_columns(schema)
        self.depend_on_all()
        now_ms = clock.now_ms()
        for file in self.table.files(self.version_read).values():
            self.remove(file, now_ms)

    def revert(self, version: int) -> None:
        """Add the reverse of a version; raises RowsGone, with no file made, if files changed."""
        before, after = self.table.files(version - 1), self.table.files(version)
        live = self.table.files(self.version_read)
        changed_files = select_changed(after, before)
        if gone := select_changed(changed_files, live):
            raise RowsGone(min(gone))
        self.delete(whole_file(file) for file in changed_files.values())
        for path, old in select_changed(before, after).items():
            action = {**old.action, "dataChange": True}
            self.add_files([StagedFile(path, json.dumps({"add": action}))])

    def commit(self, *, label: str, epoch: int, metadata: str) -> int:
        """Commit; see :meth:`LogTransaction.commit`."""
        return self._end_with(self.gateway.output_operation(label, epoch, metadata))

    def commit_statement(self, operation: Any, counts: Mapping[str, int]) -> int:
        """Commit a statement as an operation of Delta, with counts for its history."""
        self.set_counts(counts)
        return self._end_with(operation)

    def _end_with(self, operation: Any) -> int:
        with commit_lock(self.table.location), translate_spark_errors():
            try:
                return self.commit_as(operation)
            except conflict_errors() as conflict:
                raise Conflict(type(conflict).__name__) from conflict

    def rewrite(self, files: Sequence[DataFile], rows: LocalRows | Declined) -> list[StagedFile]:
        """Rewrite the live rows of some files of one partition as one new file; no row changes.

        It fails if another commit first removes one of the files, not if it only adds files.
        ``rows``: these rows, if they were read.
        """
        file = rows if isinstance(rows, Declined) else self.stage_local(rows)
        if isinstance(file, Declined):
            with translate_spark_errors():
                live_rows = self.table.handle.frame_of(self.snapshot(), files, "Optimize")
                new_files = self.write_compact(live_rows)
        else:
            new_files = [file]
        staged_files = [StagedFile(one.path, _unchanging(one.action)) for one in new_files]
        self.add_files(staged_files)
        self.replace(files, clock.now_ms())
        return staged_files

    def commit_rewrites(self) -> int:
        """Commit the files of :meth:`rewrite`, as OPTIMIZE would; raises Conflict."""
        return self._end_with(self.gateway.optimize_operation())


def whole_file(file: DataFile) -> StagedDelete:
    """The deletion of all rows that a stored file still holds."""
    return StagedDelete(
        path=file.path,
        rows_count=file.rows_count or 0,
        known_vector=file.vector_id,
        action=None,
        vector_file=None,
    )


def _without(
    vectors: VectorFile, file: DataFile, deleted_rows: BitMap64, rows_count: int
) -> StagedDelete:
    """The deletion after which a file has these deleted rows, ``rows_count`` of them new."""
    is_empty = file.records_count == len(deleted_rows)
    return StagedDelete(
        path=file.path,
        rows_count=rows_count,
        known_vector=file.vector_id,
        action=None if is_empty else vectors.write(file, deleted_rows).line,
        vector_file=None if is_empty else vectors.name,
    )


def _unchanging(add: str) -> str:
    action = json.loads(add)
    action["add"]["dataChange"] = False
    return json.dumps(action)


def files_by_name(table: DeltaRows, version: int) -> dict[str, DataFile]:
    """The live files at a version, by :func:`relative_path`."""
    return {relative_path(p, table.location): file for p, file in table.files(version).items()}


def relative_path(path: str, location: str) -> str:
    """A data file's decoded path relative to its table, from a relative path or a URI.

    Outside the table's folder it is the whole path.

    >>> relative_path("p=a%20b/f", "file:/x/t"), relative_path("file:///x/t/p=a%20b/f", "file:/x/t")
    ('p=a b/f', 'p=a b/f')
    >>> relative_path("file:/x/t_2/f", "file:/x/t"), relative_path("file:/x/t%2523/f", "/x/t%23")
    ('/x/t_2/f', 'f')
    """
    if not is_elsewhere(path):
        return unquote(path)
    return unquote(urlparse(path).path).removeprefix(split_location(location)[1].rstrip("/") + "/")
