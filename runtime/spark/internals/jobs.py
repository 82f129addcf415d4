"""Jobs of Spark: their number, progress, rows and bytes; and cancelling them."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ctsql.runtime.spark.internals.java import java_context, scala_items, typed
from ctsql.runtime.spark.missing import or_else

LISTENER_MS = 2_000  # how long to wait until Spark's counters are complete


@or_else(lambda _: 0)
def jobs_started(session: SparkSession) -> int:
    """The number of jobs that an application has started, which is the id of the next one.

    No public API counts jobs. Optional: without it, refreshes have no figures.
    """
    return typed(int, _context(session.sparkContext)[1].numTotalJobs())


@lru_cache(maxsize=2)
def _context(context: SparkContext) -> tuple[Any, Any]:
    in_jvm = context._jsc.sc()
    return in_jvm, in_jvm.dagScheduler()


@or_else(lambda *_: [0] * 4)
def totals_of(session: SparkSession, jobs: Iterable[int]) -> list[int]:
    """The rows and bytes that jobs read, then those that they wrote, without shuffles.

    No public API of PySpark gives them; the REST API of Spark's UI does, which is off. Optional:
    without it, refreshes have no such figures.
    """
    context, _ = _context(session.sparkContext)
    context.listenerBus().waitUntilEmpty(LISTENER_MS)
    store = context.statusStore()
    totals = [0, 0, 0, 0]
    for job in jobs:
        for stage in _stages(store, job):
            totals[0] += stage.inputRecords()
            totals[1] += stage.inputBytes()
            totals[2] += stage.outputRecords()
            totals[3] += stage.outputBytes()
    return totals


def _stages(store: Any, job: int) -> list[Any]:
    """The completed stages of a job; none if Spark has forgotten it."""
    stages = []
    try:
        for number in scala_items(store.job(job).stageIds()):
            stage = store.lastStageAttempt(number)
            if typed(str, stage.status().toString()) == "COMPLETE":
                stages.append(stage)
    except Py4JJavaError as problem:
        if "NoSuchElement" not in str(problem.java_exception):
            raise
    return stages


@or_else(lambda: None)
def running_tasks() -> tuple[int, int, int] | None:
    """Tasks done, all tasks and rows read of the running jobs; None without Spark.

    No public API counts rows; ``statusTracker`` counts tasks. Optional: without it, no progress is
    shown.
    """
    context = SparkContext._active_spark_context
    if context is None:
        return None
    done = tasks = rows_read = 0
    store = context._jsc.sc().statusStore()
    for job in _running(context, store):
        tasks += job.numTasks() - job.numSkippedTasks()
        done += job.numCompletedTasks()
        for stage in scala_items(job.stageIds()):
            rows_read += store.lastStageAttempt(stage).inputRecords()
    return done, tasks, rows_read


def _running(context: SparkContext, store: Any) -> Iterator[Any]:
    jvm: Any = context._jvm
    status = jvm.org.apache.spark.JobExecutionStatus.RUNNING
    return scala_items(store.jobsList(jvm.java.util.List.of(status)))


def cancel_jobs(session: SparkSession, group: str) -> None:
    """Cancel the present and future jobs of a group.

    No public API of PySpark cancels future ones; Scala's does. Needed: without it, a cancelled
    statement starts its next job.
    """
    java_context(session).cancelJobGroupAndFutureJobs(group)
