"""The continual-task sink's decision: what to write next, as a pure function of its state.

The state: the loaded times at which inputs changed, the proposed rows, and the output's upper. All
three frontiers are exclusive. The decision is total: wait, advance the upper without rows, or write
the rows as of a time.

[smallest-first] the smallest loaded time that is not yet written is written next, and no other.
[complete-first] nothing is written before all times below it are loaded and its rows are complete.
[written-once] the upper never goes back, and no row is written twice: what is below the upper is
    removed from the state.

Proposals retract themselves at the next time, so the state is nearly empty between writes, and the
cost of a decision does not depend on the number of waiting times.
"""

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ctsql.planner.updates import RowUpdate, as_of, consolidate
from ctsql.runtime.warehouse.sink_decisions import WAIT, Advance, Decision, Write

Row = TypeVar("Row", bound=Hashable)


CountedRows = tuple[tuple[Row, int], ...]  # rows with how many copies of each


@dataclass(slots=True)
class SinkState(Generic[Row]):
    """The loaded times and proposals of a task, and its upper."""

    # times at which the input changed, as a heap: the smallest is the first.
    append_times: list[int] = field(default_factory=list)
    append_times_progress: int = 0  # exclusive; all append times below it are loaded
    to_append: list[RowUpdate[Row]] = field(default_factory=list)  # proposed updates
    to_append_progress: int = 0  # exclusive; all proposals at times below it are loaded
    output_upper: int = 0  # exclusive; the output holds everything below it

    def __post_init__(self) -> None:
        self.append_times = sorted(self.append_times)

    def due(self) -> int | None:
        """The time to write next; None if no loaded time is due."""
        while self.append_times and self.append_times[0] < self.output_upper:
            heapq.heappop(self.append_times)
        if not self.append_times or self.append_times[0] >= self.append_times_progress:
            return None
        return self.append_times[0]

    def decide(self) -> Decision[CountedRows[Row]]:
        """What to do next."""
        write = self.due()
        if write is None:
            if self.append_times_progress > self.output_upper:
                return Advance(self.append_times_progress)
            return WAIT
        if self.to_append_progress <= write:
            return Advance(write) if write > self.output_upper else WAIT
        # Earlier times are not read again, so a proposal and its retraction cancel.
        self.to_append = consolidate((row, max(t, write), d) for row, t, d in self.to_append)
        return Write(write + 1, tuple(as_of(self.to_append, write).items()))
