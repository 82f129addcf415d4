"""Maintenance by a connection: what its commits make necessary, in a thread beside its answers.

    statement --> its commits are noted --> if due, a thread is started --> answer
                                                          |
                                                          +--> compact, trim --> end

What is due is that of :mod:`ctsql.runtime.service.background_maintenance`, and so is what a killed
process leaves: files that no version names, and the next look does all of it. There is a thread
only while there is work. It is none that the interpreter ends by force, so a short-lived process
finishes what it has begun after its answer is out.
"""

import logging
import threading

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.write_handle import Entry
from ctsql.runtime.service.background_maintenance import (
    Due,
    Upkeep,
    maintain,
    maintenance_lock,
    narrow,
    other_logs,
)
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.spark.session import active
from ctsql.runtime.warehouse.advance_context import AdvanceContext

LOG = logging.getLogger("ctsql.maintenance")
WAIT_SECONDS = 60.0
"""How long to wait for another process that maintains the warehouse."""


class ConnectionMaintenance:
    """The maintenance of one connection."""

    def __init__(self) -> None:
        self._upkeep = Upkeep()
        self._engine: Engine | None = None
        self._thread: threading.Thread | None = None
        self.context = AdvanceContext(on_commit=self._note)

    def _note(self, object_id: str, entry: Entry) -> None:
        self._upkeep.note(object_id, entry.version)

    def start_if_due(self, engine: Engine) -> None:
        """Begin what is due; while a thread works, the rest waits for a later call."""
        if self._thread is not None and self._thread.is_alive():
            return
        try:
            due = narrow(engine, self._upkeep.take_due(other_logs(engine)))
            if not due:
                return
            if self._engine is None:
                # Here, as nothing runs on the session now that switches settings for a while.
                self._engine = engine.for_thread()
        except CtsqlError as problem:  # the statement has succeeded
            LOG.warning("%s: %s", problem.condition, problem.message)
            return
        self._thread = threading.Thread(
            target=self._work, args=(self._engine, due), name="ctsql-maintenance"
        )
        self._thread.start()

    def close(self) -> None:
        """Wait until what was begun is done."""
        if self._thread is not None:
            self._thread.join()
        self._engine = None

    def _work(self, mine: Engine, due: Due) -> None:
        try:
            context = mine.session.sparkContext
            context.setJobGroup("ctsql-maintenance", "maintenance", interruptOnCancel=True)
            with (
                active(mine.session),
                maintenance_lock(mine.location, wait_seconds=WAIT_SECONDS) as is_ours,
            ):
                if not is_ours:
                    LOG.info("left to another process, which is at it")
                    return
                mine.refresh_catalog()
                maintain(mine, due, _tell, threading.Event())
        except CtsqlError as problem:
            LOG.warning("%s: %s", problem.condition, problem.message)


def _tell(event: Event) -> None:
    LOG.log(logging.WARNING if event.kind is EventKind.FAILED else logging.INFO, event.line())
