"""Staging: rows become files that are invisible until committed.

A staging or a batch owns its files until it is released (they may be in the table, or a text
describes them) or discarded, which deletes them. A second call of either does nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from ctsql.catalog.errors import error
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.batches import (
    BatchPart,
    BatchText,
    StagedDelete,
    StagedFile,
    check_bounds,
    own_files,
)
from ctsql.runtime.log.protocol import LogTable, LogTransaction
from ctsql.runtime.log.table_changes import parse_partition, tag


class Staging:
    """The staged changes of one T, against the version of the output that a transaction reads."""

    def __init__(self, table: LogTable, txn: LogTransaction) -> None:
        self._table = table
        self.txn = txn
        self.inserts: list[StagedFile] = []
        self._deletes: list[StagedDelete] = []

    def stage(self, rows: Any) -> None:
        """Write rows, a DataFrame or rows in the driver, into files."""
        self.inserts += self.txn.stage(rows)
        faults.point("output_staged")

    def stage_shared(self, rows: Any, times: Sequence[int]) -> list[int]:
        """Stage rows of several Ts, partition i those of times[i]; returns the Ts with rows."""
        files_by_time = [(times[parse_partition(file)], file) for file in self.txn.stage(rows)]
        self.inserts += [tag(file, time) for time, file in files_by_time]
        faults.point("output_staged")
        return sorted({time for time, _ in files_by_time})

    def delete_rows(self, victims: Iterable[tuple[str, Collection[int]]]) -> None:
        """Stage the deletion of stored rows; see :meth:`LogTransaction.stage_deletes`."""
        deletes, remaining = self.txn.stage_deletes(victims)
        self._deletes += deletes
        self.inserts += remaining

    def part(self, time: int) -> BatchPart:
        """The staged changes as the part of a T."""
        return BatchPart(time, tuple(self.inserts), tuple(self._deletes))

    def release(self) -> None:
        """The files are no longer this staging's."""
        self.inserts.clear()
        self._deletes.clear()

    def discard(self) -> None:
        """Delete the files."""
        self._table.discard(self.part(0).own_files())
        self.release()


class OutputBatch:
    """A batch of one output for ``[lower, upper)``; see :mod:`ctsql.runtime.log.batches`.

    Attributes:
        txn: stages rows; None if the batch was read from a text and is complete.
        is_pinned: whether it may be committed only on the version that it was made from.
        travelled: whether it was read from a text; it may be committed, or its files missing.
        domains: the domain metadata that its commit writes; None removes it.
    """

    def __init__(
        self,
        table: LogTable,
        text: BatchText,
        txn: LogTransaction | None = None,
        *,
        is_pinned: bool = False,
    ) -> None:
        self._table = table
        self._text = text
        self.txn = txn
        self.is_pinned = is_pinned
        self.domains: dict[str, str | None] = {}
        self._stagings: dict[int, Staging] = {}
        self._used_up = False
        self.travelled = txn is None

    @property
    def text(self) -> BatchText:
        """The batch as a value."""
        parts = [s.part(time) for time, s in self._stagings.items()]
        new_parts = tuple(p for p in sorted(parts, key=lambda p: p.time) if p.inserts or p.deletes)
        return replace(self._text, parts=self._text.parts + new_parts)

    @property
    def lower(self) -> int:
        """The expected upper."""
        return self._text.lower

    @property
    def version_read(self) -> int:
        """The output's version that it is made from."""
        return self._text.version

    def at(self, time: int) -> Staging:
        """The staging of a T.

        Raises:
            OUTPUT_CLOSED, BOUNDS_INVALID: the T is not in ``[lower, upper)``. BATCH_USED_UP: it was
                released or discarded, or read from a text.
        """
        self.check_usable()
        if self.txn is None:
            raise error("BATCH_USED_UP", detail="It came as a text and is complete.")
        check_bounds(self._text.lower, self._text.upper, [time])
        return self._stagings.setdefault(time, Staging(self._table, self.txn))

    def overwrite_with_schema(self, schema: str) -> None:
        """Replace all rows, under the columns of a schema as the log writes it."""
        self.check_usable()
        for staging in self._stagings.values():
            staging.discard()
        self._stagings.clear()
        # A new transaction: one that has written files cannot change columns.
        txn = self.txn = self._table.begin()
        txn.set_columns(schema)
        self._text = replace(self._text, schema=schema, version=txn.version_read)

    def describe(self) -> str:
        """The batch as a text, which then owns the files; raises BATCH_USED_UP."""
        self.check_usable()
        text = self.text.to_json()
        self.release()
        return text

    def check_usable(self) -> None:
        """Raise BATCH_USED_UP if it owns nothing any more."""
        if self._used_up:
            raise error("BATCH_USED_UP", detail="It was appended, discarded or handed on.")

    def check_files(self) -> None:
        """Raise BATCH_INVALID if it was read from a text and a file of it is missing."""
        if not self.travelled:
            return
        missing = self._table.missing(own_files(self._text.parts))
        if missing:
            raise error("BATCH_INVALID", detail=f"Its file {missing[0]} is gone.")

    def truncate(self, upper: int) -> None:
        """Drop the parts below an upper and delete their files."""
        self._text, parts_below = self._text.truncate(upper)
        self._table.discard(own_files(parts_below) - own_files(self._text.parts))
        for time in [t for t in self._stagings if t < upper]:
            self._stagings.pop(time).discard()

    def release(self) -> None:
        """The files are no longer this batch's."""
        self._used_up = True
        self._stagings.clear()
        self._text = replace(self._text, parts=())

    def discard(self) -> None:
        """Delete the files."""
        self._table.discard(own_files(self.text.parts))
        self.release()


def schema_of(batches: Sequence[OutputBatch]) -> str | None:
    """The new columns of one commit, if any; raises BATCH_INVALID if it has other batches."""
    schemas = [b.text.schema for b in batches if b.text.schema is not None]
    if schemas and len(batches) > 1:
        raise error("BATCH_INVALID", detail="It is a whole contents: no other goes with it.")
    return schemas[0] if schemas else None


class Discardable(Protocol):
    """An owner of staged files."""

    def discard(self) -> None:
        """Delete them."""


@contextmanager
def discard_on_error(owners: Sequence[Discardable]) -> Iterator[None]:
    """Discard staged files if the block raises."""
    try:
        yield
    except BaseException:
        for one in owners:
            one.discard()
        raise
