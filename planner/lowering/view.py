"""Lowering of a materialized view: its query, under the columns and types that are stored."""

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F

from ctsql.catalog.schemas import Column, plain_type
from ctsql.planner.lowering.char_types import metadata_of
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query, quoted
from ctsql.planner.nodes import ViewWrite


def lower_view(node: ViewWrite, context: Context) -> DataFrame:
    """The desired contents as of ``context.at``."""
    return checked(stored_types(lower_query(node.desired, context), node), node)


def stored_types(rows: DataFrame, node: ViewWrite, more: Sequence[str] = ()) -> DataFrame:
    """Rows of the view's query under the stored names and types; ``more`` stand behind them."""
    positional = rows.toDF(*(f"__ct_c{i}" for i in range(len(node.columns))), *more)
    return positional.select(
        *(_stored(F.col(f"__ct_c{i}"), c) for i, c in enumerate(node.columns)),
        *more,
    )


def _stored(value: SparkColumn, column: Column) -> SparkColumn:
    """A value of the query; one of a CHAR has its length already."""
    metadata = metadata_of(column.type)
    return value.cast(plain_type(column.type)).alias(column.name, metadata=metadata)


def checked(rows: DataFrame, node: ViewWrite) -> DataFrame:
    """Rows of the view, whose evaluation fails where the view asserts that it has no such row."""
    if not node.not_null:
        return rows
    return rows.select(
        *(
            _asserted(F.col(quoted([c.name])[0]), c, node).alias(
                c.name, metadata=metadata_of(c.type)
            )
            for c in node.columns
        )
    )


def _asserted(value: SparkColumn, column: Column, node: ViewWrite) -> SparkColumn:
    """A value of the view; NULL is an error where the view asserts that there is none."""
    if column.name not in node.not_null:
        return value
    message = F.lit(f'column "{column.name}" of materialized view "{node.name}" is NULL')
    return F.when(value.isNull(), F.raise_error(message).cast(plain_type(column.type))).otherwise(
        value
    )
