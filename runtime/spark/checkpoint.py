"""Computes a DataFrame once, and cuts it off from what it was computed from."""

from pyspark.sql import DataFrame

from ctsql.runtime.spark.internals.sessions import setting


def computed(frame: DataFrame) -> DataFrame:
    """The rows, held by Spark; the job runs now.

    Spark 4.2 also carries over what it knows to hold for the rows, and fails with "key not found"
    where they are a union over columns that are not NULL. So it is asked to know nothing.
    """
    with setting(frame.sparkSession, "spark.sql.constraintPropagation.enabled", "false"):
        return frame.localCheckpoint(eager=True)
