"""What the write handle needs of a table: the interface that Delta (and a simulation) implements.

:class:`ctsql.runtime.delta.table.DeltaTable` and
:class:`ctsql.runtime.delta.transaction.Transaction` are the implementation; a test may put an
in-memory one in their place. Everything that is staged is a plain value
(:mod:`ctsql.runtime.log.batches`), rows are opaque.

What a log promises, on which the handle builds:

L1: versions are 0, 1, 2, ... without a gap (old ones may be cleaned up); a version never changes.
L2: of two transactions that read the same version, depend on the same application id and both
    move it, one commits and the other raises :class:`Conflict`.
L3: :class:`Conflict` means that nothing of the transaction is in, nor will be. After any other
    error it may be in; if ``answers_late`` it may even come in later, otherwise it is in when the
    call returns or never.
"""

from collections.abc import Collection, Iterable
from typing import Any, Protocol

from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.batches import StagedDelete, StagedFile


class Conflict(Exception):
    """A commit was refused because another one came first; nothing of it is in the table."""


class RowsGone(Exception):
    """Rows that should be deleted are not where they were: somebody rewrote or deleted them."""


class LogTransaction(Protocol):
    """One optimistic transaction on a table."""

    version_read: int

    def stage(self, rows: Any) -> list[StagedFile]:
        """Write rows into files of the table's folder, which nobody sees until committed.

        Args:
            rows: a DataFrame, or rows that the driver holds.
        """
        ...

    def stage_deletes(self, victims: Iterable[tuple[str, Collection[int]]]) -> list[StagedDelete]:
        """Write down rows of the version read to delete, by file and position."""
        ...

    def set_columns(self, schema: str) -> None:
        """Stage rows of other columns than the table has, for :meth:`start_anew`."""
        ...

    def start_anew(self, schema: str) -> None:
        """Give the table other columns, and take away all that it holds.

        A commit that changes any rows first makes this one fail.
        """
        ...

    def read_application(self, app: str) -> None:
        """Depend on an application id (L2)."""
        ...

    def set_application(self, app: str, version: int, now_ms: int) -> None:
        """Record the application id's new version."""
        ...

    def set_domain(self, domain: str, configuration: str, *, removed: bool = False) -> None:
        """Write or remove a domain metadata action."""
        ...

    def add_files(self, staged: Iterable[StagedFile]) -> None:
        """Add staged files to what is committed."""
        ...

    def delete(self, staged: Iterable[StagedDelete]) -> set[str]:
        """Add staged deletions; gives the vector files that the commit will name.

        Where a file has lost other rows since, or several deletions are of one file, their
        vectors are joined in a new file.

        Raises:
            RowsGone: a row is not where it was; no file was made.
        """
        ...

    def commit(self, *, label: str, epoch: int, metadata: str) -> int:
        """Commit; gives the new version. Raises :class:`Conflict` (L3)."""
        ...


class LogTable(Protocol):
    """One table, seen through its log."""

    location: str

    @property
    def table_id(self) -> str:
        """The table's own id, which no other table has."""
        ...

    @property
    def answers_late(self) -> bool:
        """May a commit whose answer was lost come in after the error (L3)?"""
        ...

    def version(self) -> int:
        """The newest version."""
        ...

    def has(self, version: int) -> bool:
        """Is this version committed, and its commit not cleaned up?"""
        ...

    def commit_at(self, version: int) -> Commit:
        """One commit; raises HISTORY_LOST when it was cleaned up."""
        ...

    def application_version(self, app: str) -> int | None:
        """The newest version of an application id, from the table's state."""
        ...

    def domains(self) -> tuple[int, dict[str, str]]:
        """The newest version and its domain metadata."""
        ...

    def configuration(self) -> dict[str, str]:
        """The newest table properties."""
        ...

    def has_feature(self, name: str) -> bool:
        """Does the table's protocol name a table feature?"""
        ...

    def rows_count(self, version: int) -> int | None:
        """The number of rows at a version, if the log says so."""
        ...

    def begin(self) -> Any:
        """Start a :class:`LogTransaction` on the newest version."""
        ...

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Which files, by path below the table, are not there (any more)."""
        ...

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files by path below the table; those that are gone already are no error."""
        ...
