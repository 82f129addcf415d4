"""A limit for following a view's changes: it may take little longer than recomputing the view."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ctsql.catalog.errors import EnvironmentProblem

_AGAIN_S = 0.2  # a tag's later jobs are cancelled after so many seconds


class TookLonger(Exception):
    """The incremental refresh has taken longer than it may."""


class TimeLimit:
    """The limit of one refresh.

    Attributes:
        is_over: the refresh's Spark jobs are cancelled.
    """

    def __init__(self, took_ms: Callable[[], int], limit_ms: int) -> None:
        self._took_ms, self._limit_ms = took_ms, limit_ms
        self.is_over = False

    def check(self) -> None:
        """Raise TookLonger if the limit is exceeded."""
        if self.is_over or self._took_ms() > self._limit_ms:
            raise TookLonger


@contextmanager
def time_limit(
    session: SparkSession, took_ms: Callable[[], int], limit_ms: int
) -> Iterator[TimeLimit]:
    """Beyond the limit, Spark jobs that this thread starts in the block are cancelled.

    Args:
        took_ms: the milliseconds that the refresh has taken. limit_ms: of the whole refresh.

    Raises:
        TookLonger: the limit is exceeded.
    """
    limit, finished = TimeLimit(took_ms, limit_ms), threading.Event()
    context, tag = session.sparkContext, f"ctsql-refresh-{uuid.uuid4().hex}"

    def watch() -> None:
        wait_s = max(limit_ms - took_ms(), 0) / 1_000
        while not finished.wait(wait_s):
            limit.is_over = True
            context.cancelJobsWithTag(tag)
            wait_s = _AGAIN_S

    context.addJobTag(tag)
    threading.Thread(target=watch, name=tag, daemon=True).start()
    try:
        yield limit
    except EnvironmentProblem as problem:
        if limit.is_over and problem.condition == "STATEMENT_CANCELLED":
            raise TookLonger from problem
        raise
    finally:
        finished.set()
        context.removeJobTag(tag)
