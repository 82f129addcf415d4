"""Delta's own handle on a log: snapshots, rows of files, transactions, deletion vectors.

Delta opens a log by listing it and reading its state in the JVM. This process reads the log anyway
(:mod:`ctsql.runtime.delta.log.log_files`), so Delta opens it only to read rows by Spark or to
commit.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame

from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.log.batches import StagedFile
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.java import (
    java_frame,
    java_rows,
    scala_items,
    singleton,
    typed,
)


class DeltaTransaction:
    """One transaction (``OptimisticTransaction``) with the actions to commit.

    No public API deletes some rows and inserts others in one commit that fails after a conflicting
    one. Needed: without it, ctsql writes nothing.
    """

    def __init__(self, jvm: JvmObjects, started: Any) -> None:
        self._jvm = jvm
        self._txn = started
        self._actions: list[Any] = []
        self.version_read = typed(int, started.readVersion())

    def snapshot(self) -> Any:
        """The snapshot that it reads."""
        return typed(object, self._txn.snapshot())

    def read_application(self, app: str) -> None:
        """Fail if another commit moves an application id first."""
        self._txn.readTxn().addOne(app)

    def depend_on_all(self) -> None:
        """Fail if another commit changes any row first."""
        self._txn.readWholeTable()

    def depend_on_files(self, files: Iterable[Any]) -> None:
        """Fail if another commit changes files first, as :meth:`JvmObjects.add_file` makes them."""
        self._txn.trackFilesRead(self._jvm.seq(files))

    def set_application(self, app: str, version: int, now_ms: int) -> None:
        """A new version of an application id."""
        self._txn.updateSetTransaction(app, version, self._jvm.option(now_ms))

    def set_domain(self, domain: str, configuration: str, *, removed: bool = False) -> None:
        """Write or remove a domain metadata action."""
        make = self._jvm.delta.actions.DomainMetadata
        self._actions.append(make(domain, configuration, removed))

    def add_action(self, action: str) -> None:
        """An action, as a line of the log."""
        self._actions.append(self._jvm.parse_action(action))

    def remove(self, file: DataFile, now_ms: int) -> Any:
        """Remove a file with its rows; returns the file for :meth:`depend_on_files`."""
        add = self._jvm.add_file(file)
        self._actions.append(add.removeWithTimestamp(now_ms, True))
        return add

    def replace(self, files: Iterable[DataFile], now_ms: int) -> None:
        """Remove files whose rows other files have; fails if one is removed before."""
        adds = [self._jvm.add_file(file) for file in files]
        self.depend_on_files(adds)
        self._actions += [add.removeWithTimestamp(now_ms, False) for add in adds]

    def write(self, rows: DataFrame) -> list[StagedFile]:
        """Write rows into new files by Spark; nothing is committed."""
        return _staged(self._txn.writeFiles(java_frame(rows)))

    def write_compact(self, rows: DataFrame) -> list[StagedFile]:
        """Write rows of other files into one new file by Spark; nothing is committed."""
        jvm = self._jvm
        jrows = java_frame(rows.coalesce(1))
        return _staged(self._txn.writeFiles(jrows, jvm.none, True, jvm.seq(())))

    def metadata_action(self) -> dict[str, Any]:
        """The table's ``metaData`` action, as in the log."""
        return dict(json.loads(self._txn.metadata().json()))

    def set_metadata(self, action: Mapping[str, Any]) -> None:
        """Another ``metaData`` action, for rows written later."""
        self._txn.updateMetadata(self._jvm.parse_action(json.dumps(action)), False)

    def features_of(self, action: Mapping[str, Any]) -> list[str]:
        """The features of a new table with a ``metaData`` action, by its columns."""
        jvm = self._jvm
        metadata = jvm.parse_action(json.dumps(action))
        protocol = jvm.delta.actions.Protocol.forNewTable(jvm.jsession, jvm.option(metadata))
        return [typed(str, f) for f in scala_items(protocol.readerAndWriterFeatureNames())]

    def set_counts(self, counts: Mapping[str, int]) -> None:
        """The counts for DESCRIBE HISTORY."""
        self._txn.registerSQLMetrics(self._jvm.jsession, self._jvm.metrics(counts))

    def commit_as(self, operation: Any) -> int:
        """Commit, with an operation of :class:`JvmObjects`; returns the version."""
        return typed(int, self._txn.commit(self._jvm.seq(self._actions), operation))


def _staged(files: Any) -> list[StagedFile]:
    return [
        StagedFile(typed(str, file.path()), typed(str, file.json())) for file in scala_items(files)
    ]


UNLISTED_MAX = 100
"""Commits after which a log is listed although this process has read the newest version.

Delta's snapshot names each commit after the checkpoint of its last listing, and each commit
iterates over them. So it is the interval of checkpoints of ctsql's own tables.
"""
SNAPSHOTS_MAX = 8  # cached snapshots of older versions, for other layouts of rows


class DeltaHandle:
    """Delta's own handle (``DeltaLog``) on a table's log, opened on first use.

    No public API reads some files of a version, or starts a transaction on one. Needed: without it,
    ctsql writes nothing.
    """

    def __init__(self, jvm: JvmObjects, open_log: Callable[[], Any]) -> None:
        self._jvm = jvm
        self._open = open_log
        self._listed_through = -1  # the newest version when Delta listed the log last
        self._snapshots: dict[int, Any] = {}  # of older versions

    @cached_property
    def log(self) -> Any:
        """Delta's own object (``DeltaLog``)."""
        return self._open()

    @property
    def log_folder(self) -> Any:
        """The folder of the log, as Hadoop's path."""
        return typed(object, self.log.logPath())

    def log_store(self) -> Any:
        """Delta's store of the log, for ``listFrom``."""
        return typed(object, self.log.store())

    @cached_property
    def hadoop(self) -> Any:
        """The configuration of the file system."""
        with translate_spark_errors():
            return typed(object, self.log.newDeltaHadoopConf())

    @cached_property
    def file_system(self) -> Any:
        """The file system of the log."""
        with translate_spark_errors():
            return typed(object, self.log_folder.getFileSystem(self.hadoop))

    def snapshot_at(self, version: int, written_ms: int | None) -> Any:
        """Delta's own snapshot of a version; after an own commit without listing the log.

        ``written_ms``: the time of the commit's file, None if it was cleaned up.
        """
        with translate_spark_errors():
            java = self.log.unsafeVolatileSnapshot()
            held = typed(int, java.version())
            if self._listed_through < 0:
                self._listed_through = held  # Delta has just opened it
            if held == version:
                is_late = version - self._listed_through >= UNLISTED_MAX
                segment = java.logSegment()
                if (
                    not is_late
                    and typed(int, segment.lastCommitFileModificationTimestamp()) == written_ms
                ):
                    return java
            if held <= version:
                none = self._jvm.none
                java = self.log.update(False, none, none)
                self._listed_through = typed(int, java.version())
            if typed(int, java.version()) != version:
                java = self._older(version)
            return java

    def _older(self, version: int) -> Any:
        snapshot = self._snapshots.get(version)
        if snapshot is None:
            none = self._jvm.none
            snapshot = typed(object, self.log.getSnapshotAt(version, none, none, False))
            if len(self._snapshots) >= SNAPSHOTS_MAX:
                del self._snapshots[next(iter(self._snapshots))]
            self._snapshots[version] = snapshot
        return snapshot

    def frame_of(
        self, snapshot: Any, files: Iterable[DataFile], action: str | None = None
    ) -> DataFrame:
        """The rows of files, lazily, by a snapshot's metadata; Spark's UI shows ``action``."""
        with translate_spark_errors():
            adds = self._jvm.add_files(files)
            purpose = self._jvm.none if action is None else self._jvm.option(action)
            rows = self.log.createDataFrame(snapshot, adds, False, purpose)
        return java_rows(self._jvm.session, rows)

    def change_feed(self, first: int, last: int, snapshot: Any, *, coarse: bool) -> DataFrame:
        """The rows that commits changed, both inclusive, lazily, as in the change feed.

        The metadata of ``snapshot`` defines how files are read; ``coarse`` compares whole files.
        """
        jvm = self._jvm
        reader = singleton(jvm.delta.commands.cdc, "CDCReader")
        like = jvm.option(snapshot)
        with translate_spark_errors():
            rows = reader.changesToBatchDF(
                self.log, first, last, jvm.jsession, jvm.none, like, coarse, like
            )
        return java_rows(jvm.session, rows)

    def begin(self, snapshot: Any) -> Any:
        """Start a transaction on the newest snapshot, for :class:`DeltaTransaction`."""
        with translate_spark_errors():
            started = self.log.startTransaction(self._jvm.none, self._jvm.option(snapshot))
        return typed(object, started)


class VectorStore:
    """Reads and writes the deletion vectors of one table (``DeletionVectorStore``).

    No public API does; Delta Kernel reads them only with all rows of a file. Needed: without it,
    ctsql deletes no rows.
    """

    def __init__(self, jvm: JvmObjects, handle: DeltaHandle) -> None:
        self._jvm = jvm
        self._handle = handle

    @cached_property
    def _store(self) -> Any:
        return self._jvm.vector_classes.stores.createInstance(self._handle.hadoop)

    @cached_property
    def _folder(self) -> Any:
        return self._handle.log.dataPath()

    def read(self, file: DataFile) -> bytes:
        """The serialized vector of a file."""
        vector = self._jvm.add_file(file).deletionVector()
        bitmap = self._store.read(vector, self._folder)
        return typed(bytes, bitmap.serializeAsByteArray(self._jvm.vector_classes.portable))

    def inline(self, data: bytes, count: int) -> str:
        """The text of a vector of ``count`` rows in the log itself."""
        inline = self._jvm.vector_classes.descriptors.inlineInLog(data, count)
        return typed(str, inline.pathOrInlineDv())

    def create(self, number: str) -> "VectorWriter":
        """A new file of vectors, named by a UUID."""
        classes, none = self._jvm.vector_classes, self._jvm.none
        uuid = classes.uuid_of(number)
        descriptor = classes.descriptors.onDiskWithRelativePath(uuid, "", 0, 0, none, none)
        folder = self._store.pathWithFileSystem(self._folder)
        file = self._store.createWriter(self._store.generateFileNameInTable(folder, uuid, ""))
        return VectorWriter(typed(str, descriptor.pathOrInlineDv()), typed(object, file))


class VectorWriter:
    """A new file of vectors; ``id_in_log`` is its name in the log.

    No public API writes one. Needed: without it, ctsql deletes no rows.
    """

    def __init__(self, id_in_log: str, writer: Any) -> None:
        self.id_in_log = id_in_log
        self._writer = writer

    def write(self, data: bytes) -> int:
        """Write a vector; returns its offset."""
        return typed(int, self._writer.write(data).offset())

    def close(self) -> None:
        """Close it."""
        self._writer.close()
