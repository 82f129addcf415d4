"""Values as an output's columns store them."""

import re

from pyspark.sql import Column as SparkColumn, functions as F

from ctsql.catalog.schemas import Column
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import rewritten_text
from ctsql.planner.nodes import Query

_SIZED = re.compile(r"(var)?char\((\d+)\)", re.IGNORECASE)


def as_stored(value: SparkColumn, column: Column) -> SparkColumn:
    """A value as a column of an output stores it; one that does not fit is an error on the row."""
    sized = _SIZED.fullmatch(column.type)
    if sized is None:
        return value.cast(column.type)
    text, length = value.cast("string"), int(sized.group(2))
    message = F.lit(f'a value is longer than {column.type} of column "{column.name}"')
    checked = F.when(F.length(text) > length, F.raise_error(message).cast("string")).otherwise(text)
    return checked if sized.group(1) else F.rpad(checked, length, " ")


def cast_type(column: Column) -> str:
    """The type to which values of several clauses are cast before :func:`as_stored`."""
    return "string" if _SIZED.fullmatch(column.type) else column.type


def value_text(value: Query, context: Context) -> str:
    """A value that reads no relation, as Spark is given it."""
    return rewritten_text(value.sql, {}, context).text
