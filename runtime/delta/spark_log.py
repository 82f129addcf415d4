"""A table's log, of which Delta reads the states, and the files too where only Spark can."""

import json
from collections.abc import Sequence
from typing import Any

from ctsql.runtime.delta.jvm import JvmObjects
from ctsql.runtime.delta.locks import local_path
from ctsql.runtime.delta.log_files import LogFiles
from ctsql.runtime.delta.log_stores import LocalStore, LogStore
from ctsql.runtime.delta.snapshots import Snapshot
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.spark.scala import scala_items


class SparkSnapshot(Snapshot):
    """Delta's own snapshot, ``java``; what the version's checksum file says is taken from there."""

    def __init__(self, log: LogFiles, java: Any) -> None:
        self._log = log
        self.java = java
        self.version = int(java.version())

    @property
    def table_id(self) -> str:
        """The table's globally unique id."""
        with translate_spark_errors():
            return str(self.java.metadata().id())

    @property
    def metadata(self) -> TableMetadata:
        """The metadata."""
        with translate_spark_errors():
            text = str(self.java.metadata().json())
        return TableMetadata(json.loads(text)["metaData"])

    def transaction(self, app: str) -> int | None:
        """The newest version of an application id."""
        known: dict[str, int] | None = self._log.checksum(self.version).get("transactions")
        if known is not None:
            return known.get(app)
        with translate_spark_errors():
            option = self.java.transactions().get(app)
        return int(option.get()) if option.isDefined() else None

    def domains(self) -> dict[str, str]:
        """The domain metadata: name to configuration."""
        known = self._log.checksum(self.version).get("domains")
        if known is not None:
            return dict(known)
        with translate_spark_errors():
            there = scala_items(self.java.domainMetadata())
            return {d.domain(): d.configuration() for d in there}

    def has_feature(self, name: str) -> bool:
        """Whether the protocol lists a table feature."""
        return bool(self.java.protocol().readerAndWriterFeatureNames().contains(name))


def java_of(snapshot: Snapshot) -> Any:
    """Delta's own snapshot, of a table that Delta reads."""
    assert isinstance(snapshot, SparkSnapshot)
    return snapshot.java


class SparkLogFiles(LogFiles):
    """The log of one table, whose state Delta reads."""

    def __init__(self, gateway: JvmObjects, log: Any, location: str) -> None:
        """Args: log: Delta's own handle. location: the table's, for errors."""
        self._gateway = gateway
        self._log = log
        with translate_spark_errors():
            uri = str(log.logPath().toString())
        folder = local_path(uri)
        super().__init__(
            location, HadoopStore(gateway, log) if folder is None else LocalStore(folder)
        )

    def newest(self) -> SparkSnapshot | None:
        """The newest version with its state; None without a committed version."""
        none = self._gateway.none
        with translate_spark_errors():
            java = self._cached()
            if java is None:
                java = self._log.update(False, none, none)
            found = SparkSnapshot(self, java)
        return None if found.version < 0 else found

    def _cached(self) -> Any | None:
        """The state that Delta holds, where it is the newest; as after a commit by this process.

        It spares listing the log, which takes the longer the more commits there are.
        """
        java = self._log.unsafeVolatileSnapshot()
        version = int(java.version())
        mark = None if version < 0 else self.mark(version)
        if mark is None or self.has(version + 1):
            return None
        read_ms = int(java.logSegment().lastCommitFileModificationTimestamp())
        return java if read_ms == mark[0] else None

    def snapshot_at(self, version: int) -> SparkSnapshot:
        """The state of a version."""
        none = self._gateway.none
        with translate_spark_errors():
            return SparkSnapshot(self, self._log.getSnapshotAt(version, none, none, False))


class HadoopStore(LogStore):
    """A log in a store that Spark reaches, read through Delta's own log store."""

    def __init__(self, gateway: JvmObjects, log: Any) -> None:
        """Args: log: Delta's own handle."""
        self._gateway = gateway
        with translate_spark_errors():
            self._folder = log.logPath()
            self._hadoop = log.newDeltaHadoopConf()
            self._fs = self._folder.getFileSystem(self._hadoop)
            self._delta = log.store()
            self.uri = str(self._folder.toString())
        self._asked: tuple[str, Any] = ("", None)

    def _path(self, name: str) -> Any:
        """The path of a file; the last one is cached, since polling repeats it."""
        known, path = self._asked
        if known != name:
            path = self._gateway.path(self._folder, name)
            self._asked = name, path
        return path

    def exists(self, name: str) -> bool:
        """Whether there is a file."""
        with translate_spark_errors():
            return bool(self._fs.exists(self._path(name)))

    def read(self, name: str) -> str:
        """The text of a file."""
        with translate_spark_errors():
            lines = self._delta.read(self._path(name), self._hadoop)
            return self._gateway.join(lines, "\n")

    def mark(self, name: str) -> tuple[int, int] | None:
        """The time and the length of a file."""
        if not self.exists(name):
            return None
        with translate_spark_errors():
            status = self._fs.getFileStatus(self._path(name))
            return int(status.getModificationTime()), int(status.getLen())

    def names(self) -> Sequence[str]:
        """The names in the folder."""
        with translate_spark_errors():
            if not self._fs.exists(self._folder):
                return ()
            return [str(s.getPath().getName()) for s in self._fs.listStatus(self._folder)]
