"""One commit of an output, tried once, and its outcome.

The outcome is one of: committed as a version; not committed because the upper moved; not committed
because another commit without an upper came first. After any other error the commit may be in: the
log is searched for its token, and the commit is never repeated blindly.

[unknown-keeps-files] files of a commit that may be in are kept until the upper has passed the one
    it expects. From then on it cannot come in, and the log shows whether it did.
[interrupt-is-unknown] an interruption (Ctrl-C) while the store commits is such an error too.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctsql.catalog.errors import CtsqlError, broken, error
from ctsql.runtime.log import clock, fault_points as faults
from ctsql.runtime.log.batches import BatchPart, own_files
from ctsql.runtime.log.process import PROCESS, this_process
from ctsql.runtime.log.protocol import Conflict, LogTransaction
from ctsql.runtime.log.staging import OutputBatch, schema_of
from ctsql.runtime.log.uppers import FAILURE, Uppers


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
    """Nothing was to be committed: the upper is already there."""

    upper: int


Outcome = Committed | UpperMoved | Disturbed
Appended = Committed | UpperMoved | Disturbed | Unwritten


def disturbance_error(detail: str) -> CtsqlError:
    """The error for a write that lost to other commits at every try; where, and how many."""
    return broken("an output that nobody writes can be written", f"{detail} were disturbed.")


@dataclass(frozen=True, slots=True)
class _UnresolvedCommit:
    """A commit that may be in; its files are kept until the log shows whether it is."""

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
        self._unresolved_commits: list[_UnresolvedCommit] = []

    def follow(self, version: int) -> None:
        """Read the commits up to a version, and resolve those of unknown outcome."""
        self.uppers.follow(version)
        for commit in [u for u in self._unresolved_commits if u.expected < self.uppers.upper]:
            # It depends on an upper that has passed: if it is not in, it cannot come in any more.
            is_lost = self.table.has(commit.version_read + 1) and self._find_version(commit) is None
            if is_lost:
                self.table.discard(commit.files)
            self._unresolved_commits.remove(commit)

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
    ) -> Outcome:
        """Commit once.

        Args:
            batches: what is committed; they are released if the commit is in or may be in, even
                after an error. new: None leaves the upper.

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
        # Until the answer is known the commit may be in, also after an interruption.
        self._unresolved_commits.append(attempt)
        try:
            try:
                version = txn.commit(
                    label=self.uppers.app,
                    epoch=expected if new is None else new,
                    metadata=json.dumps(
                        {
                            **_told(batches, parts, new, metadata),
                            "lower": expected,
                            "token": attempt.token,
                            "writer": self.writer,
                            "version_read": version_read,
                            PROCESS: this_process(),
                        }
                    ),
                )
            except (Conflict, CtsqlError) as problem:
                version = self._after_failure(problem, attempt)
        finally:
            may_be_in = attempt in self._unresolved_commits
            if version is not None or may_be_in:
                for batch in batches:
                    batch.release()
            if may_be_in and (version is not None or not files):
                self._unresolved_commits.remove(attempt)
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

    def _after_failure(self, problem: Exception, commit: _UnresolvedCommit) -> int | None:
        """Search the log for a failed commit: its version, or None after a conflict.

        Raise any other error again; the commit stays unresolved if it may be in.
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
            self._unresolved_commits.remove(commit)
            return None
        if not self.table.answers_late:
            self._unresolved_commits.remove(commit)
        raise problem


def _told(
    batches: Sequence[OutputBatch],
    parts: Sequence[BatchPart],
    new: int | None,
    metadata: Mapping[str, Any],
) -> dict[str, Any]:
    """What the metadata say of the upper, the Ts, and batches that came as texts."""
    told = {**metadata, **({} if new is None else {"upper": new})}
    times = sorted({part.time for part in parts})
    if new is not None and times not in ([], [new - 1]):
        told["times"] = times  # the upper alone does not determine them
    if batch_ids := [batch.text.batch_id for batch in batches if batch.travelled]:
        told["batches"] = [*told.get("batches", ()), *batch_ids]
    return told
