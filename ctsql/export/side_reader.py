"""Reads a warehouse's logs while its connection works, and never waits for it.

On a local disk the reader needs no Spark. Elsewhere it is an engine with its own session of the
connection's Spark, which it starts if needed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.log_reader import LocalLogReader, LogReader
from ctsql.runtime.spark.start.environment import is_plain

if TYPE_CHECKING:
    from ctsql.api import Connection
    from ctsql.runtime.engine import Engine

T = TypeVar("T")


class SideReader:
    """The reader of one thread.

    If Spark is needed and ``may_start`` is false, the reader raises NeedsSpark until the connection
    has started it.
    """

    def __init__(self, connection: "Connection", *, may_start: bool = True) -> None:
        self._connection = connection
        self._may_start = may_start
        self._local: LocalLogReader | None = None
        self._engine: Engine | None = None

    def __call__(self, question: Callable[[LogReader], T]) -> T:
        """Call a function with the reader; again with the engine, if it needs Spark."""
        connection = self._connection
        if self._engine is None and is_plain(connection._master):
            try:
                if self._local is None:
                    self._local = LocalLogReader(connection.warehouse, read_only=True)
                return question(self._local)
            except NeedsSpark:
                pass
        return self._by_spark(question)

    def _by_spark(self, question: Callable[[LogReader], T]) -> T:
        from ctsql.runtime.spark.failures.errors import translate_spark_errors
        from ctsql.runtime.spark.internals.sessions import active

        if self._engine is None:
            if not self._connection.started:  # start() waits for what the connection runs
                if not self._may_start:
                    raise NeedsSpark("Spark")
                self._connection.start()
            assert self._connection._engine is not None  # start() made it
            with translate_spark_errors():
                self._engine = self._connection._engine.for_thread()
        with translate_spark_errors(), active(self._engine.session):
            return question(self._engine)
