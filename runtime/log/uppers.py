"""The uppers of one output as its log tells them: which commit moved it to where.

U1: the upper that is known never goes back.
U2: memory is bounded: of a long life only the newest entries are kept, and older ones are read
    again from the log when somebody asks.

The log is looked at commit by commit, forward from where it was looked at last, and backward as
far as needed. Where it was cleaned up, the table's state says the upper.
"""

from bisect import bisect_right
from dataclasses import dataclass

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.protocol import LogTable

NO_UPPER = 0
FAILURE = "ctsql.failure"
"""The domain whose configuration says why nothing was written at the time that is due."""
ENTRIES_KEPT_MAX = 10_000
SHARED_BY = "shared_by"
"""In the metadata of a commit that several Ts share: those that have rows in it, in order."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit of the output: from `version` on, everything below `upper` is in.

    ``times``: where several Ts share it, those that have rows in it, in order. ``anew``: it gave
    the table other columns, so that what was there before is not read under the present ones.
    """

    upper: int
    version: int
    times: tuple[int, ...] = ()
    anew: bool = False


def _entry(upper: int, commit: Commit) -> Entry:
    times = tuple(commit.metadata.get(SHARED_BY, ()))
    return Entry(upper, commit.version, times, commit.changes_schema)


class Uppers:
    """What is known of one application id in one table's log.

    Attributes:
        failure: what is recorded beside the output, as of what was last looked at.
        shared: the table holds the uppers of other applications too, so that the last commit of
            this one may be far back: the first look is at the table's state.
    """

    def __init__(self, table: LogTable, app: str, *, shared: bool = False, since: int = -1) -> None:
        """Nothing is looked at yet.

        Args:
            since: commits up to this version are not read: what they say is in the table's state.
        """
        self.table = table
        self._since = since
        self.app = app
        self.shared = shared
        self.failure: str | None = None
        self._failure_known = False
        self._entries: list[Entry] = []
        self._scanned_through: int | None = None  # newest version looked at
        self._scanned_from = 0  # oldest version looked at
        self._is_from_state = False  # the oldest entry's own commit is not known

    @property
    def upper(self) -> int:
        """The newest upper that is known; NO_UPPER before the first."""
        return self._entries[-1].upper if self._entries else NO_UPPER

    @property
    def last(self) -> Entry | None:
        """The newest commit that moved the upper; None when there is none, or it is not known."""
        if self._is_from_state and len(self._entries) == 1:
            return None
        return self._entries[-1] if self._entries else None

    @property
    def scanned_through(self) -> int:
        """The version that the upper is as of; -1 before the first look."""
        return -1 if self._scanned_through is None else self._scanned_through

    def follow(self, version: int) -> None:
        """Take in the commits up to a version."""
        if self._scanned_through is None and self.shared:
            self._scanned_through = self._all_from_state()
            return
        if self._scanned_through is None:
            self._rescan(version)
            return
        for v in range(self._scanned_through + 1, version + 1):
            try:
                commit = self.table.commit_at(v)
            except CtsqlError as problem:
                if problem.condition != "HISTORY_LOST":
                    raise
                self._rescan(version)  # cleaned up since the last look, which was long ago
                return
            upper = commit.transaction(self.app)
            if upper is not None:
                self.failure = None
                if upper <= self.upper:
                    raise self._backward_error(upper)
                self._entries.append(_entry(upper, commit))
            if FAILURE in dict(commit.domains):
                self.failure = dict(commit.domains)[FAILURE]
            self._scanned_through = v
        self._trim()

    def _rescan(self, version: int) -> None:
        """Find the newest upper as of a version, or of a later one, knowing nothing.

        Nothing is known before all of it was looked at: where that fails, it is looked at again.
        """
        while True:
            anew = Uppers(self.table, self.app, since=self._since)
            anew._scanned_from = version + 1
            anew._scan_back(until_upper=None)
            newest = self.table.version() if anew._is_from_state else version
            if newest == version:
                break
            version = newest  # the state may be of a later version than the log was read from
        if anew.upper < self.upper:
            raise self._backward_error(anew.upper)
        self._entries, self._is_from_state = anew._entries, anew._is_from_state
        self._scanned_from, self._scanned_through = anew._scanned_from, version
        self.failure, self._failure_known = anew.failure, anew._failure_known

    def _backward_error(self, upper: int) -> CtsqlError:
        return error(
            "INTERNAL_ERROR",
            invariant="an upper never goes back",
            detail=f"{self.table.location}: {self.upper} then {upper}.",
        )

    def _trim(self) -> None:
        """Forget old entries when there are many (U2)."""
        if len(self._entries) > ENTRIES_KEPT_MAX:
            self._entries = self._entries[-ENTRIES_KEPT_MAX // 2 :]
            self._scanned_from = self._entries[0].version
            self._is_from_state = False

    def _scan_back(self, until_upper: int | None) -> None:
        """Take in older commits until one with upper <= until_upper (None: until any)."""
        older: list[Entry] = []  # newest first
        oldest = self._entries[0] if self._entries else None
        try:
            while self._scanned_from > 0:
                if oldest is not None and (until_upper is None or oldest.upper <= until_upper):
                    break
                if until_upper is None and not self._is_readable(self._scanned_from - 1):
                    self._from_state()  # the log begins after the last write
                    return
                commit = self.table.commit_at(self._scanned_from - 1)
                self._scanned_from -= 1
                upper = commit.transaction(self.app)
                if upper is not None:
                    oldest = _entry(upper, commit)
                    older.append(oldest)
                says = upper is not None or FAILURE in dict(commit.domains)
                if says and not self._failure_known:
                    self.failure = dict(commit.domains).get(FAILURE)
                    self._failure_known = True
        finally:
            self._entries[:0] = reversed(older)

    def _is_readable(self, version: int) -> bool:
        """Is a commit among those to be read, and not cleaned up?"""
        return version > self._since and self.table.has(version)

    def _from_state(self) -> None:
        """Take the upper from the table's state, where its own commit is no longer in the log."""
        if not self._failure_known:
            self.failure = self.table.domains()[1].get(FAILURE)
            self._failure_known = True
        upper = self.table.application_version(self.app)
        if upper is not None:
            self._entries.insert(0, Entry(upper, self._scanned_from))
            self._is_from_state = True

    def _all_from_state(self) -> int:
        """Take the upper from the table's state; gives the version that it is the state of."""
        self._failure_known = True  # what is recorded beside a shared table is not one output's
        while True:
            version = self.table.version()
            upper = self.table.application_version(self.app)
            if self.table.version() == version:
                break
        self._scanned_from = version + 1
        if upper is not None:
            self._entries.append(Entry(upper, version))
            self._is_from_state = True
        return version

    def since(self, upper: int) -> list[Entry]:
        """The entries from the last one at or below an upper on."""
        self._scan_back(until_upper=upper)
        first = bisect_right(self._entries, upper, key=lambda e: e.upper) - 1
        return self._entries[max(first, 0) :]
