"""A table's log, of which Delta reads the states, and the files too where only Spark can.

Delta opens a log by listing it and reading its state, in the JVM. On a local disk what the newest
version says of itself stands in its checksum file, so a log is opened by Delta only when its rows
are read by Spark, or something is committed to it: most logs that a process looks at are those of
tables that it has nothing to do with.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from ctsql.runtime.delta.jvm import JvmObjects
from ctsql.runtime.delta.local_log import LoggedState, NeedsSpark, newest_state, state_at
from ctsql.runtime.delta.locks import local_path
from ctsql.runtime.delta.log_files import LogFiles
from ctsql.runtime.delta.log_stores import LocalStore, LogStore
from ctsql.runtime.delta.snapshots import Snapshot
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.spark.scala import scala_items

UNLISTED_MAX = 100
"""Commits after which a log is listed although this process knows the newest version.

What Delta holds names each commit behind the checkpoint that its last list found, and each commit
of this process goes through all of them. So the interval of checkpoints of ctsql's own tables.
"""


class DeltaHandle:
    """Delta's own handle on a table's log, opened when it is first asked for.

    Attributes:
        is_open: whether that was done.
    """

    def __init__(self, open_log: Callable[[], Any]) -> None:
        self._open = open_log
        self.is_open = False

    @cached_property
    def log(self) -> Any:
        """The handle itself."""
        log = self._open()
        self.is_open = True
        return log

    @cached_property
    def hadoop(self) -> Any:
        """The configuration of the file system."""
        with translate_spark_errors():
            return self.log.newDeltaHadoopConf()

    @cached_property
    def file_system(self) -> Any:
        """The file system of the log."""
        with translate_spark_errors():
            return self.log.logPath().getFileSystem(self.hadoop)


class SparkSnapshot(Snapshot):
    """Delta's own snapshot, ``java``; what the version's checksum file says is taken from there."""

    def __init__(
        self, log: "SparkLogFiles", java: Any = None, state: LoggedState | None = None
    ) -> None:
        """Either is given. Args: state: what the log says of a version, that Delta has not read."""
        self._log = log
        self._java = java
        self._state = state
        self.version = int(java.version()) if state is None else state.version

    @property
    def java(self) -> Any:
        """Delta's own snapshot."""
        if self._java is None:
            self._java = self._log.java_at(self.version)
        return self._java

    @property
    def table_id(self) -> str:
        """The table's globally unique id."""
        if self._state is not None:
            return self._state.table_id
        with translate_spark_errors():
            return str(self.java.metadata().id())

    @property
    def metadata(self) -> TableMetadata:
        """The metadata."""
        if self._state is not None:
            return self._state.metadata
        with translate_spark_errors():
            text = str(self.java.metadata().json())
        return TableMetadata(json.loads(text)["metaData"])

    def transaction(self, app: str) -> int | None:
        """The newest version of an application id."""
        if self._state is not None:
            return self._state.transaction(app)
        applications: dict[str, int] | None = self._log.checksum(self.version).get("transactions")
        if applications is not None:
            return applications.get(app)
        with translate_spark_errors():
            option = self.java.transactions().get(app)
        return int(option.get()) if option.isDefined() else None

    def domains(self) -> dict[str, str]:
        """The domain metadata: name to configuration."""
        if self._state is not None:
            return self._state.domains()
        domains = self._log.checksum(self.version).get("domains")
        if domains is not None:
            return dict(domains)
        with translate_spark_errors():
            there = scala_items(self.java.domainMetadata())
            return {d.domain(): d.configuration() for d in there}

    def has_feature(self, name: str) -> bool:
        """Whether the protocol lists a table feature."""
        if self._state is not None:
            return self._state.has_feature(name)
        return bool(self.java.protocol().readerAndWriterFeatureNames().contains(name))


def java_of(snapshot: Snapshot) -> Any:
    """Delta's own snapshot, of a table that Delta reads."""
    assert isinstance(snapshot, SparkSnapshot)
    return snapshot.java


class SparkLogFiles(LogFiles):
    """The log of one table, whose state Delta reads where something needs Delta."""

    def __init__(self, gateway: JvmObjects, handle: DeltaHandle, location: str) -> None:
        """Args: handle: Delta's own. location: the table's."""
        self._gateway = gateway
        self._handle = handle
        folder = local_path(location)
        self._is_local = folder is not None
        self._logged_version: int | None = None  # the newest version that was told without Delta
        self._listed_through: int | None = None  # the newest version when Delta listed it last
        super().__init__(
            location,
            HadoopStore(gateway, handle) if folder is None else LocalStore(folder / "_delta_log"),
        )

    @property
    def _log(self) -> Any:
        return self._handle.log

    def newest(self) -> SparkSnapshot | None:
        """The newest version with its state; None without a committed version."""
        if self._is_local and not self._handle.is_open:
            with suppress(NeedsSpark):
                state = self._newest_logged()
                return None if state is None else SparkSnapshot(self, state=state)
        with translate_spark_errors():
            java = self._cached()
            snapshot = SparkSnapshot(self, self._list_log() if java is None else java)
        return None if snapshot.version < 0 else snapshot

    def _newest_logged(self) -> LoggedState | None:
        """The newest version, as the log says it; listed only where nothing is known of it."""
        last = self._logged_version
        if last is None or not self.has(last):
            state = newest_state(self)
        else:
            while self.has(last + 1):
                last += 1
            state = state_at(self, last)
        self._logged_version = None if state is None else state.version
        return state

    def java_at(self, version: int) -> Any:
        """Delta's own snapshot of a version, which is the newest one mostly."""
        none = self._gateway.none
        with translate_spark_errors():
            java = self._log.unsafeVolatileSnapshot()
            if int(java.version()) < version:
                java = self._list_log()
            if int(java.version()) != version:
                java = self._log.getSnapshotAt(version, none, none, False)
            return java

    def _cached(self) -> Any | None:
        """The state that Delta holds, where it is the newest; as after a commit by this process.

        It spares listing the log, which takes the longer the more commits there are.
        """
        java = self._log.unsafeVolatileSnapshot()
        version = int(java.version())
        mark = None if version < 0 else self.mark(version)
        if mark is None or self.has(version + 1):
            return None
        if self._listed_through is None:
            self._listed_through = version  # Delta has just opened it
        if version - self._listed_through >= UNLISTED_MAX:
            return None
        read_ms = int(java.logSegment().lastCommitFileModificationTimestamp())
        return java if read_ms == mark[0] else None

    def _list_log(self) -> Any:
        """The newest state, by a list of the log from the checkpoint on that Delta holds."""
        none = self._gateway.none
        java = self._log.update(False, none, none)
        self._listed_through = int(java.version())
        return java

    def snapshot_at(self, version: int) -> SparkSnapshot:
        """The state of a version."""
        none = self._gateway.none
        with translate_spark_errors():
            return SparkSnapshot(self, self._log.getSnapshotAt(version, none, none, False))


class HadoopStore(LogStore):
    """A log in a store that Spark reaches, read through Delta's own log store."""

    def __init__(self, gateway: JvmObjects, handle: DeltaHandle) -> None:
        """Args: handle: Delta's own, which is opened."""
        self._gateway = gateway
        with translate_spark_errors():
            self._folder = handle.log.logPath()
            self._hadoop, self._fs = handle.hadoop, handle.file_system
            self._delta = handle.log.store()
            self.uri = str(self._folder.toString())
        self._last_path: tuple[str, Any] = ("", None)

    def _path(self, name: str) -> Any:
        """The path of a file; the last one is cached, since polling repeats it."""
        last_name, path = self._last_path
        if last_name != name:
            path = self._gateway.path(self._folder, name)
            self._last_path = name, path
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
