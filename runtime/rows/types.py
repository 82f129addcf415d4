"""What each type of Spark allows: one predicate for each question that depends on the type."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from ctsql.catalog.errors import error
from ctsql.catalog.schemas import decimal_size
from ctsql.planner.lowering.spark_types import is_padded
from ctsql.runtime.spark.versions import at_least

_TIMEZONE: dict[str, Any] = {"timezone": "UTC"} if at_least(4, 2) else {}
"""Before 4.2 the conversion takes no time zone, and instants are in UTC."""


def arrow_schema(schema: T.StructType, *, unique_fields: bool = False) -> pa.Schema:
    """The Arrow schema of a schema, instants in UTC.

    ``unique_fields``: raise PySpark's error if two fields of a struct have one name.

    Raises:
        SPARK_ERROR: Arrow lacks a type.
    """
    try:
        return to_arrow_schema(
            schema, error_on_duplicated_field_names_in_struct=unique_fields, **_TIMEZONE
        )
    except ValueError as problem:  # of array() and map(), whose VOID items are NOT NULL
        message = f"Arrow cannot hold the rows: {problem}"
        hint = "Cast array() and map() to a type with items that are not VOID."
        raise error("SPARK_ERROR", message=message, hint=hint) from problem


def with_values(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type with other types of values, those within nested types included."""

    def field(one: pa.Field) -> pa.Field:
        return one.with_type(with_values(one.type, change))

    if pa.types.is_list(kind):
        return pa.list_(field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(field(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(field(kind.value_field), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([field(one) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(field(kind.key_field), field(kind.item_field))
    return change(kind)


_INSTANTS = (T.DateType, T.TimestampType, T.TimestampNTZType)
_BITWISE = (T.IntegralType, T.DecimalType, T.BooleanType, T.BinaryType, *_INSTANTS)
_FLAT = (*_BITWISE, T.FloatType, T.DoubleType)
_FIXED: tuple[type[T.DataType], ...] = (
    T.NumericType, T.BooleanType, T.NullType, *_INSTANTS,
    T.DayTimeIntervalType, T.YearMonthIntervalType, T.CalendarIntervalType,
)  # fmt: skip
if at_least(4, 1):
    _FIXED = (*_FIXED, T.TimeType)

_DIGITS_SUMMED = 27  # a sum has ten digits more than its values; to add to it needs one more
_PLACES_KEPT = 6  # above 38 digits Spark keeps so many decimal places


def sums_exactly(data_type: str) -> bool:
    """Whether sums of a type are added and subtracted without rounding.

    >>> [sums_exactly(t) for t in ("bigint", "decimal(38,6)", "decimal(27,7)")]
    [True, True, True]
    >>> [sums_exactly(t) for t in ("decimal(28,7)", "interval day", "double")]
    [False, False, False]
    """
    size = decimal_size(data_type)
    if size is not None:
        return size[0] <= _DIGITS_SUMMED or size[1] <= _PLACES_KEPT
    return not data_type.lower().startswith(("interval", "double", "float"))


def contains(data_type: T.DataType, *kinds: type[T.DataType]) -> bool:
    """Whether a type, or a type within it, is of one of these kinds.

    >>> contains(T.ArrayType(T.VariantType()), T.VariantType), contains(T.LongType(), T.MapType)
    (True, False)
    """
    match data_type:
        case _ if isinstance(data_type, kinds):
            return True
        case T.ArrayType():
            return contains(data_type.elementType, *kinds)
        case T.MapType():
            return any(contains(t, *kinds) for t in (data_type.keyType, data_type.valueType))
        case T.StructType():
            return any(contains(f.dataType, *kinds) for f in data_type.fields)
        case _:
            return False


def fits_arrow(data_type: T.DataType) -> bool:
    """Whether Arrow can hold every value."""
    return not contains(data_type, T.YearMonthIntervalType, T.CalendarIntervalType, T.VariantType)


def is_comparable(data_type: T.DataType) -> bool:
    """Whether Spark can compare two values."""
    return not contains(data_type, T.MapType, T.VariantType, T.CalendarIntervalType)


def has_fixed_width(data_type: T.DataType) -> bool:
    """Whether every value takes the same few bytes.

    >>> [has_fixed_width(t) for t in (T.IntegerType(), T.StringType())]
    [True, False]
    """
    if isinstance(data_type, T.StructType):
        return all(has_fixed_width(f.dataType) for f in data_type.fields)
    return isinstance(data_type, _FIXED)


def has_bitwise_equality(data_type: T.DataType) -> bool:
    """Whether equal values have equal bits, in Arrow and in Spark; fractions have not."""
    return isinstance(data_type, _BITWISE) or data_type == T.StringType()


def is_flat(schema: T.StructType) -> bool:
    """Whether Arrow returns the values of all columns as Spark does."""
    return all(
        isinstance(f.dataType, _FLAT) or (f.dataType == T.StringType() and not is_padded(f))
        for f in schema.fields
    )


def has_order(data_type: T.DataType) -> bool:
    """Whether Python and Spark order the values alike, and compare them exactly."""
    exact = (T.IntegralType, T.DecimalType, T.DateType)
    return isinstance(data_type, exact) or data_type == T.StringType()


def has_equality_in_files(data_type: T.DataType) -> bool:
    """Whether a value in a Parquet file can be compared with a key."""
    return isinstance(
        data_type, T.IntegralType | T.DecimalType | T.DateType | T.BooleanType | T.StringType
    )


def has_written_bounds(data_type: T.DataType) -> bool:
    """Whether the statistics of a file written by the driver have bounds of the values."""
    return isinstance(data_type, T.IntegralType | T.DateType | T.StringType)


def has_read_bounds(data_type: T.DataType) -> bool:
    """Whether the bounds in a file's statistics are read; not for dates, which Delta misreads."""
    return isinstance(data_type, T.IntegralType | T.StringType)
