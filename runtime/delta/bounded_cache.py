"""A cache of immutable values, bounded in bytes.

A value that was unused for a minute is evicted with the next new one. A new value evicts the least
recently used one. If lookups scan more files in turn than fit, none would ever be found; so with
``rounds``, recently used values are kept instead and the new one is not.
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
        """An empty cache.

        Args:
            rounds: a value is evicted only if unused in the last ``rounds`` times as many calls as
                there are values; 0 always evicts the least recently used one.
        """
        self._bytes_max = bytes_max
        self._rounds = rounds
        self.bytes_kept = self._calls = 0
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry[Value]] = OrderedDict()

    def find(self, name: Hashable) -> Value | None:
        """The value, if cached."""
        with self._lock:
            self._calls += 1
            entry = self._entries.get(name)
            if entry is None:
                return None
            entry.last_call, entry.last_use = self._calls, monotonic()
            self._entries.move_to_end(name)
            return entry.value

    def keep(self, name: Hashable, value: Value, size: int) -> None:
        """Cache a value of ``size`` bytes, if there is room or others may be evicted."""
        with self._lock:
            now = monotonic()
            self._drop_idle(now - IDLE_SECONDS_MAX)
            if name in self._entries or size > self._bytes_max:
                return
            while self.bytes_kept + size > self._bytes_max:
                oldest = next(iter(self._entries))
                if self._calls - self._entries[oldest].last_call < self._rounds * len(
                    self._entries
                ):
                    return
                self.bytes_kept -= self._entries.pop(oldest).size
            self._entries[name] = _Entry(value, size, self._calls, now)
            self.bytes_kept += size

    def _drop_idle(self, since: float) -> None:
        """Evict values unused since a time; entries are in the order of their last use."""
        while self._entries:
            name, entry = next(iter(self._entries.items()))
            if entry.last_use >= since:
                return
            self.bytes_kept -= self._entries.pop(name).size

    def drop(self, name: Hashable) -> None:
        """Evict a value, if cached."""
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry is not None:
                self.bytes_kept -= entry.size
