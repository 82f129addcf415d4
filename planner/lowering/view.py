"""Lowering of a materialized view: its query, under the columns and types that are stored."""

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctsql.catalog.schemas import Column
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.nodes import ViewWrite


def lower_view(node: ViewWrite, context: Context) -> DataFrame:
    """The desired contents as of ``context.at``."""
    rows = lower_query(node.desired, context)
    positional = rows.toDF(*(f"__ct_c{i}" for i in range(len(node.columns))))
    return positional.select(
        *(
            _asserted(F.col(f"__ct_c{i}").cast(c.type), c, node).alias(c.name)
            for i, c in enumerate(node.columns)
        )
    )


def _asserted(value: SparkColumn, column: Column, node: ViewWrite) -> SparkColumn:
    """A value of the view; NULL is an error where the view asserts that there is none."""
    if column.name not in node.not_null:
        return value
    message = F.lit(f'column "{column.name}" of materialized view "{node.name}" is NULL')
    return F.when(value.isNull(), F.raise_error(message).cast(column.type)).otherwise(value)
