"""What Spark did for a piece of work: jobs, and what their tasks read and wrote.

Jobs are told by their numbers, which one Spark application gives in order: those of other threads
between the two readings are among them. Of jobs that are known to read and write no file Spark is
not asked: to wait for its counters and to look them up takes as long as such a job.
"""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ctsql.runtime.spark.internals.jobs import jobs_started, totals_of


@dataclass(frozen=True, slots=True)
class Work:
    """Milliseconds, and numbers of jobs, rows and bytes; shuffles are not in them."""

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
    """The newest jobs of an application that read and write no file."""
    return deque(maxlen=1_000)


@contextmanager
def without_files(session: SparkSession) -> Iterator[None]:
    """What runs inside is one job at most, which reads and writes no file."""
    first = jobs_started(session)
    yield
    if jobs_started(session) == first + 1:  # else some are of other threads
        _without_files(session.sparkContext).append(first)


class Meter:
    """Begins to count when it is made."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._first = jobs_started(session)
        self._started_at = time.monotonic()

    def ms(self) -> int:
        """Milliseconds since."""
        return int((time.monotonic() - self._started_at) * 1000)

    def work(self) -> Work:
        """What was done since."""
        last, ms = jobs_started(self._session), self.ms()
        jobs = range(self._first, last)
        job_ids = set(jobs).difference(_without_files(self._session.sparkContext))
        if not job_ids:
            return Work(ms, len(jobs))
        return Work(ms, len(jobs), *totals_of(self._session, sorted(job_ids)))
