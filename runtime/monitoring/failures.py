"""One row for each T that a task or a materialized view could not compute.

A failure is open until a later commit moves the upper past it; that commit says whether its T was
skipped. The newest commit that moves the upper or records a failure tells what is open, so nothing
else is read for ``state = 'open'``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.spans import Source, Span
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.failures import Failure
from ctsql.runtime.log.uppers import FAILURE
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.history import MICROSECONDS, commits_back
from ctsql.runtime.monitoring.wanted import Bounds, Wanted

OPEN, PASSED, SKIPPED = "open", "passed", "skipped"


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


def failures(reader: LogReader, wanted: Wanted) -> Iterator[FailureRow]:
    """The failures that are asked for, by the cached catalog."""
    runs = sorted((i for i in reader.catalog if i.is_run and not i.problem), key=_by_name)
    for item in runs:
        if wanted.has(str(item.name)):
            yield from _of_item(reader, item, wanted)


def _of_item(reader: LogReader, item: Item, wanted: Wanted) -> Iterator[FailureRow]:
    lead = reader.relations.lead(item)
    table = reader.relations.table(item)
    later: Commit | None = None  # the last one after, that ends what is before it
    skipped: list[FailureRow] = []  # by the last one after, whose failure may be recorded before it
    # Without upper bounds: what ended a failure may be behind them.
    lower = Bounds(wanted.t.lower), Bounds(wanted.at.lower)
    for commit in commits_back(table, lead.app, *lower):
        text = _text(commit)
        if commit.transaction(lead.app) is None and text is None:
            continue
        recorded = None if text is None else Failure.from_json(text)
        found = [row for row in skipped if recorded is None or row.t != recorded.time]
        if recorded is not None:
            found.append(_row(item, commit, recorded, later))
        yield from (row for row in found if _is_wanted(row, wanted))
        skipped = [_row(item, commit, failure, commit) for failure in _left_out(commit)]
        later = commit
        if wanted.states == frozenset({OPEN}):
            return
    yield from (row for row in skipped if _is_wanted(row, wanted))


def _left_out(commit: Commit) -> Iterator[Failure]:
    """The failures that a commit skipped; what it says of them is less than their own record."""
    reason = str(commit.metadata.get("reason", ""))
    for time in commit.metadata.get("skipped", ()):
        yield Failure(time=int(time), condition="TASK_FAILED", reason=reason)


def _text(commit: Commit) -> str | None:
    return dict(commit.domains).get(FAILURE)


def _row(item: Item, commit: Commit, found: Failure, later: Commit | None) -> FailureRow:
    place = None
    if found.place is not None and found.place[1] <= len(item.definition):
        place = Span(Source(item.definition, str(item.name)), *found.place)
    row = FailureRow(
        object=str(item.name),
        kind=item.kind.value,
        t=found.time,
        at=_instant(commit),
        state=OPEN,
        condition=found.condition,
        message=found.reason,
        detail=found.detail or None,
        line=None if place is None else place.line,
        column=None if place is None else place.column,
        ended_at=None,
        what_to_do=_what_to_do(item, found),
    )
    if later is None:
        return row
    skipped = found.time in later.metadata.get("skipped", ())
    return replace(
        row, state=SKIPPED if skipped else PASSED, ended_at=_instant(later), what_to_do=None
    )


def _what_to_do(item: Item, found: Failure) -> str | None:
    if item.kind is not ObjectKind.CONTINUAL_TASK:
        return "Mend the rows that the query fails on; the view heals by itself."
    return found.task_error(item).hint


def _is_wanted(row: FailureRow, wanted: Wanted) -> bool:
    return (
        wanted.t.holds(row.t)
        and wanted.at.holds(round(row.at.timestamp() * 1_000) * MICROSECONDS)
        and (wanted.states is None or row.state in wanted.states)
    )


def _instant(commit: Commit) -> datetime:
    return datetime.fromtimestamp(commit.time_ms / 1000, UTC)


def _by_name(item: Item) -> tuple[str, str]:
    return item.name.key
