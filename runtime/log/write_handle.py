"""The write handle: every durable write is made by it.

One output is one Delta table and one application id. The *upper* (exclusive) is the application
id's transaction version in the log: everything at times below it is known and durable. A write is
one Delta commit of staged files, deletion vectors, metadata and the new upper.

    batch, open --> Batch --describe--> text --batch_of--> Batch --+
                      |                (another process)           +--> one commit, or dropped
                      +--------------------------------------------+

A batch of :meth:`Output.batch` may be committed on a newer version than it was computed from; one
of :meth:`Output.open` only on that very version, or one with the same rows. The transaction depends
on the application id, so of two commits that read the same upper Delta fails one
(ConcurrentTransactionException). A lost answer is resolved by searching the log for the commit's
token, never by trying again blindly.

[upper-monotone] the upper never goes back.
[commit-moves-upper] a commit that is in moved the upper from `expected` to `new`, with new >
    expected.
[one-owner-of-files] staged files have one owner: the batch that staged them, or the text made of
    it. An append takes them over: after it they are in the table, or deleted, or (if the outcome is
    unknown) kept until the upper has moved and the log shows it.
[failure-until-upper] a failure recorded for the output holds until the upper moves. Recorded by
    the commit that moves the upper, it is the output's contents from there until the next such
    commit.
[in-is-kept] files that are in the table, or may be, are never deleted. A text whose batch is in
    already, as after an append whose answer was lost, is recognised by the batch's id.
(tests/spark/log/test_write_handle.py, test_batches_appended.py)
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ctsql.catalog.errors import error
from ctsql.catalog.times import CLOSED
from ctsql.runtime.log.batches import BatchText, check_bounds, check_writer_id, new_writer_id
from ctsql.runtime.log.commit import (
    Appended as Appended,
    Commits,
    Committed as Committed,
    Disturbed as Disturbed,
    Outcome as Outcome,
    Unwritten as Unwritten,
    UpperMoved as UpperMoved,
    disturbance_error as disturbance_error,
)
from ctsql.runtime.log.protocol import LogTable, LogTransaction, RowsGone
from ctsql.runtime.log.staging import OutputBatch as OutputBatch, discard_on_error
from ctsql.runtime.log.uppers import (
    FAILURE as FAILURE,
    NO_UPPER as NO_UPPER,
    Entry as Entry,
    Uppers,
)

DISTURBED_TRIES_MAX = 50
_Lost = TypeVar("_Lost", bound=UpperMoved | Disturbed | Unwritten)


class Output:
    """The handle of one output (or of the timeline, or of the catalog).

    Uses only what :mod:`ctsql.runtime.log.protocol` lists. Not thread-safe.
    """

    def __init__(
        self,
        table: LogTable,
        app: str,
        *,
        shared: bool = False,
        since: int = -1,
        begin: Callable[[], LogTransaction] | None = None,
    ) -> None:
        """A handle.

        Args:
            shared: whether other applications write the table too. Then the last commit of this
                one may be far back, and the table's state is read first.
            since: commits up to this version are not read; the table's state covers them.
            begin: starts the transactions of batches; the default is the table's own.
        """
        self.table = table
        self.app = app
        self.writer = new_writer_id()
        self.uppers = Uppers(table, app, shared=shared, since=since)
        self._begin = begin or table.begin
        self._commits = Commits(self.uppers, self.writer)

    # ---- reading the upper

    @property
    def upper(self) -> int:
        """The cached upper; never goes back."""
        return self.uppers.upper

    def fetch_recent_upper(self) -> int:
        """Read the upper from the log, linearised with writes."""
        self.follow(self.table.version())
        return self.upper

    def follow(self, version: int) -> int:
        """Read the log up to a version; returns the version up to which it was read.

        That is a later one if it was read already, or if the log was cleaned up.
        """
        self._commits.follow(version)
        return self.uppers.scanned_through

    def entries(self, since: int) -> list[Entry]:
        """The commits with an upper, from the last one at or below ``since`` on."""
        self.follow(self.table.version())
        return self.uppers.since(since)

    def entries_around(self, since: int) -> list[Entry]:
        """The last commit with an upper at or below ``since``, and the next one.

        Raises as :meth:`Uppers.around`, which reads few of the commits since then.
        """
        self.follow(self.table.version())
        return self.uppers.around(since)

    def has_foreign_rows(self) -> bool:
        """Whether another writer changed rows since the last commit with an upper was computed.

        Decided by the log alone.
        """
        newest = self.table.version()
        self.follow(newest)
        if self.upper in (NO_UPPER, CLOSED):
            return False  # the first write compares everything; after the last there is none
        last = self.uppers.last
        if last is None:
            return True  # its commit was cleaned up, and with it the version it was computed from
        commit = self.table.commit_at(last.version)
        after = int(commit.metadata.get("version_read", last.version))
        if after < newest and not self.table.has(after + 1):
            return True
        between = (self.table.commit_at(v) for v in range(after + 1, newest + 1))
        return any(c.changes_data and c.transaction(self.app) is None for c in between)

    # ---- batches

    def batch(self, lower: int, upper: int) -> OutputBatch:
        """Start a batch for ``[lower, upper)`` on the newest version; raises BOUNDS_INVALID."""
        check_bounds(lower, upper, ())
        return self._begin_batch(self.table.begin(), lower, upper, is_pinned=False)

    def open(self, expected: int) -> OutputBatch | UpperMoved:
        """Start a batch to be committed only on the rows it reads, at the upper ``expected``."""
        txn = self.table.begin()
        self.follow(txn.version_read)
        if self.upper != expected:
            return UpperMoved(self.upper, expected)
        return self._begin_batch(txn, expected, CLOSED, is_pinned=True)

    def _begin_batch(
        self, txn: LogTransaction, lower: int, upper: int, *, is_pinned: bool
    ) -> OutputBatch:
        text = BatchText(
            batch_id=str(uuid.uuid4()),
            writer=self.writer,
            table_id=self.table.table_id,
            app=self.app,
            lower=lower,
            upper=upper,
            version=txn.version_read,
            parts=(),
        )
        return OutputBatch(self.table, text, txn, is_pinned=is_pinned)

    def batch_of(self, text: str) -> OutputBatch:
        """The batch of a text; takes over its files.

        Raises:
            BATCH_INVALID, BATCH_OF_ANOTHER_OUTPUT.
        """
        read = BatchText.from_json(text)
        if (read.table_id, read.app) != (self.table.table_id, self.app):
            detail = (
                f"It is for table {read.table_id}, application {read.app}; this is table "
                f"{self.table.table_id}, application {self.app}."
            )
            raise error("BATCH_OF_ANOTHER_OUTPUT", output=self.table.location, detail=detail)
        check_writer_id(read.writer)
        return OutputBatch(self.table, read)

    # ---- writing

    def compare_and_append(
        self,
        batches: Sequence[OutputBatch],
        *,
        expected: int,
        new: int | None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Appended:
        """Write in one commit iff the upper is the expected one.

        Args:
            batches: of exactly these bounds, or one of :meth:`open`, or none.
            expected, new: in T, exclusive; new may be CLOSED, and nothing follows. With a batch of
                :meth:`open` it may be None, which leaves the upper.

        Returns:
            Committed; Unwritten if new is the expected upper; UpperMismatch, with nothing
            changed; Disturbed if rows to delete were rewritten and must be computed again. In
            each case the batches are used up, and files that are not in are deleted.

        Raises:
            OUTPUT_CLOSED, BOUNDS_INVALID,
            BATCH_USED_UP: wrong use; nothing is changed, and batches stay with their owner.
            COMMIT_UNKNOWN: the commit failed and the log cannot be read to find out.
        """
        self.check(batches, expected, new)
        if not any(batch.is_pinned for batch in batches):  # else its own version says it
            upper = self.fetch_recent_upper()
            if upper != expected:
                return self._clean_up(batches, UpperMoved(upper, expected))
        if new == expected:
            return self._clean_up(batches, Unwritten(expected))
        with discard_on_error([batch for batch in batches if batch.is_pinned]):
            for _ in range(DISTURBED_TRIES_MAX):
                outcome = self._try(batches, expected, new, metadata or {})
                if isinstance(outcome, Committed):
                    return outcome
                if outcome is not None:
                    return self._clean_up(batches, outcome)
            raise disturbance_error(f"{self.table.location}: {DISTURBED_TRIES_MAX} tries")

    def append(
        self,
        batches: Sequence[OutputBatch],
        *,
        lower: int,
        upper: int,
        metadata: Mapping[str, Any] | None = None,
    ) -> Appended:
        """Write for one of several writers of identical data.

        What is below the current upper is in already and is left out; if none remain, nothing
        is committed. A current upper below ``lower`` would leave a gap and is a mismatch.

        Args, returns and raises as :meth:`compare_and_append`.
        """
        self.check(batches, lower, upper)
        for _ in range(DISTURBED_TRIES_MAX):
            current = self.fetch_recent_upper()
            if current < lower:
                return self._clean_up(batches, UpperMoved(current, lower))
            if current >= upper:
                return self._clean_up(batches, Unwritten(current))
            for batch in batches:
                batch.truncate(current)
            outcome = self._try(batches, current, upper, metadata or {})
            if isinstance(outcome, Committed):
                return outcome
            if isinstance(outcome, Disturbed):
                return self._clean_up(batches, outcome)
        raise disturbance_error(f"{self.table.location}: {DISTURBED_TRIES_MAX} tries")

    def drop(self, batch: OutputBatch) -> Committed | UpperMoved:
        """Delete an outdated batch; Committed if it is in already [in-is-kept]."""
        batch.check_usable()
        return self._clean_up([batch], UpperMoved(self.fetch_recent_upper(), batch.lower))

    def check(self, batches: Sequence[OutputBatch], lower: int, upper: int | None) -> None:
        """Raise what :meth:`compare_and_append` says of wrong use."""
        times = [part.time for batch in batches for part in batch.text.parts]
        check_bounds(lower, CLOSED if upper is None else upper, times)
        if len({b.text.batch_id for b in batches}) < len(batches):
            raise error("BATCH_USED_UP", detail="It is given twice.")
        for batch in batches:
            batch.check_usable()
            if batch.lower != lower or (batch.text.upper != upper and not batch.is_pinned):
                detail = (
                    f"It is for [{batch.lower}, {batch.text.upper}), the call for "
                    f"[{lower}, {upper})."
                )
                message = "the bounds of a staged batch are not those it is appended with"
                raise error("BOUNDS_INVALID", message=message, detail=detail)
            if (batch.text.table_id, batch.text.app) != (self.table.table_id, self.app):
                detail = f"It is for table {batch.text.table_id}."
                raise error("BATCH_OF_ANOTHER_OUTPUT", output=self.table.location, detail=detail)

    def _clean_up(self, batches: Sequence[OutputBatch], outcome: _Lost) -> Committed | _Lost:
        """Delete the batches that lost, except those that are in already [in-is-kept]."""
        versions = [self._version_of(batch) for batch in batches]
        for batch, version in zip(batches, versions, strict=True):
            if version is None:
                batch.discard()
            else:
                batch.release()
        commits = [v for v in versions if v is not None]
        return Committed(max(commits)) if commits and len(commits) == len(versions) else outcome

    def _version_of(self, batch: OutputBatch) -> int | None:
        if not batch.travelled:
            return None
        for v in range(batch.text.version + 1, self.table.version() + 1):
            if batch.text.batch_id in self.table.commit_at(v).metadata.get("batches", ()):
                return v
        return None

    def _try(
        self,
        batches: Sequence[OutputBatch],
        expected: int,
        new: int | None,
        metadata: Mapping[str, Any],
    ) -> Outcome | None:
        """Commit once; None if another commit came first and this one can be tried again."""
        txn = next((batch.txn for batch in batches if batch.is_pinned), None)
        rebase = txn is None
        if txn is None:
            txn = self._begin()
            self.follow(txn.version_read)
            if self.upper != expected:
                return UpperMoved(self.upper, expected)
        for batch in batches:
            batch.check_files()
        try:
            outcome = self._commits.attempt(txn, batches, expected, new, metadata)
        except RowsGone:
            return Disturbed()
        return None if rebase and isinstance(outcome, Disturbed) else outcome
