"""Which metadata a table had at each version, and whether its log is still the one it was.

Part of the adapter to Delta (:mod:`ctsql.runtime.delta.table`): nothing else touches Delta's
classes.

V1: the metadata of a version is that of the newest ``metaData`` action at or before it. It is
    rolled forward and back over commits that are read anyway; only where these are not there is
    it taken from the checksum file, or from Delta's own snapshot of that version.
V2: a log that begins anew at the same place is another table's, whatever it holds; Delta itself
    goes on with it silently. The file of the newest commit that was seen is looked at again before
    anything else is: on a local disk that costs no call of the JVM. Where it is another file, or
    none, the log is opened anew, and its table must have the id that was known, or have got another
    one by a commit of this very log, as CREATE OR REPLACE TABLE .. AS of a foreign Spark does.

Source: the Delta protocol, "Change Metadata", "Version Checksum File".
"""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.locks import local_path
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.spark.errors import translate_spark_errors

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import DeltaTable

KNOWN_MAX = 64
READ_MAX = 32
"""Commits that are read to know the metadata of a version; of more, it is asked for itself."""
SNAPSHOTS_MAX = 8

Replaced = Callable[[str], CtsqlError]
"""Makes the error for a table that is another one now; given the facts."""


class Versions:
    """The metadata of a table's versions, and what Delta reads rows by."""

    def __init__(self, table: "DeltaTable") -> None:
        self._table = table
        self._known: dict[int, TableMetadata] = {}
        self._snapshots: dict[str, Any] = {}
        self._schemas: dict[str, StructType] = {}

    def metadata(self, version: int) -> TableMetadata:
        """The metadata of a version.

        Raises:
            HISTORY_LOST: it is no longer told.
        """
        found = self._known.get(version)
        if found is None:
            found = self._roll(version) or self._read_metadata(version)
            if len(self._known) >= KNOWN_MAX:
                del self._known[min(self._known)]
            self._known[version] = found
        return found

    def _roll(self, version: int) -> TableMetadata | None:
        """From that of a version near by, over the commits between."""
        below = max((v for v in self._known if v < version), default=None)
        above = min((v for v in self._known if v > version), default=None)
        try:
            if below is not None and self._are_near(below, version):
                made = (self._table.commit_at(v).table for v in range(version, below, -1))
                return next((m for m in made if m is not None), self._known[below])
            if above is not None and self._are_near(version, above):
                commits = [self._table.commit_at(v) for v in range(version + 1, above + 1)]
                if all(c.table is None for c in commits):
                    return self._known[above]
        except CtsqlError as problem:
            if problem.condition != "HISTORY_LOST":
                raise
        return None

    def _are_near(self, first: int, last: int) -> bool:
        """Are the commits between two versions few, or in memory?"""
        return last - first <= READ_MAX or all(
            self._table.log_files.remembers(v) for v in range(first + 1, last + 1)
        )

    def _read_metadata(self, version: int) -> TableMetadata:
        """From what is stored of the version itself."""
        table = self._table
        if table.has(version) and (made := table.commit_at(version).table) is not None:
            return made
        newest = table.update()
        if int(newest.version()) != version:
            known = table.log_files.checksum(version)
            if known is not None and isinstance(known["table"], TableMetadata):
                return known["table"]
            newest = self._snapshot_at(version)
        with translate_spark_errors():
            text = str(newest.metadata().json())
        return TableMetadata(json.loads(text)["metaData"])

    def _snapshot_at(self, version: int) -> Any:
        none = self._table.gateway.none
        try:
            with translate_spark_errors():
                return self._table.log.getSnapshotAt(version, none, none, False)
        except CtsqlError:
            self._table.commit_at(version)  # where its log was cleaned up, that is the cause
            raise

    def snapshot(self, version: int) -> Any:
        """A snapshot by which Delta reads files as they are read at a version."""
        newest = self._table.update()
        layout = self.metadata(version).layout
        if layout == self.metadata(int(newest.version())).layout:
            return newest
        found = self._snapshots.get(layout)
        if found is None:
            found = self._snapshot_at(version)
            if len(self._snapshots) >= SNAPSHOTS_MAX:
                del self._snapshots[next(iter(self._snapshots))]
            self._snapshots[layout] = found
        return found

    def schema(self, version: int) -> StructType:
        """The columns of a version, as rows are read."""
        layout = self.metadata(version).layout
        found = self._schemas.get(layout)
        if found is None:
            found = self._schemas[layout] = self._table.frame_of((), version).schema
        return found

    def read_alike(self, first: int, last: int) -> bool:
        """Are files read alike at all versions from the first to the last, both inclusive?"""
        layout = self.metadata(first).layout
        changes = (self._table.commit_at(v).table for v in range(first + 1, last + 1))
        return all(m is None or m.layout == layout for m in changes)


class Identity:
    """Which table it is that lies at a place.

    Attributes:
        expected: the id that it must have; None while none is known. owner: whose table it is, by
            id. replaced: makes the error when it is another one.
    """

    def __init__(self, table: "DeltaTable") -> None:
        self._table = table
        folder = local_path(table.location)
        self._folder = None if folder is None else folder / "_delta_log"
        self._seen: tuple[int, object] | None = None  # a version, and the mark of its commit
        self._newest = -1
        self.expected: str | None = None
        self.owner: str | None = None
        self.replaced: Replaced | None = None

    @property
    def newest(self) -> int:
        """The newest version that was seen; -1 for none."""
        return self._newest

    def expect(self, owner: str, table_id: str | None, replaced: Replaced) -> None:
        """Say whose table it is, and which id it has as far as that is known."""
        self.owner, self.replaced = owner, replaced
        if self.expected is None and table_id is not None:
            self.expected = table_id
            self._table.forget_snapshot()

    def forget(self) -> None:
        """Know of no commit any more; the id stays the one that is expected."""
        self._seen = None

    def _mark(self, version: int) -> object:
        """What tells the file of a commit from another of its name; None where there is none."""
        if self._folder is None:
            return self._table.log_files.mark(version)
        try:
            told = os.stat(self._folder / f"{version:020d}.json")
        except OSError:
            return None  # whoever reads the log then finds out why
        return told.st_ino, told.st_mtime_ns, told.st_size

    def is_same(self, *, near: bool = False) -> bool:
        """Is the newest commit that was seen still there, the same file?

        Args:
            near: look only where that costs no round trip.
        """
        if self._seen is None or (near and self._folder is None):
            return True
        version, mark = self._seen
        return self._mark(version) == mark

    def take(self, snapshot: Any, version: int) -> None:
        """Take in the newest snapshot of the log.

        Raises:
            TABLE_REPLACED: it is of another table than was known, and some object's.
        """
        with translate_spark_errors():
            found = str(snapshot.metadata().id())
        if self.replaced is not None:
            if version < self._newest:
                raise self.replaced(f"Version {self._newest} was read, and {version} is its last.")
            known = self.expected
            if known not in (None, found) and not self._had(version, str(known)):
                raise self.replaced(f"Its id is {found}; that of the table known is {known}.")
        self.expected, self._newest = found, version
        self._seen = (version, self._mark(version))

    def _had(self, version: int, wanted: str) -> bool:
        """Had the table of this log another id before, which a commit changed?"""
        versions = self._table.versions
        while version > 0 and self._table.has(version):
            made = self._table.commit_at(version).table
            if made is not None and versions.metadata(version - 1).id == wanted:
                return True
            version -= 1
        return False
