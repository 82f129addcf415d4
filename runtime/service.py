"""The service: follows the sources and keeps every output up to date, until it is stopped.

    look:  has any log that is followed one more version?   no scan, no Spark job
    tick:  mint; then each output, after what it reads; what reads a failed one waits

Followed are the logs of the sources, of the timeline (other processes mint too), of the catalog,
and of the outputs that failed (a RETRY or SKIP elsewhere mends them). When to look again is
decided in :mod:`ctsql.runtime.pacing`.

Objects are brought up one after the other, also where they do not depend on each other: the
engine and its tables are not for several threads at once, and Spark shares the cores among the
tasks of one job anyway. To use more, run the service in a second process.

A stop takes effect between two commits. What runs then may be cancelled by whoever stops (see
``Connection.cancel``); nothing of it is written.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.runtime.commits import rows_changed
from ctsql.runtime.delta_log import DeltaTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.events import Event, EventKind
from ctsql.runtime.maintenance.upkeep import Upkeep
from ctsql.runtime.pacing import Pace, Trouble
from ctsql.runtime.spark_errors import is_lost
from ctsql.runtime.write_handle import Entry

NOTHING = -1
SERVICE = ""
"""Stands for an object's id: the trouble of the service itself."""


@dataclass
class Service:
    """One run of the service.

    Attributes:
        opened: opens the engine for one look or tick. stop: ends the run when set.
        on_event: told what happened. on_time: told each T that was reached.
    """

    opened: Callable[[], AbstractContextManager[Engine]]
    stop: threading.Event
    on_event: Callable[[Event], None]
    on_time: Callable[[int], None]
    _known: dict[str, int] = field(default_factory=dict)
    _troubles: dict[str, Trouble] = field(default_factory=dict)
    _failures: list[CtsqlError] = field(default_factory=list)
    _now: int = NOTHING
    _said: int = 0
    _begun: float = 0.0
    _upkeep: Upkeep = field(default_factory=Upkeep)

    def run(self, *, once: bool, interval: float) -> None:
        """Look and tick until stopped, or (``once``) one tick.

        Raises:
            CtsqlError: with ``once`` the first object that failed, after all others were brought
                up. Without it only what no waiting mends: Spark is gone, or the tick was
                cancelled by somebody who did not stop the service.
        """
        pace = Pace(interval)
        while not self.stop.is_set():
            try:
                with self.opened() as engine:
                    moved = self._look(engine)
            except CtsqlError as problem:
                if problem.condition == "STATEMENT_CANCELLED" and self.stop.is_set():
                    return
                if once or is_lost(problem) or problem.condition == "STATEMENT_CANCELLED":
                    raise
                self._fail(None, problem, version=NOTHING)
                moved = False
            if once:
                if self._failures:
                    raise self._failures[0]
                return
            pace = pace.after(moved=moved)
            self.stop.wait(pace.wait)

    # ---- looking

    def _look(self, engine: Engine) -> bool:
        """Tick if something moved or something that failed is due; says whether."""
        if not self._moved(engine) and not any(
            t.is_due(time.monotonic()) for k, t in self._troubles.items() if k != SERVICE
        ):
            return False
        with self._following(engine):
            self._tick(engine)
            self._upkeep.after_round(engine, self._say)
        return True

    def _moved(self, engine: Engine) -> bool:
        """Has a log that is followed a version that was not taken in?"""
        for table in self._followed(engine):
            known = self._known.get(table.location)
            if known is None or table.has(known + 1):
                return True
        return False

    def _followed(self, engine: Engine) -> list[DeltaTable]:
        tables = [engine.catalog_store.table, engine.timeline.table]
        tables += [table for _, table in engine.objects.sources().values()]
        failed = [i for i in engine.catalog if i.id in self._troubles]
        return tables + [engine.objects.table(i) for i in failed]

    def _take_in(self, engine: Engine) -> None:
        """Note the newest versions; what comes later is seen at the next look."""
        for table in self._followed(engine):
            try:
                self._known[table.location] = table.version()
            except CtsqlError as problem:
                if problem.condition != "NOT_A_DELTA_TABLE":
                    raise
                self._known[table.location] = NOTHING  # its folder is gone: nothing to follow

    # ---- ticking

    @contextmanager
    def _following(self, engine: Engine) -> Iterator[None]:
        """Hear of the commits, and be asked between them whether to stop."""
        objects = engine.objects
        objects.on_commit = lambda object_id, entry: self._wrote(engine, object_id, entry)
        objects.stop = self.stop
        try:
            yield
        finally:
            objects.on_commit = objects.stop = None

    def _tick(self, engine: Engine) -> None:
        """Bring every output up to now."""
        self._failures.clear()
        self._said = 0
        begun = self._begun = time.monotonic()
        engine.refresh_catalog()
        self._take_in(engine)
        now = engine.mint_for(engine.catalog)
        self._known[engine.timeline.table.location] = engine.timeline.read_to
        self._troubles.pop(SERVICE, None)
        known = engine.catalog.items
        self._troubles = {k: t for k, t in self._troubles.items() if k in known}
        held: set[str] = set()
        for item in engine.catalog.closure(known):
            waits = any(r.object_id in held for r in item.reads if r.object_id != item.id)
            if waits or (item.is_output and not self._bring_up(engine, item, now)):
                held.add(item.id)
        if now != self._now:
            self._now = now
            self.on_time(now)
            if not self._said:
                seconds = time.monotonic() - begun
                self._say(Event(kind=EventKind.REACHED, at=_clock(), time=now, seconds=seconds))

    def _bring_up(self, engine: Engine, item: Item, now: int) -> bool:
        """Bring one output up; False when it has failed, now or before."""
        trouble = self._troubles.get(item.id)
        if trouble is not None and not self._is_worth_trying(engine, item, trouble, now):
            return False
        engine.objects.check_stop()
        self._begun = time.monotonic()
        try:
            engine.advance_one(item, now)
        except CtsqlError as problem:
            if problem.condition == "STATEMENT_CANCELLED" or is_lost(problem):
                raise
            self._failures.append(problem)
            version = engine.objects.table(item).version()
            self._known[engine.objects.table(item).location] = version
            self._fail(item, problem, version=version, until=now)
            return False
        if self._troubles.pop(item.id, None) is not None:
            self._say(Event(kind=EventKind.RECOVERED, at=_clock(), name=str(item.name)))
        return True

    def _is_worth_trying(self, engine: Engine, item: Item, trouble: Trouble, now: int) -> bool:
        """Has anything it reads or its own table moved since it failed, or was that long ago?"""
        return (
            trouble.is_due(time.monotonic())
            or engine.objects.table(item).has(trouble.version + 1)
            or bool(engine.objects.read_times(item, after=trouble.until, until=now))
        )

    # ---- telling

    def _fail(
        self, item: Item | None, problem: CtsqlError, *, version: int, until: int = NOTHING
    ) -> None:
        """Note a failure; it is told when it is new or says something else."""
        key = item.id if item is not None else SERVICE
        before = self._troubles.get(key)
        text = f"{problem.condition} {problem.message}"
        self._troubles[key] = Trouble(
            text=text,
            tries=before.tries + 1 if before is not None else 1,
            tried_at=time.monotonic(),
            until=until,
            version=version,
        )
        if before is None or before.text != text:
            name = str(item.name) if item is not None else None
            self._say(Event.of_failure(problem, at=_clock(), name=name))

    def _wrote(self, engine: Engine, object_id: str, entry: Entry) -> None:
        """One commit of ours; those that only move the upper are not worth a line."""
        begun, self._begun = self._begun, time.monotonic()
        self._upkeep.note(object_id, entry.version)
        item = engine.objects.item(object_id)
        commit = engine.objects.table(item).commit_at(entry.version)
        inserted, deleted = rows_changed(commit)
        if not commit.changes_data and "skipped" not in commit.metadata:
            return
        if "skipped" in commit.metadata:
            reason = f"left out by ON ERROR = 'skip': {commit.metadata.get('reason')}"
            self._say(
                Event(
                    kind=EventKind.FAILED,
                    at=_clock(),
                    name=str(item.name),
                    time=entry.upper - 1,
                    condition="TASK_FAILED",
                    message=reason,
                )
            )
            return
        self._say(
            Event(
                kind=EventKind.WROTE,
                at=_clock(),
                name=str(item.name),
                time=entry.upper - 1,
                version=entry.version,
                inserted=inserted,
                deleted=deleted,
                seconds=self._begun - begun,
            )
        )

    def _say(self, event: Event) -> None:
        self._said += 1
        self.on_event(event)


def _clock() -> int:
    return int(time.time() * 1000)
