"""The write handle: how anything becomes durable.

One output is one Delta table and one application id. The *upper* (exclusive) is the application
id's transaction version in the log: everything at times below it is known and durable. A write is
one Delta commit that holds the staged files, the deletion vectors, the transaction action with
the new upper, and metadata; it goes in only if the upper is the expected one.

    Rows --stage--> Batch --describe--> text --batch_of--> Batch --+
                      |                (another process)           +--> one commit, or dropped
                      +--------------------------------------------+
    open --> Attempt: stages against one version, commits on that version only

Why this cannot write twice: the transaction depends on the application id, so of two commits that
read the same upper Delta lets one in and fails the other (ConcurrentTransactionException). A lost
answer is resolved by reading the log for the commit's token, never by trying again blindly.

I1: the upper never goes back.
I2: a commit that is in moved the upper from `expected` to `new`, with new > expected.
I3: staged files have one owner: the batch or attempt that staged them, or the text made of a
    batch. An append takes them over and leaves none behind: after it they are in the table, or
    deleted, or (when nobody can know) kept until the upper has moved and the log says which.
I4: a failure recorded beside the output holds until the upper moves.
I5: what is in the table, or may be, is never deleted: a text whose batch is in already, as when
    it was appended and the answer was lost, is recognised by the batch's id.

Tests: tests/runtime/test_write_handle.py (all cases of vectors/write_handle.json).
"""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime import faults
from ctsql.runtime.batches import BatchText, Part, check_bounds, own_files
from ctsql.runtime.log import Conflict, LogTable, LogTransaction, RowsGone
from ctsql.runtime.staged import Batch, Rows, Staging, discarded_on_error
from ctsql.runtime.uppers import FAILURE, NO_UPPER, Entry, Uppers
from ctsql.runtime.writer_ids import WriterId

__all__ = [
    "FAILURE",
    "NO_UPPER",
    "Attempt",
    "Batch",
    "Committed",
    "Disturbed",
    "Entry",
    "Outcome",
    "Output",
    "Rows",
    "Unwritten",
    "UpperMismatch",
]

DISTURBED_TRIES_MAX = 50
POLL_SECONDS_MIN = 0.002
POLL_SECONDS_MAX = 0.1


@dataclass(frozen=True, slots=True)
class Committed:
    """It is in, as this version of the table."""

    version: int


@dataclass(frozen=True, slots=True)
class UpperMismatch:
    """The upper is not the expected one; nothing of ours is in."""

    current: int
    expected: int


@dataclass(frozen=True, slots=True)
class Disturbed:
    """A commit without an upper came first (OPTIMIZE, say): compute again at the same time."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """There was nothing to commit: the upper is there already."""

    upper: int


Outcome = Committed | UpperMismatch | Disturbed
Appended = Committed | UpperMismatch | Disturbed | Unwritten


@dataclass(frozen=True, slots=True)
class _Unresolved:
    """A commit of which nobody knows whether it is in; its files wait until the log tells."""

    token: str
    version_read: int
    expected: int
    files: frozenset[str]


class Output:
    """The handle of one output (or of the timeline, or of the catalog).

    Of a table it uses what :mod:`ctsql.runtime.log` lists and nothing else. Not safe for use by
    several threads at once.
    """

    def __init__(
        self,
        table: LogTable,
        app: str,
        on_commit: Callable[[Entry], None] | None = None,
        *,
        writer: WriterId | None = None,
    ) -> None:
        """A handle; ``on_commit`` is told of this process's own commits that move the upper."""
        self.table = table
        self.app = app
        self.on_commit = on_commit
        self.writer = writer or WriterId.new()
        self.uppers = Uppers(table, app)
        self._unresolved: list[_Unresolved] = []

    # ---- reading the upper

    @property
    def failure(self) -> str | None:
        """What is recorded beside the output, as of what was last looked at."""
        return self.uppers.failure

    @property
    def upper(self) -> int:
        """The cached upper; never goes back."""
        return self.uppers.upper

    def fetch_recent_upper(self) -> int:
        """The upper as the log has it now, linearised with writes."""
        self._follow(self.table.version())
        return self.upper

    def _follow(self, version: int) -> None:
        self.uppers.follow(version)
        for commit in [u for u in self._unresolved if u.expected < self.upper]:
            # Whatever is still on its way depends on an upper that has passed: it cannot come in.
            self._unresolved.remove(commit)
            is_log_there = self.table.has(commit.version_read + 1)
            if is_log_there and self._told(commit) is None:
                self.table.discard(commit.files)

    def _told(self, commit: _Unresolved) -> int | None:
        """The version that holds a commit; None when it is not in."""
        for v in range(commit.version_read + 1, self.table.version() + 1):
            if self.table.commit_at(v).metadata.get("token") == commit.token:
                return v
        return None

    def entries(self, since: int) -> list[Entry]:
        """The commits with an upper, from the last one at or below ``since`` on."""
        self._follow(self.table.version())
        return self.uppers.since(since)

    def wait_for_upper_past(
        self,
        time_: int,
        *,
        timeout_seconds: float | None = None,
        pause: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> bool:
        """Return when the upper is past a time, whichever process advanced it.

        The log is watched by asking for its next commit, which costs one look at the store.

        Args:
            timeout_seconds: give up after so long; None waits for ever. pause: waits for some
                seconds. now: seconds of a clock that does not go back.

        Returns:
            Whether the upper is past; False when the time is over.
        """
        begun = now()
        wait = POLL_SECONDS_MIN
        while self.fetch_recent_upper() <= time_:
            seen = self.table.version()
            while not self.table.has(seen + 1):
                left = None if timeout_seconds is None else begun + timeout_seconds - now()
                if left is not None and left <= 0:
                    return False
                pause(wait if left is None else min(wait, left))
                wait = min(wait * 2, POLL_SECONDS_MAX)
            wait = POLL_SECONDS_MIN
        return True

    def has_foreign_rows(self) -> bool:
        """Did somebody else change rows that the last commit with an upper did not know of?

        Told from the log, without a look at rows: commits after the version that the last commit
        was computed from, which change data and carry no upper.
        """
        newest = self.table.version()
        self._follow(newest)
        if self.upper == NO_UPPER:
            return False  # nothing is written yet: the first write compares everything
        last = self.uppers.last
        if last is None:
            return True  # its commit was cleaned up, so what it knew of is not known
        commit = self.table.commit_at(last.version)
        after = int(commit.metadata.get("version_read", last.version))
        if after < newest and not self.table.has(after + 1):
            return True
        between = (self.table.commit_at(v) for v in range(after + 1, newest + 1))
        return any(c.changes_data and c.transaction(self.app) is None for c in between)

    # ---- batches

    def batch(self, lower: int, upper: int) -> Batch:
        """Start a batch for ``[lower, upper)``; its rows are staged against the newest version.

        Raises:
            BOUNDS_BACKWARDS: upper < lower.
        """
        check_bounds(lower, upper, ())
        txn = self.table.begin()
        text = BatchText(
            batch_id=str(uuid.uuid4()),
            writer=str(self.writer),
            table_id=self.table.table_id,
            app=self.app,
            lower=lower,
            upper=upper,
            version=txn.version_read,
            parts=(),
        )
        return Batch(self.table, text, txn)

    def batch_of(self, text: str) -> Batch:
        """The batch of a text; it, and no longer the text, owns the files.

        Raises:
            BATCH_INVALID, BATCH_TOO_NEW: see :meth:`BatchText.from_json`.
            BATCH_OF_ANOTHER_OUTPUT: it was staged for another output.
        """
        read = BatchText.from_json(text)
        if (read.table_id, read.app) != (self.table.table_id, self.app):
            raise error(
                "BATCH_OF_ANOTHER_OUTPUT",
                output=self.table.location,
                detail=f"It is for table {read.table_id}, application {read.app}; this is table "
                f"{self.table.table_id}, application {self.app}.",
            )
        WriterId.parse(read.writer)
        return Batch(self.table, read)

    # ---- writing

    def compare_and_append(
        self,
        changes: Sequence[Batch | Rows],
        *,
        expected: int,
        new: int,
        metadata: Mapping[str, Any] | None = None,
    ) -> Appended:
        """Write in one commit iff the upper is the expected one.

        Args:
            changes: what is written: batches with exactly these bounds, rows to be staged, or
                nothing, and then no data file is written. expected, new: in T, exclusive; new may
                be CLOSED, and nothing follows.

        Returns:
            Committed; Unwritten when new is the expected upper; UpperMismatch, with nothing
            changed; Disturbed when rows to delete were rewritten, to be computed anew. Whatever
            it is, the batches are used up and what is not in is deleted.

        Raises:
            OUTPUT_CLOSED, BOUNDS_BACKWARDS, UPDATE_OUT_OF_BOUNDS, BATCH_BOUNDS_DIFFER,
            BATCH_USED_UP: wrong use; nothing is changed and batches stay with their owner.
            COMMIT_UNKNOWN: the commit failed and the log cannot be read to find out.
        """
        batches, rows = self._checked(changes, expected, new)
        upper = self.fetch_recent_upper()
        if upper != expected:
            return self._lost(batches, UpperMismatch(upper, expected))
        if new == expected:
            return self._lost(batches, Unwritten(upper))
        own = self._staged(rows, expected, new)
        with discarded_on_error(own):
            return self._append(batches + own, expected, new, metadata or {})

    def append(
        self,
        changes: Sequence[Batch | Rows],
        *,
        lower: int,
        upper: int,
        metadata: Mapping[str, Any] | None = None,
    ) -> Appended:
        """Write for one of several writers of identical data.

        What is below the current upper is in already and is left out; when that is all, nothing
        is committed. A current upper below ``lower`` would leave a gap and is a mismatch.

        Args, returns and raises as :meth:`compare_and_append`.
        """
        batches, rows = self._checked(changes, lower, upper)
        own: list[Batch] = []
        with discarded_on_error(own):
            for _ in range(DISTURBED_TRIES_MAX):
                current = self.fetch_recent_upper()
                if current < lower:
                    return self._lost(batches + own, UpperMismatch(current, lower))
                if current >= upper:
                    return self._lost(batches + own, Unwritten(current))
                for batch in batches + own:
                    batch.cut(current)
                own += self._staged([r for r in rows if r.time >= current], lower, upper)
                rows = []
                outcome = self._try_batches(batches + own, current, upper, metadata or {})
                if outcome is not None:
                    return outcome
        raise self._always_disturbed()

    def drop(self, batch: Batch) -> "Committed | UpperMismatch":
        """Delete an outdated batch; Committed when it turns out to be in already (I5)."""
        batch.check_usable()
        lost = UpperMismatch(self.fetch_recent_upper(), batch.text.lower)
        outcome = self._lost([batch], lost)
        return outcome if isinstance(outcome, Committed) else lost

    def _checked(
        self, changes: Sequence[Batch | Rows], lower: int, upper: int
    ) -> tuple[list[Batch], list[Rows]]:
        """Batches and rows apart, after all that can be wrong with them."""
        batches = [c for c in changes if isinstance(c, Batch)]
        rows = [c for c in changes if isinstance(c, Rows)]
        times = [r.time for r in rows] + [p.time for b in batches for p in b.text.parts]
        check_bounds(lower, upper, times)
        for batch in batches:
            batch.check_usable()
            if (batch.text.lower, batch.text.upper) != (lower, upper):
                raise error(
                    "BATCH_BOUNDS_DIFFER",
                    detail=f"It is for [{batch.text.lower}, {batch.text.upper}), the call for "
                    f"[{lower}, {upper}).",
                )
            if (batch.text.table_id, batch.text.app) != (self.table.table_id, self.app):
                raise error(
                    "BATCH_OF_ANOTHER_OUTPUT",
                    output=self.table.location,
                    detail=f"It is for table {batch.text.table_id}.",
                )
        return batches, rows

    def _staged(self, rows: Sequence[Rows], lower: int, upper: int) -> list[Batch]:
        """A batch of rows that were not staged yet; none when there are none."""
        if not rows:
            return []
        batch = self.batch(lower, upper)
        with discarded_on_error([batch]):
            for r in rows:
                batch.at(r.time).stage(r.rows)
        return [batch]

    def _append(
        self, batches: list[Batch], expected: int, new: int, metadata: Mapping[str, Any]
    ) -> Appended:
        for _ in range(DISTURBED_TRIES_MAX):
            outcome = self._try_batches(batches, expected, new, metadata)
            if outcome is not None:
                return outcome
            if self.upper != expected:
                return self._lost(batches, UpperMismatch(self.upper, expected))
        raise self._always_disturbed()

    def _always_disturbed(self) -> CtsqlError:
        return error(
            "INTERNAL_ERROR",
            invariant="an output that nobody writes can be written",
            detail=f"{self.table.location}: {DISTURBED_TRIES_MAX} tries were disturbed.",
        )

    def _lost(self, batches: Sequence[Batch], outcome: Appended) -> Appended:
        """Delete what lost, except batches that turn out to be in already (I5)."""
        found = [self._version_of(batch) for batch in batches]
        for batch, version in zip(batches, found, strict=True):
            if version is None:
                batch.discard()
            else:
                batch.release()
        known = [v for v in found if v is not None]
        return Committed(max(known)) if known and len(known) == len(found) else outcome

    def _version_of(self, batch: Batch) -> int | None:
        """The version that holds a batch which came as a text."""
        if not batch.travelled:
            return None
        for v in range(batch.text.version + 1, self.table.version() + 1):
            if batch.text.batch_id in self.table.commit_at(v).metadata.get("batches", ()):
                return v
        return None

    def _try_batches(
        self, batches: Sequence[Batch], expected: int, new: int, metadata: Mapping[str, Any]
    ) -> Appended | None:
        """Commit batches once; None when it is worth another look."""
        txn = self.table.begin()
        self._follow(txn.version_read)
        if self.upper != expected:
            return None
        for batch in batches:
            batch.check_files()
        parts = [part for batch in batches for part in batch.text.parts]
        said = dict(metadata)
        times = sorted({part.time for part in parts})
        if times not in ([], [new - 1]):
            said["times"] = times  # the upper alone does not tell them
        if travelled := [batch.text.batch_id for batch in batches if batch.travelled]:
            said["batches"] = travelled
        read = min((batch.text.version for batch in batches), default=txn.version_read)
        write = _Write(expected=expected, new=new, version_read=read, metadata=said)
        try:
            outcome = self._commit(txn, write, parts)
        except RowsGone:
            return self._lost(batches, Disturbed())
        finally:
            if self._is_unresolved(parts):
                for batch in batches:
                    batch.release()
        if isinstance(outcome, Committed):
            for batch in batches:
                batch.release()
            return outcome
        return None

    # ---- one commit

    def open(self, expected: int) -> "Attempt | UpperMismatch":
        """Start a write that goes in only if the upper is still ``expected``."""
        txn = self.table.begin()
        self._follow(txn.version_read)
        if self.upper != expected:
            return UpperMismatch(self.upper, expected)
        return Attempt(self, txn, expected)

    def _commit(self, txn: LogTransaction, write: "_Write", parts: Sequence[Part]) -> Outcome:
        """Commit once.

        After Committed the files of the parts are in the table; after any other outcome, and
        after an error, they are the caller's as before, unless they are unresolved.

        Raises:
            RowsGone: rows to delete are not where they were. COMMIT_UNKNOWN: see above.
        """
        token = uuid.uuid4().hex
        txn.read_application(self.app)
        if write.new is not None:
            txn.set_application(self.app, write.new, int(time.time() * 1000))
        domains = list(write.domains)
        if write.new is not None and self.failure is not None:
            domains.append((FAILURE, None))
        for domain, configuration in domains:
            txn.set_domain(domain, configuration or "", removed=configuration is None)
        txn.add_files([f for part in parts for f in part.inserts])
        deletes = [d for part in parts for d in part.deletes]
        staged_vectors = {d.vector_file for d in deletes if d.vector_file is not None}
        used_vectors = txn.delete(deletes) if deletes else set()
        files = frozenset(own_files(parts) | used_vectors)
        unresolved = _Unresolved(token, txn.version_read, write.expected, files)
        said = {"lower": write.expected, "token": token, "writer": str(self.writer)}
        said = {**write.metadata, **said, "version_read": write.version_read}
        if write.new is not None:
            said["upper"] = write.new
        epoch = write.expected if write.new is None else write.new
        # From here on until the answer is known it may be in; also when this is interrupted.
        self._unresolved.append(unresolved)
        try:
            version: int | None = txn.commit(label=self.app, epoch=epoch, metadata=json.dumps(said))
        except (Conflict, CtsqlError) as problem:
            version = self._after_failure(problem, unresolved, used_vectors - staged_vectors)
        else:
            self._unresolved.remove(unresolved)
            faults.point("output_committed")
        if version is None:
            moved = self.upper != write.expected
            return UpperMismatch(self.upper, write.expected) if moved else Disturbed()
        self._follow(version)
        self.table.discard(staged_vectors - used_vectors)
        if write.new is not None and self.on_commit is not None:
            self.on_commit(Entry(write.new, version))
        return Committed(version)

    def _after_failure(
        self, problem: Exception, commit: _Unresolved, made_vectors: set[str]
    ) -> int | None:
        """What a failed commit came to, by the log: its version, or None after a conflict."""
        try:
            version = self._told(commit)
            if version is not None or isinstance(problem, Conflict) or not self.table.answers_late:
                self._unresolved.remove(commit)
            self._follow(self.table.version())
        except CtsqlError as unreadable:
            if commit not in self._unresolved:
                raise
            raise error(
                "COMMIT_UNKNOWN", output=self.table.location, detail=str(unreadable.message)
            ) from problem
        if version is not None:
            return version
        if commit not in self._unresolved:
            self.table.discard(made_vectors)
        if not isinstance(problem, Conflict):
            raise problem
        return None

    def _is_unresolved(self, parts: Iterable[Part]) -> bool:
        """Do some parts belong to a commit of which nobody knows whether it is in?"""
        files = own_files(parts)
        return any(u.files & files for u in self._unresolved)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """What a commit says beside its parts; the upper stays when ``new`` is None."""

    expected: int
    new: int | None
    version_read: int
    metadata: Mapping[str, Any]
    domains: tuple[tuple[str, str | None], ...] = ()


class Attempt(Staging):
    """One write under way, computed from the very version that it is committed on.

    Ends with :meth:`commit` or :meth:`abandon`.
    """

    def __init__(self, output: Output, txn: LogTransaction, expected: int) -> None:
        """A write that goes in only if the upper is still ``expected``."""
        super().__init__(output.table, txn)
        self.output = output
        self.txn = txn
        self.expected = expected
        self.version_read: int = txn.version_read
        self._domains: list[tuple[str, str | None]] = []

    def set_domain(self, domain: str, configuration: str | None) -> None:
        """Write or (None) remove a domain metadata action."""
        self._domains.append((domain, configuration))

    def abandon(self) -> None:
        """Give up: delete what was staged, unless it is in or may be."""
        if self.output._is_unresolved([self.part(self.expected)]):
            self.release()
        self.discard()

    def record_failure(self, text: str, metadata: Mapping[str, Any]) -> Outcome:
        """Commit why nothing can be written at the due time; the upper stays.

        Raises:
            COMMIT_UNKNOWN: as for :meth:`commit`.
        """
        self.set_domain(FAILURE, text)
        return self._commit(None, metadata)

    def commit(self, new: int, metadata: Mapping[str, Any]) -> Outcome:
        """Commit with the new upper (exclusive, past the expected one).

        Raises:
            COMMIT_UNKNOWN: the commit failed and the log cannot be read to find out.
        """
        if new <= self.expected:
            raise error(
                "INTERNAL_ERROR",
                invariant="a commit moves the upper forward",
                detail=f"{self.output.table.location}: from {self.expected} to {new}.",
            )
        return self._commit(new, metadata)

    def _commit(self, new: int | None, metadata: Mapping[str, Any]) -> Outcome:
        """Commit; the upper stays when ``new`` is None. What lost is deleted."""
        write = _Write(
            expected=self.expected,
            new=new,
            version_read=self.version_read,
            metadata=metadata,
            domains=tuple(self._domains),
        )
        try:
            outcome = self.output._commit(self.txn, write, [self.part(self.expected)])
        except RowsGone:
            outcome = Disturbed()
        except BaseException:
            self.abandon()
            raise
        if isinstance(outcome, Committed):
            self.release()
        else:
            self.abandon()
        return outcome
