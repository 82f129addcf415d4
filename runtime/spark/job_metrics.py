"""Spark's work for a part of the code: jobs, and what their tasks read and wrote.

Jobs are identified by their numbers, in order in one Spark application; jobs of other threads in
between are included. Jobs that read and write no file are not looked up: waiting for Spark's
counters takes as long as such a job. Spark counts the rows of a running task at each heartbeat of
its executor, every ten seconds by default.
"""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ctsql.runtime.spark.internals.jobs import jobs_started, running_tasks, totals_of


@dataclass(frozen=True, slots=True)
class Work:
    """Milliseconds, jobs, rows and bytes, without shuffles."""

    ms: int = 0
    jobs: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0
    bytes_written: int = 0

    def to_metadata(self) -> dict[str, int]:
        """For the metadata of a commit."""
        return asdict(self)


@lru_cache(maxsize=2)
def _without_files(_: SparkContext) -> deque[int]:
    """The newest jobs that read and write no file."""
    return deque(maxlen=1_000)


@contextmanager
def without_files(session: SparkSession) -> Iterator[None]:
    """At most one job runs inside, which reads and writes no file."""
    first = jobs_started(session)
    yield
    if jobs_started(session) == first + 1:  # else some are of other threads
        _without_files(session.sparkContext).append(first)


class Meter:
    """Counts from its creation on."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._first = jobs_started(session)
        self._started_at = time.monotonic()

    def ms(self) -> int:
        """Milliseconds since."""
        return int((time.monotonic() - self._started_at) * 1000)

    def work(self) -> Work:
        """The work since then."""
        last, ms = jobs_started(self._session), self.ms()
        jobs = range(self._first, last)
        job_ids = set(jobs).difference(_without_files(self._session.sparkContext))
        if not job_ids:
            return Work(ms, len(jobs))
        return Work(ms, len(jobs), *totals_of(self._session, sorted(job_ids)))


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """The running jobs: their tasks, and the rows read."""

    tasks_done: int
    tasks: int
    rows_read: int

    def line(self) -> str:
        """The line for the user.

        >>> RunningJobs(9, 20, 1234567).line(), RunningJobs(0, 1, 0).line()
        ('running 45 % of 20 tasks, 1,234,567 rows read', 'running 0 % of 1 task')
        """
        many = "task" if self.tasks == 1 else "tasks"
        rows = f", {self.rows_read:,} rows read" if self.rows_read else ""
        return f"running {100 * self.tasks_done // self.tasks} % of {self.tasks:,} {many}{rows}"


def running_jobs() -> RunningJobs | None:
    """The running jobs of this process; None without one, or if Spark does not answer."""
    try:
        totals = running_tasks()
    except (Py4JError, ConnectionError):
        return None  # Spark is ending, or has just forgotten the job
    running = None if totals is None else RunningJobs(*totals)
    return running if running is not None and running.tasks else None
