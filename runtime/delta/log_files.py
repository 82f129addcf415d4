"""The files in the log folder of a Delta table: commits and version checksums, parsed.

Part of the adapter to Delta (:mod:`ctsql.runtime.delta.table`): nothing else touches Delta's
classes.
"""

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
        """Nothing is read yet.

        Args:
            log: Delta's own handle. location: the table's, for errors.
        """
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
        """The next version is asked for again and again."""
        known, path = self._asked
        if known != version:
            path = self._names.unsafeDeltaFile(self._folder, version)
            self._asked = version, path
        return path

    def has(self, version: int) -> bool:
        """Is this version committed? One look at the store, whatever the length of the log."""
        with translate_spark_errors():
            return bool(self._fs.exists(self._commit_path(version)))

    def mark(self, version: int) -> object:
        """What tells the file of a commit from another of its name; None where there is none."""
        path = self._commit_path(version)
        with translate_spark_errors():
            if not self._fs.exists(path):
                return None
            status = self._fs.getFileStatus(path)
            return int(status.getModificationTime()), int(status.getLen())

    def remembers(self, version: int) -> bool:
        """Is a commit in memory, so that it need not be read?"""
        return version in self._commits

    def commit_at(self, version: int) -> Commit:
        """One commit, parsed.

        Raises:
            HISTORY_LOST: the log of that version was cleaned up.
            STORED_DATA_INVALID: its file is damaged.
        """
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

    def checksum(self, version: int) -> dict[str, Any] | None:
        """The version checksum file's contents, or None when there is none (yet)."""
        path = self._names.checksumFile(self._folder, version)
        try:
            with translate_spark_errors():
                if not self._fs.exists(path):
                    return None
                text = self._read(path)
            return parse_checksum(text)
        except (CtsqlError, ValueError, KeyError, TypeError) as problem:
            if isinstance(problem, CtsqlError) and problem.condition != "STORED_DATA_INVALID":
                raise
            return None  # it only saves work: damaged is as good as not there, as for Delta

    def check_last(self) -> None:
        """Say so if it is the last commit's file that keeps Delta from reading the table."""
        with translate_spark_errors():
            if not self._fs.exists(self._folder):
                return
            names = [str(s.getPath().getName()) for s in self._fs.listStatus(self._folder)]
        versions = [int(n.removesuffix(".json")) for n in names if _COMMIT_NAME.fullmatch(n)]
        if versions:
            self.commit_at(max(versions))

    def _read(self, path: Any) -> str:
        return self._gateway.joined_lines(self._log.store().read(path, self._hadoop))
