"""The position of a reader, and the times that are delivered next. Pure: no clock, no I/O.

    start --contents as of start (AS OF)--> start + 1 --T delivered--> T + 1 --> ...

[in-order] every T from the start on is delivered in order, at most once to a reader that
    acknowledges.
[whole-T] a T is delivered whole or not at all: a position is a time, never an index of a row.
[independent-of-reading] a position depends on the delivered times, not on when it was read.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RetentionNeed:
    """A consumer needs an object's table from a version on.

    Attributes:
        version: the oldest version needed. since: its T.
        consumer: a reader or an output, as text: ``subscription 'nightly'``.
        object_id: of the table's object.
    """

    version: int
    since: int
    consumer: str
    object_id: str


@dataclass(frozen=True, slots=True)
class Position:
    """Everything below ``next`` (exclusive upper) was delivered.

    Attributes:
        snapshot: whether the whole contents are delivered at ``next``, instead of the changes.
    """

    next: int
    snapshot: bool = False

    @property
    def needed_from(self) -> int:
        """The T as of which the followed object must stay readable.

        >>> Position(7).needed_from, Position(7, snapshot=True).needed_from
        (6, 7)
        """
        return self.next if self.snapshot else self.next - 1

    def advance_past(self, time: int) -> "Position":
        """The position after everything up to a time (inclusive) was delivered.

        >>> Position(7, snapshot=True).advance_past(7), Position(7).advance_past(3)
        (Position(next=8, snapshot=False), Position(next=7, snapshot=False))
        """
        return self if time < self.next else Position(time + 1)

    def resume(self, upper: int) -> "Position":
        """The position of a reader that began here, by its stored upper (0: none yet).

        >>> Position(7, snapshot=True).resume(0), Position(7, snapshot=True).resume(9)
        (Position(next=7, snapshot=True), Position(next=9, snapshot=False))
        """
        return self if upper <= self.next else Position(upper)

    def due(self, times: Iterable[int], until: int) -> list[int]:
        """The times to deliver, in order, among those at which something may have changed.

        >>> Position(5).due([9, 4, 6, 5], until=6), Position(5, snapshot=True).due([6], until=9)
        ([5, 6], [5, 6])
        """
        due_times = {t for t in times if self.next <= t <= until}
        if self.snapshot and self.next <= until:
            due_times.add(self.next)
        return sorted(due_times)
