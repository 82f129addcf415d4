"""A Delta table as in its log: versions, commits, metadata, live files; no rows.

[newest-metadata] the metadata of a version is that of the newest ``metaData`` action at or before
    it. It is rolled forward and back over commits that are read anyway; without them it is that of
    the state of that version.
[same-table] a log that was started again at the same location is another table's, although Delta
    continues with it silently. So each update first checks the file of the newest commit that was
    read; on a local disk that costs no call of the JVM. If it is another file or none, the log is
    opened again. Its table must have the known id, or have got a new one by a commit of this very
    log, as by CREATE OR REPLACE TABLE .. AS of a foreign Spark.

Source: the Delta protocol, "Change Metadata", "Version Checksum File".
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ctsql.catalog.errors import CtsqlError, error, suppress_conditions
from ctsql.runtime.delta.log.log_files import LogFiles, Snapshot, log_cache
from ctsql.runtime.delta.stores.locks import local_path
from ctsql.runtime.log import clock
from ctsql.runtime.log.actions import Commit, DataFile, roll_files
from ctsql.runtime.log.table_metadata import TableMetadata, compare_columns
from ctsql.runtime.spark.failures.storage_errors import lost_commit

VERSIONS_CACHED_MAX = 8
"""Cached lists of live files of a table, if the bound of the process allows it."""
ROLLED_MAX = 2_000  # the most commits to roll a list of live files forward


class LiveFiles:
    """The live files of one table."""

    def __init__(self, log: LogFiles) -> None:
        self._log = log
        self._listed_versions: list[int] = []  # their lists may be in the cache

    def at(self, version: int) -> dict[str, DataFile]:
        """The files of a version, by path as the log writes it; raises HISTORY_LOST."""
        below, files = self._near(version)
        if below == version:
            return files
        if below is None:
            files = self._log.files_at(version)
        else:
            commits = map(self._log.commit_at, range(below + 1, version + 1))
            files = roll_files(dict(files), commits)
        memory = sum(file.memory for file in files.values())
        log_cache().keep(self._name(version), files, memory)
        others = [v for v in self._listed_versions if v != version]
        self._listed_versions = [*others[1 - VERSIONS_CACHED_MAX :], version]
        return files

    def has(self, version: int) -> bool:
        """Whether the files are listed by reading at most few commits."""
        return self._near(version)[0] is not None

    def _name(self, version: int) -> tuple[object, str, int]:
        return self._log.cache_key, "files", version

    def _near(self, version: int) -> tuple[int | None, dict[str, DataFile]]:
        """A version at or shortly before with cached files, and these; None without one."""
        for below in sorted(self._listed_versions, reverse=True):
            if version - ROLLED_MAX < below <= version:
                files = log_cache().find(self._name(below))
                if isinstance(files, dict):
                    return below, files
        return None, {}


if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KNOWN_MAX = 64
READ_MAX = 32  # the most commits to roll the metadata of a version
LAYOUTS_MAX = 8

ReplacedError = Callable[[str], CtsqlError]  # makes the error for a replaced table, from its detail


class TableVersions:
    """The metadata of a table's versions, and how their rows are read."""

    def __init__(self, log: LogFiles, update: Callable[[], Snapshot]) -> None:
        self.log = log
        self._update = update
        self._metadata_by_version: dict[int, TableMetadata] = {}
        self._version_by_layout: dict[str, int] = {}
        self.schemas: dict[str, StructType] = {}

    def metadata(self, version: int) -> TableMetadata:
        """The metadata of a version; raises HISTORY_LOST if the log no longer has it."""
        metadata = self._metadata_by_version.get(version)
        if metadata is None:
            metadata = self._roll(version) or self.log.snapshot_at(version).metadata
            if len(self._metadata_by_version) >= KNOWN_MAX:
                del self._metadata_by_version[min(self._metadata_by_version)]
            self._metadata_by_version[version] = metadata
        return metadata

    def _roll(self, version: int) -> TableMetadata | None:
        below = max((v for v in self._metadata_by_version if v < version), default=None)
        above = min((v for v in self._metadata_by_version if v > version), default=None)
        with suppress_conditions("HISTORY_LOST"):
            if below is not None and self._are_near(below, version):
                tables = (self.log.commit_at(v).table for v in range(version, below, -1))
                return next((m for m in tables if m is not None), self._metadata_by_version[below])
            if above is not None and self._are_near(version, above):
                commits = [self.log.commit_at(v) for v in range(version + 1, above + 1)]
                if all(c.table is None for c in commits):
                    return self._metadata_by_version[above]
        return None

    def _are_near(self, first: int, last: int) -> bool:
        """Whether the commits between two versions are few, or cached."""
        return last - first <= READ_MAX or all(
            self.log.remembers(v) for v in range(first + 1, last + 1)
        )

    def read_like(self, version: int) -> int:
        """A version whose files are read in the same way; the newest, if possible."""
        newest = self._update().version
        layout = self.metadata(version).layout
        if layout == self.metadata(newest).layout:
            return newest
        if len(self._version_by_layout) >= LAYOUTS_MAX and layout not in self._version_by_layout:
            del self._version_by_layout[next(iter(self._version_by_layout))]
        return self._version_by_layout.setdefault(layout, version)

    def read_alike(self, first: int, last: int) -> bool:
        """Whether files are read alike at all versions first..last, both inclusive."""
        layout = self.metadata(first).layout
        changes = (self.log.commit_at(v).table for v in range(first + 1, last + 1))
        return all(m is None or m.layout == layout for m in changes)


class Identity:
    """The identity of the table at a location.

    Attributes:
        expected: its required id; None while unknown. owner: the id of the object that owns it.
    """

    def __init__(self, location: str, forget_snapshot: Callable[[], None]) -> None:
        self._forget_snapshot = forget_snapshot
        self._location = location
        folder = local_path(location)
        self._folder = None if folder is None else f"{folder}/_delta_log"
        self._newest_mark: tuple[int, object] | None = None  # a version, and the mark of its commit
        self.newest = -1
        self.expected: str | None = None
        self.owner: str | None = None
        self.replaced_error: ReplacedError | None = None

    def expect(self, owner: str, table_id: str | None, replaced_error: ReplacedError) -> None:
        """Set the owner of the table, and its id if known."""
        self.owner, self.replaced_error = owner, replaced_error
        if self.expected is None and table_id is not None:
            self.expected = table_id
            self._forget_snapshot()

    def forget(self) -> None:
        """Forget the newest commit; the expected id is kept."""
        self._newest_mark = None

    def _mark(self, log: LogFiles, version: int) -> object:
        """Identifies a commit's file among files of its name; None without a file."""
        if self._folder is None:
            return log.mark(version)
        try:
            status = os.stat(f"{self._folder}/{version:020d}.json")
        except OSError:
            return None  # reading the log will raise the error
        return status.st_ino, status.st_mtime_ns, status.st_size

    def is_same(self, log: LogFiles, *, near: bool) -> bool:
        """Whether the newest commit read is the same file; ``near``: if that is no round trip."""
        if self._newest_mark is None or (near and self._folder is None):
            return True
        version, mark = self._newest_mark
        return self._mark(log, version) == mark

    def take(self, versions: TableVersions, snapshot: Snapshot) -> None:
        """Store the newest snapshot; raises TABLE_REPLACED, STORED_DATA_INVALID if it is older."""
        new_id, version = snapshot.table_id, snapshot.version
        if self.replaced_error is not None:
            table_id = self.expected
            if table_id not in (None, new_id) and not _had(versions, version, str(table_id)):
                raise self.replaced_error(
                    f"Its id is {new_id}; the id of the former table is {table_id}."
                )
            if version < self.newest:
                raise lost_commit(self._location, version + 1)
        self.expected, self.newest = new_id, version
        self._newest_mark = (version, self._mark(versions.log, version))


def _had(versions: TableVersions, version: int, table_id: str) -> bool:
    """Whether a commit of this log changed the table's id from this one."""
    while version > 0 and versions.log.has(version):
        table = versions.log.commit_at(version).table
        if table is not None and versions.metadata(version - 1).id == table_id:
            return True
        version -= 1
    return False


LOOKS_APART_MS = 3_600_000
"""After a longer pause (of a sleeping computer) commits may have been made and cleaned up."""


class TableLog(ABC):
    """The log of one table. Not safe for use by several threads at once."""

    versions: TableVersions
    _looked_ms = 0

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        self.identity = Identity(self.location, self._forget_snapshot)
        self._read_log()

    @abstractmethod
    def _open_log(self) -> LogFiles:
        """The files of the log, unread."""

    def _read_log(self) -> None:
        """Open the log, with empty caches."""
        self.log_files = self._open_log()
        self.live_files = LiveFiles(self.log_files)
        self.versions = TableVersions(self.log_files, self.update)
        self._snapshot: Snapshot | None = None

    def _read_log_anew(self) -> None:
        """Open a replaced log again."""
        self._read_log()

    def _forget_snapshot(self) -> None:
        self._snapshot = None

    def check_same(self, *, near: bool = False) -> None:
        """Check that the log was not replaced; ``near``: only if that costs no round trip.

        Raises:
            TABLE_REPLACED: another table is there now. NOT_A_DELTA_TABLE: none is.
        """
        if near and self._snapshot is None:
            self.update()
        else:
            self._look(near=near)

    def _look(self, *, near: bool) -> None:
        if not self.identity.is_same(self.log_files, near=near):
            self.identity.forget()
            self._read_log_anew()
            self.update()

    def has(self, version: int) -> bool:
        """Whether this version is committed; one request to the store."""
        return self.log_files.has(version)

    def _is_there(self, version: int) -> bool:
        """The same, without a request for a cached commit, as ours are."""
        return self.log_files.remembers(version) or self.has(version)

    def oldest_kept_after(self, version: int) -> int | None:
        """The oldest commit after a version, if commits after it were cleaned up; else None.

        Mostly None, without a listing.
        """
        snapshot = self._snapshot
        if self.has(version) if snapshot is None else snapshot.version <= version:
            return None
        return self.log_files.first_version(after=version) if self.version() > version else None

    def check_whole(self) -> None:
        """Raise STORED_DATA_INVALID if the last commit is damaged, or an earlier one is missing."""
        self.log_files.check_whole()

    def update(self) -> Snapshot:
        """The newest snapshot; raises as :meth:`check_same`."""
        if self._snapshot is not None:
            # Else the next commit is missing, and ours would take its place.
            self._look(near=clock.now_ms() - self._looked_ms < LOOKS_APART_MS)
        self._looked_ms = clock.now_ms()
        if self._snapshot is None or self._is_there(self._snapshot.version + 1):
            try:
                newest = self.log_files.newest()
            except CtsqlError:
                self.log_files.check_whole()
                raise
            if newest is None:
                detail = "There is no committed version in its log."
                hint = "Check the location, and that the table was not deleted."
                raise error("NOT_A_DELTA_TABLE", location=self.location, detail=detail, hint=hint)
            if self._is_there(newest.version):
                # The state is taken from the version's checksum file, without reading the
                # commit; a damaged one must not go unnoticed.
                self.commit_at(newest.version)
            self._snapshot = newest
            try:
                self.identity.take(self.versions, newest)
            except CtsqlError:
                self._snapshot = None
                raise
        return self._snapshot

    def version(self) -> int:
        """The newest version."""
        return self.update().version

    def commit_at(self, version: int) -> Commit:
        """One commit, parsed; raises as :meth:`LogFiles.commit_at`."""
        return self.log_files.commit_at(version)

    def files(self, version: int) -> dict[str, DataFile]:
        """The live files at a version, by path as the log writes it."""
        return self.live_files.at(version)

    def find_commit(self, version: int) -> Commit | None:
        """One commit, if the log still has it, by one request; raises STORED_DATA_INVALID."""
        if version < 0 or (self.log_files.remembers(version) and not self.has(version)):
            return None
        with suppress_conditions("HISTORY_LOST"):
            return self.commit_at(version)
        return None

    def application_version(self, app: str) -> int | None:
        """The newest version of an application id, from the table's state."""
        return self.update().transaction(app)

    def domains(self) -> tuple[int, dict[str, str]]:
        """The newest version and its domain metadata: name to configuration."""
        snapshot = self.update()
        return snapshot.version, snapshot.domains()

    def has_feature(self, name: str) -> bool:
        """Whether the table's protocol lists a table feature."""
        return self.update().has_feature(name)

    @property
    def metadata(self) -> TableMetadata:
        """The newest metadata."""
        return self.metadata_at(self.update().version)

    def metadata_at(self, version: int) -> TableMetadata:
        """The metadata of a version."""
        return self.versions.metadata(version)

    @property
    def table_id(self) -> str:
        """The table's globally unique id."""
        return self.metadata.id

    def schema_text(self) -> str:
        """The newest schema, as Delta's JSON text; equal for equal schemas."""
        return self.metadata.schema_text

    def configuration(self) -> dict[str, str]:
        """The newest table properties."""
        return dict(self.metadata.configuration)

    def reshapes(self, version: int) -> bool:
        """Whether a commit changes the columns of existing rows; True if unknown."""
        if version <= 0 or self.commit_at(version).table is None:
            return False
        before: TableMetadata | None = None
        with suppress_conditions("HISTORY_LOST"):
            before = self.metadata_at(version - 1)
        return before is None or bool(compare_columns(before, self.metadata_at(version)))


class LogWatch:
    """Polls logs for new versions, by one file of each log."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._asked_ms = clock.now_ms()

    def note(self, table: TableLog, version: int) -> None:
        """Record that a table was read up to a version."""
        self._versions[table.location] = version

    def has_new_version(self, tables: Iterable[TableLog]) -> bool:
        """Whether any of the tables has, or may have, a version that was not recorded."""
        asked_ms, self._asked_ms = self._asked_ms, clock.now_ms()
        if self._asked_ms - asked_ms >= LOOKS_APART_MS:
            self._versions.clear()  # the next commits may have been cleaned up
        for table in tables:
            version = self._versions.get(table.location)
            if version is None or table.has(version + 1):
                return True
        return False
