"""Writes a table by a job of the caller, so that no row is written twice."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ctsql.catalog.errors import error

if TYPE_CHECKING:
    from ctsql.connection.open_warehouse import OpenWarehouse
    from ctsql.runtime.statements.dml.job_writer import JobWriter

POLL_SECONDS = 0.05


class Writer:
    """Writes one table as one job; made by :meth:`ctsql.Connection.writer`.

    A write carries the *upper* of the job: a number that the job counts in (batches, offsets,
    milliseconds), exclusive. Everything below the upper is committed. Rows and upper are in one
    commit, so a job that was killed reads the upper and continues from there.
    """

    def __init__(self, warehouse: "OpenWarehouse", handle: "JobWriter") -> None:
        self._warehouse = warehouse
        self._handle = handle
        self._label = f"writer of {handle.item.name}"

    @property
    def upper(self) -> int:
        """The newest upper that this writer has read; 0 before the first read or write."""
        return self._handle.upper

    def fetch_recent_upper(self) -> int:
        """Read the current upper; 0 before the job's first write."""
        with self._warehouse._running(self._label) as engine:
            return self._handle.output(engine).fetch_recent_upper()

    def wait_for_upper_past(self, upper: int, *, timeout_seconds: float | None = None) -> bool:
        """Wait until some process moves the upper above a number; False after the timeout."""
        start = time.monotonic()
        while self.fetch_recent_upper() <= upper:
            if timeout_seconds is not None and time.monotonic() - start >= timeout_seconds:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def compare_and_append(
        self,
        rows: Any = None,
        *,
        expected_upper: int,
        new_upper: int,
        batches: Sequence[str] = (),
    ) -> int:
        """Append rows and move the upper in one commit, if the upper is the expected one.

        Args:
            rows: as for :meth:`ctsql.Connection.append`, or a dict of rows by their number, from
                the expected upper up to the new one. None moves the upper only.
            batches: texts returned by :meth:`stage`, with these bounds; each can be used once.

        Returns: the new upper.

        Raises:
            UpperMismatch: the upper is not the expected one; nothing was changed.
            CtsqlError: DATA_ERROR if a row breaks a CHECK or NOT NULL of the table.
                ALTERED_MEANWHILE if the table got one after a batch was staged; nothing was
                changed, and the batch can be discarded.
        """
        self._check("compare_and_append")
        return self._write(rows, expected_upper, new_upper, batches, cuts=False)

    def append(
        self, rows: Any = None, *, lower: int, upper: int, batches: Sequence[str] = ()
    ) -> int:
        """Append as one of several writers of the same rows: committed rows are not written again.

        Args:
            rows: a dict of rows by their number; other rows have the number ``upper - 1``.
            lower: the first number, at most the job's upper. upper: exclusive.
            batches: as for :meth:`compare_and_append`.

        Returns: the upper, which is at least ``upper``.

        Raises:
            UpperMismatch: there would be a gap; nothing was changed.
        """
        self._check("append")
        return self._write(rows, lower, upper, batches, cuts=True)

    def stage(self, rows: Any, *, lower: int, upper: int) -> str:
        """Write rows into files that no reader sees yet; returns a text with which to append them.

        Another process may append the text. It must be appended or discarded once: until then its
        files are kept, unless MAINTAIN removes them as old.
        """
        self._check("stage")
        with self._warehouse._running(self._label) as engine:
            batch = self._handle.stage(engine, _by_number(rows, upper), lower, upper)
            return batch.describe()

    def discard(self, batch: str) -> None:
        """Delete the files of a staged batch, unless it was committed."""
        self._check("discard")
        with self._warehouse._running(self._label) as engine:
            output = self._handle.output(engine)
            output.drop(output.batch_of(batch))

    def _write(
        self, rows: Any, lower: int, upper: int, batches: Sequence[str], *, cuts: bool
    ) -> int:
        """Commit rows and staged batches; ``cuts``: without the parts that are committed."""
        handle = self._handle
        with self._warehouse._running(self._label) as engine:
            output = handle.output(engine)
            staged_batches = [output.batch_of(text) for text in batches]
            current = output.fetch_recent_upper()
            if not cuts and current != lower and not staged_batches:
                raise handle.mismatch(current, lower)
            own = []
            if rows is not None and not (cuts and current >= upper):
                own = [handle.stage(engine, _by_number(rows, upper), lower, upper)]
            all_batches = [*staged_batches, *own]
            return handle.write(engine, all_batches, own, lower=lower, upper=upper, cuts=cuts)

    def _check(self, what: str) -> None:
        if self._warehouse.read_only:
            raise error("READ_ONLY_MODE", what=what)
        if self._warehouse.in_transaction:
            raise error("TRANSACTION_OPEN", what=what)

    def __repr__(self) -> str:
        return f"<Writer of {self._handle.item.name}, job {self._handle.job!r}>"


def _by_number(rows: Any, upper: int) -> Mapping[int, Any]:
    return rows if isinstance(rows, Mapping) else {upper - 1: rows}
