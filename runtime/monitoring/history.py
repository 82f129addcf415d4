"""The commits of an output's log, the newest first, without those that nobody asked for.

Both the instants of commits and the uppers increase with the version, so the newest commit of a
range is found by halving: of ten thousand commits fourteen are read. From there the log is read
backwards, as far as is asked for, or to where it was cleaned up.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ctsql.runtime.log.actions import Commit
from ctsql.runtime.monitoring.row_request import Bounds

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import DeltaTable

MICROSECONDS = 1_000


def commits_back(table: "DeltaTable", app: str, t: Bounds, at: Bounds) -> Iterator[Commit]:
    """The commits within bounds, the newest first; commits without an upper are among them.

    Args:
        app: the application id of the output. t: bounds of its upper less one.
        at: bounds of the instant, in microseconds.
    """
    version = table.version()
    if at.upper is not None:
        version = _last_within(table, version, at.upper, lambda c: c.time_ms * MICROSECONDS)
    if t.upper is not None:
        version = _last_within(table, version, t.upper, lambda c: _time_of(table, app, c))
    while (commit := table.find_commit(version)) is not None:
        upper = commit.transaction(app)
        if at.lower is not None and commit.time_ms * MICROSECONDS < at.lower:
            return
        if t.lower is not None and upper is not None and upper - 1 < t.lower:
            return
        yield commit
        version -= 1


def first_within(table: "DeltaTable", app: str, t: Bounds, at: Bounds) -> int:
    """The first version that is not below the lower bounds; it may have been cleaned up."""
    newest, first = table.version(), 0
    if at.lower is not None:
        first = 1 + _last_within(table, newest, at.lower - 1, lambda c: c.time_ms * MICROSECONDS)
    if t.lower is not None:
        below = _last_within(table, newest, t.lower - 1, lambda c: _time_of(table, app, c))
        # A commit that brings the output to no T may record a failure at a later one.
        while (commit := table.find_commit(below)) is not None and commit.transaction(app) is None:
            below -= 1
        first = max(first, 1 + below)
    return first


def _time_of(table: "DeltaTable", app: str, commit: Commit) -> int:
    """The T to which a commit, or the last one before it that did, brought the output."""
    while (upper := commit.transaction(app)) is None:
        before = table.find_commit(commit.version - 1)
        if before is None:
            return -1
        commit = before
    return upper - 1


def _last_within(table: "DeltaTable", newest: int, upper: int, key: Callable[[Commit], int]) -> int:
    """The last version at or before one whose key is at most ``upper``; -1 if there is none."""
    first, behind = 0, newest + 1  # the answer + 1 is in [first, behind]
    while first < behind:
        middle = (first + behind) // 2
        commit = table.find_commit(middle)
        if commit is not None and key(commit) > upper:
            behind = middle
        else:
            first = middle + 1
    return first - 1
