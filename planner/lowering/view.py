"""Lowering of a materialized view: its query, under the columns and types that are stored."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.nodes import ViewWrite


def lower_view(node: ViewWrite, context: Context) -> DataFrame:
    """The desired contents as of ``context.at``."""
    rows = lower_query(node.desired, context)
    positional = rows.toDF(*(f"__ct_c{i}" for i in range(len(node.columns))))
    return positional.select(
        *(F.col(f"__ct_c{i}").cast(c.type).alias(c.name) for i, c in enumerate(node.columns))
    )
