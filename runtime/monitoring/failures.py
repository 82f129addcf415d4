"""One row for each T that a task or a materialized view could not compute.

A failure is open until a later commit moves the upper past it; that commit says whether its T was
skipped. The newest commit that moves the upper or records a failure tells what is open, so nothing
else is read for ``state = 'open'``. For all others the texts of commits are searched for the words
that are in a failure's, and few are parsed.

The place of a failure is one in the definition that failed, which may have been given up for
another one since. Where that cannot be told there is none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctsql.catalog.items import Item, ObjectKind, tasks_and_views
from ctsql.catalog.spans import Source, Span
from ctsql.catalog.times import TIME_MAX
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.failures import Failure
from ctsql.runtime.log.uppers import FAILURE
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.history import MICROSECONDS, first_within
from ctsql.runtime.monitoring.row_request import RowRequest
from ctsql.runtime.warehouse.table_checks import are_there

if TYPE_CHECKING:
    from ctsql.runtime.delta.table import DeltaTable

OPEN, RESOLVED, SKIPPED = "open", "resolved", "skipped"
_WORDS = (FAILURE, "skipped")
"""One of these is in the text of every commit that has to do with a failure."""


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


def failures(reader: LogReader, request: RowRequest) -> Iterator[FailureRow]:
    """The failures that are asked for, by the cached catalog; none of a table that is gone."""
    for item in tasks_and_views(reader.catalog):
        is_wanted = request.has(str(item.name))
        if is_wanted and are_there(reader.relations, [item]):
            yield from _of_item(reader, item, request)


def _of_item(reader: LogReader, item: Item, request: RowRequest) -> Iterator[FailureRow]:
    app, table = reader.relations.lead(item).app, reader.relations.table(item)
    if request.states == frozenset({OPEN}):
        versions = _newest_decisive(table, app)
    else:
        # Without upper bounds: what ended a failure may be behind them.
        versions = range(table.version(), first_within(table, app, request.t, request.at) - 1, -1)
    for version in versions:
        if not table.has(version):
            return
        if not table.log_files.may_mention(version, _WORDS):
            continue
        commit = table.commit_at(version)
        rows = [_row(item, commit, f, commit, None) for f in _left_out(commit)]
        before = _decisive(table, app, version - 1, -1) if rows else None
        earlier_failure = None if before is None else _failure_of(before)
        # Its own record says more than the commit that skipped it.
        rows = [r for r in rows if earlier_failure is None or earlier_failure.time != r.t]
        own = _failure_of(commit)
        if own is not None:
            later = _decisive(table, app, version + 1, 1)
            place = _place(reader, item, own, is_open=later is None)
            rows.append(_row(item, commit, own, later, place))
        yield from (row for row in rows if _is_wanted(row, request))


def _newest_decisive(table: "DeltaTable", app: str) -> Sequence[int]:
    """The version of the newest commit that moves the upper or records a failure."""
    commit = _decisive(table, app, table.version(), -1)
    return () if commit is None else (commit.version,)


def _decisive(table: "DeltaTable", app: str, version: int, step: int) -> Commit | None:
    """The nearest commit from a version on that moves the upper or records a failure."""
    while version >= 0 and table.has(version):
        commit = table.commit_at(version)
        if commit.transaction(app) is not None or _failure_of(commit) is not None:
            return commit
        version += step
    return None


def _failure_of(commit: Commit) -> Failure | None:
    """The failure that a commit records."""
    text = dict(commit.domains).get(FAILURE)
    return None if text is None else Failure.from_json(text)


def _left_out(commit: Commit) -> Iterator[Failure]:
    """The failures that a commit skipped; what it says of them is less than their own record."""
    reason, condition = (str(commit.metadata.get(k, "")) for k in ("reason", "condition"))
    for time in commit.metadata.get("skipped", ()):
        yield Failure(time=int(time), condition=condition, reason=reason)


def _place(reader: LogReader, item: Item, failure: Failure, *, is_open: bool) -> Span | None:
    """The place of a failure in the definition of now, if that is the one which failed."""
    if item.revision:
        item = reader.relations.current(item)
        if not (is_open or _is_by_definition_of_now(reader, item, failure)):
            return None
    if failure.place is None or failure.place[1] > len(item.definition):
        return None
    return Span(Source(item.definition, str(item.name)), *failure.place)


def _is_by_definition_of_now(reader: LogReader, item: Item, failure: Failure) -> bool:
    """Is it certain that a failure was one of the newest definition?

    At the T from which a definition is in force the one before it may have failed: it is what a
    task that has failed is given to go on. Since when a view has its query is not known.
    """
    if item.kind is not ObjectKind.CONTINUAL_TASK:
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
        what_to_do=_what_to_do(item, failure),
    )
    if later is None:
        return row
    skipped = failure.time in later.metadata.get("skipped", ())
    return replace(
        row, state=SKIPPED if skipped else RESOLVED, ended_at=_instant(later), what_to_do=None
    )


def _what_to_do(item: Item, failure: Failure) -> str | None:
    if item.kind is not ObjectKind.CONTINUAL_TASK:
        return "Mend the rows that the query fails on; the view heals by itself."
    return failure.task_error(item).hint


def _is_wanted(row: FailureRow, request: RowRequest) -> bool:
    return (
        request.t.holds(row.t)
        and request.at.holds(round(row.at.timestamp() * 1_000) * MICROSECONDS)
        and (request.states is None or row.state in request.states)
    )


def _instant(commit: Commit) -> datetime:
    return datetime.fromtimestamp(commit.time_ms / 1000, UTC)
