"""The files in the log folder of a Delta table: commits and version checksums, parsed."""

import re
from typing import Any

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.delta.jvm import JvmObjects
from ctsql.runtime.log.actions import Commit, Unreadable, parse_checksum, parse_commit
from ctsql.runtime.spark.errors import damaged_file, translate_spark_errors

COMMITS_CACHED_MAX = 2_000
_COMMIT_NAME = re.compile(r"\d{20}\.json")


class LogFiles:
    """The log of one table, read file by file through Delta's own log store."""

    def __init__(self, gateway: JvmObjects, log: Any, location: str) -> None:
        """Args: log: Delta's own handle. location: the table's, for errors."""
        self._gateway = gateway
        self._log = log
        self._location = location
        self._names = gateway.delta.util.FileNames
        with translate_spark_errors():
            self._folder = log.logPath()
            self._hadoop = log.newDeltaHadoopConf()
            self._fs = self._folder.getFileSystem(self._hadoop)
        self._commits: dict[int, Commit] = {}
        self._asked: tuple[int, Any] = (-1, None)

    def _commit_path(self, version: int) -> Any:
        """The path of a commit file; the last one is cached, since polling repeats it."""
        known, path = self._asked
        if known != version:
            path = self._names.unsafeDeltaFile(self._folder, version)
            self._asked = version, path
        return path

    def has(self, version: int) -> bool:
        """Whether this version is committed; one request to the store."""
        with translate_spark_errors():
            return bool(self._fs.exists(self._commit_path(version)))

    def mark(self, version: int) -> tuple[int, int] | None:
        """The time and the length of a commit's file; None if there is none."""
        path = self._commit_path(version)
        with translate_spark_errors():
            if not self._fs.exists(path):
                return None
            status = self._fs.getFileStatus(path)
            return int(status.getModificationTime()), int(status.getLen())

    def remembers(self, version: int) -> bool:
        """Whether a commit is cached."""
        return version in self._commits

    def commit_at(self, version: int) -> Commit:
        """One commit, parsed; raises HISTORY_LOST if it was cleaned up, or STORED_DATA_INVALID."""
        found = self._commits.get(version)
        if found is None:
            path = self._commit_path(version)
            with translate_spark_errors():
                if not self._fs.exists(path):
                    raise error(
                        "HISTORY_LOST",
                        relation=self._location,
                        detail=f"The log of its version {version} is no longer there.",
                        hint="Keep history longer with delta.logRetentionDuration on the table, "
                        "and create anew the objects that still needed it.",
                    )
                text = self._read(path)
                modified = int(self._fs.getFileStatus(path).getModificationTime())
            try:
                found = parse_commit(version, text, modified_ms=modified)
            except Unreadable as problem:
                raise damaged_file(str(path.toString()), str(problem)) from problem
            if len(self._commits) >= COMMITS_CACHED_MAX:
                for old in sorted(self._commits)[: COMMITS_CACHED_MAX // 2]:
                    del self._commits[old]
            self._commits[version] = found
        return found

    def snapshot_at(self, version: int) -> Any:
        """Delta's snapshot of a version."""
        none = self._gateway.none
        with translate_spark_errors():
            return self._log.getSnapshotAt(version, none, none, False)

    def checksum(self, version: int) -> dict[str, Any]:
        """The contents of :func:`parse_checksum` for a version; empty without a readable file."""
        path = self._names.checksumFile(self._folder, version)
        try:
            with translate_spark_errors():
                if not self._fs.exists(path):
                    return {}
                text = self._read(path)
            return parse_checksum(text)
        except (CtsqlError, ValueError, KeyError, TypeError) as problem:
            if isinstance(problem, CtsqlError) and problem.condition != "STORED_DATA_INVALID":
                raise
            return {}  # it only saves work, so a damaged one is ignored, as Delta does

    def check_last(self) -> None:
        """Raise STORED_DATA_INVALID if the last commit's file is damaged."""
        with translate_spark_errors():
            if not self._fs.exists(self._folder):
                return
            names = [str(s.getPath().getName()) for s in self._fs.listStatus(self._folder)]
        versions = [int(n.removesuffix(".json")) for n in names if _COMMIT_NAME.fullmatch(n)]
        if versions:
            self.commit_at(max(versions))

    def _read(self, path: Any) -> str:
        return self._gateway.join_lines(self._log.store().read(path, self._hadoop))
