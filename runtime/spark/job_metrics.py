"""What Spark did for a piece of work: jobs, and what their tasks read and wrote.

Jobs are told by their numbers, which one Spark application gives in order: those of other threads
between the two readings are among them.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
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


class Meter:
    """Begins to count when it is made."""

    def __init__(self, session: SparkSession) -> None:
        self._context: Any = session.sparkContext._jsc.sc()
        self._first = self._started()
        self._begun = time.monotonic()

    def _started(self) -> int:
        return int(self._context.dagScheduler().numTotalJobs())

    def ms(self) -> int:
        """Milliseconds since."""
        return int((time.monotonic() - self._begun) * 1000)

    def work(self) -> Work:
        """What was done since."""
        last, ms = self._started(), self.ms()
        if last == self._first:
            return Work(ms)
        self._context.listenerBus().waitUntilEmpty(LISTENER_MS)
        store = self._context.statusStore()
        sums = [0, 0, 0, 0]
        for job in range(self._first, last):
            for stage in self._stages(store, job):
                sums[0] += stage.inputRecords()
                sums[1] += stage.inputBytes()
                sums[2] += stage.outputRecords()
                sums[3] += stage.outputBytes()
        return Work(ms, last - self._first, *sums)

    def _stages(self, store: Any, job: int) -> list[Any]:
        """The stages of a job that ran; none of one that Spark no longer remembers."""
        found = []
        try:
            ids = store.job(job).stageIds().iterator()
            while ids.hasNext():
                stage = store.lastStageAttempt(ids.next())
                if str(stage.status()) == "COMPLETE":
                    found.append(stage)
        except Py4JJavaError as problem:
            if "NoSuchElement" not in str(problem.java_exception):
                raise
        return found
