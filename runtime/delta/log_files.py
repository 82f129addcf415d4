"""The files in the log folder of a Delta table: commits and version checksums, parsed."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.delta.snapshots import Snapshot
from ctsql.runtime.log.actions import Commit, Unreadable, parse_checksum, parse_commit
from ctsql.runtime.spark.storage_errors import damaged_file

COMMITS_CACHED_MAX = 2_000
_COMMIT_NAME = re.compile(r"\d{20}\.json")


class LogFiles(ABC):
    """The log of one table, read file by file."""

    def __init__(self, location: str, folder: str) -> None:
        """Args: location: the table's, and folder: that of its log, for errors."""
        self._location = location
        self._folder_name = folder
        self._commits: dict[int, Commit] = {}

    # ---- what the store and the reader of a whole state give

    @abstractmethod
    def newest(self) -> Snapshot | None:
        """The newest version with its state; None without a committed version."""

    @abstractmethod
    def snapshot_at(self, version: int) -> Snapshot:
        """The state of a version."""

    @abstractmethod
    def mark(self, version: int) -> tuple[int, int] | None:
        """The time and the length of a commit's file; None if there is none."""

    @abstractmethod
    def _exists(self, name: str) -> bool:
        """Whether the folder has a file; one request to the store."""

    @abstractmethod
    def _read(self, name: str) -> str:
        """The text of a file."""

    @abstractmethod
    def _modified_ms(self, name: str) -> int:
        """The time of a file."""

    @abstractmethod
    def _names(self) -> Sequence[str]:
        """The names in the folder; none without one."""

    # ---- commits and checksums

    def has(self, version: int) -> bool:
        """Whether this version is committed; one request to the store."""
        return self._exists(commit_name(version))

    def remembers(self, version: int) -> bool:
        """Whether a commit is cached."""
        return version in self._commits

    def commit_at(self, version: int) -> Commit:
        """One commit, parsed; raises HISTORY_LOST if it was cleaned up, or STORED_DATA_INVALID."""
        found = self._commits.get(version)
        if found is None:
            name = commit_name(version)
            if not self._exists(name):
                detail = f"The log of its version {version} is no longer there."
                hint = (
                    "Keep history longer with delta.logRetentionDuration on the table, "
                    "and create anew the objects that still needed it."
                )
                raise error("HISTORY_LOST", relation=self._location, detail=detail, hint=hint)
            text = self._read(name)
            try:
                found = parse_commit(version, text, modified_ms=self._modified_ms(name))
            except Unreadable as problem:
                raise damaged_file(f"{self._folder_name}/{name}", str(problem)) from problem
            if len(self._commits) >= COMMITS_CACHED_MAX:
                for old in sorted(self._commits)[: COMMITS_CACHED_MAX // 2]:
                    del self._commits[old]
            self._commits[version] = found
        return found

    def may_mention(self, version: int, words: Sequence[str]) -> bool:
        """Whether a commit's text has one of some words, or is parsed anyway.

        That is much less work than to parse it.

        Raises HISTORY_LOST or STORED_DATA_INVALID as :meth:`commit_at`.
        """
        name = commit_name(version)
        if version in self._commits or not self._exists(name):
            self.commit_at(version)  # or it raises
            return True
        text = self._read(name)
        return any(word in text for word in words)

    def checksum(self, version: int) -> dict[str, Any]:
        """The contents of :func:`parse_checksum` for a version; empty without a readable file."""
        name = f"{version:020d}.crc"
        try:
            return parse_checksum(self._read(name)) if self._exists(name) else {}
        except (CtsqlError, ValueError, KeyError, TypeError) as problem:
            if isinstance(problem, CtsqlError) and problem.condition != "STORED_DATA_INVALID":
                raise
            return {}  # it only saves work, so a damaged one is ignored, as Delta does

    def last_version(self) -> int | None:
        """The version of the last commit in the folder; None without any."""
        versions = (
            int(n.removesuffix(".json")) for n in self._names() if _COMMIT_NAME.fullmatch(n)
        )
        return max(versions, default=None)

    def check_last(self) -> None:
        """Raise STORED_DATA_INVALID if the last commit's file is damaged."""
        last = self.last_version()
        if last is not None:
            self.commit_at(last)


def commit_name(version: int) -> str:
    """The name of a commit's file."""
    return f"{version:020d}.json"
