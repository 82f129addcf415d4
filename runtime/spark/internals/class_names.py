"""Names of Spark's classes for its settings, as the release of this process has them.

Spark ignores a rule that it does not have, and fails late on another class; so tests load each.
"""

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
