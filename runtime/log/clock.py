"""The wall clock, for decisions that are no function of the log: new Ts and refresh times.

Tests replace the function here. A TEST statement has its own clock: inside :func:`standing`
the time is what it says, and so is that of commits, whatever their logs say.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SET_MS: ContextVar[int | None] = ContextVar("set_ms", default=None)


def now_ms() -> int:
    """Milliseconds since 1970 UTC."""
    set_ms = _SET_MS.get()
    return int(time.time() * 1000) if set_ms is None else set_ms


def commit_ms(logged_ms: int) -> int:
    """The instant of a source's commit that is bound now; ``logged_ms`` is what its log says."""
    set_ms = _SET_MS.get()
    return logged_ms if set_ms is None else set_ms


@contextmanager
def standing(at_ms: int) -> Iterator[None]:
    """Inside, in this thread, the clock does not run."""
    before = _SET_MS.set(at_ms)
    try:
        yield
    finally:
        _SET_MS.reset(before)
