"""Failures of outputs, recorded in the output's log so that they survive a restart.

A task whose body cannot be computed at T stops there. A commit that keeps the upper records the
reason, so other processes need not run the body again. A view's failure is recorded for display
only: the view is computed again.

[record-until-upper] a record holds until the upper moves past it. The next commit that moves the
    upper removes or replaces it.
[equal-records] a record has neither instant nor host: replicas that fail at the same T produce
    equal records, and the first one is kept.
[passing-not-recorded] a failure that may pass by itself (full disk, cancelled statement, lost
    connection, removed history) is never recorded.
[errors-are-contents] a record in the commit that moves a view's upper to T + 1 is the view's
    contents from T until the next such commit. Tasks that follow the view fail at T on every run.
"""

import json
import re
from dataclasses import asdict, dataclass

from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError, DataError, StatementError, error, not_readable
from ctsql.catalog.items import Item, Task
from ctsql.catalog.spans import Source, Span
from ctsql.runtime.log.protocol import LogTable
from ctsql.runtime.log.write_handle import FAILURE, Committed, Output, OutputBatch

FOR_ROWS_AT_FAULT = "with try_cast or coalesce, or a WHERE that leaves the rows at fault out"
CAUSE = "cause"
"""Key in ``given`` of TASK_FAILED and VIEW_FAILED: the condition of the original error."""
_PASSING = ("HISTORY_LOST",)
_OF_COLUMNS = ("UNKNOWN_COLUMN", "COLUMN_COUNT_MISMATCH", "TYPE_MISMATCH", "AMBIGUOUS_COLUMN")
"""Conditions of a query whose tables lost a column or changed its type."""
_TIMES = re.compile(r" at T = -?\d+(?=:)")  # the T of a nested error, in the message of VIEW_FAILED


def view_failed(item: Item, time: int, problem: CtsqlError) -> CtsqlError:
    """VIEW_FAILED at T, for an error of the view's query; the caller raises it."""
    view_error = Failure.of(time, problem, item).view_error(item)
    view_error.span, view_error.__cause__ = problem.span, problem
    return view_error


def _mend(condition: str, item: Item) -> str:
    if condition in _OF_COLUMNS:
        return (
            "Restore the column of the table, and the view recovers by itself; or change the "
            f"view's query: CREATE OR REPLACE MATERIALIZED VIEW {item.name} AS ..."
        )
    return "Correct the rows that it reads; the view then recovers by itself."


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Nothing can be written at ``time``."""

    time: int
    condition: str
    reason: str
    detail: str = ""
    place: tuple[int, int] | None = None  # start and stop in the definition, if recorded
    revision: int | None = None  # the number of a task's definition that failed; None for a view

    @staticmethod
    def of(time: int, problem: CtsqlError, item: Item) -> "Failure":
        """The failure for an error raised at a T."""
        span, place = problem.span, None
        if span is not None and span.source.text == item.definition.text:
            place = (span.start, span.stop)
        return Failure(
            time=time,
            condition=problem.condition,
            reason=problem.message,
            detail=problem.detail or "",
            place=place,
            revision=item.revision if isinstance(item, Task) else None,
        )

    def is_like(self, other: "Failure") -> bool:
        """Whether they are equal except for times, those in nested errors' messages included."""
        reasons = _TIMES.sub("", self.reason), _TIMES.sub("", other.reason)
        return self.condition == other.condition and reasons[0] == reasons[1]

    def to_json(self) -> str:
        """The failure as text; equal failures have equal texts."""
        fields = asdict(self)
        return json.dumps({"t": fields.pop("time"), **fields})

    @staticmethod
    def from_json(text: str) -> "Failure":
        """Read the text of a failure; raises STORED_DATA_INVALID if it is none."""
        try:
            raw = json.loads(text)
            place = tuple(raw["place"]) if raw["place"] else None
            plain = {name: raw[name] for name in ("condition", "reason", "detail")}
            revision = None if raw["revision"] is None else int(raw["revision"])
            return Failure(time=int(raw["t"]), place=place, revision=revision, **plain)
        except (ValueError, KeyError, TypeError) as problem:
            hint = "Drop the object and create it again."
            what = "the failure recorded for an output"
            raise not_readable(what, problem, hint) from problem

    def _span(self, item: Item) -> Span | None:
        source = Source(item.definition.text, f"definition of {item.name}")
        return self.place and Span(source, *self.place)

    def view_error(self, item: Item) -> CtsqlError:
        """The error that a read of the view raises."""
        problem = error(
            "VIEW_FAILED",
            span=self._span(item),
            name=str(item.name),
            time=self.time,
            reason=self.reason,
            detail=self.detail,
            hint=_mend(self.condition, item),
        )
        problem.given[CAUSE] = self.condition
        return problem

    def _way_out(self, item: Item) -> str:
        alter = f"ALTER CONTINUAL TASK {item.name}"
        if self.condition == "CONSTRAINT_VIOLATED":
            return (
                f"Drop the constraint: {alter} DROP CONSTRAINT <name>, and if wanted add it again "
                "ON VIOLATION DROP, WARN or QUARANTINE;"
            )
        example = "" if self.condition in _OF_COLUMNS else f", {FOR_ROWS_AT_FAULT}"
        if item.flow:
            alter = f"CREATE OR REPLACE FLOW {item.name} AS ..."
            return f"Replace it by a flow that can compute that T: {alter}{example};"
        return f"Replace its body by one that can compute that T: {alter} AS (...){example};"

    def task_error(self, item: Item) -> CtsqlError:
        """The error that a read of the task's output raises."""
        problem = error(
            "TASK_FAILED",
            span=self._span(item),
            name=str(item.name),
            time=self.time,
            reason=self.reason,
            detail=f"{self.detail} Its input is kept; nothing was written at T = {self.time}, "
            f"which is {times.to_iso(self.time)}. "
            f"Its earlier rows can be read AS OF {self.time - 1}.",
            hint=self._way_out(item) + " nothing is lost. "
            f"The rows of that T: SUBSCRIBE TO {item.reads[0].name} FROM {self.time} "
            f"UP TO {self.time + 1}. "
            f"If they are not the cause: ALTER CONTINUAL TASK {item.name} RETRY. "
            f"To leave them out: ALTER CONTINUAL TASK {item.name} SKIP",
        )
        problem.given[CAUSE] = self.condition
        return problem


def is_failure_of(problem: CtsqlError, task: Item) -> bool:
    """Whether an error reports that this task has failed, and not one that it reads."""
    return problem.condition == "TASK_FAILED" and problem.given["name"] == str(task.name)


def is_final(problem: CtsqlError) -> bool:
    """Whether another try would fail in the same way [passing-not-recorded]."""
    return isinstance(problem, DataError | StatementError) and problem.condition not in _PASSING


def is_to_record(recorded: Failure | None, failure: Failure, *, again: bool) -> bool:
    """Whether to record a task's failure; ``again``: after RETRY, which records a new reason."""
    return recorded is None or recorded.time != failure.time or (again and recorded != failure)


def find_recorded(output: Output) -> Failure | None:
    """The failure in force, as of the commits read so far [record-until-upper]."""
    if output.uppers.failure is None:
        return None
    failure = Failure.from_json(output.uppers.failure)
    return failure if failure.time >= output.upper - 1 else None


def find_error_at(table: LogTable, version: int) -> Failure | None:
    """The error that is an output's contents from a commit on; None for rows."""
    if not table.has(version):
        return None  # cleaned up: older than any kept history
    text = dict(table.commit_at(version).domains).get(FAILURE)
    return None if text is None else Failure.from_json(text)


def note_view_failure(output: Output, item: Item, problem: CtsqlError) -> None:
    """Try once to record a view's failure, for display only."""
    cause = problem.__cause__ if isinstance(problem.__cause__, CtsqlError) else problem
    failure = Failure.of(int(str(problem.given["time"])), cause, item)
    output.fetch_recent_upper()
    recorded = find_recorded(output)
    if recorded is None or not recorded.is_like(failure):  # else the first T is kept
        record(output, failure)


def record(output: Output, failure: Failure) -> bool:
    """Try once to record a failure; True if recorded."""
    batch = output.open(output.upper)
    if not isinstance(batch, OutputBatch) or failure.time < output.upper:
        return False
    batch.domains[FAILURE] = failure.to_json()
    outcome = output.compare_and_append(
        [batch], expected=batch.lower, new=None, metadata={"t": failure.time, "failed": True}
    )
    return isinstance(outcome, Committed)
