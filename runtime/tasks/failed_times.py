"""Times at which a task's body cannot be computed: the task stops there, or skips them.

[failure-stops] nothing is written at such a T or after it; the output's log records the reason
    (:mod:`ctsql.runtime.log.failures`), and only RETRY runs the body there again.
[replaced-anyway] if a T fails before a swap, which replaces all rows, the task goes on at the swap.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ctsql.catalog.errors import CtsqlError, EnvironmentProblem, error
from ctsql.catalog.items import Item
from ctsql.runtime.log.failures import Failure, find_recorded, is_to_record, record
from ctsql.runtime.log.write_handle import Output, OutputBatch, UpperMoved, disturbance_error
from ctsql.runtime.warehouse.warehouse import Warehouse

DISTURBED_TRIES_MAX = 20


@dataclass(frozen=True, slots=True)
class FailedTimes:
    """The failed times of one task.

    Attributes:
        output: the leading output. commit: commits a batch with an upper and metadata; False if the
            upper has moved. check_known: raises if the newest commit is of a definition that is not
            loaded.
    """

    warehouse: Warehouse
    item: Item
    output: Output
    commit: Callable[[OutputBatch, int, Mapping[str, Any]], bool]
    check_known: Callable[[], None]

    def pass_to(self, until: int, upper: int, *, retry: bool) -> int | None:
        """The upper from which Ts up to ``until`` run; None if the task stopped after ``until``.

        Args:
            upper: the output's upper. retry: run the body at the failed T.

        Raises:
            TASK_FAILED: the task stopped at one of these Ts.
        """
        failure = find_recorded(self.output)
        if failure is None:
            return upper
        if failure.time > until:
            return None
        swap = self._swap_after(failure.time)
        if swap is not None:
            return self._go_past_to(swap, failure)
        if not retry:
            raise failure.task_error(self.warehouse.relations.in_force(self.item, failure.time)[0])
        return max(upper, failure.time)

    def failed(self, time: int, problem: CtsqlError, *, again: bool) -> int:
        """Skip a failing time, or record why and raise it; returns the upper after it.

        ``again``: whether the body was run there on request.
        """
        item, plan = self.warehouse.relations.in_force(self.item, time)
        failure = Failure.of(time, problem, item)
        for _ in range(DISTURBED_TRIES_MAX):
            self.output.fetch_recent_upper()
            if self.output.upper > time:
                self.check_known()
                return self.output.upper  # another process moved the upper past it
            swap = self._swap_after(time)
            if swap is not None:
                return self._go_past_to(swap, failure)
            if plan.skip_errors:
                if self._go_past(time, failure):
                    return time + 1
                continue
            is_new = is_to_record(find_recorded(self.output), failure, again=again)
            try:
                done = not is_new or record(self.output, failure)
            except EnvironmentProblem:
                done = True  # it fails anyway; the next run records the failure
            if done:
                raise failure.task_error(item) from problem
        raise disturbance_error(f"{DISTURBED_TRIES_MAX} tries at T = {time}")

    def _swap_after(self, time: int) -> int | None:
        """The first T after a time at which a definition replaces all rows; None without one."""
        state = self.warehouse.timeline.task(self.item.id)
        copies = {r.number for r in self.item.revisions if r.copies_rows}
        swaps = (t for t, n in state.revisions if n in copies and state.revision_at(t) == n)
        return min((t for t in swaps if t > time), default=None)

    def _go_past_to(self, swap: int, failure: Failure) -> int:
        """Skip everything due before a swap [replaced-anyway]; returns the upper after it."""
        for _ in range(DISTURBED_TRIES_MAX):
            if self.output.fetch_recent_upper() > failure.time:
                return self.output.upper  # another process moved the upper past it
            if self._go_past(failure.time, failure, upper=swap):
                return swap
        raise disturbance_error(f"{DISTURBED_TRIES_MAX} tries at T = {failure.time}")

    def _go_past(self, time: int, failure: Failure, *, upper: int | None = None) -> bool:
        """Commit an upper past a time without rows, by default the next; False if it has moved."""
        batch = self.output.open(self.output.upper)
        if isinstance(batch, UpperMoved) or batch.lower > time:
            return False
        metadata = {
            **self.warehouse.versions.reads_at(self.item, time),
            "skipped": [time],
            "reason": failure.reason,
            "condition": failure.condition,
        }
        return self.commit(batch, upper or time + 1, metadata)

    def skip(self, loss: Failure | None = None) -> int:
        """Move the upper past the T at which the task failed; returns that T.

        Args:
            loss: an unrecorded reason that stops the task: history of the T was removed.

        Raises:
            TASK_NOT_FAILED: no failure is recorded, or another process went past it.
        """
        self.output.fetch_recent_upper()
        first = find_recorded(self.output) or loss
        for _ in range(DISTURBED_TRIES_MAX):
            is_lost = loss is not None and self.output.upper <= loss.time
            failure = find_recorded(self.output) or (loss if is_lost else None)
            if first is None or failure is None or failure.time != first.time:
                raise error(
                    "TASK_NOT_FAILED",
                    name=str(self.item.name),
                    detail="There is nothing to skip. A failure is recorded when the task runs: "
                    "on a read of its output, or in ctsql run."
                    if first is None
                    else f"T = {first.time} was passed by another process.",
                )
            if self._go_past(failure.time, failure):
                return failure.time
            self.output.fetch_recent_upper()
        raise disturbance_error(f"{DISTURBED_TRIES_MAX} tries at T = {first.time if first else 0}")
