"""The wall clock, for decisions that are no function of the log: new Ts and refresh times.

Tests replace the function here.
"""

import time


def now_ms() -> int:
    """Milliseconds since 1970 UTC."""
    return int(time.time() * 1000)
