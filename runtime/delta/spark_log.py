"""Delta's own handle on a log, and the logs of stores that Spark alone reaches.

Delta opens a log by listing it and reading its state, in the JVM. The log is read by this process
anyway (:mod:`ctsql.runtime.delta.log_files`), so Delta opens it only when Spark reads its rows, or
something is committed to it: most logs that a process reads are those of tables that it does
nothing else with.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ctsql.runtime.delta.file_stores import FileStore, path_in_store
from ctsql.runtime.delta.jvm import JvmObjects
from ctsql.runtime.delta.log_stores import LogStore
from ctsql.runtime.spark.errors import translate_spark_errors

UNLISTED_MAX = 100
"""Commits after which a log is listed although this process knows the newest version.

What Delta holds names each commit behind the checkpoint that its last list found, and each commit
of this process goes through all of them. So the interval of checkpoints of ctsql's own tables.
"""
SNAPSHOTS_MAX = 8
"""Of older versions, which other layouts of rows need."""


class DeltaHandle:
    """Delta's own handle on a table's log, opened when it is first asked for.

    Attributes:
        is_open: whether that was done.
    """

    def __init__(self, gateway: JvmObjects, open_log: Callable[[], Any]) -> None:
        self._gateway = gateway
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
                none = self._gateway.none
                java = self.log.update(False, none, none)
                self._listed_through = int(java.version())
            if int(java.version()) != version:
                java = self._older(version)
            return java

    def _older(self, version: int) -> Any:
        snapshot = self._snapshots.get(version)
        if snapshot is None:
            none = self._gateway.none
            snapshot = self.log.getSnapshotAt(version, none, none, False)
            if len(self._snapshots) >= SNAPSHOTS_MAX:
                del self._snapshots[next(iter(self._snapshots))]
            self._snapshots[version] = snapshot
        return snapshot


class HadoopStore(LogStore):
    """A log in a store that Spark reaches, read through Delta's own log store."""

    def __init__(self, gateway: JvmObjects, handle: DeltaHandle, files: FileStore) -> None:
        """Args: handle: Delta's own, which is opened. files: the store, by Spark's connector."""
        self._gateway, self._files = gateway, files
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

    def open(self, name: str) -> Any:
        """A file that Arrow reads."""
        mark = self.mark(name)
        if mark is None:
            raise FileNotFoundError(f"{self.uri}/{name}")
        return self._files.open_input(f"{path_in_store(self.uri)}/{name}", mark[1])

    def names(self, first: int = 0) -> Sequence[str]:
        """The names in the folder, from those of a version on."""
        with translate_spark_errors():
            if not self._fs.exists(self._folder):
                return ()
            if not first:
                return [str(s.getPath().getName()) for s in self._fs.listStatus(self._folder)]
            statuses = self._delta.listFrom(self._path(f"{first:020d}"), self._hadoop)
            names = list[str]()
            while statuses.hasNext():
                names.append(str(statuses.next().getPath().getName()))
            return names
