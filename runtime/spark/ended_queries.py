"""Lets go of queries that have ended.

Spark 4.2 remembers the jobs of a query, and with them all that they read, until the query ends. The
jobs of ``toLocalIterator`` run after that, and were remembered for ever: some megabytes for each
refresh that wrote deletions by Spark, and for each result that was iterated.
"""

from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from ctsql.runtime.spark.scala import singleton
from ctsql.runtime.spark.versions import at_least


def forget_ended_queries(session: SparkSession) -> None:
    """Make Spark forget the jobs of queries that have ended; one call where there are none.

    Spark remembers them since 4.2 only.
    """
    if not at_least(4, 2):
        return
    scheduler, jobs, executions = _handles(session.sparkContext)
    if jobs.isEmpty():
        return
    for number in list(jobs.keySet().toArray()):
        if executions.getQueryExecution(number) is None:
            scheduler.cleanupQueryJobs(number)


@lru_cache(maxsize=2)
def _handles(context: Any) -> tuple[Any, Any, Any]:
    scheduler = context._jsc.sc().dagScheduler()
    sql = context._jvm.org.apache.spark.sql.execution
    executions = singleton(sql, "SQLExecution")
    return scheduler, scheduler.activeQueryToJobs(), executions
