"""How far Spark is with the jobs that it runs, for the line that is shown while one waits.

Spark counts the rows that a task reads when the task ends and at each heartbeat of its executor,
every ten seconds unless set otherwise.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """The jobs that run now: their tasks, and the rows that these have read."""

    tasks_done: int
    tasks: int
    rows_read: int

    def line(self) -> str:
        """What is shown.

        >>> RunningJobs(9, 20, 1234567).line(), RunningJobs(0, 1, 0).line()
        ('running 45 % of 20 tasks, 1,234,567 rows read', 'running 0 % of 1 task')
        """
        many = "task" if self.tasks == 1 else "tasks"
        rows = f", {self.rows_read:,} rows read" if self.rows_read else ""
        return f"running {100 * self.tasks_done // self.tasks} % of {self.tasks:,} {many}{rows}"


def running_jobs() -> RunningJobs | None:
    """What runs in this process's Spark; None for no job, and where Spark does not answer."""
    context = SparkContext._active_spark_context
    if context is None:
        return None
    try:
        return _read(context)
    except (Py4JError, ConnectionError):
        return None  # it is ending, or has just forgotten the job


def _jobs(context: SparkContext) -> Iterator[Any]:
    """The jobs that run now."""
    status: Any = context._jvm.org.apache.spark.JobExecutionStatus.RUNNING  # type: ignore[union-attr]
    running = context._jvm.java.util.List.of(status)  # type: ignore[union-attr]
    jobs = context._jsc.sc().statusStore().jobsList(running).iterator()
    while jobs.hasNext():
        yield jobs.next()


def _read(context: SparkContext) -> RunningJobs | None:
    tasks_done = tasks = rows_read = 0
    store = context._jsc.sc().statusStore()
    for job in _jobs(context):
        tasks += job.numTasks() - job.numSkippedTasks()
        tasks_done += job.numCompletedTasks()
        stages = job.stageIds().iterator()
        while stages.hasNext():
            rows_read += store.lastStageAttempt(stages.next()).inputRecords()
    return RunningJobs(tasks_done, tasks, rows_read) if tasks else None
