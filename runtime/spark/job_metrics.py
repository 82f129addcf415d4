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
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

LISTENER_MS = 2_000
"""How long to wait for Spark's own counters to take in what has just ended."""


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


class _Jobs:
    """The jobs of one Spark application."""

    def __init__(self, context: SparkContext) -> None:
        self.context: Any = context._jsc.sc()
        self._scheduler = self.context.dagScheduler()
        self.without_files: deque[int] = deque(maxlen=1_000)

    def started(self) -> int:
        """How many were started, which is the number of the next one."""
        return int(self._scheduler.numTotalJobs())


_jobs = lru_cache(maxsize=2)(_Jobs)


@contextmanager
def without_files(session: SparkSession) -> Iterator[None]:
    """What runs inside is one job at most, which reads and writes no file."""
    jobs = _jobs(session.sparkContext)
    first = jobs.started()
    yield
    if jobs.started() == first + 1:  # else some are of other threads
        jobs.without_files.append(first)


class Meter:
    """Begins to count when it is made."""

    def __init__(self, session: SparkSession) -> None:
        self._jobs = _jobs(session.sparkContext)
        self._first = self._jobs.started()
        self._started_at = time.monotonic()

    def ms(self) -> int:
        """Milliseconds since."""
        return int((time.monotonic() - self._started_at) * 1000)

    def work(self) -> Work:
        """What was done since."""
        last, ms = self._jobs.started(), self.ms()
        job_ids = set(range(self._first, last)).difference(self._jobs.without_files)
        if not job_ids:
            return Work(ms, last - self._first)
        context = self._jobs.context
        context.listenerBus().waitUntilEmpty(LISTENER_MS)
        store = context.statusStore()
        sums = [0, 0, 0, 0]
        for job in sorted(job_ids):
            for stage in self._stages(store, job):
                sums[0] += stage.inputRecords()
                sums[1] += stage.inputBytes()
                sums[2] += stage.outputRecords()
                sums[3] += stage.outputBytes()
        return Work(ms, last - self._first, *sums)

    def _stages(self, store: Any, job: int) -> list[Any]:
        """The stages of a job that ran; none of one that Spark no longer remembers."""
        stages = []
        try:
            ids = store.job(job).stageIds().iterator()
            while ids.hasNext():
                stage = store.lastStageAttempt(ids.next())
                if str(stage.status()) == "COMPLETE":
                    stages.append(stage)
        except Py4JJavaError as problem:
            if "NoSuchElement" not in str(problem.java_exception):
                raise
        return stages
