"""Values as an output's columns store them."""

from pyspark.sql import Column as SparkColumn, functions as F, types as T

from ctsql.catalog.schemas import Column, plain_type
from ctsql.planner.lowering.char_types import metadata_of
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import rewritten_text
from ctsql.planner.nodes import Query


def as_stored(value: SparkColumn, column: Column) -> SparkColumn:
    """A value as a column of an output stores it, under the column's name and metadata.

    One that does not fit is an error on the row.
    """
    fitted = value.cast(cast_type(column))
    if cast_type(column) != column.type:
        fitted = _fitted(fitted, T.DataType.fromDDL(column.type), column)
    return fitted.alias(column.name, metadata=metadata_of(column.type))


def _fitted(value: SparkColumn, kind: T.DataType, column: Column) -> SparkColumn:
    """Texts within a value, checked and padded as the type says."""
    match kind:
        case T.CharType() | T.VarcharType():
            message = F.lit(
                f'a value is longer than {kind.simpleString()} of column "{column.name}"'
            )
            too_long = F.length(value) > kind.length
            checked = F.when(too_long, F.raise_error(message).cast("string")).otherwise(value)
            is_padded = isinstance(kind, T.CharType)
            return F.rpad(checked, kind.length, " ") if is_padded else checked
        case T.ArrayType():
            return F.transform(value, lambda item: _fitted(item, kind.elementType, column))
        case T.MapType():
            keys = F.transform_keys(value, lambda key, _: _fitted(key, kind.keyType, column))
            return F.transform_values(keys, lambda _, item: _fitted(item, kind.valueType, column))
        case T.StructType():
            parts = [
                _fitted(value.getField(f.name), f.dataType, column).alias(f.name)
                for f in kind.fields
            ]
            return F.when(value.isNotNull(), F.struct(*parts))
        case _:
            return value


def cast_type(column: Column) -> str:
    """The type to which values of several clauses are cast before :func:`as_stored`."""
    return plain_type(column.type)


def value_text(value: Query, context: Context) -> str:
    """A value that reads no relation, as Spark is given it."""
    return rewritten_text(value.sql, {}, context).text
