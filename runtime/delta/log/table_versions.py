"""The metadata of a table at each version, and the check that its log was not replaced.

[newest-metadata] the metadata of a version is that of the newest ``metaData`` action at or before
    it. It is rolled forward and back over commits that are read anyway; without them it is that
    of the state of that version.
[same-table] a log that was started again at the same location is another table's, although Delta
    continues with it silently. So each look checks the file of the newest commit seen first; on a
    local disk that costs no call of the JVM. If it is another file or none, the log is opened
    again. Its table must have the known id, or have got a new one by a commit of this very log, as
    CREATE OR REPLACE TABLE .. AS of a foreign Spark does.

Source: the Delta protocol, "Change Metadata", "Version Checksum File".
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.log.log_files import LogFiles
from ctsql.runtime.delta.log.snapshots import Snapshot
from ctsql.runtime.delta.stores.locks import local_path
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.spark.failures.storage_errors import lost_commit

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KNOWN_MAX = 64
READ_MAX = 32
"""The most commits to read to roll the metadata of a version."""
LAYOUTS_MAX = 8

ReplacedError = Callable[[str], CtsqlError]
"""Makes the error for a table that was replaced, from its detail."""


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
        try:
            if below is not None and self._are_near(below, version):
                tables = (self.log.commit_at(v).table for v in range(version, below, -1))
                return next((m for m in tables if m is not None), self._metadata_by_version[below])
            if above is not None and self._are_near(version, above):
                commits = [self.log.commit_at(v) for v in range(version + 1, above + 1)]
                if all(c.table is None for c in commits):
                    return self._metadata_by_version[above]
        except CtsqlError as problem:
            if problem.condition != "HISTORY_LOST":
                raise
        return None

    def _are_near(self, first: int, last: int) -> bool:
        """Whether the commits between two versions are few, or cached."""
        return last - first <= READ_MAX or all(
            self.log.remembers(v) for v in range(first + 1, last + 1)
        )

    def read_like(self, version: int) -> int:
        """A version whose files are read as those of this one; the newest, if it is one."""
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
        expected: the id that it must have; None while unknown. owner: the id of the object that
            owns the table. replaced_error: makes the error if it is another table.
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
        """Forget the newest commit; the expected id stays."""
        self._newest_mark = None

    def _mark(self, log: LogFiles, version: int) -> object:
        """Identifies the file of a commit among those of its name; None if there is no file."""
        if self._folder is None:
            return log.mark(version)
        try:
            status = os.stat(f"{self._folder}/{version:020d}.json")
        except OSError:
            return None  # reading the log will raise the error
        return status.st_ino, status.st_mtime_ns, status.st_size

    def is_same(self, log: LogFiles, *, near: bool) -> bool:
        """Whether the newest commit seen is the same file; ``near``: if that is no round trip."""
        if self._newest_mark is None or (near and self._folder is None):
            return True
        version, mark = self._newest_mark
        return self._mark(log, version) == mark

    def take(self, versions: TableVersions, snapshot: Snapshot) -> None:
        """Note the newest snapshot.

        Raises:
            TABLE_REPLACED: it is that of another table. STORED_DATA_INVALID: it is older than the
            one that was read.
        """
        new_id, version = snapshot.table_id, snapshot.version
        if self.replaced_error is not None:
            table_id = self.expected
            if table_id not in (None, new_id) and not _had(versions, version, str(table_id)):
                raise self.replaced_error(
                    f"Its id is {new_id}; that of the table known is {table_id}."
                )
            if version < self.newest:
                raise lost_commit(self._location, version + 1)
        self.expected, self.newest = new_id, version
        self._newest_mark = (version, self._mark(versions.log, version))


def _had(versions: TableVersions, version: int, table_id: str) -> bool:
    """Whether the table of this log had an id before, which a commit changed."""
    while version > 0 and versions.log.has(version):
        table = versions.log.commit_at(version).table
        if table is not None and versions.metadata(version - 1).id == table_id:
            return True
        version -= 1
    return False
