"""Advances several outputs in parallel: each worker has its own thread and engine.

An engine is not thread-safe: its handles follow logs step by step, and its session's settings
change while a small difference is planned. So every worker has an engine with a session cloned from
the service's (same settings, same executors, own temporary views). Workers see each other only
through the logs, like processes. Python threads are pinned to JVM threads, so each has its own job
group and active session.

A session keeps plans (:mod:`ctsql.runtime.rows.prepared_rows`), so an output goes to the engine
that had it last, if idle. With one worker the service's own thread and engine do the work.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.write_handle import Entry
from ctsql.runtime.spark.internals.sessions import active
from ctsql.runtime.warehouse.advance_context import AdvanceContext

GROUP = "spark.jobGroup.id"


@dataclass
class WorkerPool:
    """The workers of one service."""

    workers: int  # the number of outputs that are advanced in parallel, at least one
    stop: threading.Event  # checked between two commits
    # called with each commit and the seconds since the one before, in its thread
    on_commit: Callable[[Engine, str, Entry, float], None]
    idle: list[Engine] = field(default_factory=list)
    _last: dict[str, Engine] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None

    def advance(self, engine: Engine, item: Item, now: int) -> "Future[CtsqlError | None]":
        """Advance an output to a T that its inputs have reached.

        Returns:
            its error, or None. With one worker it is done on return.
        """
        if self.workers == 1:
            future: Future[CtsqlError | None] = Future()
            future.set_result(self._advance(engine, item, now))
            return future
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="ctsql-run")
        group = engine.session.sparkContext.getLocalProperty(GROUP)
        mine = self._engine_for(engine, item.id)
        # Only the engine that binds has found them.
        mine.timeline.damaged_sources = {*engine.timeline.damaged_sources}
        return self._pool.submit(self.advance_separately, mine, item.id, now, group)

    def _engine_for(self, engine: Engine, object_id: str) -> Engine:
        """Take an idle engine, preferably the one that had the object last, or make one."""
        last = self._last.get(object_id)
        if last not in self.idle:
            last = self.idle[-1] if self.idle else None
        if last is None:
            last = engine.for_thread()
        else:
            self.idle.remove(last)
        self._last[object_id] = last
        return last

    def close(self) -> None:
        """Wait for the threads to finish their work and end."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def advance_separately(
        self, mine: Engine, object_id: str, now: int, group: str | None
    ) -> CtsqlError | None:
        """Refresh one object to a T by a separate engine; returns the error, if any."""
        context = mine.session.sparkContext
        if group is not None:
            context.setJobGroup(group, "run", interruptOnCancel=True)
        try:
            with active(mine.session):
                mine.refresh_catalog()
                mine.timeline.refresh()
                if object_id not in mine.catalog.items:
                    return None  # it was dropped since the tick began
                return self._advance(mine, mine.relations.item(object_id), now)
        except CtsqlError as problem:
            return problem
        finally:
            self.idle.append(mine)

    def _advance(self, engine: Engine, item: Item, now: int) -> CtsqlError | None:
        started_at = time.monotonic()

        def report(object_id: str, entry: Entry) -> None:
            nonlocal started_at
            before, started_at = started_at, time.monotonic()
            self.on_commit(engine, object_id, entry, started_at - before)

        context = AdvanceContext(stop=self.stop, on_commit=report)
        try:
            context.check_stop()
            engine.advance_one(item, now, context=context)
        except CtsqlError as problem:
            return problem
        return None
