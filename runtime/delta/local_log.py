"""Tables on a local disk, read by this process from their logs alone: no Spark, no rows.

For what is answered from logs before Spark has started, or without it. What only Spark can do
raises :class:`NeedsSpark`, and whoever asked does the same with Spark: there every answer is the
same, as the same code runs over :class:`ctsql.runtime.delta.table.Gateway`.

The state of a version is that of the newest version checksum file at or before it, and of the
commits behind that. A table without such files that was checkpointed is left to Spark.

Source: the Delta protocol, "Version Checksum File", "Protocol Evolution".
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Never

from ctsql.runtime.delta.checkpoint_files import checkpointed_files
from ctsql.runtime.delta.locks import local_path
from ctsql.runtime.delta.log_files import CHECKPOINT_NAME, LogFiles, commit_versions
from ctsql.runtime.delta.log_stores import LocalStore
from ctsql.runtime.delta.snapshots import Snapshot
from ctsql.runtime.delta.table_log import TableLog
from ctsql.runtime.log.actions import Commit, roll_files
from ctsql.runtime.log.data_files import DataFile
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.spark.storage_errors import translate_os_errors

ROLLED_MAX = 200
"""The most commits to read behind a checksum file."""
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
"""Reader features that Delta 4.4 knows, and that leave commits and checksum files as they are."""
_URI = "file:"


class NeedsSpark(Exception):
    """It cannot be told from logs on a local disk; the message says what it is."""


class OnSpark:
    """Whatever else is asked of it needs Spark."""

    def __getattr__(self, name: str) -> Never:
        raise NeedsSpark(name)


class LoggedState(Snapshot):
    """The state of a version, by the log: what a checksum file has, and commits after it."""

    def __init__(self, version: int, checksum: Mapping[str, Any]) -> None:
        self.version = version
        self._table: TableMetadata | None = checksum.get("table")
        self._protocol: dict[str, Any] | None = checksum.get("protocol")
        self._transactions: dict[str, int] = dict(checksum.get("transactions") or {})
        self._domains: dict[str, str] = dict(checksum.get("domains") or {})

    def add(self, commit: Commit) -> None:
        """Add what a commit changes."""
        self._table = commit.table or self._table
        self._protocol = commit.protocol or self._protocol
        self._transactions.update(commit.transactions)
        for name, configuration in commit.domains:
            self._domains.pop(name, None)
            if configuration is not None:
                self._domains[name] = configuration

    def check_readable(self) -> None:
        """Leave it to Spark to say that it cannot read a table of this protocol."""
        protocol = self._protocol or {}
        features = set(protocol.get("readerFeatures") or ())
        version = protocol.get("minReaderVersion")
        if version not in _READER_VERSIONS or not features <= _READ_ALIKE:
            raise NeedsSpark("a table of another protocol")

    @property
    def table_id(self) -> str:
        """The table's globally unique id."""
        return self.metadata.id

    @property
    def metadata(self) -> TableMetadata:
        """The metadata."""
        if self._table is None:
            raise NeedsSpark("a log without metadata")
        return self._table

    def transaction(self, app: str) -> int | None:
        """The newest version of an application id."""
        return self._transactions.get(app)

    def domains(self) -> dict[str, str]:
        """The domain metadata: name to configuration."""
        return dict(self._domains)

    def has_feature(self, name: str) -> bool:
        """Whether the protocol lists a table feature."""
        protocol = self._protocol or {}
        kinds = ("readerFeatures", "writerFeatures")
        return any(name in (protocol.get(kind) or ()) for kind in kinds)


class LocalLogFiles(LogFiles):
    """The log of one table in a folder of a local disk."""

    def __init__(self, location: str, folder: Path) -> None:
        super().__init__(location, LocalStore(folder))

    def newest(self) -> LoggedState | None:
        """The newest version with its state; None without a committed version."""
        return newest_state(self)

    def snapshot_at(self, version: int) -> LoggedState:
        """The state of a version."""
        return state_at(self, version)


def newest_state(log: LogFiles) -> LoggedState | None:
    """The state of the newest version of a log on a local disk; None without one."""
    names = log.names()
    there = commit_versions(names)
    last = max(there, default=None)
    checkpoints = (n for n in names if ".checkpoint." in n)
    versions = (int(match[1]) for n in checkpoints if (match := CHECKPOINT_NAME.fullmatch(n)))
    if max(versions, default=-1) > (-1 if last is None else last):
        raise NeedsSpark("a checkpoint behind all commits")
    if last is None:
        return None
    log.check_none_missing(names, there)
    return state_at(log, last)


def state_at(log: LogFiles, version: int) -> LoggedState:
    """The state of a version of a log on a local disk."""
    commits: list[Commit] = []
    checksum = log.checksum(version)
    while not _is_whole(checksum) and version - len(commits) >= 0:
        older = version - len(commits)
        if len(commits) == ROLLED_MAX or not log.has(older):
            raise NeedsSpark("a checkpoint")
        commits.append(log.commit_at(older))
        checksum = log.checksum(older - 1)
    state = LoggedState(version, checksum)
    for commit in reversed(commits):
        state.add(commit)
    state.check_readable()
    return state


def _is_whole(checksum: Mapping[str, Any]) -> bool:
    """Whether a checksum file has all of a state."""
    kinds = ("table", "protocol", "transactions", "domains")
    return all(checksum.get(kind) is not None for kind in kinds)


class LocalTable(OnSpark, TableLog):
    """The log of one table on a local disk."""

    def _open_log(self) -> LocalLogFiles:
        folder = local_path(self.location)
        if folder is None:
            raise NeedsSpark(f"the store of {self.location}")
        return LocalLogFiles(self.location, folder / "_delta_log")

    def files(self, version: int) -> dict[str, DataFile]:
        """The live files at a version, by path as the log writes it.

        They are those of a checksum file that lists them, and of the commits behind it.
        """
        commits: list[Commit] = []
        for older in range(version, version - ROLLED_MAX - 1, -1):
            files = self.log_files.checksum(older).get("files")
            if files is not None or older < 0:
                return roll_files(dict(files or {}), reversed(commits))
            if len(commits) == ROLLED_MAX or not self.has(older):
                break
            commits.append(self.commit_at(older))
        live_files = checkpointed_files(self.log_files, version)
        if live_files is None:
            raise NeedsSpark("the files of a large table")
        return live_files

    def begin(self) -> Never:
        """Commits are Spark's."""
        raise NeedsSpark("a commit")


class LocalGateway(OnSpark):
    """Makes :class:`LocalTable` objects; the part of ``Gateway`` that needs no Spark."""

    read_only = True

    def __init__(self) -> None:
        self._tables: dict[str, LocalTable] = {}

    def table(self, location: str) -> LocalTable:
        """The table at a location; the same object for the same location."""
        table = self._tables.get(location)
        if table is None:
            table = self._tables[location] = LocalTable(location)
        return table

    def output_table(self, location: str) -> LocalTable:
        """The table of an output or of the timeline."""
        return self.table(location)

    def forget(self, location: str) -> None:
        """Drop what is cached about a table."""
        self._tables.pop(location, None)

    def qualify(self, location: str) -> str:
        """A location as a full URI; a relative one is relative to this process's working folder."""
        folder = local_path(location)
        if folder is None:
            raise NeedsSpark(f"the store of {location}")
        return f"{_URI}{os.path.abspath(folder)}"

    def exists(self, location: str) -> bool:
        """Whether the location has a folder for a Delta log."""
        with translate_os_errors(location):
            return (_folder(location) / "_delta_log").exists()

    def entries(self, location: str) -> list[str] | None:
        """The names in a folder, empty if it does not exist; None for a file."""
        folder = _folder(location)
        with translate_os_errors(location):
            if not folder.exists():
                return []
            return os.listdir(folder) if folder.is_dir() else None


def _folder(location: str) -> Path:
    folder = local_path(location)
    if folder is None:
        raise NeedsSpark(f"the store of {location}")
    return folder
