"""Reads a Delta table's log and the state that it records, over a store of files; needs no JVM.

The state of a version is in its checksum file. Without one it is rolled forward from the newest
state that was read, or from the newest checkpoint before it, as are the live files. An unreadable
checkpoint is skipped for an older one, as in Delta.

Source: the Delta protocol, "Delta Log Entries", "Checkpoints", "Version Checksum File", "Change
    Metadata", "Transaction Identifiers", "Domain Metadata", "Protocol Evolution".
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from ctsql.catalog.errors import CtsqlError, error, misuse, suppress_conditions
from ctsql.runtime.delta.bounded_cache import BoundedCache
from ctsql.runtime.delta.log.checkpoints import complete_checkpoints, read_files, read_state
from ctsql.runtime.delta.stores.log_stores import LogStore
from ctsql.runtime.log.actions import (
    Commit,
    DamagedCommit,
    DataFile,
    parse_checksum,
    parse_commit,
    roll_files,
)
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.spark.failures.storage_errors import damaged_file

_READER_VERSIONS = (1, 2, 3)
_READ_ALIKE = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
    "variantType-preview",
}
"""Reader features of Delta 4.4 that do not change commits and checksum files."""


class Snapshot:
    """The state of a table at a version; -1 before the first commit."""

    def __init__(self, version: int, fields: Mapping[str, Any]) -> None:
        """Fields: table, protocol, transactions and domains; None for missing ones."""
        self.version = version
        self._table: TableMetadata | None = fields.get("table")
        self._protocol: dict[str, Any] = fields.get("protocol") or {}
        self._transactions: dict[str, int] = dict(fields.get("transactions") or {})
        self._domains: dict[str, str] = dict(fields.get("domains") or {})

    def after(self, commits: Iterable[Commit]) -> "Snapshot":
        """The state after the commits that follow."""
        fields = {
            "table": self._table,
            "protocol": self._protocol,
            "transactions": self._transactions,
            "domains": self._domains,
        }
        snapshot = Snapshot(self.version, fields)
        for commit in commits:
            snapshot._add(commit)
        return snapshot

    def _add(self, commit: Commit) -> None:
        self.version = commit.version
        self._table = commit.table or self._table
        self._protocol = commit.protocol or self._protocol
        self._transactions.update(commit.transactions)
        for name, configuration in commit.domains:
            self._domains.pop(name, None)
            if configuration is not None:
                self._domains[name] = configuration

    @property
    def is_understood(self) -> bool:
        """Whether ctsql reads the log of a table with this protocol."""
        features = set(self._protocol.get("readerFeatures") or ())
        version = self._protocol.get("minReaderVersion")
        return version in _READER_VERSIONS and features <= _READ_ALIKE

    @property
    def table_id(self) -> str:
        """The table's globally unique id."""
        return self.metadata.id

    @property
    def metadata(self) -> TableMetadata:
        """The metadata; raises STORED_DATA_INVALID if the log has none."""
        if self._table is None:
            detail = f"No commit up to version {self.version} has the table's columns."
            hint = "Restore the log from a copy and run it again."
            what = "the log of a table"
            raise error("STORED_DATA_INVALID", what=what, detail=detail, hint=hint)
        return self._table

    def transaction(self, app: str) -> int | None:
        """The newest version of an application id."""
        return self._transactions.get(app)

    def domains(self) -> dict[str, str]:
        """The domain metadata: name to configuration."""
        return dict(self._domains)

    def has_feature(self, name: str) -> bool:
        """Whether the protocol lists a table feature."""
        kinds = ("readerFeatures", "writerFeatures")
        return any(name in (self._protocol.get(kind) or ()) for kind in kinds)


BYTES_SETTING = "CTSQL_LOG_CACHE_MB"
MB_DEFAULT = 64
_COMMIT_SUFFIX = ".json"
ROLLED_MAX = 200  # the most commits to roll a state forward instead of reading a newer one
_STATE = ("table", "protocol", "transactions", "domains")

T = TypeVar("T")


class LogFiles:
    """The log of one table."""

    def __init__(
        self,
        location: str,
        store: LogStore,
        check_protocol: Callable[[Snapshot], None] = lambda _: None,
    ) -> None:
        """Read nothing yet.

        Args:
            location: the table's, for errors.
            check_protocol: raises for a newest state whose protocol is not readable.
        """
        self._location = location
        self._store = store
        self._check_protocol = check_protocol
        self.cache_key = object()
        """Prefix of this log's names in :func:`log_cache`."""
        self._newest: Snapshot | None = None

    def newest(self) -> Snapshot | None:
        """The newest version with its state; None without a committed version.

        Raises STORED_DATA_INVALID if commits are missing after the last checkpoint.
        """
        last = None if self._newest is None else self._newest.version
        if last is None or not self.has(last):
            names = self._names_behind()
            there = commit_versions(names)
            last = max((*there, *complete_checkpoints(names)), default=None)
            if last is None:
                return None
            if there:
                self.check_none_missing(names, there)
        else:
            while self.has(last + 1):
                last += 1
        try:
            self._newest = self.snapshot_at(last)
        except CtsqlError as problem:
            if problem.condition != "HISTORY_LOST":
                raise
            how = "it is missing, and so is a checkpoint of a later version"
            raise damaged_file(f"{self._store.uri}/{commit_name(0)}", how) from problem
        self._check_protocol(self._newest)
        return self._newest

    def _names_behind(self, version: int | None = None) -> Sequence[str]:
        """The names from the last hinted checkpoint at or before a version on.

        All names if there is none, and on a local disk.
        """
        hinted = 0 if self.table_folder is not None else self._hinted()
        if hinted and (version is None or hinted <= version):
            names = self._store.names(hinted)
            if hinted in complete_checkpoints(names):
                return names
        return self.names()

    def _hinted(self) -> int:
        """The version of the hinted checkpoint; 0 if unknown."""
        hint = None
        # It only shortens a list: a damaged one is ignored, as in Delta.
        with suppress(ValueError), suppress_conditions("STORED_DATA_INVALID"):
            hint = json.loads(self.read_if_there("_last_checkpoint") or "{}")
        version = hint.get("version") if isinstance(hint, dict) else None
        return version if isinstance(version, int) else 0

    def snapshot_at(self, version: int) -> Snapshot:
        """The state of a version; raises HISTORY_LOST if it was cleaned up."""
        near = self._newest
        if near is not None and 0 <= version - near.version <= ROLLED_MAX:
            with suppress_conditions("HISTORY_LOST"):
                return near.after(map(self.commit_at, range(near.version + 1, version + 1)))
        base, state = self._base(version, _state_in, read_state)
        commits = map(self.commit_at, range(base + 1, version + 1))
        return Snapshot(base, state or {}).after(commits)

    def files_at(self, version: int) -> dict[str, DataFile]:
        """The live files of a version, by path as the log writes it; raises as above."""
        base, files = self._base(version, lambda checksum: checksum.get("files"), read_files)
        commits = map(self.commit_at, range(base + 1, version + 1))
        return roll_files(dict(files or {}), commits)

    def _base(
        self,
        version: int,
        in_checksum: Callable[[dict[str, Any]], T | None],
        in_checkpoint: Callable[[LogStore, Sequence[str]], T],
    ) -> tuple[int, T | None]:
        """A part of the state from the checksum file or an older checkpoint, and its version."""
        found = in_checksum(self.checksum(version))
        if found is not None:
            return version, found
        names = self._names_behind(version)
        checkpoints = complete_checkpoints(names)
        damage: Exception | None = None
        for base in sorted((v for v in checkpoints if v <= version), reverse=True):
            try:
                return base, in_checkpoint(self._store, checkpoints[base])
            except (OSError, ValueError, KeyError) as problem:
                damage = damaged_file(f"{self._store.uri}/{checkpoints[base][0]}", str(problem))
        if damage is not None and not self.has(0):
            raise damage
        return -1, None

    def checkpoint_bytes(self, version: int) -> int:
        """The size of the checkpoint with the live files of a version."""
        checkpoints = complete_checkpoints(self.names())
        base = max((v for v in checkpoints if v <= version), default=None)
        marks = (self._store.mark(name) for name in checkpoints.get(base, ()))  # type: ignore[arg-type]
        return sum(mark[1] for mark in marks if mark is not None)

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
                detail = f"Its log no longer contains version {version}."
                hint = (
                    "Keep history longer with delta.logRetentionDuration on the table, "
                    "and create the objects again that still needed it."
                )
                raise error("HISTORY_LOST", relation=self._location, detail=detail, hint=hint)
            try:
                commit = parse_commit(version, text, modified_ms=mark[0])
            except DamagedCommit as problem:
                raise damaged_file(f"{self._store.uri}/{name}", str(problem)) from problem
            log_cache().keep((self.cache_key, version), commit, commit.memory)
        return commit

    def read_if_there(self, name: str) -> str | None:
        """The text of a file; None if it was cleaned up."""
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
        """The table's folder on a local disk."""
        return self._store.table_folder

    def may_mention(self, version: int, words: Sequence[str]) -> bool:
        """Whether a commit's text has one of some words, without parsing; True for a parsed commit.

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
        # It only saves work: a damaged one is ignored, as in Delta.
        with suppress(ValueError, KeyError, TypeError), suppress_conditions("STORED_DATA_INVALID"):
            if self._store.exists(name) and (text := self.read_if_there(name)) is not None:
                return parse_checksum(text)
        return {}

    def first_version(self, *, after: int) -> int | None:
        """The version of the first commit in the folder after a version; None without any."""
        return min((v for v in commit_versions(self.names()) if v > after), default=None)

    def check_whole(self) -> None:
        """Raise STORED_DATA_INVALID if the last commit is damaged, or an earlier one is missing."""
        names = self.names()
        there = commit_versions(names)
        if there:
            self.commit_at(max(there))
            self.check_none_missing(names, there)

    def check_none_missing(self, names: Iterable[str], there: set[int]) -> None:
        """Raise STORED_DATA_INVALID if a commit is missing between others, or after a checkpoint.

        Commits before a checkpoint may have been cleaned up, oldest first.

        Args:
            there: the versions of the commits among the names, at least one.
        """
        last = max(there)
        versions = (v for v in complete_checkpoints(names) if v <= last)
        first = 1 + max(versions, default=min(there) - 1)
        # A listing may lack concurrent commits.
        for version in (v for v in range(first, last) if v not in there and not self.has(v)):
            path = f"{self._store.uri}/{commit_name(version)}"
            raise damaged_file(path, "it is missing, but later commits exist")


@cache
def log_cache() -> BoundedCache[Commit | dict[str, DataFile]]:
    """The cached commits and lists of live files of this process, of all logs.

    At most 64 MB, or ``CTSQL_LOG_CACHE_MB``; raises INVALID_USAGE if that is no whole number above
    zero.
    """
    given = os.environ.get(BYTES_SETTING) or str(MB_DEFAULT)
    if not given.isascii() or not given.isdigit() or int(given) == 0:
        raise misuse(f"{BYTES_SETTING} is not a number of megabytes", f"It is {given!r}.")
    return BoundedCache(int(given) * 1024 * 1024)


def commit_versions(names: Iterable[str]) -> set[int]:
    """The versions of the commits among the names of a log's files.

    >>> commit_versions(["00000000000000000012.json", "00000000000000000012.crc", "12.json"])
    {12}
    """
    # Not by a pattern: a log has thousands of files.
    length = 20 + len(_COMMIT_SUFFIX)
    numbers = (n[:20] for n in names if len(n) == length and n.endswith(_COMMIT_SUFFIX))
    return {int(number) for number in numbers if number.isascii() and number.isdigit()}


def _state_in(checksum: dict[str, Any]) -> dict[str, Any] | None:
    return checksum if all(checksum.get(kind) is not None for kind in _STATE) else None


def commit_name(version: int) -> str:
    """The name of a commit's file."""
    return f"{version:020d}.json"
