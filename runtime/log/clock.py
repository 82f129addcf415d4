"""The one place that reads the wall clock where a decision hangs on it.

Only what is not a function of the log may ask: when to make a new T, and whether a refresh time
has passed. Tests put another function here.
"""

import time


def now_ms() -> int:
    """Milliseconds since 1970 UTC."""
    return int(time.time() * 1000)
