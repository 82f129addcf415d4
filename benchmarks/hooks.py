"""Timing hooks for benchmarks: wrap functions of the engine from outside and add up their times.

The engine has no timing code. A hook's time is *exclusive*: time in another wrapped function is
counted there. A hook inside ``mint`` is shown as ``mint: ...``.
"""

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ctsql.runtime.delta import diff_writer
from ctsql.runtime.log import staging, write_handle
from ctsql.runtime.rows.prepared_rows import PreparedPlans
from ctsql.runtime.spark_engine import SparkEngine
from ctsql.runtime.tasks import runs
from ctsql.runtime.warehouse.relations import Relations
from ctsql.runtime.warehouse.stores.catalog_store import DeltaCatalog
from ctsql.runtime.warehouse.times import timeline
from ctsql.runtime.warehouse.versions import Versions


class Clock:
    """Adds up exclusive times by label; :meth:`lap` returns and resets them."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._stack: list[tuple[str, float]] = []

    def wrap(self, owner: Any, name: str, label: str) -> None:
        """Replace ``owner.name`` by a function that adds its time to the label."""
        original: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._enter(label)
            try:
                return original(*args, **kwargs)
            finally:
                self._leave()

        setattr(owner, name, timed)

    def _enter(self, label: str) -> None:
        now = time.perf_counter()
        if self._stack:
            outer, since = self._stack[-1]
            self._seconds[outer] += now - since
            self._stack[-1] = (outer, now)
            if outer.startswith("mint") and label != "mint":
                label = f"mint: {label}"
        self._stack.append((label, now))

    def _leave(self) -> None:
        now = time.perf_counter()
        label, since = self._stack.pop()
        self._seconds[label] += now - since
        if self._stack:
            self._stack[-1] = (self._stack[-1][0], now)

    def lap(self) -> dict[str, float]:
        """Seconds by label since the last lap."""
        seconds, self._seconds = dict(self._seconds), defaultdict(float)
        return seconds


HOOKS: tuple[tuple[Any, str, str], ...] = (
    (DeltaCatalog, "load", "look at the catalog"),
    (timeline.Timeline, "mint", "mint"),
    (Relations, "bound", "bind the body"),
    (Versions, "version_changes", "find the changes"),
    (Versions, "change_of", "find the changes"),
    (runs, "added_rows", "read the change (lazy)"),
    (Versions, "contents", "read the output (lazy)"),
    (SparkEngine, "propose", "plan the body"),
    (runs, "few_added", "run: read the change"),
    (PreparedPlans, "collect", "run: body"),
    (diff_writer, "_stage_small", "stage, rest"),
    (write_handle.Output, "fetch_recent_upper", "read the upper"),
    (write_handle.Output, "open", "start the transaction"),
    (staging.Staging, "stage", "stage the file"),
    (staging.Staging, "delete_rows", "write deletion vectors"),
    (write_handle.Output, "compare_and_append", "commit"),
)
"""The timed functions of a tick: owner, name, and label in the table."""


def tick_clock() -> Clock:
    """A clock on all parts of a task's tick."""
    clock = Clock()
    for owner, name, label in HOOKS:
        clock.wrap(owner, name, label)
    return clock
