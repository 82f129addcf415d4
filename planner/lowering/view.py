"""Lowering of a materialized view: its query, under the columns and types that are stored."""

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F

from ctsql.catalog.errors import error
from ctsql.catalog.reserved_columns import COLUMN_
from ctsql.catalog.schemas import Column, plain_type
from ctsql.planner.lowering.constraints import fail_broken
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.lowering.spark_types import metadata_of, type_name
from ctsql.planner.lowering.store_assignment import is_exact
from ctsql.planner.nodes import Query, ViewWrite


def lower_view(node: ViewWrite, context: Context) -> DataFrame:
    """The desired contents as of ``context.at``; raises TYPE_MISMATCH if types have changed."""
    rows = lower_query(node.desired, context)
    check_count(len(node.columns), rows, node.desired)
    for column, field in zip(node.columns, rows.schema.fields, strict=True):
        value_type = type_name(field.dataType)
        if not is_exact(value_type, column.type):
            raise error(
                "TYPE_MISMATCH",
                span=node.desired.sql.span,
                message=f'column "{column.name}" is of type {column.type}, but the query gives '
                f"{value_type} now",
                detail="The types of what it reads have changed since the view was created.",
                hint="Give it the new type: CREATE OR REPLACE MATERIALIZED VIEW",
            )
    return fail_broken(cast_to_stored(rows, node), node.failing)


def check_count(count: int, rows: DataFrame, query: Query) -> None:
    """COLUMN_COUNT_MISMATCH for a result of other columns: those of ``*`` may have changed."""
    if len(rows.columns) != count:
        message = f"the query gives {len(rows.columns)} column(s) now, and gave {count}"
        detail = "A table that it reads has lost a column."
        raise error("COLUMN_COUNT_MISMATCH", span=query.sql.span, message=message, detail=detail)


def cast_to_stored(rows: DataFrame, node: ViewWrite, more: Sequence[str] = ()) -> DataFrame:
    """Rows of the view's query under the stored names and types, followed by ``more``."""
    types = [(plain_type(c.type), metadata_of(c.type)) for c in node.columns]
    fields = rows.schema.fields[: len(types)]
    if [(type_name(f.dataType), f.metadata) for f in fields] == types:
        return rows.toDF(*(c.name for c in node.columns), *more)
    positional = rows.toDF(*(f"{COLUMN_}{i}" for i in range(len(node.columns))), *more)
    return positional.select(
        *(_store(F.col(f"{COLUMN_}{i}"), c) for i, c in enumerate(node.columns)), *more
    )


def _store(value: SparkColumn, column: Column) -> SparkColumn:
    """A value of the query; one of a CHAR has its length already."""
    metadata = metadata_of(column.type)
    return value.cast(plain_type(column.type)).alias(column.name, metadata=metadata)
