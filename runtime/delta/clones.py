"""Private copies of Delta tables, for the statements of an open transaction.

A copy is a shallow clone in a folder below its table's, so the table can take over files that a
statement wrote there.

A copy may number its rows, by Delta's row tracking: then a row that UPDATE or MERGE changes keeps
its number, and a row that is only written anew beside it keeps the version in which it came. So it
can be told which row of the table a new one replaces. The table does not see these numbers: they
are columns of its files that it has no name for.

Source: the Delta protocol, "Add File and Remove File", "Row Tracking", "Deletion Vectors": a
vector's file is named by an optional folder and an id of 20 characters in base 85.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import LongType, StructField, StructType

from ctsql.catalog.errors import error
from ctsql.catalog.names import backtick_all, table_at
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN, ROW_ID, VERSION
from ctsql.runtime.delta.local_scan import row_locations
from ctsql.runtime.delta.table import DeltaTable, Gateway
from ctsql.runtime.delta.table_rows import locate_in
from ctsql.runtime.delta.transaction import files_by_name, relative_path, whole_file
from ctsql.runtime.log.batches import StagedDelete, StagedFile
from ctsql.runtime.log.data_files import DataFile, select_changed
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows, row_set
from ctsql.runtime.spark.errors import translate_spark_errors

FOLDER = "txn-"
_OF_COPY = re.compile(FOLDER + "(?:alter-)?[0-9a-f]{32}", re.ASCII)
_ID_LENGTH = 20
_GIVEN_BY_COPY = ("baseRowId", "defaultRowCommitVersion")
"""Row tracking fields of a new file in the copy; the table assigns its own."""
_NUMBERS = "delta.enableRowTracking"
"""The table property by which rows keep their numbers."""
_NUMBERED, _LAST_NUMBER = "delta.rowTracking", "rowIdHighWaterMark"
"""The domain metadata that says which numbers are taken."""
_NUMBERED_PLACE = (FILE_COLUMN, ROW_COLUMN, ROW_ID)


def is_of_copy(folder: str) -> bool:
    """Whether a folder in that of a table has, by its name, a copy of it, or files of one.

    >>> [is_of_copy(name) for name in ("txn-" + 32 * "a", "txn-alter-" + 32 * "0", "txn-1")]
    [True, True, False]
    """
    return _OF_COPY.fullmatch(folder) is not None


class Clone:
    """The copy of the version ``version`` of a table."""

    def __init__(
        self,
        gateway: Gateway,
        table: DeltaTable,
        version: int,
        group: str,
        *,
        numbers_rows: bool = False,
    ) -> None:
        """Make the copy, in a folder named after ``group``."""
        self._files_by_path: dict[str, StagedFile] = {}
        self.numbers_rows = numbers_rows
        self.gateway = gateway
        self.origin = table
        self.version = version
        self.folder = f"{FOLDER}{group}"
        self.location = f"{table.location}/{self.folder}"
        with translate_spark_errors():
            # A folder with a log is a table, not a partition of the one around it.
            path = gateway.path(f"{self.location}/_delta_log")
            path.getFileSystem(table.log.newDeltaHadoopConf()).mkdirs(path)
            gateway.session.sql(
                f"CREATE TABLE {table_at(self.location)} SHALLOW CLONE {table_at(table.location)} "
                f"VERSION AS OF {version} "
                "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false'"
                + (f", '{_NUMBERS}' = 'true')" if numbers_rows else ")")
            )
        self._number_count = self._count_numbered() if numbers_rows else 0

    def _count_numbered(self) -> int:
        """How many numbers the rows of its table have taken; those of other rows are larger."""
        _, domains = self.gateway.table(self.location).domains()
        configuration = json.loads(domains.get(_NUMBERED, "{}"))
        return int(configuration.get(_LAST_NUMBER, -1)) + 1

    def frame(self) -> DataFrame:
        """The rows after the newest statement, lazily."""
        mine = self.gateway.table(self.location)
        return mine.frame(mine.version())

    def take(self, files: Sequence[StagedFile]) -> None:
        """Add files that are staged for its table."""
        root = self.origin.jpath.toUri().toString()
        actions = {}
        for file in files:
            action = json.loads(file.action)["add"]
            action["path"] = f"{root}/{file.path}"
            actions[action["path"]] = json.dumps({"add": action})
        txn = self.gateway.table(self.location).begin()
        txn.add_files(StagedFile(path, action) for path, action in actions.items())
        txn.commit(label=self.folder, epoch=0, metadata="{}")
        self._files_by_path = dict(zip(actions, files, strict=True))

    def victims(self) -> RowSet | DataFrame | None:
        """The places in its table of the rows that statements took away; None for none.

        With ``ROW_ID`` if rows are numbered.
        """
        _, deletes = self.changes()
        if not deletes:
            return None
        files = self.origin.files(self.version)
        if self.numbers_rows:
            return self._numbered_victims(deletes)
        if self._are_few(deletes, files):
            places = [(one.path, self._deleted_numbers(files[one.path], one)) for one in deletes]
            return row_locations(self.gateway.session, places)
        whole = _places(self.origin, [files[one.path] for one in deletes], self.version)
        files_after = [DataFile(one.action) for one in deletes if one.action is not None]
        if not files_after:
            return whole
        stay = _places(self.origin, files_after, self.version)
        return whole.join(stay, whole.columns, "left_anti")

    def _numbered_victims(self, deletes: Sequence[StagedDelete]) -> RowSet:
        mine, files = self.gateway.table(self.location), self.origin.files(self.version)
        victims: RowSet
        if self._are_few(deletes, files):
            places = [(one.path, self._deleted_numbers(files[one.path], one)) for one in deletes]
            victims = self._with_numbers(row_locations(self.gateway.session, places), places)
        else:
            now = mine.files(mine.version())
            old_files = select_changed(mine.files(0), now)
            whole = self._rows(list(old_files.values()), 0).select(*_NUMBERED_PLACE)
            files_after = [now[path] for path in old_files if path in now]
            if files_after:
                stay = self._rows(files_after, mine.version()).select(ROW_ID)
                whole = whole.join(stay, ROW_ID, "left_anti")
            victims = SparkRows(whole)
        if all(one.action is not None for one in deletes):
            return victims
        # Files are gone as a whole: their rows may have been written anew beside changed ones.
        copies = SparkRows(self._own_rows().where(F.col(VERSION) == 0).select(ROW_ID))
        local_rows = copies.collect()
        return without_numbers(victims, copies if isinstance(local_rows, Declined) else local_rows)

    def _with_numbers(
        self, places: LocalRows, deleted_rows: Sequence[tuple[str, BitMap64]]
    ) -> LocalRows:
        """The places of some rows of its table with their numbers, which a file has in order."""
        mine = self.gateway.table(self.location)
        root = self.origin.location
        first = {relative_path(p, root): f.action["baseRowId"] for p, f in mine.files(0).items()}
        numbers = [
            first[relative_path(path, root)] + row for path, rows in deleted_rows for row in rows
        ]
        schema = StructType([*places.schema, StructField(ROW_ID, LongType())])
        return places.with_rows(
            schema, places.arrow.append_column(ROW_ID, pa.array(numbers, pa.int64()))
        )

    # ---- rows by their numbers

    def new_rows(self) -> DataFrame:
        """The rows that statements put there or changed, lazily, with ``ROW_ID``.

        That is the number of the row of the table that it was before; NULL for none.
        """
        number = F.when(F.col(ROW_ID) < self._number_count, F.col(ROW_ID)).alias(ROW_ID)
        rows = self._own_rows().where(F.col(VERSION) > 0)
        return rows.select(*backtick_all(self._names), number)

    def replaced_rows(self, numbers: DataFrame) -> DataFrame:
        """The rows of its table that statements took away, of some ``ROW_ID``, with it; lazily."""
        mine = self.gateway.table(self.location)
        old_files = select_changed(mine.files(0), mine.files(mine.version()))
        rows = self._rows(list(old_files.values()), 0).join(numbers, ROW_ID, "left_semi")
        return rows.select(*backtick_all(self._names), ROW_ID)

    @property
    def _names(self) -> list[str]:
        return list(self.origin.schema_at(self.version).names)

    def _own_rows(self) -> DataFrame:
        """The rows of the files that statements have written, numbered."""
        mine = self.gateway.table(self.location)
        newest, before = mine.version(), mine.files(0)
        return self._rows([f for p, f in mine.files(newest).items() if p not in before], newest)

    def _rows(self, files: Sequence[DataFile], version: int) -> DataFrame:
        """The rows of some files, numbered, with their places and the versions they came in."""
        rows = self.gateway.table(self.location).frame_of(files, version)
        with translate_spark_errors():
            return rows.select(
                "*",
                F.col("_metadata.row_id").alias(ROW_ID),
                F.col("_metadata.row_commit_version").alias(VERSION),
                F.substring_index("_metadata.file_path", "/", -1).alias(FILE_COLUMN),
                F.col("_metadata.row_index").alias(ROW_COLUMN),
            )

    def _are_few(self, deletes: Sequence[StagedDelete], files: Mapping[str, DataFile]) -> bool:
        """Whether the rows that go can be told from the logs, and are few.

        A file that another writer wrote without statistics does not say how many it had.
        """
        whole = (files[one.path] for one in deletes if one.action is None)
        is_told = all(file.records_count is not None for file in whole)
        return is_told and sum(one.rows_count for one in deletes) <= DRIVER_ROWS_MAX

    def _deleted_numbers(self, old: DataFile, now: StagedDelete) -> BitMap64:
        """The numbers of the rows of a file that go."""
        before = self.origin.vectors.deleted_rows(old)
        if now.action is None:
            assert old.records_count is not None  # else they are not told from the logs
            return BitMap64(range(old.records_count)) - before
        return self.origin.vectors.deleted_rows(DataFile(now.action)) - before

    def add(self, rows: RowSet | DataFrame) -> None:
        """Append rows, under the table's columns."""
        self._commit(rows, ())

    def put_instead(self, rows: RowSet | DataFrame, numbers: DataFrame | None = None) -> None:
        """Put rows in place of all that statements have inserted.

        Args:
            numbers: ``ROW_ID`` of rows of its table that are to be there again.
        """
        mine = self.gateway.table(self.location)
        before = mine.files(0)
        own = [f for path, f in mine.files(mine.version()).items() if path not in before]
        if self.numbers_rows:
            # Without vectors files are written anew together with rows that nobody has changed.
            names = backtick_all(self._names)
            copies = self._own_rows().where(F.col(VERSION) == 0).select(*names)
            rows = row_set(rows).frame.unionByName(copies)
            if numbers is not None:
                rows = rows.unionByName(self.replaced_rows(numbers).select(*names))
        self._commit(rows, own)

    def _commit(self, rows: RowSet | DataFrame, files_to_delete: Sequence[DataFile]) -> None:
        txn = self.gateway.table(self.location).begin()
        new_files = txn.stage(rows)
        txn.delete(map(whole_file, files_to_delete))
        txn.add_files(new_files)
        txn.commit(label=self.folder, epoch=0, metadata="{}")

    def drop(self) -> None:
        """Delete it with all files that statements wrote."""
        self.gateway.forget(self.location)
        self.gateway.delete_tree(self.location)
        self.origin.discard(unquote(file.path) for file in self._files_by_path.values())

    def release(self) -> None:
        """Delete it except for the files that its table took over."""
        mine = self.gateway.table(self.location)
        newest = mine.version()
        paths = {a.path for v in range(1, newest + 1) for a in mine.commit_at(v).adds}
        dead_paths = paths - mine.files(newest).keys() - mine.files(0).keys()
        mine.discard(map(unquote, dead_paths - self._files_by_path.keys()))
        self.origin.discard(
            unquote(self._files_by_path[path].path)
            for path in dead_paths & self._files_by_path.keys()
        )
        self.gateway.forget(self.location)
        for folder in ("_delta_log", "_change_data"):
            self.gateway.delete_tree(f"{self.location}/{folder}")

    def changes(self) -> tuple[tuple[StagedFile, ...], tuple[StagedDelete, ...]]:
        """What statements inserted and deleted, as files for the table; NOT_SUPPORTED for more."""
        mine = self.gateway.table(self.location)
        newest = mine.version()
        if any(mine.commit_at(v).changes_schema for v in range(1, newest + 1)):
            what = "a transaction that changes a table's columns or properties"
            why = "Identity columns count on with every row, for example."
            raise error("NOT_SUPPORTED", what=what, why=why, hint="Run the statement by itself.")
        before, after = mine.files(0), mine.files(newest)
        files = files_by_name(self.origin, self.version)
        inserts = [self._stage_insert(file) for path, file in after.items() if path not in before]
        deletes = [
            self._stage_delete(files[relative_path(path, self.origin.location)], after.get(path))
            for path in select_changed(before, after)
        ]
        return tuple(inserts), tuple(deletes)

    def _stage_insert(self, file: DataFile) -> StagedFile:
        action = {k: v for k, v in file.action.items() if k not in _GIVEN_BY_COPY}
        staged_file = self._files_by_path.get(file.path)
        path = f"{self.folder}/{file.path}" if staged_file is None else staged_file.path
        action |= {"path": path, "dataChange": True}
        if "deletionVector" in action:
            action["deletionVector"] = self._vector(action["deletionVector"])
        return StagedFile(action["path"], json.dumps({"add": action}))

    def _stage_delete(self, old: DataFile, now: DataFile | None) -> StagedDelete:
        if now is None:
            return whole_file(old)
        assert now.vector is not None  # the file is there with another vector
        action = {**old.action, "dataChange": True, "stats": now.statistics}
        action["deletionVector"] = self._vector(now.vector)
        return StagedDelete(
            path=old.path,
            rows_count=now.deleted_count - old.deleted_count,
            known_vector=old.vector_id,
            action=json.dumps({"add": action}),
            vector_file=self._vector_file(now),
        )

    def _vector(self, vector: dict[str, Any]) -> dict[str, Any]:
        """With the copy's folder before the id of the vector's file."""
        if vector["storageType"] != "u":
            return vector
        path = vector["pathOrInlineDv"]
        folder = "/".join(p for p in (self.folder, path[:-_ID_LENGTH]) if p)
        return {**vector, "pathOrInlineDv": folder + path[-_ID_LENGTH:]}

    def _vector_file(self, file: DataFile) -> str | None:
        vector = self.gateway.add_file(file).deletionVector()
        if vector.storageType() != "u":
            return None
        mine = self.gateway.table(self.location)
        path = str(vector.absolutePath(mine.jpath).toString())
        return f"{self.folder}/{relative_path(path, self.location)}"


def without_numbers(rows: RowSet, numbers: RowSet) -> RowSet:
    """Rows without those of some ``ROW_ID``."""
    local, local_numbers = rows.local, numbers.local
    if isinstance(local, Declined) or isinstance(local_numbers, Declined):
        return SparkRows(rows.frame.join(numbers.frame, ROW_ID, "left_anti"))
    away = set(local_numbers.arrow.column(ROW_ID).to_pylist())
    own = local.arrow.column(ROW_ID).to_pylist()
    return local.take([i for i, number in enumerate(own) if number not in away])


def _places(table: DeltaTable, files: Sequence[DataFile], version: int) -> DataFrame:
    """Where the rows of some files are, by names of files, as paths are spelled in two ways."""
    name = F.substring_index(FILE_COLUMN, "/", -1).alias(FILE_COLUMN)
    return locate_in(table, files, version).select(name, ROW_COLUMN)
