"""What the service does for the tables between two ticks: compaction, and short logs.

    commit of an output --> note --> after the tick: is it time to look? --> compact, trim

U1: it looks every ``LOOK_EVERY_COMMITS`` versions of an output, told from the versions alone, so a
    process that makes one commit and ends (``run --once``) takes its turn too.
U2: a compaction that loses a race, or fails, costs its work and nothing else: the files stay as
    they were, and the next look tries again.
U3: it frees no file of a table: only MAINTAIN does. Of a log it takes away what is older than
    ``LOG_RETAIN_DEFAULT_MS`` and nobody needs.
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
"""As often as a checkpoint is written: only one lets a log be cut."""


def is_due(first: int, last: int, every: int) -> bool:
    """Is there a multiple of ``every`` among the versions first..last?

    >>> is_due(19, 20, 20), is_due(20, 20, 20), is_due(21, 39, 20)
    (True, True, False)
    """
    return last // every != (first - 1) // every


@dataclass
class Upkeep:
    """What was written since the last look: object id to its first and last new version."""

    _written: dict[str, tuple[int, int]] = field(default_factory=dict)

    def note(self, object_id: str, version: int) -> None:
        """An output has a new version."""
        first, _ = self._written.get(object_id, (version, version))
        self._written[object_id] = (first, version)

    def after_round(
        self, engine: Engine, tell: Callable[[Event], None], stop: threading.Event
    ) -> None:
        """Look at what was written, and do what is due.

        Raises:
            STATEMENT_CANCELLED: whoever runs it wants to stop. SPARK_ERROR: Spark is gone. Any
            other failure is told, and tried again at the next look.
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
    """Do it; what goes wrong is told, unless nothing else would work either."""
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
