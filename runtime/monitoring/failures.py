"""One row for each T that a task or a materialized view could not compute: of the last attempt.

A failure is open until a later commit moves the upper past it; that commit records whether its T
was skipped. The newest commit that moves the upper or records a failure decides what is open. For
the others, the texts of commits are searched for words of failures, and few are parsed.

The place of a failure is in the definition that failed; None if that may have been replaced.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctsql.catalog.dependencies import tasks_and_views
from ctsql.catalog.items import Item, Task
from ctsql.catalog.spans import Source, Span
from ctsql.catalog.times import TIME_MAX
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.failures import Failure
from ctsql.runtime.log.uppers import FAILURE
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.warehouse.table_checks import are_there

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import DeltaTable

_MEND_ROWS = "Correct the rows that the query fails on; the view then recovers by itself."
OPEN, RESOLVED, SKIPPED = "open", "resolved", "skipped"
_WORDS = (FAILURE, "skipped")  # the text of every commit about a failure has one of these


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """A failure; the columns of ``system.failures``, in their order."""

    object: str
    kind: str
    t: int
    at: datetime
    state: str
    condition: str
    message: str
    detail: str | None
    line: int | None
    column: int | None
    ended_at: datetime | None
    what_to_do: str | None


def failures(
    reader: LogReader, items: Iterable[Item], *, since_ms: int = 0
) -> Iterator[FailureRow]:
    """The failures since an instant, each object's newest first; none of a missing table."""
    for item in _with_table(reader, items):
        table = reader.relations.table(item)
        oldest, times = _first_since(table, since_ms), set[int]()
        for version in range(table.version(), oldest - 1, -1):
            if not table.has(version):
                break
            if table.log_files.may_mention(version, _WORDS):
                for row in _of_commit(reader, item, table.commit_at(version)):
                    if row.t not in times:
                        times.add(row.t)
                        yield row


def open_failures(reader: LogReader, items: Iterable[Item]) -> Iterator[FailureRow]:
    """The failures that stop a task or view now; reads few commits of each."""
    for item in _with_table(reader, items):
        table = reader.relations.table(item)
        commit = _decisive(table, reader.relations.lead(item).app, table.version(), -1)
        rows = () if commit is None else _of_commit(reader, item, commit)
        yield from (row for row in rows if row.state == OPEN)


def _with_table(reader: LogReader, items: Iterable[Item]) -> Iterator[Item]:
    return (i for i in tasks_and_views(items) if are_there(reader.relations, [i]))


def _of_commit(reader: LogReader, item: Item, commit: Commit) -> Iterator[FailureRow]:
    app, table = reader.relations.lead(item).app, reader.relations.table(item)
    skipped = list(_left_out(commit))
    before = _decisive(table, app, commit.version - 1, -1) if skipped else None
    earlier_failure = None if before is None else _failure_of(before)
    for failure in skipped:
        # Its own record says more than the commit that skipped it.
        if earlier_failure is None or earlier_failure.time != failure.time:
            yield _row(item, commit, failure, commit, None)
    own = _failure_of(commit)
    if own is not None:
        later = _decisive(table, app, commit.version + 1, 1)
        place = _place(reader, item, own, is_open=later is None)
        yield _row(item, commit, own, later, place)


def _first_since(table: "DeltaTable", since_ms: int) -> int:
    """The first version not older than an instant; found by halving, as instants increase."""

    def is_recent(version: int) -> bool:
        commit = table.find_commit(version)
        return commit is not None and commit.time_ms >= since_ms

    return bisect_left(range(table.version() + 1), True, key=is_recent) if since_ms else 0


def _decisive(table: "DeltaTable", app: str, version: int, step: int) -> Commit | None:
    """The nearest commit from a version on that moves the upper or records a failure."""
    while version >= 0 and table.has(version):
        commit = table.commit_at(version)
        if commit.transaction(app) is not None or _failure_of(commit) is not None:
            return commit
        version += step
    return None


def _failure_of(commit: Commit) -> Failure | None:
    text = dict(commit.domains).get(FAILURE)
    return None if text is None else Failure.from_json(text)


def _left_out(commit: Commit) -> Iterator[Failure]:
    """The failures that a commit skipped, with fewer details than their own record."""
    reason, condition = (str(commit.metadata.get(k, "")) for k in ("reason", "condition"))
    for time in commit.metadata.get("skipped", ()):
        yield Failure(time=int(time), condition=condition, reason=reason)


def _place(reader: LogReader, item: Item, failure: Failure, *, is_open: bool) -> Span | None:
    """The place of a failure in the current definition, if that is the one that failed."""
    if item.revision:
        item = reader.relations.current(item)
        if not (is_open or _is_by_definition_of_now(reader, item, failure)):
            return None
    if failure.place is None or failure.place[1] > len(item.definition.text):
        return None
    return Span(Source(item.definition.text, str(item.name)), *failure.place)


def _is_by_definition_of_now(reader: LogReader, item: Item, failure: Failure) -> bool:
    """Whether the newest definition certainly failed.

    At the T from which it is in force, the earlier definition may have failed.
    """
    if not isinstance(item, Task):
        return False
    state = reader.timeline.task(item.id)
    return state.revision_at(failure.time - 1) == state.revision_at(TIME_MAX)


def _row(
    item: Item, commit: Commit, failure: Failure, later: Commit | None, place: Span | None
) -> FailureRow:
    row = FailureRow(
        object=str(item.name),
        kind=item.kind.value,
        t=failure.time,
        at=_instant(commit),
        state=OPEN,
        condition=failure.condition,
        message=failure.reason,
        detail=failure.detail or None,
        line=None if place is None else place.line,
        column=None if place is None else place.column,
        ended_at=None,
        what_to_do=failure.task_error(item).hint if isinstance(item, Task) else _MEND_ROWS,
    )
    if later is None:
        return row
    skipped = failure.time in later.metadata.get("skipped", ())
    return replace(
        row, state=SKIPPED if skipped else RESOLVED, ended_at=_instant(later), what_to_do=None
    )


def _instant(commit: Commit) -> datetime:
    return datetime.fromtimestamp(commit.time_ms / 1000, UTC)
