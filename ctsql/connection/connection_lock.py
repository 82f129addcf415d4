"""The lock of a connection: one statement at a time, and none by who is told of what runs.

An event is told in the middle of what the connection runs, by any thread of it. A statement of the
same connection would wait for the lock, whose holder waits until the event is told.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ctsql.catalog.errors import InterfaceError

E = TypeVar("E")


class ConnectionLock:
    """A lock that a thread may take several times, but not while it is called back."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._thread = threading.local()

    def __enter__(self) -> None:
        if getattr(self._thread, "is_called_back", False):
            # No CtsqlError, which would be taken for one of the object that is being run.
            message = "on_event cannot use the connection that waits until it is told"
            raise InterfaceError(f"{message}: use another one, ctsql.connect(...)")
        self._lock.acquire()

    def __exit__(self, *_: Any) -> None:
        self._lock.release()

    def refusing(self, call: Callable[[E], None]) -> Callable[[E], None]:
        """A function to be called back, in which this lock is refused."""

        def called(event: E) -> None:
            self._thread.is_called_back = True
            try:
                call(event)
            finally:
                self._thread.is_called_back = False

        return called
