"""A cache of immutable values, bounded in bytes.

A value that was unused for a minute is evicted with the next new one. A new value evicts the least
recently used ones.
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
    """A value with its bytes."""

    value: Value
    size: int
    last_use: float


class BoundedCache(Generic[Value]):
    """Values by name. Threads may share it."""

    def __init__(self, bytes_max: int) -> None:
        """An empty cache."""
        self._bytes_max = bytes_max
        self.bytes_kept = 0
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry[Value]] = OrderedDict()

    def find(self, name: Hashable) -> Value | None:
        """The value, if cached."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return None
            entry.last_use = monotonic()
            self._entries.move_to_end(name)
            return entry.value

    def keep(self, name: Hashable, value: Value, size: int) -> None:
        """Cache a value of ``size`` bytes, unless it is larger than the cache."""
        with self._lock:
            now = monotonic()
            self._drop_idle(now - IDLE_SECONDS_MAX)
            if name in self._entries or size > self._bytes_max:
                return
            while self.bytes_kept + size > self._bytes_max:
                self.bytes_kept -= self._entries.popitem(last=False)[1].size
            self._entries[name] = _Entry(value, size, now)
            self.bytes_kept += size

    def _drop_idle(self, since: float) -> None:
        """Evict values unused since a time; entries are in the order of their last use."""
        while self._entries:
            name, entry = next(iter(self._entries.items()))
            if entry.last_use >= since:
                return
            self.bytes_kept -= self._entries.pop(name).size
