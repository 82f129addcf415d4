"""Maintenance by a connection: what its commits make necessary, in a background thread.

Only if it was asked for, by ``connect(maintenance=True)`` or by :meth:`ctsql.api.Connection.run`.

    statement --> its commits are noted --> if due, a thread is started --> answer
                                                          |
                                                          +--> compact, trim --> end

The service's ticks are statements here: it goes on while the thread works. What is due is that of
:mod:`ctsql.runtime.service.background_maintenance`, and so is what a killed process leaves: files
that no version names, and the next look does all of it. There is a thread only while there is work.
It is none that the interpreter ends by force, so a short-lived process finishes what it has begun
after its answer is out.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.write_handle import Entry
from ctsql.runtime.service.background_maintenance import (
    DueMaintenance,
    Upkeep,
    maintain,
    maintenance_lock,
    narrow,
)
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.spark.failures.errors import is_lost, translate_spark_errors
from ctsql.runtime.spark.internals.sessions import active
from ctsql.runtime.warehouse.advance_context import AdvanceContext

LOG = logging.getLogger("ctsql.maintenance")
WAIT_SECONDS = 60.0
"""How long to wait for another process that maintains the warehouse."""
LOOK_SECONDS = 1.0
"""How often a thread that waits looks whether it is to end."""


class ConnectionMaintenance:
    """The maintenance of one connection."""

    def __init__(self) -> None:
        self._upkeep = Upkeep()
        self._engine: Engine | None = None
        self.thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._group = ""
        self.context = AdvanceContext(on_commit=self.note)

    def note(self, object_id: str, entry: Entry) -> None:
        """Note a commit of an output."""
        self._upkeep.note(object_id, entry.version)

    def start_if_due(self, engine: Engine, tell: Callable[[Event], None] | None = None) -> None:
        """Begin what is due; while a thread works, the rest waits for a later call.

        Args:
            tell: called in the thread with what was done, or failed; else the log says it.
        """
        if self.thread is not None and self.thread.is_alive():
            return
        try:
            due = narrow(engine, self._upkeep.take_due())
            if not due:
                return
            if self._engine is None:
                # Here, as nothing runs on the session now that switches settings for a while.
                self._engine = engine.for_thread()
        except CtsqlError as problem:  # the statement has succeeded
            LOG.warning("%s: %s", problem.condition, problem.message)
            return
        self._stop.clear()
        # A new group for each thread: where one is ended, so are its later jobs.
        self._group = f"ctsql-maintenance-{uuid.uuid4().hex}"
        self.thread = threading.Thread(
            target=self._work, args=(self._engine, due, tell or _log), name="ctsql-maintenance"
        )
        self.thread.start()

    def cancel(self) -> None:
        """End what runs before its next job; the next look at what is due does the rest."""
        self._stop.set()
        engine, thread = self._engine, self.thread  # another thread may close it
        if engine is None or thread is None or not thread.is_alive():
            return
        try:
            engine.gateway.cancel(self._group)
        except CtsqlError as problem:
            if not is_lost(problem):
                raise

    def close(self) -> None:
        """Wait until what was begun is done."""
        if self.thread is not None:
            self.thread.join()
        self._engine = None

    def _work(self, mine: Engine, due: DueMaintenance, tell: Callable[[Event], None]) -> None:
        try:
            with translate_spark_errors():  # Spark may be gone by the end
                mine.session.sparkContext.setJobGroup(
                    self._group, "maintenance", interruptOnCancel=True
                )
                with active(mine.session):
                    is_done = self._do_alone(mine, due, tell)
            if not is_done:
                LOG.info("left to another process, which is at it")
        except CtsqlError as problem:
            if not self._stop.is_set():
                LOG.warning("%s: %s", problem.condition, problem.message)

    def _do_alone(self, mine: Engine, due: DueMaintenance, tell: Callable[[Event], None]) -> bool:
        """Do what is due when no other process maintains the warehouse; returns whether."""
        until = time.monotonic() + WAIT_SECONDS
        while not self._stop.is_set():
            seconds = min(LOOK_SECONDS, max(0.0, until - time.monotonic()))
            with maintenance_lock(mine.location, wait_seconds=seconds) as is_ours:
                if is_ours:
                    mine.refresh_catalog()
                    maintain(mine, due, tell, self._stop)
                    return True
            if time.monotonic() >= until:
                return False
        return True


def _log(event: Event) -> None:
    LOG.log(logging.WARNING if event.kind is EventKind.FAILED else logging.INFO, event.line())
