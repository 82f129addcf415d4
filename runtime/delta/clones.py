"""The rows that an open transaction's statements wrote, before its commit.

Rows that a transaction only appends are staged as files of the table. For other statements the
table is copied: a shallow clone in a folder below the table's, so the table can take over its
files.

Source: the Delta protocol, "Add File and Remove File", "Row Tracking", "Deletion Vectors": a
    vector's file is named by an optional folder and an id of 20 characters in base 85.
"""

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import Declined, error
from ctsql.catalog.names import backtick, fold, table_at
from ctsql.runtime.delta.table import DeltaTable, Gateway
from ctsql.runtime.delta.transaction import files_by_name, relative_path, whole_file
from ctsql.runtime.log.actions import DataFile, select_changed
from ctsql.runtime.log.batches import StagedDelete, StagedFile
from ctsql.runtime.rows.row_set import LocalRows, SparkRows
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.plans import are_constants

_PLAIN = ("comment", "delta.columnMapping.")
"""Prefixes of column metadata that do not affect how values are written."""


class Appends:
    """Rows appended to the version ``version`` of a table."""

    def __init__(self, table: DeltaTable, version: int) -> None:
        self.origin = table
        self.version = version
        self.files: list[StagedFile] = []

    def frame(self) -> DataFrame:
        """The table's rows as of the version and the appended ones, lazily."""
        new_files = [DataFile(file.action) for file in self.files]
        files = self.origin.files(self.version).values()
        return self.origin.frame_of([*files, *new_files], self.version)

    def stage(self, appended: DataFrame | Declined) -> int | Declined:
        """Write appended rows into files; returns their number."""
        rows = complete(self.origin, self.version, appended)
        if isinstance(rows, Declined):
            return rows
        few = constants(rows)
        files = self.origin.begin().stage(rows if isinstance(few, Declined) else few)
        self.files += files
        return sum(DataFile(file.action).rows_count or 0 for file in files)

    def changes(self) -> tuple[tuple[StagedFile, ...], tuple[StagedDelete, ...]]:
        """The inserted and deleted rows, as files for the table."""
        return tuple(self.files), ()

    def drop(self) -> None:
        """Delete the files."""
        self.origin.discard(unquote(file.path) for file in self.files)
        self.files.clear()

    def release(self) -> None:
        """The table has the files now."""
        self.files.clear()


def complete(table: DeltaTable, version: int, rows: DataFrame | Declined) -> DataFrame | Declined:
    """Add the missing columns of a table's version as NULL, in order.

    Declined if Delta computes columns, or the table's columns have changed since.
    """
    if isinstance(rows, Declined):
        return rows
    metadata = table.metadata_at(version)
    if metadata.layout != table.metadata.layout:
        return Declined("the table has other columns now")
    fields = [column.field for column in metadata.columns.values()]
    if not all(key.startswith(_PLAIN) for field in fields for key in field["metadata"]):
        return Declined("columns are computed, padded or counted")
    fields_by_name = {fold(field.name): field for field in rows.schema}
    columns = []
    for field in table.schema_at(version):
        match = fields_by_name.pop(fold(field.name), None)
        kind = field.dataType
        if match is not None and match.dataType.simpleString() != kind.simpleString():
            return Declined("values have other types")
        value = F.lit(None).cast(kind) if match is None else F.col(backtick(match.name))
        columns.append(value.alias(field.name))
    if fields_by_name:
        return Declined("it adds columns")
    return rows.select(*columns)


def constants(rows: DataFrame) -> LocalRows | Declined:
    """The rows of constants in a statement's text, if they are few."""
    return SparkRows(rows).collect() if are_constants(rows) else Declined("not in the text")


FOLDER = "txn-"
_OF_COPY = re.compile(FOLDER + "(?:alter-)?[0-9a-f]{32}", re.ASCII)
_ID_LENGTH = 20
_GIVEN_BY_COPY = ("baseRowId", "defaultRowCommitVersion")
"""Row tracking fields that the copy assigned; the table assigns its own."""


def is_of_copy(folder: str) -> bool:
    """Whether a folder in a table's folder is a copy of it, or has files of one, by its name.

    >>> [is_of_copy(name) for name in ("txn-" + 32 * "a", "txn-alter-" + 32 * "0", "txn-1")]
    [True, True, False]
    """
    return _OF_COPY.fullmatch(folder) is not None


class Clone:
    """A copy of the version ``version`` of a table."""

    def __init__(self, gateway: Gateway, table: DeltaTable, version: int, group: str) -> None:
        """Make the copy, in a folder named after ``group``."""
        self._files_by_path: dict[str, StagedFile] = {}
        self.gateway = gateway
        self.origin = table
        self.version = version
        self.folder = f"{FOLDER}{group}"
        self.location = f"{table.location}/{self.folder}"
        with translate_spark_errors():
            # A folder with a log is a table, not a partition of the one around it.
            path = gateway.path(f"{self.location}/_delta_log")
            path.getFileSystem(table.handle.hadoop).mkdirs(path)
            gateway.session.sql(
                f"CREATE TABLE {table_at(self.location)} SHALLOW CLONE {table_at(table.location)} "
                f"VERSION AS OF {version} "
                "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')"
            )

    def frame(self) -> DataFrame:
        """The rows after the newest statement, lazily."""
        mine = self.gateway.table(self.location)
        return mine.frame(mine.version())

    def take(self, files: Sequence[StagedFile]) -> None:
        """Add files that were staged for the copied table."""
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

    def drop(self) -> None:
        """Delete it with all files of the statements."""
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
        """The inserted and deleted rows, as files for the table; NOT_SUPPORTED for more."""
        mine = self.gateway.table(self.location)
        newest = mine.version()
        if any(mine.commit_at(v).changes_schema for v in range(1, newest + 1)):
            what = "a transaction that changes a table's columns or properties"
            why = "An identity column, for example, changes its counter with every row."
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
        """The vector with the copy's folder before the id of its file."""
        if vector["storageType"] != "u":
            return vector
        path = vector["pathOrInlineDv"]
        folder = "/".join(p for p in (self.folder, path[:-_ID_LENGTH]) if p)
        return {**vector, "pathOrInlineDv": folder + path[-_ID_LENGTH:]}

    def _vector_file(self, file: DataFile) -> str | None:
        if file.vector is None or file.vector["storageType"] != "u":
            return None
        mine = self.gateway.table(self.location)
        place = self.gateway.vector_path(file, mine.jpath)
        assert place is not None  # it is not in the log
        path = str(place.toString())
        return f"{self.folder}/{relative_path(path, self.location)}"
