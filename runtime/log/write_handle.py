"""The write handle: it makes every durable write.

One output is one Delta table and one application id. The *upper* (exclusive) is the application
id's transaction version in the log: everything below it is durable. A write is one Delta commit of
staged files, deletion vectors, metadata and the new upper.

    batch, open --> Batch --describe--> text --batch_of--> Batch --+
                      |                (another process)           +--> one commit, or dropped
                      +--------------------------------------------+

A batch of :meth:`Output.batch` may be committed on a newer version than it was computed from; one
of :meth:`Output.open` only on that version, or one with the same rows. If two transactions read the
same upper, Delta fails one of them (ConcurrentTransactionException). After any other error the
commit may have succeeded: its token is searched in the log, and it is never repeated blindly.

[upper-monotone] a commit moves the upper from `expected` to `new` > `expected`, never back.
[one-owner-of-files] staged files belong to the batch that staged them, or to the text made of it.
    After an append they are in the table, or deleted, or kept because the outcome is unknown.
[failure-until-upper] a failure recorded for the output holds until the upper moves. Recorded by
    the commit that moves the upper, it is the output's contents until the next such commit.
[in-is-kept] files that may be in the table are never deleted. The batch's id shows that its text
    was already committed, for example by an append whose answer was lost.
[unknown-keeps-files] an unknown outcome is settled once the upper has passed the expected one: the
    commit can no longer succeed, and the log shows whether it did.
[interrupt-is-unknown] an interruption (Ctrl-C) while the store commits has an unknown outcome.
"""

import json
import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ctsql.catalog.errors import CtsqlError, broken, error
from ctsql.catalog.times import CLOSED
from ctsql.runtime.log import clock, fault_points as faults
from ctsql.runtime.log.batches import (
    BatchPart,
    BatchText,
    check_bounds,
    check_writer_id,
    new_writer_id,
    own_files,
)
from ctsql.runtime.log.protocol import Conflict, LogTable, LogTransaction, RowsGone
from ctsql.runtime.log.staging import OutputBatch as OutputBatch, discard_on_error, schema_of
from ctsql.runtime.log.uppers import (
    FAILURE as FAILURE,
    NO_UPPER as NO_UPPER,
    Entry as Entry,
    Uppers,
)

PROCESS = "process"  # key in a commit's metadata: :func:`this_process`


def this_process() -> str:
    """Host and process id, as ``worker-3:4711``."""
    return f"{socket.gethostname()}:{os.getpid()}"


PHASES = "phases"  # key in a commit's metadata: milliseconds by phase of the work for it


class Phases:
    """Successive phases of the work for a commit; ``clock`` counts milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._start = clock()
        self._ms: dict[str, int] = {}

    def end(self, name: str) -> None:
        """End a phase; phases of one name are added up."""
        now = self._clock()
        self._ms[name] = self._ms.get(name, 0) + now - self._start
        self._start = now

    def to_metadata(self) -> dict[str, dict[str, int]]:
        """Milliseconds by phase, in order."""
        return {PHASES: dict(self._ms)}


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit is this version of the table."""

    version: int


@dataclass(frozen=True, slots=True)
class UpperMoved:
    """The upper is not the expected one; nothing was committed."""

    current: int
    expected: int


@dataclass(frozen=True, slots=True)
class Disturbed:
    """A commit without an upper (OPTIMIZE, for example) came first: compute again at the same T."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Nothing to commit: the upper already has that value."""

    upper: int


CommitOutcome = Committed | UpperMoved | Disturbed
Appended = Committed | UpperMoved | Disturbed | Unwritten


def disturbance_error(detail: str) -> CtsqlError:
    """The error for a write that lost to other commits at each try; ``detail``: where, how many."""
    return broken("an output that nobody writes can be written", f"{detail} were disturbed.")


@dataclass(frozen=True, slots=True)
class _UnresolvedCommit:
    """A commit of unknown outcome; its files are kept until the log shows the outcome."""

    token: str
    version_read: int
    expected: int
    files: frozenset[str]


class Commits:
    """The commits of one write handle."""

    def __init__(self, uppers: Uppers, writer: str) -> None:
        self.uppers = uppers
        self.table = uppers.table
        self.writer = writer
        self.unresolved_commits: list[_UnresolvedCommit] = []

    def follow(self, version: int) -> None:
        """Read the commits up to a version, and resolve those of unknown outcome."""
        self.uppers.follow(version)
        for commit in [u for u in self.unresolved_commits if u.expected < self.uppers.upper]:
            # It depends on an upper that has passed, so it cannot succeed any more.
            is_lost = self.table.has(commit.version_read + 1) and self._find_version(commit) is None
            if is_lost:
                self.table.discard(commit.files)
            self.unresolved_commits.remove(commit)

    def _find_version(self, commit: _UnresolvedCommit) -> int | None:
        for v in range(commit.version_read + 1, self.table.version() + 1):
            if self.table.commit_at(v).metadata.get("token") == commit.token:
                return v
        return None

    def attempt(
        self,
        txn: LogTransaction,
        batches: Sequence[OutputBatch],
        expected: int,
        new: int | None,
        metadata: Mapping[str, Any],
    ) -> CommitOutcome:
        """Commit once; ``new`` None keeps the upper.

        Batches are released if the commit succeeded or may have, even after an error.

        Raises:
            RowsGone: rows to delete are not where they were.
            COMMIT_UNKNOWN: it failed and the log cannot be read to find out.
        """
        texts, schema = [batch.text for batch in batches], schema_of(batches)
        version_read = min((text.version for text in texts), default=txn.version_read)
        if schema is not None:
            txn.overwrite_with_schema(schema)
            version_read = txn.version_read  # all rows that this transaction read are replaced
        parts = [part for text in texts for part in text.parts]
        deletes = [d for part in parts for d in part.deletes]
        staged_vectors = {d.vector_file for d in deletes if d.vector_file is not None}
        used_vectors = txn.delete(deletes) if deletes else set[str]()
        txn.add_files([f for part in parts for f in part.inserts])
        self._describe(txn, batches, new)
        files = frozenset(own_files(parts) | used_vectors)
        attempt = _UnresolvedCommit(uuid.uuid4().hex, txn.version_read, expected, files)
        version: int | None = None
        # Until the answer arrives the outcome is unknown, also after an interruption.
        self.unresolved_commits.append(attempt)
        try:
            try:
                version = txn.commit(
                    label=self.uppers.app,
                    epoch=expected if new is None else new,
                    metadata=json.dumps(
                        {
                            **_commit_metadata(batches, parts, new, metadata),
                            "lower": expected,
                            "token": attempt.token,
                            "writer": self.writer,
                            "version_read": version_read,
                            PROCESS: this_process(),
                        }
                    ),
                )
            except (Conflict, CtsqlError) as problem:
                version = self.after_failure(problem, attempt)
        finally:
            may_be_in = attempt in self.unresolved_commits
            if version is not None or may_be_in:
                for batch in batches:
                    batch.release()
            if may_be_in and (version is not None or not files):
                self.unresolved_commits.remove(attempt)
            if version is None and not may_be_in:
                self.table.discard(used_vectors - staged_vectors)
        if version is None:
            self.follow(self.table.version())
            moved = self.uppers.upper != expected
            return UpperMoved(self.uppers.upper, expected) if moved else Disturbed()
        faults.point("output_committed")
        self.follow(version)
        self.table.discard(staged_vectors - used_vectors)
        return Committed(version)

    def _describe(
        self, txn: LogTransaction, batches: Sequence[OutputBatch], new: int | None
    ) -> None:
        txn.read_application(self.uppers.app)
        domains = [domain for batch in batches for domain in batch.domains.items()]
        if new is not None:
            txn.set_application(self.uppers.app, new, clock.now_ms())
            if self.uppers.failure is not None and FAILURE not in dict(domains):
                domains.append((FAILURE, None))
        for domain, configuration in domains:
            txn.set_domain(domain, configuration or "", removed=configuration is None)

    def after_failure(self, problem: Exception, commit: _UnresolvedCommit) -> int | None:
        """Search the log for a failed commit: its version, or None after a conflict.

        Any other error is raised again; the commit stays unresolved if it may have succeeded.
        """
        try:
            version = self._find_version(commit)
        except CtsqlError as unreadable:
            raise error(
                "COMMIT_UNKNOWN", output=self.table.location, detail=str(unreadable.message)
            ) from problem
        if version is not None:
            return version
        if isinstance(problem, Conflict):
            self.unresolved_commits.remove(commit)
            return None
        if not self.table.answers_late:
            self.unresolved_commits.remove(commit)
        raise problem


def _commit_metadata(
    batches: Sequence[OutputBatch],
    parts: Sequence[BatchPart],
    new: int | None,
    metadata: Mapping[str, Any],
) -> dict[str, Any]:
    """The metadata of a commit: its upper, its Ts, and the ids of batches read from texts."""
    stored = {**metadata, **({} if new is None else {"upper": new})}
    times = sorted({part.time for part in parts})
    if new is not None and times not in ([], [new - 1]):
        stored["times"] = times  # the upper alone does not determine them
    if batch_ids := [batch.text.batch_id for batch in batches if batch.travelled]:
        stored["batches"] = [*stored.get("batches", ()), *batch_ids]
    return stored


DISTURBED_TRIES_MAX = 50
_Lost = TypeVar("_Lost", bound=UpperMoved | Disturbed | Unwritten)


class Output:
    """The handle of one output (or of the timeline, or of the catalog). Not thread-safe."""

    def __init__(
        self,
        table: LogTable,
        app: str,
        *,
        since: int = -1,
        begin: Callable[[], LogTransaction] | None = None,
    ) -> None:
        """A handle.

        Args:
            since: commits up to this version are not read; the table's state covers them.
            begin: starts the transactions of commits; the default is the table's own.
        """
        self.table = table
        self.app = app
        self.writer = new_writer_id()
        self.uppers = Uppers(table, app, since=since)
        self._begin = begin or table.begin
        self.commits = Commits(self.uppers, self.writer)

    @property
    def upper(self) -> int:
        """The cached upper; never goes back."""
        return self.uppers.upper

    def fetch_recent_upper(self) -> int:
        """Read the upper from the log, linearised with writes."""
        self.follow(self.table.version())
        return self.upper

    def follow(self, version: int) -> int:
        """Read the log at least up to a version; returns the version up to which it was read."""
        self.commits.follow(version)
        return self.uppers.newest_read

    def entries(self, since: int) -> list[Entry]:
        """The commits with an upper, from the last one at or below ``since`` on."""
        self.follow(self.table.version())
        return self.uppers.since(since)

    def entries_around(self, since: int) -> list[Entry]:
        """As :meth:`Uppers.around`, which reads few commits."""
        self.follow(self.table.version())
        return self.uppers.around(since)

    def has_foreign_rows(self) -> bool:
        """Whether another writer changed rows since the last commit with an upper was computed."""
        newest = self.table.version()
        self.follow(newest)
        if self.upper in (NO_UPPER, CLOSED):
            return False  # the first write compares everything; a closed output has no next write
        last = self.uppers.last
        if last is None:
            return True  # its commit was cleaned up, and with it the version it was computed from
        commit = self.table.commit_at(last.version)
        after = int(commit.metadata.get("version_read", last.version))
        if after < newest and not self.table.has(after + 1):
            return True
        between = (self.table.commit_at(v) for v in range(after + 1, newest + 1))
        return any(c.changes_data and c.transaction(self.app) is None for c in between)

    def batch(self, lower: int, upper: int) -> OutputBatch:
        """Start a batch for ``[lower, upper)`` on the newest version; raises BOUNDS_INVALID."""
        check_bounds(lower, upper, ())
        return self.begin_batch(self.table.begin(), lower, upper, is_pinned=False)

    def open(self, expected: int) -> OutputBatch | UpperMoved:
        """Start a batch to be committed only on the rows it reads, at the upper ``expected``."""
        txn = self.table.begin()
        self.follow(txn.version_read)
        if self.upper != expected:
            return UpperMoved(self.upper, expected)
        return self.begin_batch(txn, expected, CLOSED, is_pinned=True)

    def begin_batch(
        self, txn: LogTransaction, lower: int, upper: int, *, is_pinned: bool
    ) -> OutputBatch:
        """A batch from ``lower`` to ``upper`` in a transaction that has begun."""
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

        Raises BATCH_INVALID or BATCH_OF_ANOTHER_OUTPUT.
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
            expected, new: in T, exclusive; CLOSED allows nothing after it. With a batch of
                :meth:`open`, new may be None, which keeps the upper.

        Returns:
            Committed; Unwritten if new is expected; UpperMoved, with nothing changed; Disturbed
            if rows to delete were rewritten and must be computed again. In each case the batches
            are used up, and uncommitted files are deleted.

        Raises:
            OUTPUT_CLOSED, BOUNDS_INVALID, BATCH_USED_UP: wrong use; the batches are unchanged.
            COMMIT_UNKNOWN: the commit failed and the log cannot be read to find out.
        """
        self.check(batches, expected, new)
        if not any(batch.is_pinned for batch in batches):  # else its version decides
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

    def append(self, batches: Sequence[OutputBatch], *, lower: int, upper: int) -> Appended:
        """Write for one of several writers of identical data; as :meth:`compare_and_append`.

        Parts below the current upper are already committed and are left out. A current upper below
        ``lower`` would leave a gap: UpperMoved.
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
            outcome = self._try(batches, current, upper, {})
            if isinstance(outcome, Committed):
                return outcome
            if isinstance(outcome, Disturbed):
                return self._clean_up(batches, outcome)
        raise disturbance_error(f"{self.table.location}: {DISTURBED_TRIES_MAX} tries")

    def drop(self, batch: OutputBatch) -> Committed | UpperMoved:
        """Delete an outdated batch; Committed if it was committed before [in-is-kept]."""
        batch.check_usable()
        return self._clean_up([batch], UpperMoved(self.fetch_recent_upper(), batch.lower))

    def check(self, batches: Sequence[OutputBatch], lower: int, upper: int | None) -> None:
        """Raise the errors of :meth:`compare_and_append` for wrong use."""
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
        """Delete batches that lost, except those committed before [in-is-kept]."""
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
    ) -> CommitOutcome | None:
        """Commit once; None if another commit came first and a retry is possible."""
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
            outcome = self.commits.attempt(txn, batches, expected, new, metadata)
        except RowsGone:
            return Disturbed()
        return None if rebase and isinstance(outcome, Disturbed) else outcome
