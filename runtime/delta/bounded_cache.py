"""What was read of files that never change, kept in memory up to a number of bytes.

A value that nobody asked for in a minute goes with the next new one: a service that follows
tables for days keeps of their files what it reads again, not as much as there is room for.
What was used last stays. Where more is asked for in turn than there is room for, as by lookups that
go through the same files at each change, that alone would keep nothing until it is asked for again.
So with ``rounds`` a value that was used lately is not given up for a new one: of what is asked for
in turn as much stays as there is room for.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

Value = TypeVar("Value")
IDLE_SECONDS_MAX = 60


@dataclass(slots=True)
class _Entry(Generic[Value]):
    """A value with its bytes; ``last_call`` is the number of the call that used it last."""

    value: Value
    size: int
    last_call: int
    last_use: float


class BoundedCache(Generic[Value]):
    """Values by name. Threads may share it."""

    def __init__(self, bytes_max: int, *, rounds: int = 0) -> None:
        """An empty one.

        Args:
            rounds: a value goes once so many times as many values were asked for as there are,
                and it was not among them; 0 gives up the one that was not used for longest.
        """
        self._bytes_max = bytes_max
        self._rounds = rounds
        self._bytes = self._calls = 0
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry[Value]] = OrderedDict()

    def find(self, name: Hashable) -> Value | None:
        """The value, if it is kept."""
        with self._lock:
            self._calls += 1
            entry = self._entries.get(name)
            if entry is None:
                return None
            entry.last_call, entry.last_use = self._calls, monotonic()
            self._entries.move_to_end(name)
            return entry.value

    def keep(self, name: Hashable, value: Value, size: int) -> None:
        """Keep a value of so many bytes, if there is room, or others were not used for long."""
        with self._lock:
            now = monotonic()
            self._drop_idle(now - IDLE_SECONDS_MAX)
            if name in self._entries or size > self._bytes_max:
                return
            while self._bytes + size > self._bytes_max:
                oldest = next(iter(self._entries))
                if self._calls - self._entries[oldest].last_call < self._rounds * len(
                    self._entries
                ):
                    return
                self._bytes -= self._entries.pop(oldest).size
            self._entries[name] = _Entry(value, size, self._calls, now)
            self._bytes += size

    def _drop_idle(self, since: float) -> None:
        """Drop what was not used since a time; the entries are in the order of their last use."""
        while self._entries:
            name, entry = next(iter(self._entries.items()))
            if entry.last_use >= since:
                return
            self._bytes -= self._entries.pop(name).size

    def drop(self, name: Hashable) -> None:
        """Do not keep a value any longer, if it is kept."""
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry is not None:
                self._bytes -= entry.size
