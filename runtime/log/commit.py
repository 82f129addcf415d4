"""One commit of an output: made once, and what became of it found out.

An outcome is one of: in, as a version; not in, because somebody moved the upper; not in, because
somebody else's commit disturbed it. Anything else is an error, and then the commit may be in. That
is found out from the log, where each commit of ours has a token; never by trying again blindly.

K1: files of a commit that may be in are not deleted. They wait until the upper has moved past
    what the commit expects: from then on it cannot come in any more, and the log says whether it
    did.
K2: an interruption (Ctrl-C) while the store commits is such an error too.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.log import clock, fault_points as faults
from ctsql.runtime.log.batches import Part, own_files
from ctsql.runtime.log.protocol import Conflict, LogTransaction
from ctsql.runtime.log.uppers import FAILURE, Uppers


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


def always_disturbed(detail: str) -> CtsqlError:
    """The error for a write that other commits came before, however often it was tried.

    Args:
        detail: how often, and where.
    """
    return error(
        "INTERNAL_ERROR",
        invariant="an output that nobody writes can be written",
        detail=f"{detail} were disturbed.",
    )


@dataclass(frozen=True, slots=True)
class _Unresolved:
    """A commit of which nobody knows whether it is in; its files wait until the log tells."""

    token: str
    version_read: int
    expected: int
    files: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What a commit says beside its parts; the upper stays when ``new`` is None.

    With a ``schema`` the table gets these columns, and all that it holds goes.
    """

    expected: int
    new: int | None
    version_read: int
    metadata: Mapping[str, Any]
    schema: str | None = None
    domains: tuple[tuple[str, str | None], ...] = ()


class Owner(Protocol):
    """Who owns staged files."""

    def release(self) -> None:
        """The files are no longer this owner's."""
        ...


class Commits:
    """Makes the commits of one handle."""

    def __init__(self, uppers: Uppers, writer: str) -> None:
        self.uppers = uppers
        self.table = uppers.table
        self.writer = writer
        self._unresolved: list[_Unresolved] = []

    def follow(self, version: int) -> None:
        """Take in the commits up to a version, and what they tell of unresolved ones."""
        self.uppers.follow(version)
        for commit in [u for u in self._unresolved if u.expected < self.uppers.upper]:
            # Whatever is still on its way depends on an upper that has passed: it cannot come in.
            is_lost = self.table.has(commit.version_read + 1) and self._find_version(commit) is None
            if is_lost:
                self.table.discard(commit.files)
            self._unresolved.remove(commit)

    def _find_version(self, commit: _Unresolved) -> int | None:
        """The version that holds a commit; None when it is not in."""
        for v in range(commit.version_read + 1, self.table.version() + 1):
            if self.table.commit_at(v).metadata.get("token") == commit.token:
                return v
        return None

    def commit(
        self,
        txn: LogTransaction,
        write: Write,
        parts: Sequence[Part],
        owners: Sequence[Owner],
    ) -> Outcome:
        """Commit once.

        Args:
            parts: what is committed. owners: who own the files of the parts. When they are in,
                or may be, they are released, whatever else happens; otherwise they stay with
                their owners.

        Raises:
            RowsGone: rows to delete are not where they were.
            COMMIT_UNKNOWN: it failed and the log cannot be read to find out.
        """
        if write.schema is not None:
            txn.start_anew(write.schema)
            # Whatever was there when the rows were staged: it is known as of this version.
            write = replace(write, version_read=txn.version_read)
        deletes = [d for part in parts for d in part.deletes]
        staged_vectors = {d.vector_file for d in deletes if d.vector_file is not None}
        used_vectors = txn.delete(deletes) if deletes else set[str]()
        txn.add_files([f for part in parts for f in part.inserts])
        self._describe(txn, write)
        files = frozenset(own_files(parts) | used_vectors)
        unresolved = _Unresolved(uuid.uuid4().hex, txn.version_read, write.expected, files)
        version: int | None = None
        # From here on until the answer is known it may be in; also when this is interrupted.
        self._unresolved.append(unresolved)
        try:
            try:
                version = txn.commit(
                    label=self.uppers.app,
                    epoch=write.expected if write.new is None else write.new,
                    metadata=self._to_metadata(write, unresolved.token),
                )
            except (Conflict, CtsqlError) as problem:
                version = self._after_failure(problem, unresolved)
        finally:
            may_be_in = unresolved in self._unresolved
            if version is not None or may_be_in:
                for owner in owners:
                    owner.release()
            if may_be_in and (version is not None or not files):
                self._unresolved.remove(unresolved)
            if version is None and not may_be_in:
                self.table.discard(used_vectors - staged_vectors)
        if version is None:
            self.follow(self.table.version())
            moved = self.uppers.upper != write.expected
            return UpperMismatch(self.uppers.upper, write.expected) if moved else Disturbed()
        faults.point("output_committed")
        self.follow(version)
        self.table.discard(staged_vectors - used_vectors)
        return Committed(version)

    def _describe(self, txn: LogTransaction, write: Write) -> None:
        txn.read_application(self.uppers.app)
        domains = list(write.domains)
        if write.new is not None:
            txn.set_application(self.uppers.app, write.new, clock.now_ms())
            if self.uppers.failure is not None and FAILURE not in dict(domains):
                domains.append((FAILURE, None))
        for domain, configuration in domains:
            txn.set_domain(domain, configuration or "", removed=configuration is None)

    def _to_metadata(self, write: Write, token: str) -> str:
        said = {
            **write.metadata,
            "lower": write.expected,
            "token": token,
            "writer": self.writer,
            "version_read": write.version_read,
        }
        if write.new is not None:
            said["upper"] = write.new
        return json.dumps(said)

    def _after_failure(self, problem: Exception, commit: _Unresolved) -> int | None:
        """What a failed commit came to, by the log: its version, or None after a conflict.

        An error that is no conflict is raised again; the commit stays unresolved if it may be in.
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
            self._unresolved.remove(commit)
            return None
        if not self.table.answers_late:
            self._unresolved.remove(commit)
        raise problem
