"""The service: follows the sources and keeps every output up to date, until it is stopped.

    look:  does a followed log have a new version?   no scan, no Spark job
    tick:  assign Ts; then each output, after its inputs; the readers of a failed one wait

Followed logs are those of the sources, of the timeline (other processes assign Ts too), of the
catalog, and of failed outputs (another process may RETRY or SKIP).
:mod:`ctsql.runtime.service.backoff` decides the interval.

Several workers advance outputs in parallel (:mod:`ctsql.runtime.service.workers`). Decisions and
events stay in the service's thread, except for serialised events of commits.

A stop takes effect between two commits; ``Connection.cancel`` cancels the running one, which then
writes nothing. Losing Spark while stopping is no failure: the system may stop the JVM as well.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ctsql.catalog.dependencies import closure, owner_of_quarantine
from ctsql.catalog.errors import CtsqlError, suppress_conditions
from ctsql.catalog.items import Item, Maintained, ObjectKind, Table
from ctsql.runtime.delta.log.table_log import LogWatch
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.log.actions import rows_changed
from ctsql.runtime.log.write_handle import Entry
from ctsql.runtime.monitoring.refreshes import refresh_of
from ctsql.runtime.monitoring.status import Pulse
from ctsql.runtime.service.backoff import Pace, Trouble
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.service.workers import WorkerPool
from ctsql.runtime.spark.failures.errors import is_lost
from ctsql.runtime.warehouse.times.replaced_tables import UNREADABLE

NOTHING = -1
NEVER = 1 << 62  # a version that no log has
TASK_OUTPUT = ObjectKind.TASK_OUTPUT
SERVICE = ""  # the key for failures of the service itself


@dataclass
class Service:
    """One run of the service."""

    # opens the engine for one look or tick
    open_engine: Callable[[], AbstractContextManager[Engine]]
    stop: threading.Event  # ends the run when set
    on_event: Callable[[Event], None]
    workers: int = 1  # the number of outputs that are advanced in parallel
    # called with each commit that moved an output's upper, one at a time
    on_commit: Callable[[str, Entry], None] = lambda *_: None
    pulse: Pulse = field(default_factory=Pulse)
    watch: LogWatch = field(default_factory=LogWatch)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    _failures: list[CtsqlError] = field(default_factory=list)
    _now: int = NOTHING
    _events_sent: int = 0
    _telling: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._worker_pool = WorkerPool(self.workers, self.stop, self._report_commit)

    def run(self, *, once: bool, interval: float) -> None:
        """Poll and tick until stopped, or (``once``) run one tick.

        Raises:
            CtsqlError: with ``once`` the error of the first failed object, after all others were
                advanced. Otherwise only if Spark is gone, or the tick was cancelled without a stop.
        """
        try:
            self._follow(once=once, pace=Pace(interval))
            if not once:
                self._say(Event(kind=EventKind.STOPPED, at=clock.now_ms()))
        finally:
            self._worker_pool.close()

    def _tell_start(self, engine: Engine) -> None:
        """Report the followed tables at the start."""
        catalog = engine.refresh_catalog()
        tables = [i for i in catalog if isinstance(i, Table)]
        run = [i for i in catalog if isinstance(i, Maintained)]
        message = f"{len(tables)} table(s) for {len(run)} task(s) and view(s)"
        self._say(Event(kind=EventKind.STARTED, at=clock.now_ms(), message=message))

    def _follow(self, *, once: bool, pace: Pace) -> None:
        is_reported = once
        while not self.stop.is_set():
            try:
                with self.open_engine() as engine:
                    if not is_reported:
                        self._tell_start(engine)
                        is_reported = True
                    moved = self._look(engine)
                    self.pulse.looks += 1
                    self.pulse.looked_at = time.monotonic()
            except CtsqlError as problem:
                if _ends(problem) and self.stop.is_set():
                    return
                if once or _ends(problem):
                    raise
                self._fail(None, problem, version=NOTHING)
                moved = False
            if once:
                if self._failures:
                    raise self._failures[0]
                return
            pace = pace.after(moved=moved)
            self.stop.wait(pace.wait)

    def _look(self, engine: Engine) -> bool:
        """Tick if a log has a new version, or a refresh or a retry is due; returns whether."""
        if not (
            self.watch.has_new_version(self._followed_tables(engine))
            or engine.schedules.is_refresh_due(clock.now_ms())
            or any(t.is_due(time.monotonic()) for t in self.troubles.values())
        ):
            return False
        self._timed_tick(engine)
        return True

    def _followed_tables(self, engine: Engine) -> list[DeltaTable]:
        tables = [engine.catalog_store.table, engine.timeline.table]
        tables += [table for _, table in engine.relations.sources().values()]
        failed_items = (i for i in engine.catalog if i.id in self.troubles)
        return tables + [t for i in failed_items if (t := _table_of(engine, i)) is not None]

    def _note_versions(self, engine: Engine) -> None:
        """Record the newest versions; the next look finds later ones."""
        for table in self._followed_tables(engine):
            self.watch.note(table, _newest(table))

    def _timed_tick(self, engine: Engine) -> None:
        started_at = self.pulse.ticking_since = time.monotonic()
        try:
            self._tick(engine)
        finally:
            self.pulse.ticking_since, self.pulse.queue = None, 0
            self.pulse.ticks += 1
            self.pulse.tick_seconds += time.monotonic() - started_at

    def _tick(self, engine: Engine) -> None:
        self._failures.clear()
        self._events_sent = 0
        started_at = time.monotonic()
        engine.refresh_catalog()
        self._note_versions(engine)
        now = engine.mint_for(item for item in engine.catalog if isinstance(item, Maintained))
        self.watch.note(engine.timeline.table, engine.timeline.read_to)
        items = engine.catalog.items
        self.troubles = {k: t for k, t in self.troubles.items() if k in items or k == SERVICE}
        self._advance_all(engine, now)
        self.troubles.pop(SERVICE, None)
        if now != self._now:
            self._now = now
            if not self._events_sent:
                seconds = time.monotonic() - started_at
                at = clock.now_ms()
                self._say(Event(kind=EventKind.REACHED, at=at, time=now, seconds=seconds))

    def _advance_all(self, engine: Engine, now: int) -> None:
        """Advance each output after its inputs, except the readers of failed ones.

        Raises CtsqlError if the tick cannot continue; all workers have ended.
        """
        items_by_id = engine.catalog.items
        waiting = closure(engine.catalog, items_by_id)
        done_ids: set[str] = set()
        reads = {
            i.id: ({r.object_id for r in i.reads} & items_by_id.keys()) - {i.id} for i in waiting
        }
        output_count = sum(isinstance(i, Maintained) for i in waiting)
        blocked_ids: set[str] = set()
        running: dict[Future[CtsqlError | None], Item] = {}
        try:
            while waiting or running:
                self.pulse.queue = output_count + len(running)
                for item in tuple(waiting):
                    read = reads[item.id]
                    if not read <= done_ids:
                        continue
                    if (
                        isinstance(item, Maintained)
                        and not read & blocked_ids
                        and self._is_due(engine, item, now)
                    ):
                        if len(running) == self.workers:
                            continue
                        waiting.remove(item)
                        output_count -= 1
                        running[self._worker_pool.advance(engine, item, now)] = item
                        if self.workers == 1:
                            break
                        continue
                    waiting.remove(item)
                    output_count -= isinstance(item, Maintained)
                    done_ids.add(item.id)
                    if read & blocked_ids or isinstance(item, Maintained):
                        blocked_ids.add(item.id)
                for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                    item = running.pop(future)
                    done_ids.add(item.id)
                    if not self._finish(engine, item, future.result(), now):
                        blocked_ids.add(item.id)
        finally:
            wait(running)

    def _finish(self, engine: Engine, item: Item, problem: CtsqlError | None, now: int) -> bool:
        """Record the result of an output; returns whether it succeeded."""
        if problem is not None:
            if _ends(problem):
                raise problem
            self._failures.append(problem)
            table = _table_of(engine, item)
            version = NEVER if table is None else _newest(table)
            if table is not None:
                self.watch.note(table, version)
            self._fail(item, problem, version=version, until=now)
            return False
        if self.troubles.pop(item.id, None) is not None:
            self._say(Event(kind=EventKind.RECOVERED, at=clock.now_ms(), name=str(item.name)))
        return True

    def _is_due(self, engine: Engine, item: Item, now: int) -> bool:
        """Whether to run an output: it has not failed, its wait is over, or a table has changed."""
        trouble = self.troubles.get(item.id)
        if trouble is None or trouble.is_due(time.monotonic()):
            return True
        with suppress_conditions(*UNREADABLE):
            has_moved = engine.relations.table(item).has(trouble.version + 1)
            return has_moved or bool(
                engine.schedules.read_times(item, after=trouble.until, until=now)
            )
        return False  # what it reads is unknown until that is repaired

    def _fail(
        self, item: Item | None, problem: CtsqlError, *, version: int, until: int = NOTHING
    ) -> None:
        """Record a failure; report it if it is new or its message changed."""
        key = item.id if item is not None else SERVICE
        before = self.troubles.get(key)
        text = f"{problem.condition} {problem.message}"
        self.troubles[key] = Trouble(
            text=text,
            tries=before.tries + 1 if before is not None else 1,
            tried_at=time.monotonic(),
            until=until,
            version=version,
        )
        if before is None or before.text != text:
            name = str(item.name) if item is not None else None
            self._say(Event.of_failure(problem, at=clock.now_ms(), name=name))

    def _report_commit(self, engine: Engine, object_id: str, entry: Entry, seconds: float) -> None:
        """Report one commit of ours, unless it only moves the upper."""
        with self._telling:
            self.on_commit(object_id, entry)
        item = engine.relations.item(object_id)
        commit = engine.relations.table(item).commit_at(entry.version)
        if "skipped" in commit.metadata:
            event = Event(
                kind=EventKind.FAILED,
                at=clock.now_ms(),
                name=str(item.name),
                time=entry.upper - 1,
                condition=str(commit.metadata.get("condition", "")),
                message=f"left out by ON ERROR = 'skip': {commit.metadata.get('reason')}",
            )
        elif commit.changes_data:
            owner = engine.relations.item(item.owner) if item.kind is TASK_OUTPUT else item
            aside = owner_of_quarantine(engine.catalog, item)
            insert_count, delete_count = rows_changed(commit)
            event = Event(
                kind=EventKind.WROTE,
                at=clock.now_ms(),
                name=str(item.name),
                time=entry.upper - 1,
                version=commit.version,
                inserted=insert_count,
                deleted=delete_count,
                seconds=seconds,
                refresh=refresh_of(owner, item, commit),
                quarantine_of=None if aside is None else str(aside.name),
            )
        else:
            return
        self._say(event)

    def report(self, event: Event) -> None:
        """Report work done in the background, from any thread."""
        with self._telling:
            try:
                self.on_event(event)
            except CtsqlError as problem:  # it would count as a failure of the output
                raise RuntimeError("on_event raised an error of ctsql") from problem

    def _say(self, event: Event) -> None:
        with self._telling:
            self._events_sent += 1
        self.report(event)


def _table_of(engine: Engine, item: Item) -> DeltaTable | None:
    """The table of an object; None if its log is too damaged to open."""
    with suppress_conditions(*UNREADABLE):
        return engine.relations.table(item)
    return None


def _newest(table: DeltaTable) -> int:
    """The newest version; NOTHING without a table, NEVER for a replaced or damaged one."""
    try:
        return table.version()
    except CtsqlError as problem:
        if problem.condition not in UNREADABLE:
            raise
        return NOTHING if problem.condition == "NOT_A_DELTA_TABLE" else NEVER


def _ends(problem: CtsqlError) -> bool:
    """Whether it ends the service: Spark is gone, or the tick was cancelled."""
    return problem.condition == "STATEMENT_CANCELLED" or is_lost(problem)
