"""Names of Spark's classes for its settings, as the release of this process has them."""

from pyspark.sql import SparkSession

from ctsql.runtime.spark.internals.java import java, java_class
from ctsql.runtime.spark.versions import at_least

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_STREAMING = "org.apache.spark.sql.execution.streaming"

PUSH_PROJECTION = f"{_OPTIMIZER}.PushProjectionThroughUnion"
"""A rule that fails with "key not found" on a correlated subquery over UNION ALL."""
MERGE_SUBQUERIES = f"{_OPTIMIZER}.{'MergeSubplans' if at_least(4, 2) else 'MergeScalarSubqueries'}"
"""The rule that makes one subquery of several."""
CHECKPOINT_FILES = (
    f"{_STREAMING}{'.checkpointing' if at_least(4, 1) else ''}.FileSystemBasedCheckpointFileManager"
)
"""Writes the checkpoints of streams by Hadoop's file systems."""


def check_classes(session: SparkSession) -> None:
    """Look for each: Spark ignores a rule that it does not have, and fails late on another class.

    No public API has rules by another name. Needed: without it, a correlated subquery over UNION
    ALL fails, or no plan with two totals of the same rows is kept, or a stream does not start.
    """
    for name in (PUSH_PROJECTION, MERGE_SUBQUERIES, CHECKPOINT_FILES):
        java_class(java(session), name)
