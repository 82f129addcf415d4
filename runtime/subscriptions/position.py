"""How far a reader has come, and what of the times it is told next. Pure: no clock, no I/O.

    start --given the contents as of start (AS OF)--> start + 1 --T told--> T + 1 --> ...

P1: every T from the start on is told at most once to a reader that acknowledges what it took, and
    in order.
P2: a T is told whole or not at all: a position is a time, never a place among the rows of one.
P3: what a position says depends on the times that were told, not on when somebody looked.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """Everything below ``next`` (exclusive upper) is told.

    Attributes:
        snapshot: at ``next`` not the changes are told but the whole contents.
    """

    next: int
    snapshot: bool = False

    @property
    def needed(self) -> int:
        """The T as of which what is followed must stay readable.

        >>> Position(7).needed, Position(7, snapshot=True).needed
        (6, 7)
        """
        return self.next if self.snapshot else self.next - 1

    def advance_past(self, time: int) -> "Position":
        """The position after everything up to a time (inclusive) was told.

        >>> Position(7, snapshot=True).advance_past(7), Position(7).advance_past(3)
        (Position(next=8, snapshot=False), Position(next=7, snapshot=False))
        """
        return self if time < self.next else Position(time + 1)

    def resumed(self, upper: int) -> "Position":
        """Where a reader that began here goes on, by the upper it has stored (0: none yet).

        >>> Position(7, snapshot=True).resumed(0), Position(7, snapshot=True).resumed(9)
        (Position(next=7, snapshot=True), Position(next=9, snapshot=False))
        """
        return self if upper <= self.next else Position(upper)

    def due(self, times: Iterable[int], until: int) -> list[int]:
        """The times to tell, in order, of those at which something may have changed.

        >>> Position(5).due([9, 4, 6, 5], until=6), Position(5, snapshot=True).due([6], until=9)
        ([5, 6], [5, 6])
        """
        found = {t for t in times if self.next <= t <= until}
        if self.snapshot and self.next <= until:
            found.add(self.next)
        return sorted(found)
