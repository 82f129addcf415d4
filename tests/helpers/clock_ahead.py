"""A wall clock that a test moves forward."""

from ctsql.runtime.log import clock

_START = clock.now_ms


class Clock:
    """The wall clock, so many milliseconds ahead; commits of sources keep the real one."""

    def __init__(self) -> None:
        self.ahead = 0

    def now_ms(self) -> int:
        """What the product sees."""
        return _START() + self.ahead
