"""The interface of a table for the write handle; Delta and the simulation implement it.

Delta's implementation is :class:`ctsql.runtime.delta.table.DeltaTable` with
:class:`ctsql.runtime.delta.transaction.OptimisticTransaction`. Staged changes are plain values
(:mod:`ctsql.runtime.log.batches`); rows are opaque. A log guarantees:

[versions-without-gap] versions are 0, 1, 2, ... without a gap (old ones may be cleaned up); a
    version never changes.
[one-moves-an-id] of two transactions that read the same version, depend on the same application id
    and both move it, one commits and the other raises :class:`Conflict`.
[conflict-is-out] :class:`Conflict` means that nothing of the transaction is or will be committed.
    After any other error it may be; if ``answers_late`` it may even be committed later, otherwise
    when the call returns or never.
"""

from collections.abc import Collection, Iterable
from typing import Any, Protocol

from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.batches import StagedDelete, StagedFile


class Conflict(Exception):
    """A commit was refused because another one came first; nothing of it is in the table."""


class RowsGone(Exception):
    """Rows to delete are not where they were: another commit rewrote or deleted them."""


class LogTransaction(Protocol):
    """One optimistic transaction on a table; ``version_read`` is the version on which it began."""

    version_read: int

    def stage(self, rows: Any) -> list[StagedFile]:
        """Write rows, a DataFrame or rows in the driver, into files invisible until committed."""

    def stage_deletes(
        self, victims: Iterable[tuple[str, Collection[int]]]
    ) -> tuple[list[StagedDelete], list[StagedFile]]:
        """Stage the deletion of rows of the version read.

        Without deletion vectors the remaining rows go into new files. ``victims``: row indexes by
        file, each once, its full path as in ``_metadata.file_path``.
        """

    def set_columns(self, schema: str) -> None:
        """Let :meth:`stage` write rows of these columns, for :meth:`overwrite_with_schema`."""

    def overwrite_with_schema(self, schema: str) -> None:
        """Replace the columns and delete all rows; depends on every row."""

    def read_application(self, app: str) -> None:
        """Depend on an application id [one-moves-an-id]."""

    def set_application(self, app: str, version: int, now_ms: int) -> None:
        """Record the application id's new version."""

    def set_domain(self, domain: str, configuration: str, *, removed: bool = False) -> None:
        """Write or remove a domain metadata action."""

    def add_files(self, files: Iterable[StagedFile]) -> None:
        """Add staged files to what is committed."""

    def delete(self, deletions: Iterable[StagedDelete]) -> set[str]:
        """Add staged deletions; returns the vector files that the commit will name.

        A file's vectors are joined in a new file if it lost other rows since, or has several
        deletions. Raises RowsGone, with no file made, if a row is not where it was.
        """

    def commit(self, *, label: str, epoch: int, metadata: str) -> int:
        """Commit; returns the new version. Raises Conflict [conflict-is-out].

        Label and epoch are for the table's history.
        """


class LogTable(Protocol):
    """One table, seen through its log."""

    location: str

    @property
    def table_id(self) -> str:
        """The table's globally unique id."""

    @property
    def answers_late(self) -> bool:
        """Whether a commit may succeed after its call raised [conflict-is-out]."""

    def version(self) -> int:
        """The newest version."""

    def has(self, version: int) -> bool:
        """Whether this version is committed and its commit file is still in the log."""

    def commit_at(self, version: int) -> Commit:
        """One commit; raises HISTORY_LOST if it was cleaned up."""

    def application_version(self, app: str) -> int | None:
        """The newest version of an application id, from the table's state."""

    def domains(self) -> tuple[int, dict[str, str]]:
        """The newest version and its domain metadata."""

    def rows_count(self, version: int) -> int | None:
        """The number of rows at a version; None if the log lacks it."""

    def begin(self) -> Any:
        """Start a :class:`LogTransaction` on the newest version."""

    def missing(self, paths: Iterable[str]) -> list[str]:
        """The files, by path below the table, that do not exist."""

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files by path below the table; a missing one is no error."""
