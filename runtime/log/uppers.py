"""The uppers of one output, read from its log: which commit moved the upper to where.

The log is read commit by commit, forward from the last read version and backward as far as needed.
If it was cleaned up, the upper is taken from the table's state.

[known-upper-monotone] the known upper never goes back.
[bounded-memory] only the newest entries are kept in memory; older ones are read again on demand.
"""

from bisect import bisect_right
from dataclasses import dataclass

from ctsql.catalog.errors import CtsqlError, broken
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.protocol import LogTable

NO_UPPER = 0
FAILURE = "ctsql.failure"  # the domain whose configuration is the failure recorded for the output
ENTRIES_KEPT_MAX = 10_000
SHARED_BY = "shared_by"
"""Key in the metadata of a commit that several Ts share: the Ts with rows in it, in order."""
REVISION = "revision"
"""Key in the metadata of a commit: the number of its definition, if not the first."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit of the output: from `version` on, everything below `upper` is committed."""

    upper: int
    version: int
    times: tuple[int, ...] = ()  # if several Ts share it, those with rows in it, in order
    revision: int = 0


def _entry(upper: int, commit: Commit) -> Entry:
    times = tuple(commit.metadata.get(SHARED_BY, ()))
    return Entry(upper, commit.version, times, commit.metadata.get(REVISION, 0))


class Uppers:
    """The uppers and the recorded failure of one application id, as far as its log was read."""

    def __init__(self, table: LogTable, app: str, *, since: int) -> None:
        self.table = table
        self._since = since
        self.app = app
        self.failure: str | None = None
        self._failure_known = False
        self._entries: list[Entry] = []
        self.newest_read = -1  # newest version read; -1 for none
        self.oldest_read = 0  # oldest version read
        self._is_from_state = False  # the oldest entry's own commit is not known

    @property
    def upper(self) -> int:
        """The newest known upper; NO_UPPER before the first."""
        return self._entries[-1].upper if self._entries else NO_UPPER

    @property
    def last(self) -> Entry | None:
        """The newest commit that moved the upper; None if there is none or it was cleaned up."""
        if self._is_from_state and len(self._entries) == 1:
            return None
        return self._entries[-1] if self._entries else None

    def follow(self, version: int) -> None:
        """Read the commits up to a version."""
        if self.newest_read < 0:
            self.rescan(version)
            return
        for v in range(self.newest_read + 1, version + 1):
            try:
                commit = self.table.commit_at(v)
            except CtsqlError as problem:
                if problem.condition != "HISTORY_LOST":
                    raise
                self.rescan(version)  # cleaned up since the last read
                return
            upper = commit.transaction(self.app)
            if upper is not None:
                self.failure = None
                if upper <= self.upper:
                    raise self._backward_error(upper)
                self._entries.append(_entry(upper, commit))
            if FAILURE in dict(commit.domains):
                self.failure = dict(commit.domains)[FAILURE]
            self.newest_read = v
        self._trim()

    def rescan(self, version: int) -> None:
        """Find the newest upper as of a version or later; repeatable after an error."""
        while True:
            fresh = Uppers(self.table, self.app, since=self._since)
            fresh.oldest_read = version + 1
            fresh.scan_back(until_upper=None)
            newest = self.table.version() if fresh._is_from_state else version
            if newest == version:
                break
            version = newest  # the state may be that of a later version
        if fresh.upper < self.upper:
            raise self._backward_error(fresh.upper)
        self._entries, self._is_from_state = fresh._entries, fresh._is_from_state
        self.oldest_read, self.newest_read = fresh.oldest_read, version
        self.failure, self._failure_known = fresh.failure, fresh._failure_known

    def _backward_error(self, upper: int) -> CtsqlError:
        detail = f"{self.table.location}: {self.upper} then {upper}."
        return broken("an upper never goes back", detail)

    def _trim(self) -> None:
        if len(self._entries) > ENTRIES_KEPT_MAX:
            self._entries = self._entries[-ENTRIES_KEPT_MAX // 2 :]
            self.oldest_read = self._entries[0].version
            self._is_from_state = False

    def scan_back(self, until_upper: int | None) -> None:
        """Read older commits back to one with upper <= until_upper (None: to any)."""
        older: list[Entry] = []  # newest first
        oldest = self._entries[0] if self._entries else None
        try:
            while self.oldest_read > 0:
                if oldest is not None and (until_upper is None or oldest.upper <= until_upper):
                    break
                if until_upper is None and not self._is_readable(self.oldest_read - 1):
                    self._from_state()  # the log begins after the last write
                    return
                commit = self.table.commit_at(self.oldest_read - 1)
                self.oldest_read -= 1
                upper = commit.transaction(self.app)
                if upper is not None:
                    oldest = _entry(upper, commit)
                    older.append(oldest)
                is_decisive = upper is not None or FAILURE in dict(commit.domains)
                if is_decisive and not self._failure_known:
                    self.failure = dict(commit.domains).get(FAILURE)
                    self._failure_known = True
        finally:
            self._entries[:0] = reversed(older)

    def _is_readable(self, version: int) -> bool:
        return version > self._since and self.table.has(version)

    def _from_state(self) -> None:
        """Take the upper from the table's state, as its own commit is no longer in the log."""
        if not self._failure_known:
            self.failure = self.table.domains()[1].get(FAILURE)
            self._failure_known = True
        upper = self.table.application_version(self.app)
        if upper is not None:
            self._entries.insert(0, Entry(upper, self.oldest_read))
            self._is_from_state = True

    def since(self, upper: int) -> list[Entry]:
        """The entries from the last one at or below an upper on."""
        self.scan_back(until_upper=upper)
        first = bisect_right(self._entries, upper, key=lambda e: e.upper) - 1
        return self._entries[max(first, 0) :]

    def around(self, upper: int) -> list[Entry]:
        """The last entry at or below an upper, if there is one, and the next one.

        Reads few commits, however old, if most of them move the upper. Raises HISTORY_LOST if the
        log lacks the deciding commit.
        """
        if not self._entries or self._entries[0].upper <= upper:
            entries = self.since(upper)
            return entries[: 2 if entries and entries[0].upper <= upper else 1]
        before: Entry | None = None
        following = self._entries[0]
        lost: CtsqlError | None = None
        # The entries below low are at or below the upper, those from high on are above it.
        low, high, step = 0, self.oldest_read, 1
        while low < high:
            middle = max((low + high) // 2, high - step)  # mostly it is near
            step *= 2
            try:
                entry = self._first_entry(middle, high)
            except CtsqlError as problem:
                if problem.condition != "HISTORY_LOST":
                    raise
                # A log is cleaned up from its beginning; an entry found below is from a cache.
                before, lost, low = None, problem, middle + 1
                continue
            if entry is None:
                high = middle
            elif entry.upper <= upper:
                before, low = entry, entry.version + 1
            else:
                following, high = entry, middle
        if before is not None:
            return [before, following]
        if lost is not None:
            raise lost
        return [following]

    def _first_entry(self, first: int, end: int) -> Entry | None:
        for version in range(first, end):
            commit = self.table.commit_at(version)
            upper = commit.transaction(self.app)
            if upper is not None:
                return _entry(upper, commit)
        return None
