"""The wall clock, for new Ts and refresh times. Tests replace :func:`now_ms`.

A TEST statement sets the clock by :func:`standing`, for commits too.
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
    """The instant of a source commit that gets its T now, ``logged_ms`` according to its log."""
    set_ms = _SET_MS.get()
    return logged_ms if set_ms is None else set_ms


@contextmanager
def standing(at_ms: int) -> Iterator[None]:
    """Stop the clock inside, in this thread."""
    before = _SET_MS.set(at_ms)
    try:
        yield
    finally:
        _SET_MS.reset(before)
