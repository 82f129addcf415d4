"""Maintenance that commits make necessary: compaction, and trimming of logs.

    commit of an output --> note --> after the statement, if due, a thread --> compact, trim

A connection does it on request only (``connect(maintenance=True)``,
:meth:`ctsql.api.Connection.run`); one process of a warehouse at a time. The thread exists while
there is work, and the interpreter waits for it. After a kill the next round finishes the work.

[due-by-versions] it is due every ``LOOK_EVERY_COMMITS`` versions of an output. That depends on the
    versions alone, so processes that make one commit and end (``run --once``) do it too.
[loser-changes-nothing] a compaction that loses a race, or fails, changes nothing, and the next
    round tries again.
[deletes-only-logs] it deletes log files that are not needed and older than
    ``LOG_RETAIN_DEFAULT_MS``, and no file of a table: only MAINTAIN does that.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.runtime.delta.files import compact
from ctsql.runtime.delta.stores.locks import try_folder_lock
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.log.write_handle import Entry
from ctsql.runtime.maintenance.compaction import ROUTINE, choose
from ctsql.runtime.maintenance.retention import LOG_RETAIN_DEFAULT_MS
from ctsql.runtime.maintenance.vacuum import trim_logs
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.spark.failures.errors import is_lost, translate_spark_errors
from ctsql.runtime.spark.internals.sessions import active
from ctsql.runtime.views.side_table import side_tables_of
from ctsql.runtime.warehouse.advance_context import AdvanceContext
from ctsql.runtime.warehouse.stores.location import SYSTEM_FOLDER

LOOK_EVERY_COMMITS = 10
TRIM_EVERY_COMMITS = 100
"""A log can be trimmed only below a checkpoint, which Delta writes about as often."""
COMPACT_TRIES_MAX = 3  # concurrent ticks may delete rows of the chosen files first
MAINTENANCE_LOCK = ".maintenance.lock"


def is_due(first: int, last: int, every: int) -> bool:
    """Whether there is a multiple of ``every`` among the versions first..last.

    >>> is_due(19, 20, 20), is_due(20, 20, 20), is_due(21, 39, 20)
    (True, True, False)
    """
    return last // every != (first - 1) // every


@dataclass(frozen=True, slots=True)
class DueMaintenance:
    """Maintenance that is due: outputs to compact, by id, and trimming."""

    objects: tuple[str, ...]
    trim: bool

    def __bool__(self) -> bool:
        return bool(self.objects or self.trim)


def _due(versions: Mapping[str, tuple[int, int]], every: int) -> tuple[str, ...]:
    return tuple(object_id for object_id, (a, b) in versions.items() if is_due(a, b, every))


def maintain(
    engine: Engine, due: DueMaintenance, report: Callable[[Event], None], stop: threading.Event
) -> None:
    """Do the due maintenance.

    Raises:
        STATEMENT_CANCELLED: ``stop`` is set. SPARK_ERROR: Spark is gone. Other failures are
            reported, and the next round tries again.
    """
    for object_id in due.objects:
        item = engine.catalog.items.get(object_id)
        if item is not None:
            _report_problems(report, item, partial(_compact, engine, item, report, stop))
    if due.trim:
        _check_goes_on(stop)
        before_ms = clock.now_ms() - LOG_RETAIN_DEFAULT_MS
        _report_problems(report, None, partial(trim_logs, engine, before_ms))


def _check_goes_on(stop: threading.Event) -> None:
    if stop.is_set():
        raise error("STATEMENT_CANCELLED")


def narrow(engine: Engine, due: DueMaintenance) -> DueMaintenance:
    """The due maintenance without outputs that need no compaction, by the logs as last read."""
    objects = []
    for object_id in due.objects:
        item = engine.catalog.items.get(object_id)
        if item is not None and any(
            choose(table.files(table.version()).values(), ROUTINE)
            for table, _ in _tables(engine, item)
        ):
            objects.append(object_id)
    return replace(due, objects=tuple(objects))


def _report_problems(
    report: Callable[[Event], None], item: Item | None, act: Callable[[], object]
) -> None:
    """Call ``act``; report its errors, except those that end all maintenance."""
    try:
        act()
    except CtsqlError as problem:
        if problem.condition == "STATEMENT_CANCELLED" or is_lost(problem):
            raise
        name = None if item is None else str(item.name)
        report(Event.of_failure(problem, at=clock.now_ms(), name=name))


def _compact(
    engine: Engine, item: Item, report: Callable[[Event], None], stop: threading.Event
) -> None:
    for table, what in _tables(engine, item):
        compaction = None
        for _ in range(COMPACT_TRIES_MAX):
            _check_goes_on(stop)
            started_at = clock.now_ms()
            compaction = compact(table, lambda files: choose(files, ROUTINE))
            if compaction is not None:
                break
        if compaction is None or compaction.version is None:
            continue
        ended_at = clock.now_ms()
        report(
            Event(
                kind=EventKind.COMPACTED,
                at=ended_at,
                name=str(item.name),
                version=compaction.version,
                seconds=(ended_at - started_at) / 1000,
                message=f"{compaction.before} files into {compaction.after}{what}",
            )
        )


def _tables(engine: Engine, item: Item) -> Iterator[tuple[DeltaTable, str]]:
    """The tables of an output, each with its name in events."""
    yield engine.relations.table(item), ""
    for side_table in side_tables_of(engine.warehouse, item):
        yield side_table.table, f" of its {side_table.kind.value}"


LOG = logging.getLogger("ctsql.maintenance")
WAIT_SECONDS = 60.0  # how long to wait for another process that maintains the warehouse
LOOK_SECONDS = 1.0  # how often a waiting thread checks whether it was stopped


class ConnectionMaintenance:
    """The maintenance of one connection."""

    def __init__(self) -> None:
        self._new_versions: dict[str, tuple[int, int]] = {}  # first and last, by object id
        self._engine: Engine | None = None
        self.thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._group = ""
        self.context = AdvanceContext(on_commit=self.note)

    def note(self, object_id: str, entry: Entry) -> None:
        """Record a commit of an output."""
        first, _ = self._new_versions.get(object_id, (entry.version, entry.version))
        self._new_versions[object_id] = (first, entry.version)

    def start_if_due(self, engine: Engine, report: Callable[[Event], None] | None = None) -> None:
        """Begin the due maintenance; while a thread works, the rest waits for a later call.

        ``report`` is called in the thread with each event; by default it is logged.
        """
        if self.thread is not None and self.thread.is_alive():
            return
        versions, self._new_versions = self._new_versions, {}
        objects, trims = (_due(versions, n) for n in (LOOK_EVERY_COMMITS, TRIM_EVERY_COMMITS))
        try:
            due = narrow(engine, DueMaintenance(objects, bool(trims)))
            if not due:
                return
            if self._engine is None:
                # Here, because nothing that switches settings runs on the session now.
                self._engine = engine.for_thread()
        except CtsqlError as problem:  # the statement has succeeded
            LOG.warning("%s: %s", problem.condition, problem.message)
            return
        self._stop.clear()
        # A new group for each thread: a cancelled group also cancels its later jobs.
        self._group = f"ctsql-maintenance-{uuid.uuid4().hex}"
        self.thread = threading.Thread(
            target=self._work, args=(self._engine, due, report or _log), name="ctsql-maintenance"
        )
        self.thread.start()

    def cancel(self) -> None:
        """End before the next job; a later round does the rest."""
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
        """Wait until the thread has finished."""
        if self.thread is not None:
            self.thread.join()
        self._engine = None

    def _work(self, mine: Engine, due: DueMaintenance, report: Callable[[Event], None]) -> None:
        try:
            with translate_spark_errors():  # Spark may be gone by the end
                mine.session.sparkContext.setJobGroup(
                    self._group, "maintenance", interruptOnCancel=True
                )
                with active(mine.session):
                    is_done = self._do_alone(mine, due, report)
            if not is_done:
                LOG.info("left to another process, which is at it")
        except CtsqlError as problem:
            if not self._stop.is_set():
                LOG.warning("%s: %s", problem.condition, problem.message)

    def _do_alone(self, mine: Engine, due: DueMaintenance, report: Callable[[Event], None]) -> bool:
        """Do the due maintenance once no other process does; returns whether."""
        until = time.monotonic() + WAIT_SECONDS
        while not self._stop.is_set():
            seconds = min(LOOK_SECONDS, max(0.0, until - time.monotonic()))
            place = f"{mine.location}/{SYSTEM_FOLDER}"
            # Stores without locks yield True: of two compactions one is lost.
            with try_folder_lock(place, MAINTENANCE_LOCK, wait_seconds=seconds) as is_ours:
                if is_ours:
                    mine.refresh_catalog()
                    maintain(mine, due, report, self._stop)
                    return True
            if time.monotonic() >= until:
                return False
        return True


def _log(event: Event) -> None:
    LOG.log(logging.WARNING if event.kind is EventKind.FAILED else logging.INFO, event.line())
