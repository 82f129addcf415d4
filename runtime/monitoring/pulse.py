"""What a service is doing right now, for those who look at it from other threads.

The service sets plain values and waits for nobody: a reader may see one of them before the other.
Times are seconds of this process's monotonic clock.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Pulse:
    """The state of one service.

    Attributes:
        looks: looks at the logs that were made. ticks: those that found something to do.
        tick_seconds: all ticks together. looked_at: the end of the last look; None before it.
        ticking_since: the begin of the tick that is running; None between ticks.
        queue: the outputs that this tick has still to advance, those being advanced included.
    """

    looks: int = 0
    ticks: int = 0
    tick_seconds: float = 0.0
    looked_at: float | None = None
    ticking_since: float | None = None
    queue: int = 0
