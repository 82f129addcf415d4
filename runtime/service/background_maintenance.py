"""Maintenance by the service between two ticks: compaction, and trimming of logs.

    commit of an output --> note --> after the tick, if due --> compact, trim

U1: it is due every ``LOOK_EVERY_COMMITS`` versions of an output. That depends on the versions
    alone, so processes that make one commit and end (``run --once``) do it too.
U2: a compaction that loses a race, or fails, changes nothing, and the next look tries again.
U3: it deletes no file of a table: only MAINTAIN does. It deletes log files that are older than
    ``LOG_RETAIN_DEFAULT_MS`` and not needed.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.runtime.delta.files import compact
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.maintenance.compaction import ROUTINE, choose
from ctsql.runtime.maintenance.retention import LOG_RETAIN_DEFAULT_MS
from ctsql.runtime.maintenance.vacuum import trim_logs
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.spark.errors import is_lost
from ctsql.runtime.views.state_table import state_table

LOOK_EVERY_COMMITS = 20
TRIM_EVERY_COMMITS = 100
"""The checkpoint interval: a log can be trimmed only below a checkpoint."""


def is_due(first: int, last: int, every: int) -> bool:
    """Whether there is a multiple of ``every`` among the versions first..last.

    >>> is_due(19, 20, 20), is_due(20, 20, 20), is_due(21, 39, 20)
    (True, True, False)
    """
    return last // every != (first - 1) // every


@dataclass
class Upkeep:
    """The versions written since the last look: first and last new one by object id."""

    _written: dict[str, tuple[int, int]] = field(default_factory=dict)

    def note(self, object_id: str, version: int) -> None:
        """Note a new version of an output."""
        first, _ = self._written.get(object_id, (version, version))
        self._written[object_id] = (first, version)

    def after_round(
        self, engine: Engine, tell: Callable[[Event], None], stop: threading.Event
    ) -> None:
        """Do the maintenance that is due.

        Raises:
            STATEMENT_CANCELLED: ``stop`` is set. SPARK_ERROR: Spark is gone. Any other failure is
            reported, and the next look tries again.
        """
        written, self._written = self._written, {}
        trim = False
        for object_id, (first, last) in written.items():
            item = engine.catalog.items.get(object_id)
            if item is None:
                continue
            if stop.is_set():
                raise error("STATEMENT_CANCELLED")
            trim = trim or is_due(first, last, TRIM_EVERY_COMMITS)
            if is_due(first, last, LOOK_EVERY_COMMITS):
                _report_problems(tell, item, partial(_compact, engine, item, tell))
        if trim:
            before_ms = clock.now_ms() - LOG_RETAIN_DEFAULT_MS
            _report_problems(tell, None, partial(trim_logs, engine, before_ms))


def _report_problems(
    tell: Callable[[Event], None], item: Item | None, act: Callable[[], object]
) -> None:
    """Call it; report errors, except for those after which nothing else would work."""
    try:
        act()
    except CtsqlError as problem:
        if problem.condition == "STATEMENT_CANCELLED" or is_lost(problem):
            raise
        name = None if item is None else str(item.name)
        tell(Event.of_failure(problem, at=clock.now_ms(), name=name))


def _compact(engine: Engine, item: Item, tell: Callable[[Event], None]) -> None:
    state = state_table(engine.warehouse, item)
    for table, what in ((engine.relations.table(item), ""), (state, " of its state table")):
        if table is None:
            continue
        begun = clock.now_ms()
        done = compact(table, lambda files: choose(files, ROUTINE))
        if done is None or done.version is None:
            continue
        ended = clock.now_ms()
        tell(
            Event(
                kind=EventKind.COMPACTED,
                at=ended,
                name=str(item.name),
                version=done.version,
                seconds=(ended - begun) / 1000,
                message=f"{done.before} files into {done.after}{what}",
            )
        )
