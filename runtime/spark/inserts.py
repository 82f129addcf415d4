"""What an INSERT appends, by Spark's analyser: the query with its casts, without running it."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession


class NotAnAppend(Exception):
    """A statement does something else than append rows, or appends them in a way of its own."""


def appended_rows(session: SparkSession, text: str) -> DataFrame:
    """The rows that an INSERT appends, under the names and with the types of the table's columns.

    Lazily. Columns that the statement does not fill may be missing.

    Raises:
        NotAnAppend: it overwrites, for example, or has options.
    """
    state = session._jsparkSession.sessionState()
    jvm: Any = session._jvm
    # In this mode Spark analyses a command and does not run it.
    mode = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    plan = state.executePlan(state.sqlParser().parsePlan(text), mode).analyzed()
    if plan.nodeName() != "AppendData" or not plan.writeOptions().isEmpty():
        raise NotAnAppend(str(plan.nodeName()))
    frame_of = jvm.org.apache.spark.sql.classic.Dataset.ofRows
    return DataFrame(frame_of(session._jsparkSession, plan.query()), session)
