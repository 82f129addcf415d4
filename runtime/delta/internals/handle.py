"""Delta's own handle on a log: its snapshots, the rows of files, and its transactions.

Delta opens a log by listing it and reading its state, in the JVM. The log is read by this process
anyway (:mod:`ctsql.runtime.delta.log.log_files`), so Delta opens it only when Spark reads its rows,
or something is committed to it: most logs that a process reads are those of tables that it does
nothing else with.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame

from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.delta.internals.transaction import DeltaTransaction
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.java import singleton

UNLISTED_MAX = 100
"""Commits after which a log is listed although this process knows the newest version.

What Delta holds names each commit behind the checkpoint that its last list found, and each commit
of this process goes through all of them. So the interval of checkpoints of ctsql's own tables.
"""
SNAPSHOTS_MAX = 8
"""Of older versions, which other layouts of rows need."""


class DeltaHandle:
    """Delta's own handle (``DeltaLog``) on a table's log, opened when it is first used.

    No public API reads some files of a version, or starts a transaction on one. Needed: without it,
    ctsql writes nothing.

    Attributes:
        is_open: whether it was opened.
    """

    def __init__(self, jvm: JvmObjects, open_log: Callable[[], Any]) -> None:
        self._jvm = jvm
        self._open = open_log
        self.is_open = False
        self._listed_through = -1  # the newest version when Delta listed the log last
        self._snapshots: dict[int, Any] = {}  # of older versions

    @cached_property
    def log(self) -> Any:
        """The handle itself."""
        log = self._open()
        self.is_open = True
        return log

    @property
    def log_folder(self) -> Any:
        """The folder of the log, as Hadoop's path."""
        return self.log.logPath()

    def log_store(self) -> Any:
        """Delta's store of the log: ``read`` and ``listFrom``."""
        return self.log.store()

    @cached_property
    def hadoop(self) -> Any:
        """The configuration of the file system."""
        with translate_spark_errors():
            return self.log.newDeltaHadoopConf()

    @cached_property
    def file_system(self) -> Any:
        """The file system of the log."""
        with translate_spark_errors():
            return self.log_folder.getFileSystem(self.hadoop)

    def snapshot_at(self, version: int, written_ms: int | None) -> Any:
        """Delta's own snapshot of a version, which is the newest one mostly.

        What Delta holds after a commit of this process spares listing the log, which takes the
        longer the more commits there are.

        Args:
            written_ms: the time of the commit's file, None for one that was cleaned up.
        """
        with translate_spark_errors():
            java = self.log.unsafeVolatileSnapshot()
            held = int(java.version())
            if self._listed_through < 0:
                self._listed_through = held  # Delta has just opened it
            if held == version:
                is_late = version - self._listed_through >= UNLISTED_MAX
                segment = java.logSegment()
                if not is_late and int(segment.lastCommitFileModificationTimestamp()) == written_ms:
                    return java
            if held <= version:
                none = self._jvm.none
                java = self.log.update(False, none, none)
                self._listed_through = int(java.version())
            if int(java.version()) != version:
                java = self._older(version)
            return java

    def _older(self, version: int) -> Any:
        snapshot = self._snapshots.get(version)
        if snapshot is None:
            none = self._jvm.none
            snapshot = self.log.getSnapshotAt(version, none, none, False)
            if len(self._snapshots) >= SNAPSHOTS_MAX:
                del self._snapshots[next(iter(self._snapshots))]
            self._snapshots[version] = snapshot
        return snapshot

    def frame_of(
        self, snapshot: Any, files: Iterable[DataFile], action: str | None = None
    ) -> DataFrame:
        """The rows of some files, lazily, by the metadata of a snapshot.

        Args:
            action: what Spark's page shows as their purpose.
        """
        with translate_spark_errors():
            adds = self._jvm.add_files(files)
            purpose = self._jvm.none if action is None else self._jvm.option(action)
            rows = self.log.createDataFrame(snapshot, adds, False, purpose)
        return DataFrame(rows, self._jvm.session)

    def change_feed(self, first: int, last: int, snapshot: Any, *, coarse: bool) -> DataFrame:
        """The rows that commits changed, both inclusive, lazily, as the change feed has them.

        Args:
            snapshot: by whose metadata files are read. coarse: compare files as a whole.
        """
        jvm = self._jvm
        reader = singleton(jvm.delta.commands.cdc, "CDCReader")
        like = jvm.option(snapshot)
        with translate_spark_errors():
            rows = reader.changesToBatchDF(
                self.log, first, last, jvm.jsession, jvm.none, like, coarse, like
            )
        return DataFrame(rows, jvm.session)

    def begin(self, snapshot: Any) -> DeltaTransaction:
        """Start a transaction on the newest snapshot."""
        with translate_spark_errors():
            started = self.log.startTransaction(self._jvm.none, self._jvm.option(snapshot))
        return DeltaTransaction(self._jvm, started)
