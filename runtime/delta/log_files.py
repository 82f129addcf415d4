"""The files in the log folder of a Delta table: commits and version checksums, parsed."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from ctsql.catalog.errors import CtsqlError, error, misuse
from ctsql.runtime.delta.bounded_cache import BoundedCache
from ctsql.runtime.delta.log_stores import LogStore
from ctsql.runtime.delta.snapshots import Snapshot
from ctsql.runtime.log.actions import Commit, Unreadable, parse_checksum, parse_commit
from ctsql.runtime.log.data_files import DataFile
from ctsql.runtime.spark.storage_errors import damaged_file

BYTES_SETTING = "CTSQL_LOG_CACHE_MB"
MB_DEFAULT = 64
_COMMIT_SUFFIX = ".json"
_COMMIT_LENGTH = 20 + len(_COMMIT_SUFFIX)
CHECKPOINT_NAME = re.compile(r"(\d{20})\.checkpoint\..*")


class LogFiles(ABC):
    """The log of one table, read file by file."""

    def __init__(self, location: str, store: LogStore) -> None:
        """Args: location: the table's, for errors."""
        self._location = location
        self._store = store
        self.cache_key = object()
        """Begins the names in :func:`log_cache` of what is kept of this log."""

    # ---- what the reader of a whole state gives

    @abstractmethod
    def newest(self) -> Snapshot | None:
        """The newest version with its state; None without a committed version."""

    @abstractmethod
    def snapshot_at(self, version: int) -> Snapshot:
        """The state of a version."""

    # ---- commits and checksums

    def has(self, version: int) -> bool:
        """Whether this version is committed; one request to the store."""
        return self._store.exists(commit_name(version))

    def mark(self, version: int) -> tuple[int, int] | None:
        """The time and the length of a commit's file; None if there is none."""
        return self._store.mark(commit_name(version))

    def remembers(self, version: int) -> bool:
        """Whether a commit is cached."""
        return log_cache().find((self.cache_key, version)) is not None

    def commit_at(self, version: int) -> Commit:
        """One commit, parsed; raises HISTORY_LOST if it was cleaned up, or STORED_DATA_INVALID."""
        cached = log_cache().find((self.cache_key, version))
        commit = cached if isinstance(cached, Commit) else None
        if commit is None:
            name = commit_name(version)
            mark = self._store.mark(name)
            text = None if mark is None else self.read_if_there(name)
            if mark is None or text is None:
                detail = f"The log of its version {version} is no longer there."
                hint = (
                    "Keep history longer with delta.logRetentionDuration on the table, "
                    "and create anew the objects that still needed it."
                )
                raise error("HISTORY_LOST", relation=self._location, detail=detail, hint=hint)
            try:
                commit = parse_commit(version, text, modified_ms=mark[0])
            except Unreadable as problem:
                raise damaged_file(f"{self._store.uri}/{name}", str(problem)) from problem
            log_cache().keep((self.cache_key, version), commit, commit.memory)
        return commit

    def read_if_there(self, name: str) -> str | None:
        """The text of a file; None where it was cleaned up while it was looked at."""
        try:
            return self._store.read(name)
        except CtsqlError:
            if self._store.exists(name):
                raise
            return None

    def names(self) -> Sequence[str]:
        """The names in the folder; none without one."""
        return self._store.names()

    @property
    def table_folder(self) -> str | None:
        """The folder of the table, where this process reaches it."""
        return self._store.table_folder

    def may_mention(self, version: int, words: Sequence[str]) -> bool:
        """Whether a commit's text has one of some words, or is parsed anyway.

        That is much less work than to parse it.

        Raises HISTORY_LOST or STORED_DATA_INVALID as :meth:`commit_at`.
        """
        name = commit_name(version)
        if self.remembers(version) or not self._store.exists(name):
            self.commit_at(version)  # or it raises
            return True
        text = self._store.read(name)
        return any(word in text for word in words)

    def checksum(self, version: int) -> dict[str, Any]:
        """The contents of :func:`parse_checksum` for a version; empty without a readable file."""
        name = f"{version:020d}.crc"
        try:
            text = self.read_if_there(name) if self._store.exists(name) else None
            return {} if text is None else parse_checksum(text)
        except (CtsqlError, ValueError, KeyError, TypeError) as problem:
            if isinstance(problem, CtsqlError) and problem.condition != "STORED_DATA_INVALID":
                raise
            return {}  # it only saves work, so a damaged one is ignored, as Delta does

    def first_version(self, *, after: int) -> int | None:
        """The version of the first commit in the folder after a version; None without any."""
        return min((v for v in commit_versions(self.names()) if v > after), default=None)

    def check_whole(self) -> None:
        """Raise STORED_DATA_INVALID if the last commit is damaged, or one in front is missing."""
        names = self.names()
        there = commit_versions(names)
        if there:
            self.commit_at(max(there))
            self.check_none_missing(names, there)

    def check_none_missing(self, names: Iterable[str], there: set[int]) -> None:
        """Raise STORED_DATA_INVALID if a commit is missing between others, or behind a checkpoint.

        Those in front of a checkpoint may have been cleaned up, which takes the oldest first.

        Args:
            names: in the folder. there: the versions of the commits among them, at least one.
        """
        last = max(there)
        versions = (int(match[1]) for n in names if (match := CHECKPOINT_NAME.fullmatch(n)))
        first = 1 + max((v for v in versions if v <= last), default=min(there) - 1)
        # A listing may leave out what is committed while it is made.
        for version in (v for v in range(first, last) if v not in there and not self.has(v)):
            path = f"{self._store.uri}/{commit_name(version)}"
            raise damaged_file(path, "it is missing, and later commits are there")


@cache
def log_cache() -> BoundedCache[Commit | dict[str, DataFile]]:
    """The parsed commits and lists of live files that this process keeps, of all logs.

    They take 64 MB together, or what ``CTSQL_LOG_CACHE_MB`` says.

    Raises:
        INVALID_USAGE: it is no whole number above zero.
    """
    told = os.environ.get(BYTES_SETTING) or str(MB_DEFAULT)
    if not told.isascii() or not told.isdigit() or int(told) == 0:
        raise misuse(f"{BYTES_SETTING} is no number of megabytes", f"It is {told!r}.")
    return BoundedCache(int(told) * 1024 * 1024)


def commit_versions(names: Iterable[str]) -> set[int]:
    """The versions of the commits among the names of a log's files.

    >>> commit_versions(["00000000000000000012.json", "00000000000000000012.crc", "12.json"])
    {12}
    """
    # Not by a pattern: a log has thousands of files.
    numbers = (n[:20] for n in names if len(n) == _COMMIT_LENGTH and n.endswith(_COMMIT_SUFFIX))
    return {int(number) for number in numbers if number.isascii() and number.isdigit()}


def commit_name(version: int) -> str:
    """The name of a commit's file."""
    return f"{version:020d}.json"
