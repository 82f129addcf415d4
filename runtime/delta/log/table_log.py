"""A Delta table as its log has it: versions, commits, metadata, and what they record; no rows."""

from abc import ABC, abstractmethod

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.delta.log.live_files import LiveFiles
from ctsql.runtime.delta.log.log_files import LogFiles
from ctsql.runtime.delta.log.snapshots import Snapshot
from ctsql.runtime.delta.log.table_versions import Identity, TableVersions
from ctsql.runtime.log import clock
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.table_metadata import TableMetadata, compare_columns

LOOKS_APART_MS = 3_600_000
"""After a longer pause, of a computer that slept, commits may have come and been cleaned up."""


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
        """The files of the log; none was read yet."""

    def _read_log(self) -> None:
        """Open the log, and know nothing of it yet."""
        self.log_files = self._open_log()
        self.live_files = LiveFiles(self.log_files)
        self.versions = TableVersions(self.log_files, self.update)
        self._snapshot: Snapshot | None = None

    def _read_log_anew(self) -> None:
        """Open the log again, and use what was read of it before."""
        self._read_log()

    # ---- which table it is

    def _forget_snapshot(self) -> None:
        self._snapshot = None

    def check_same(self, *, near: bool = False) -> None:
        """Check that the log is still the one that was read; ``near``: if that costs no round trip.

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

    # ---- versions and commits

    def has(self, version: int) -> bool:
        """Whether this version is committed; one request to the store."""
        return self.log_files.has(version)

    def _is_there(self, version: int) -> bool:
        """The same; the store is not asked for a commit that was read, as our own are."""
        return self.log_files.remembers(version) or self.has(version)

    def oldest_kept_after(self, version: int) -> int | None:
        """The oldest commit after a version, where the one that follows it is not in the log.

        None if none does, as nearly always; that takes no listing. Otherwise those in between were
        cleaned up, and the version's own with them.
        """
        snapshot = self._snapshot
        if self.has(version) if snapshot is None else snapshot.version <= version:
            return None
        return self.log_files.first_version(after=version) if self.version() > version else None

    def check_whole(self) -> None:
        """Raise STORED_DATA_INVALID if its last commit is damaged, or one in front is missing."""
        self.log_files.check_whole()

    def update(self) -> Snapshot:
        """The newest snapshot; lists the log if there is another, raises as :meth:`check_same`."""
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

    def find_commit(self, version: int) -> Commit | None:
        """One commit, if the log still has it, by one request; raises STORED_DATA_INVALID."""
        if version < 0 or (self.log_files.remembers(version) and not self.has(version)):
            return None
        try:
            return self.commit_at(version)
        except CtsqlError as problem:
            if problem.condition != "HISTORY_LOST":
                raise
            return None

    # ---- what the commits have recorded

    def transaction_version(self, app: str, snapshot: Snapshot) -> int | None:
        """The version of an application id as of a snapshot."""
        return snapshot.transaction(app)

    def application_version(self, app: str) -> int | None:
        """The newest version of an application id, from the table's state."""
        return self.transaction_version(app, self.update())

    def domains(self) -> tuple[int, dict[str, str]]:
        """The newest version and its domain metadata: name to configuration."""
        snapshot = self.update()
        return snapshot.version, snapshot.domains()

    def has_feature(self, name: str) -> bool:
        """Whether the table's protocol lists a table feature."""
        return self.update().has_feature(name)

    # ---- metadata

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
        """Whether a commit changes the columns of existing rows; True if that is unknown."""
        if version <= 0 or self.commit_at(version).table is None:
            return False
        try:
            before = self.metadata_at(version - 1)
        except CtsqlError as problem:
            if problem.condition != "HISTORY_LOST":
                raise
            return True
        return bool(compare_columns(before, self.metadata_at(version)))
