"""Intervals of the service's polls and retries: pure decisions, no clock.

An idle service polls less and less often; a commit soon after another one is noticed early. A
failed object is retried when an input changes, or after a wait that doubles.
"""

from dataclasses import dataclass

LOOK_SECONDS_MIN = 0.05
INTERVAL_SECONDS = 1.0
WORKERS = 1
RETRY_SECONDS_MIN = 1.0
RETRY_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The wait until the next poll, in seconds; at most ``interval``."""

    interval: float = INTERVAL_SECONDS
    wait: float = LOOK_SECONDS_MIN

    def after(self, *, moved: bool) -> "Pace":
        """The pace after a look.

        >>> pace = Pace(interval=0.15)
        >>> waits = []
        >>> for moved in (True, False, False, False, True):
        ...     pace = pace.after(moved=moved)
        ...     waits.append(pace.wait)
        >>> waits
        [0.05, 0.1, 0.15, 0.15, 0.05]
        """
        wait = LOOK_SECONDS_MIN if moved else self.wait * 2
        return Pace(self.interval, min(wait, self.interval))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A failed object."""

    text: str  # its message, reported again only if it differs
    tries: int  # the number of failures
    tried_at: float  # of the last one, in seconds of a monotonic clock
    until: int  # the T up to which it was tried
    version: int  # its table's version then

    def is_due(self, now: float) -> bool:
        """Whether the wait has passed.

        >>> failed = Trouble(text="", tries=3, tried_at=100.0, until=7, version=0)
        >>> failed.is_due(103.9), failed.is_due(104.0)
        (False, True)
        """
        wait = min(RETRY_SECONDS_MIN * 2.0 ** min(self.tries - 1, 16), RETRY_SECONDS_MAX)
        return now >= self.tried_at + wait
