"""Why an output stopped, kept beside the output, so that it is known after a restart.

A task whose body cannot be computed at T stops there. The reason is recorded in the log of its
output, by a commit that leaves the upper: whoever comes next knows it without running the body.
A view's failure is recorded for whoever asks; the view is computed anew all the same.

F1: a record holds until the upper moves past it: the next commit that moves the upper takes it
    away, or puts its own in its place.
F2: a record says nothing of when and where: replicas that fail at the same T mean the same, and
    the second one leaves the record of the first.
F4: a record in a commit that moves a view's upper to T + 1 says that the view's contents are an
    error from T until the next such commit: errors are contents. Tasks that follow the view fail
    at T, whoever runs them and whenever; an error that stays the same is no change.
    (tests/spark/views/test_view_errors.py)
F3: what may go away by itself (a full disk, a cancelled statement, a lost connection, history
    that was removed) is never recorded.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum, auto

from ctsql.catalog.errors import CtsqlError, DataError, StatementError, error
from ctsql.catalog.items import Item
from ctsql.catalog.spans import Source, Span
from ctsql.runtime.log.protocol import LogTable
from ctsql.runtime.log.write_handle import FAILURE, Batch, Committed, Output

FEATURE = "domainMetadata"
_PASSING = ("HISTORY_LOST",)
_TIMES = re.compile(r" at T = -?\d+(?=:)")
"""As VIEW_FAILED tells the time of an error of a view that is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """At ``time`` nothing can be written. ``place`` is where in the definition, if it is known."""

    time: int
    condition: str
    reason: str
    detail: str = ""
    place: tuple[int, int] | None = None

    @staticmethod
    def of(time: int, problem: CtsqlError, item: Item) -> "Failure":
        """The failure that a problem is at a time."""
        span, place = problem.span, None
        if span is not None and span.source.text == item.definition:
            place = (span.start, span.stop)
        return Failure(
            time=time,
            condition=problem.condition,
            reason=problem.message,
            detail=problem.detail or "",
            place=place,
        )

    def is_like(self, other: "Failure") -> bool:
        """Is it the same but for the times, also those of the errors further down it tells of?"""
        return (self.condition, self._timeless()) == (other.condition, other._timeless())

    def _timeless(self) -> str:
        return _TIMES.sub("", self.reason)

    def to_json(self) -> str:
        """The failure as text; equal for equal failures."""
        return json.dumps(
            {
                "t": self.time,
                "condition": self.condition,
                "reason": self.reason,
                "detail": self.detail,
                "place": self.place,
            }
        )

    @staticmethod
    def from_json(text: str) -> "Failure":
        """The failure from its text; raises STORED_DATA_INVALID when it is none."""
        try:
            raw = json.loads(text)
            return Failure(
                time=int(raw["t"]),
                condition=raw["condition"],
                reason=raw["reason"],
                detail=raw["detail"],
                place=tuple(raw["place"]) if raw["place"] else None,
            )
        except (ValueError, KeyError, TypeError) as problem:
            raise error(
                "STORED_DATA_INVALID",
                what="the failure recorded beside an output",
                detail=f"{type(problem).__name__}: {problem}.",
                hint="Drop the object and create it again.",
                cause=problem,
            ) from problem

    def _span(self, item: Item) -> Span | None:
        if self.place is None:
            return None
        return Span(Source(item.definition, f"definition of {item.name}"), *self.place)

    def view_error(self, item: Item) -> CtsqlError:
        """What a read of the view raises."""
        return error(
            "VIEW_FAILED",
            span=self._span(item),
            name=str(item.name),
            time=self.time,
            reason=self.reason,
            detail=self.detail,
        )

    def task_error(self, item: Item) -> CtsqlError:
        """What a read of the task's output raises."""
        return error(
            "TASK_FAILED",
            span=self._span(item),
            name=str(item.name),
            time=self.time,
            reason=self.reason,
            detail=f"{self.detail} Its input is kept; nothing was written at T = {self.time}. "
            f"What it held before can be read AS OF {self.time - 1}.",
            hint=f"Run that T again with ALTER CONTINUAL TASK {item.name} RETRY, or leave it out "
            f"with ALTER CONTINUAL TASK {item.name} SKIP",
        )


class Action(Enum):
    """What to do about a failure."""

    KEEP = auto()  # it is recorded
    RECORD = auto()
    SKIP = auto()  # go past its time


def is_final(problem: CtsqlError) -> bool:
    """Will it be the same the next time (F3)?"""
    return isinstance(problem, DataError | StatementError) and problem.condition not in _PASSING


def on_task_failure(known: Failure | None, found: Failure, *, skip: bool, again: bool) -> Action:
    """Record a task's failure, leave the record that there is, or go past.

    Args:
        known: what is recorded. again: it was asked for, so that a new reason counts.
    """
    if skip:
        return Action.SKIP
    if known is None or known.time != found.time or (again and known != found):
        return Action.RECORD
    return Action.KEEP


def on_view_failure(known: Failure | None, found: Failure) -> Action:
    """A view that goes on failing for the same reason keeps the time from which it does."""
    if known is not None and known.is_like(found):
        return Action.KEEP
    return Action.RECORD


def find_recorded(output: Output) -> Failure | None:
    """The failure that holds, as of what was last looked at (F1)."""
    if output.failure is None:
        return None
    failure = Failure.from_json(output.failure)
    return failure if failure.time >= output.upper - 1 else None


def find_error_at(table: LogTable, version: int) -> Failure | None:
    """The error that an output holds since a commit that moved its upper (F4); None for rows."""
    if not table.has(version):
        return None  # its log was cleaned up: it is older than any history that is kept
    text = dict(table.commit_at(version).domains).get(FAILURE)
    return None if text is None else Failure.from_json(text)


def note_view_failure(output: Output, item: Item, problem: CtsqlError) -> None:
    """Record a view's failure for whoever asks; losing a race for it is fine."""
    cause = problem.__cause__ if isinstance(problem.__cause__, CtsqlError) else problem
    found = Failure.of(int(str(problem.given["time"])), cause, item)
    output.fetch_recent_upper()
    if on_view_failure(find_recorded(output), found) is Action.RECORD:
        record(output, found)


def record(output: Output, failure: Failure) -> bool:
    """Try once to record a failure; True when that is done, or cannot be for this table."""
    if not output.table.has_feature(FEATURE):
        return True  # made by a version that recorded nothing
    batch = output.open(output.upper)
    if not isinstance(batch, Batch) or failure.time < output.upper:
        return False
    batch.domains[FAILURE] = failure.to_json()
    outcome = output.commit(batch, None, {"t": failure.time, "failed": True})
    return isinstance(outcome, Committed)
