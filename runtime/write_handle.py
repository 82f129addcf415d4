"""The write handle: how anything becomes durable.

One output is one Delta table and one application id. The *upper* (exclusive) is the application
id's transaction version in the log: everything at times below it is known and durable. A write is
one Delta commit that holds the staged files, the deletion vectors, the transaction action with
the new upper, and metadata; it goes in only if the upper is the expected one.

Why this cannot write twice: the transaction depends on the application id, so of two commits that
read the same upper Delta lets one in and fails the other (ConcurrentTransactionException). A lost
answer is resolved by reading the log for the commit's token, never by trying again blindly.

I1: the upper never goes back.
I2: a commit that is in moved the upper from `expected` to `new`, with new > expected.
I3: what was staged for a commit that lost is deleted by who staged it; what is in, or may be in,
    never is.
I4: a failure recorded beside the output holds until the upper moves. Recorded by the commit that
    moves the upper, it is what the output holds from there until the next such commit.

Not yet: batches described as text and appended by another process; a closed upper.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime import faults
from ctsql.runtime.delta_log import DeltaTable
from ctsql.runtime.delta_transaction import Conflict

NO_UPPER = 0
FAILURE = "ctsql.failure"
"""The domain whose configuration says why nothing was written at the time that is due."""


@dataclass(frozen=True, slots=True)
class Committed:
    """It is in, as this version of the table."""

    version: int


@dataclass(frozen=True, slots=True)
class UpperMismatch:
    """Somebody else moved the upper first; nothing of ours is in."""

    current: int
    expected: int


@dataclass(frozen=True, slots=True)
class Disturbed:
    """A commit without an upper came first (OPTIMIZE, say): compute again at the same time."""


Outcome = Committed | UpperMismatch | Disturbed


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit of the output: from `version` on, everything below `upper` is in."""

    upper: int
    version: int


class Output:
    """The handle of one output (or of the timeline, or of the catalog)."""

    def __init__(
        self, table: DeltaTable, app: str, on_commit: Callable[[Entry], None] | None = None
    ) -> None:
        """A handle; ``on_commit`` is told of this process's own commits that move the upper."""
        self.table = table
        self.app = app
        self.on_commit = on_commit
        self.failure: str | None = None  # as of what was last looked at
        self._failure_known = False
        self._entries: list[Entry] = []
        self._scanned: int | None = None  # newest version looked at
        self._reached: int = 0  # oldest version looked at, exclusive

    # ---- reading the upper

    @property
    def upper(self) -> int:
        """The cached upper; never goes back."""
        return self._entries[-1].upper if self._entries else NO_UPPER

    def fetch_recent_upper(self) -> int:
        """The upper as the log has it now, linearised with writes."""
        self._follow(self.table.version())
        return self.upper

    def _follow(self, version: int) -> None:
        """Take in the commits up to a version."""
        if self._scanned is None:
            self._scanned = self._reached = version
            self._reached += 1
            self._reach_back(until_upper=None)
            return
        for v in range(self._scanned + 1, version + 1):
            commit = self.table.commit_at(v)
            upper = commit.transaction(self.app)
            if upper is not None:
                self.failure = None
                if upper <= self.upper:
                    raise error(
                        "INTERNAL_ERROR",
                        invariant="an upper never goes back",
                        detail=f"{self.table.location}: {self.upper} then {upper}.",
                    )
                self._entries.append(Entry(upper, v))
            if FAILURE in dict(commit.domains):
                self.failure = dict(commit.domains)[FAILURE]
        self._scanned = max(self._scanned, version)

    def _reach_back(self, until_upper: int | None) -> None:
        """Take in older commits until one with upper <= until_upper (None: until any)."""
        while self._reached > 0:
            if until_upper is None and not self._entries and not self.table.has(self._reached - 1):
                self._from_state()  # the log is cleaned up further back than the last write
                return
            if self._entries and (until_upper is None or self._entries[0].upper <= until_upper):
                return
            self._reached -= 1
            commit = self.table.commit_at(self._reached)
            upper = commit.transaction(self.app)
            if upper is not None:
                self._entries.insert(0, Entry(upper, self._reached))
            if not self._failure_known and (upper is not None or FAILURE in dict(commit.domains)):
                self.failure = dict(commit.domains).get(FAILURE)
                self._failure_known = True

    def _from_state(self) -> None:
        """Take the upper from the table's state, where its own commit is no longer in the log."""
        if not self._failure_known:
            self.failure = self.table.domains()[1].get(FAILURE)
            self._failure_known = True
        upper = self.table.transaction_version(self.app, self.table.update())
        if upper is not None:
            self._entries.insert(0, Entry(upper, self._reached))

    def entries(self, since: int) -> list[Entry]:
        """The commits with an upper, from the last one at or below ``since`` on."""
        self._follow(self.table.version())
        self._reach_back(until_upper=since)
        first = max((i for i, e in enumerate(self._entries) if e.upper <= since), default=0)
        return self._entries[first:]

    def has_foreign_rows(self) -> bool:
        """Has somebody else changed rows since the last commit with an upper?"""
        newest = self.table.version()
        last = self._entries[-1].version if self._entries else newest
        return any(self.table.commit_at(v).changes_data for v in range(last + 1, newest + 1))

    # ---- writing

    def open(self, expected: int) -> "Attempt | UpperMismatch":
        """Start a write that goes in only if the upper is still ``expected``."""
        txn = self.table.begin()
        self._follow(txn.version_read)
        if self.upper != expected:
            return UpperMismatch(self.upper, expected)
        return Attempt(self, txn, expected)


class Attempt:
    """One write under way. Ends with :meth:`commit` or :meth:`abandon`."""

    def __init__(self, output: Output, txn: Any, expected: int) -> None:
        self.output = output
        self.txn = txn
        self.expected = expected
        self.version_read: int = txn.version_read
        self._staged: list[Any] = []

    def stage(self, rows: DataFrame) -> int:
        """Write rows into files that nobody sees until the commit; returns the files' number."""
        added = self.txn.stage(rows)
        self._staged += added
        faults.point("output_staged")
        return len(added)

    def delete_rows(self, victims: Iterable[tuple[str, bytes]]) -> None:
        """Delete stored rows by position; see :meth:`Transaction.delete_rows`."""
        self.txn.delete_rows(victims, self.output.table.files(self.version_read))

    def set_domain(self, domain: str, configuration: str | None) -> None:
        """Write or (None) remove a domain metadata action."""
        self.txn.set_domain(domain, configuration or "", removed=configuration is None)

    def abandon(self) -> None:
        """Give up: delete what was staged."""
        self.output.table.discard(self._staged)
        self._staged.clear()
        self.txn.discard_vectors()

    def _release(self) -> None:
        """What was staged is in, or may be: nobody may delete it any more."""
        self._staged.clear()
        self.txn.release_vectors()

    def record_failure(self, text: str, metadata: Mapping[str, Any]) -> Outcome:
        """Commit why nothing can be written at the due time; the upper stays.

        Raises:
            COMMIT_UNKNOWN: as for :meth:`commit`.
        """
        self.set_domain(FAILURE, text)
        return self._commit(None, metadata)

    def commit(
        self, new: int, metadata: Mapping[str, Any], *, failure: str | None = None
    ) -> Outcome:
        """Commit with the new upper (exclusive, past the expected one).

        Args:
            failure: from here on the contents are an error, and this is why.

        Raises:
            COMMIT_UNKNOWN: the commit failed and the log cannot be read to find out.
        """
        output = self.output
        if new <= self.expected:
            raise error(
                "INTERNAL_ERROR",
                invariant="a commit moves the upper forward",
                detail=f"{output.table.location}: from {self.expected} to {new}.",
            )
        if output.failure is not None or failure is not None:
            self.set_domain(FAILURE, failure)
        outcome = self._commit(new, metadata)
        if isinstance(outcome, Committed) and output.on_commit is not None:
            output.on_commit(Entry(new, outcome.version))
        return outcome

    def _commit(self, new: int | None, metadata: Mapping[str, Any]) -> Outcome:
        """Commit; the upper stays when ``new`` is None."""
        output = self.output
        token = uuid.uuid4().hex
        said = {**metadata, "lower": self.expected, "token": token}
        self.txn.read_application(output.app)
        if new is not None:
            self.txn.set_application(output.app, new, int(time.time() * 1000))
            said["upper"] = new
        self.txn.add_files(self._staged)
        epoch = self.expected if new is None else new
        try:
            version = self.txn.commit(label=output.app, epoch=epoch, metadata=json.dumps(said))
        except (Conflict, CtsqlError) as problem:
            return self._after_failure(problem, token)
        self._release()
        faults.point("output_committed")
        output._follow(version)
        return Committed(version)

    def _after_failure(self, problem: Exception, token: str) -> Outcome:
        """What a failed commit came to, by the log."""
        output = self.output
        try:
            newest = output.table.version()
            for v in range(self.version_read + 1, newest + 1):
                if output.table.commit_at(v).metadata.get("token") == token:
                    self._release()
                    output._follow(newest)
                    return Committed(v)
            output._follow(newest)
        except CtsqlError as unreadable:
            self._release()
            raise error(
                "COMMIT_UNKNOWN", output=output.table.location, detail=str(unreadable.message)
            ) from problem
        self.abandon()
        if not isinstance(problem, Conflict):
            raise problem
        if output.upper != self.expected:
            return UpperMismatch(output.upper, self.expected)
        return Disturbed()
