"""A Delta table, followed commit by commit through Delta's internal classes.

SQL has no compare-and-append and cannot delete k of n equal rows, and reading a table that has just
changed rebuilds its state in four to six Spark jobs. Here the log is read commit by commit, the
driver updates its list of live files, and a commit is one optimistic transaction.

[own-setting] ctsql disables ``delta.enableExpiredLogCleanup`` on followed tables, because Delta
    deletes old commits at a checkpoint, even unread ones. A user's setting is kept: a property
    marks what ctsql has set.

Classic PySpark only (Spark Connect has no JVM here). Tables with coordinated commits are refused:
their log files must not be read directly.
Source: the Delta protocol, "Delta Log Entries", "Deletion Vectors", "Transaction Identifiers",
"Domain Metadata", "In-Commit Timestamps", "Version Checksum File"; Delta's table properties.
"""

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import table_at
from ctsql.runtime.delta.deletion_vectors import Vectors
from ctsql.runtime.delta.internals.handle import DeltaHandle
from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.delta.log.log_files import LogFiles, Snapshot
from ctsql.runtime.delta.stores.connector_store import ConnectorStore, HadoopStore
from ctsql.runtime.delta.stores.file_stores import LOCAL, FileStore
from ctsql.runtime.delta.stores.locks import local_path
from ctsql.runtime.delta.stores.log_stores import LocalStore, LogStore
from ctsql.runtime.delta.table_rows import CHANGE_TYPE as CHANGE_TYPE, DeltaRows
from ctsql.runtime.delta.transaction import OptimisticTransaction
from ctsql.runtime.log.actions import sum_known
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.log.table_metadata import TableMetadata, is_on
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.spark.failures.errors import conflict_errors, translate_spark_errors
from ctsql.runtime.spark.failures.storage_errors import check_scheme, translate_os_errors
from ctsql.runtime.spark.internals.jobs import cancel_jobs

_CLEANUP = "delta.enableExpiredLogCleanup"
_MARK = "ctsql.keepsLog"
KEEPS_LOG = {_CLEANUP: "false"}  # properties of tables that only ctsql writes


def _change_properties(transaction: OptimisticTransaction, *, keeps: bool) -> None:
    with translate_spark_errors():
        action = transaction.metadata_action()
        others = action["metaData"]["configuration"].items()
        properties = {key: value for key, value in others if key not in (_CLEANUP, _MARK)}
        own = {**KEEPS_LOG, _MARK: "true"} if keeps else {}
        action["metaData"]["configuration"] = {**properties, **own}
        transaction.set_metadata(action)


FILES_COUNTED_MAX = 500
SMALL_CHECKPOINT_BYTES = 16 * 1024 * 1024
"""The largest checkpoint from which live files are counted without a checksum file."""
ENTRIES_MAX = 100


@dataclass(frozen=True, slots=True)
class FewChanged:
    """Few rows that some commits change."""

    inserts: LocalRows  # with multiplicity
    net: LocalRows | None  # each row once with ``DIFF``; None if they only insert


class Gateway(JvmObjects):
    """Handles on Delta's classes for one Spark session; makes :class:`DeltaTable` objects."""

    read_only = False

    def __init__(self, session: SparkSession) -> None:
        super().__init__(session)
        self.open_tables: dict[str, DeltaTable] = {}
        self._stores: dict[tuple[str, str], ConnectorStore] = {}
        self.recent_changes: OrderedDict[tuple[object, ...], FewChanged] = OrderedDict()
        """Few rows that a table's commits change, by log and change."""

    def table(self, location: str) -> "DeltaTable":
        """The table at a location; the same object for the same location."""
        table = self.open_tables.get(location)
        if table is None:
            table = self.open_tables[location] = DeltaTable(self, location)
        return table

    def output_table(self, location: str) -> "DeltaTable":
        """The table of an output or of the timeline."""
        return self.table(location)

    def forget(self, location: str) -> None:
        """Drop the caches of a deleted table."""
        table = self.open_tables.pop(location, None)
        if table is not None:
            with translate_spark_errors():
                self.forget_log(table.jpath)

    def qualify(self, location: str) -> str:
        """A location as a full URI; a relative one is relative to the working folder."""
        check_scheme(location)
        with translate_spark_errors():
            path, store = self._place(location)
            if store.getScheme() == "file" and not path.isAbsolute():
                path = self.path(os.path.abspath(location))
            scheme, colon, rest = str(store.makeQualified(path).toString()).partition(":")
            return f"{scheme.lower()}{colon}{rest}"

    def connector_store(self, location: str) -> ConnectorStore:
        """The store of a location, reached by Spark's connector."""
        uri = urlparse(location)
        store = self._stores.get(uri[:2])
        if store is None:
            with translate_spark_errors():
                _, files = self._place(location)
            store = self._stores[uri[:2]] = ConnectorStore(self.jvm, uri.scheme, files)
        return store

    def _place(self, location: str) -> tuple[Any, Any]:
        path = self.path(location)
        return path, path.getFileSystem(self.hadoop_settings())

    def rows_of(self, rows: Sequence[tuple[object, ...]], columns: str) -> LocalRows:
        """Some rows of Python values with these columns. Unlike PySpark's, they run no Python."""
        schema = StructType.fromDDL(columns)
        assert isinstance(schema, StructType)  # the text has columns
        values = [pa.array([row[n] for row in rows]) for n in range(len(schema.names))]
        return LocalRows(self.session, schema, pa.table(values, schema.names))

    def cancel(self, group: str) -> None:
        """Cancel the present and future jobs of a group."""
        with translate_spark_errors():
            cancel_jobs(self.session, group)

    def create_table(self, location: str, columns: str, properties: Mapping[str, str]) -> None:
        """Create a table of the engine's own, unless it exists or is being created concurrently."""
        properties = {**KEEPS_LOG, **properties}
        property_list = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        try:
            with translate_spark_errors():
                self.session.sql(
                    f"CREATE TABLE IF NOT EXISTS {table_at(location)} ({columns}) USING delta "
                    f"TBLPROPERTIES ({property_list})"
                )
        except conflict_errors():
            if not self.exists(location):
                raise

    def keep_log(self, location: str, *, keeps: bool) -> None:
        """Switch a log's cleanup off; or on again, if ctsql has switched it off [own-setting].

        The commit changes no row; it is retried after changes of the table's metadata.
        """
        table = self.table(location)
        while True:
            properties = table.configuration()
            if is_on(properties, _CLEANUP) is False if keeps else _MARK not in properties:
                return
            transaction = table.begin()
            _change_properties(transaction, keeps=keeps)
            try:
                transaction.commit(label="ctsql", epoch=0, metadata="{}")
            except Conflict:
                continue

    def exists(self, location: str) -> bool:
        """Whether the location has a folder for a Delta log."""
        return self.path_exists(f"{location}/_delta_log")

    def entries(self, location: str) -> list[str] | None:
        """The first names in a folder, empty if it does not exist; None for a file."""
        with translate_spark_errors():
            path, store = self._place(location)
            if not store.exists(path):
                return []
            if store.getFileStatus(path).isFile():
                return None
            names: list[str] = []
            statuses = store.listStatusIterator(path)
            while statuses.hasNext() and len(names) < ENTRIES_MAX:
                names.append(str(statuses.next().getPath().getName()))
            return names

    def glob(self, pattern: str) -> list[str]:
        """The files and folders that match a pattern or a path: full URIs."""
        with translate_spark_errors():
            path, store = self._place(pattern)
            return [str(status.getPath().toString()) for status in store.globStatus(path) or ()]

    def holds_file(self, location: str) -> bool:
        """Whether it is a file, or a folder with a file that Spark would read, at any depth."""
        with translate_spark_errors():
            path, store = self._place(location)
            files = store.listFiles(path, True)
            while files.hasNext():
                if not str(files.next().getPath().getName()).startswith(("_", ".")):
                    return True
            return False

    def path_exists(self, location: str) -> bool:
        """Whether a file or a folder exists."""
        with translate_spark_errors():
            path, store = self._place(location)
            return bool(store.exists(path))

    def move_file(self, location: str, target: str) -> None:
        """Rename a file, replacing another; or a folder, to a free name."""
        source, new = local_path(location), local_path(target)
        if source is not None and new is not None:
            with translate_os_errors(str(new)):
                os.replace(source, new)
                # Hadoop's checksum of the replaced file does not fit the new one.
                new.with_name(f".{new.name}.crc").unlink(missing_ok=True)
            return
        with translate_spark_errors():
            path, store = self._place(target)
            store.delete(path, False)
            if not store.rename(self.path(location), path):
                raise error("STORAGE_ERROR", message="a file could not be moved", detail=target)

    def delete_tree(self, location: str) -> None:
        """Delete a folder with its contents, if it exists."""
        with translate_spark_errors():
            path, store = self._place(location)
            store.delete(path, True)


class DeltaTable(DeltaRows):
    """One Delta table. Not safe for use by several threads at once; the engine holds a lock."""

    gateway: Gateway

    def __init__(self, gateway: Gateway, location: str) -> None:
        self.gateway = gateway
        super().__init__(location)

    def _open_log(self) -> LogFiles:
        self.handle = DeltaHandle(self.gateway, self._delta_log)
        self.vectors = Vectors(self.gateway, self.handle)
        self.insert_target: tuple[TableMetadata, Any] | None = None  # as Spark resolved it last
        self.oldest_seen: int | None = None  # the oldest version at the last listing of the log
        store: LogStore
        folder = local_path(self.location)
        if folder is not None:
            self.store: FileStore = LOCAL
            store = LocalStore(folder / "_delta_log")
        else:
            self.store = files = self.gateway.connector_store(self.location)
            store = HadoopStore(self.gateway, self.handle, files)
        return LogFiles(self.location, store, self._check_protocol)

    def _delta_log(self) -> Any:
        """Delta's own handle; raises STORED_DATA_INVALID as :meth:`LogFiles.check_whole`."""
        try:
            with translate_spark_errors():
                return self.gateway.open_log(self.location)
        except CtsqlError:
            if local_path(self.location) is not None:
                self.check_whole()
            raise

    def _check_protocol(self, snapshot: Snapshot) -> None:
        """Let Delta decide whether it reads a table of this protocol."""
        if not snapshot.is_understood:
            self.snapshot_in_jvm(snapshot.version)

    def _read_log_anew(self) -> None:
        self.gateway.forget_log(self.jpath)
        self._read_log()

    @property
    def answers_late(self) -> bool:
        """Whether a commit may succeed after its call raised; not on a local disk."""
        return local_path(self.location) is None

    def files_count(self, version: int) -> int | None:
        """The number of live files at a version; None if a large log would have to be read."""
        if self.live_files.has(version):
            return len(self.files(version))
        count: int | None = self.log_files.checksum(version).get("files_count")
        if count is None and self.log_files.checkpoint_bytes(version) <= SMALL_CHECKPOINT_BYTES:
            return len(self.files(version))  # another writer may keep no count
        return count

    def rows_count(self, version: int) -> int | None:
        """The number of rows at a version; None with many files or missing statistics."""
        files = self.files(version)
        if len(files) > FILES_COUNTED_MAX:
            return None
        return sum_known(file.rows_count for file in files.values())

    def missing(self, paths: Iterable[str]) -> list[str]:
        """The files, by path below the table, that do not exist."""
        path = self.gateway.path
        with translate_spark_errors():
            return [p for p in sorted(paths) if not self._fs.exists(path(self.jpath, p))]

    def begin(self) -> OptimisticTransaction:
        """Start an optimistic transaction on the newest version."""
        if self.gateway.read_only:
            raise error("READ_ONLY_MODE", what="A COMMIT")
        newest = self.snapshot_in_jvm(self.update().version)
        return OptimisticTransaction(self, self.handle.begin(newest))
