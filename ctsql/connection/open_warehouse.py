"""A warehouse that is opened on first need, with the caller's Spark or the process's."""

import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ctsql.catalog.errors import CtsqlError, InterfaceError, check_text, error
from ctsql.runtime.spark.versions import import_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ctsql.runtime.engine import Engine
    from ctsql.runtime.log_reader import LocalLogReader, LogReader
    from ctsql.runtime.service.background_maintenance import ConnectionMaintenance
    from ctsql.runtime.service.events import Event
    from ctsql.runtime.statements.dml.transaction import OpenTransaction

T = TypeVar("T")
RECURSION_LIMIT = 10_000
"""Python's default of 1,000 frames refuses 50 nested calls; Spark runs 300.

Statements with 300 levels, or with 2,000 operators in a row, need up to 8,000 frames. 10,000 of
them fit into a thread's usual stack of 8 MB.
"""


class OpenWarehouse:
    """One warehouse: its engine, once started, its lock, and its open transaction."""

    def __init__(
        self,
        warehouse: str,
        *,
        spark: "SparkSession | None" = None,
        master: str | None = None,
        read_only: bool = False,
        create: bool = True,
        maintenance: bool = False,
    ) -> None:
        check_text(warehouse, "the warehouse's place")
        sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
        self.warehouse = warehouse
        self._create = create
        self._maintains = maintenance  # asked for, or while run() works
        self.read_only = read_only
        self.is_new = False  # whether this connection created the warehouse
        self.search_schema = "default"
        self.is_short = False  # whether a Spark that it starts is for a short command
        self._spark = spark
        self._master = master
        self._engine: Engine | None = None
        self._own: SparkSession | None = None  # the engine's, kept for the next warehouse
        self._settings: Any = None
        self._lock = ConnectionLock()
        self._group = ""
        self._cancelled = threading.Event()
        self._closed = False
        self._transaction: OpenTransaction | None = None
        self._reader: LocalLogReader | None = None
        self._reader_lock = threading.Lock()
        self._maintenance: ConnectionMaintenance | None = None
        self._report: Callable[[Event], None] | None = None

    def __repr__(self) -> str:
        mode = " read-only" if self.read_only else ""
        return f"<Connection to {self.warehouse}{mode}{' (closed)' if self._closed else ''}>"

    @property
    def started(self) -> bool:
        """Whether the engine is started; the first statement starts it."""
        return self._engine is not None

    def start(self) -> None:
        """Start Spark and open the warehouse, as the first statement does."""
        with self._lock:
            self._opened()

    def _opened(self) -> "Engine":
        if self._closed:
            raise InterfaceError("the connection is closed")
        if self._engine is None:
            import_pyspark()
            from ctsql.connection.self_test import try_once
            from ctsql.connection.settings import Settings
            from ctsql.runtime.engine import Engine
            from ctsql.runtime.service.background_maintenance import ConnectionMaintenance
            from ctsql.runtime.spark.failures.errors import translate_spark_errors
            from ctsql.runtime.spark.internals.sessions import active
            from ctsql.runtime.spark.start.session import (
                delta_version,
                engine_session,
                process_session,
            )
            from ctsql.runtime.spark.versions import untested

            with translate_spark_errors():
                base = self._spark or process_session(self._master, is_short=self.is_short)
                session = self._own = self._own or engine_session(base)
                if warning := untested(base.version, delta_version(base)):
                    try_once(partial(type(self), spark=base), warning)
                with active(session):
                    self._engine = Engine(
                        session,
                        self.warehouse,
                        read_only=self.read_only,
                        create=self._create,
                        caller=base,
                    )
            self.is_new = self._engine.is_new
            self._maintenance = ConnectionMaintenance()
            self._engine.context = self._maintenance.context
            self._spark = base
            self._settings = Settings(read_only=self.read_only)
        self._engine.tick_ms = self._settings.tick_ms  # a duplicate may have set another
        return self._engine

    def duplicate(self) -> Self:
        """Another connection to the same warehouse, by the same engine; starts it if needed.

        It has its own transaction, schema and settings, and :meth:`cancel` is for its statements
        only. Statements of both connections run one at a time. Settings of Spark are shared.
        """
        if not self.started:  # start() waits for what the connection runs
            self.start()
        from ctsql.connection.settings import Settings

        other = type(self)(self.warehouse, spark=self._spark, read_only=self.read_only)
        other._engine, other._own, other._lock = self._engine, self._own, self._lock
        other._settings = Settings(read_only=self.read_only)
        other._maintenance = self._maintenance
        return other

    @property
    def spark(self) -> "SparkSession":
        """The session in use: the process's, or the caller's."""
        self.start()
        assert self._spark is not None  # start() set it
        return self._spark

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; without one every statement commits by itself."""
        return self._transaction is not None

    def promote(self) -> None:
        """Let a read-only connection write from now on, as ``SET read_only = false`` does.

        What it has computed in memory is dropped: the next read assigns Ts and writes. This cannot
        be undone. Does nothing on a connection that writes already.
        """
        with self._lock:
            if self._engine is None:
                self.read_only = False  # nothing is open yet
                return
            with self._running("promote") as engine:
                if engine.read_only:
                    self._promote(engine)

    def _promote(self, engine: "Engine") -> None:
        engine.promote()
        self._settings.read_only = self.read_only = False

    def _move_to(self, warehouse: str) -> None:
        """Continue with another warehouse, in the schema "default"; rolls back an open transaction.

        The engine's session is kept, with the plans that it has made and its settings.
        """
        with self._lock:
            if self._transaction is not None:
                self._transaction.rollback()
            if self._maintenance is not None:
                self._maintenance.close()
            self._transaction = self._engine = self._maintenance = self._reader = None
            self.warehouse, self.search_schema, self.is_new = warehouse, "default", False

    @contextmanager
    def _running(self, label: str) -> "Iterator[Engine]":
        """Lock the connection, and mark its jobs so that they can be cancelled."""
        with self._lock:
            engine = self._opened()
            from ctsql.runtime.spark.failures.errors import translate_spark_errors
            from ctsql.runtime.spark.internals.java import is_stopped
            from ctsql.runtime.spark.internals.sessions import active
            from ctsql.runtime.statements.objects.failed_task import show_rows

            if self._cancelled.is_set():  # while Spark was starting, or between two fetches
                self._cancelled.clear()
                raise error("STATEMENT_CANCELLED")
            with translate_spark_errors():  # Spark may have ended meanwhile, too
                if is_stopped(engine.session):
                    raise ConnectionError("its SparkSession was stopped")
                context = engine.session.sparkContext
                # A new group for each statement: its later jobs are cancelled, too.
                self._group = f"ctsql-{uuid.uuid4().hex}"
                context.setJobGroup(self._group, label[:200], interruptOnCancel=True)
                try:
                    with active(engine.session), translate_spark_errors():
                        yield engine
                        if self._maintains and not engine.read_only:
                            assert self._maintenance is not None  # with the engine
                            self._maintenance.start_if_due(engine, self._report)
                except CtsqlError as problem:
                    if problem.condition == "TASK_FAILED":
                        show_rows(engine, problem)
                    if problem.condition == "STATEMENT_CANCELLED":
                        self._cancelled.clear()  # what is asked next is not cancelled
                    raise
                finally:
                    self._group = ""
                    for key in ("spark.jobGroup.id", "spark.job.description"):
                        context.setLocalProperty(key, None)  # type: ignore[arg-type]

    def cancel(self) -> None:
        """Cancel the statement running in another thread; it raises STATEMENT_CANCELLED."""
        self._cancelled.set()
        engine, group = self._engine, self._group
        if engine is not None and group:
            engine.gateway.cancel(group)

    @contextmanager
    def _maintaining(
        self, report: "Callable[[Event], None]", stop: threading.Event
    ) -> Iterator[None]:
        """Maintain what the block writes; at its end running maintenance is awaited, or cancelled.

        Args:
            report: called with what is done. stop: set to cancel running maintenance.
        """
        maintained_before, self._maintains, self._report = self._maintains, True, report
        try:
            yield
        finally:
            self._maintains, self._report = maintained_before, None
            if self._maintenance is not None:
                if stop.is_set():
                    self._maintenance.cancel()
                if not maintained_before:
                    self._maintenance.close()

    def _by_logs(self, ask: "Callable[[LogReader], T]") -> T | None:
        """Ask the logs on a local disk, if Spark has not started; else None."""
        from ctsql.runtime.delta.log.local_log import NeedsSpark
        from ctsql.runtime.log_reader import LocalLogReader
        from ctsql.runtime.spark.start.environment import is_plain

        if self.started or self._closed or self._spark or not is_plain(self._master):
            return None
        with self._reader_lock, suppress(NeedsSpark):
            if self._reader is None:
                self._reader = LocalLogReader(
                    self.warehouse, read_only=self.read_only, may_create=self._create
                )
            return ask(self._reader)
        return None


E = TypeVar("E")


class ConnectionLock:
    """A lock that a thread may take several times, but not inside a callback.

    An event is reported inside of a running statement, by any thread of the connection. A statement
    of the same connection would wait for the lock, whose holder waits until the event is reported.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._thread = threading.local()

    def __enter__(self) -> None:
        if getattr(self._thread, "is_called_back", False):
            # Not a CtsqlError, which would count as a failure of the running object.
            message = "on_event cannot use the connection that waits for it"
            raise InterfaceError(f"{message}: use another one, ctsql.connect(...)")
        self._lock.acquire()

    def __exit__(self, *_: Any) -> None:
        self._lock.release()

    def refusing(self, call: Callable[[E], None]) -> Callable[[E], None]:
        """A callback that raises if it takes this lock."""

        def called(event: E) -> None:
            self._thread.is_called_back = True
            try:
                call(event)
            finally:
                self._thread.is_called_back = False

        return called
