"""Rows of the calling Python program, as DataFrames: Arrow, pandas, Polars, Spark, tuples, dicts.

A statement reads the program's variables by name only if the program allows it, and objects of the
warehouse come first: see :meth:`ctsql.Connection.execute`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import partial
from numbers import Integral
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog import schemas
from ctsql.catalog.errors import CtsqlError, error, misuse
from ctsql.catalog.names import did_you_mean, fold
from ctsql.catalog.schemas import Column
from ctsql.runtime.rows.types import arrow_schema, with_values
from ctsql.runtime.spark.internals.java import has_java_frame
from ctsql.runtime.spark.internals.plans import empty
from ctsql.runtime.spark.internals.temporary import in_session

_INDEX = re.compile(r"__index_level_\d+__")  # arrow's name of a pandas index without a name
_REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)


def frame_of(session: SparkSession, rows: Any) -> DataFrame:
    """A DataFrame of the session with the rows of another library.

    Args:
        rows: a DataFrame of Spark, pandas or Polars, dicts, or an object with an Arrow stream: a
            table, a reader, a relation of DuckDB. An index of pandas is a column if it has a name.

    Raises:
        INVALID_USAGE: it holds no rows. DATA_ERROR: a column has values of several types.
    """
    if has_java_frame(rows):
        return in_session(session, rows)
    table = arrow_of(rows)
    indices = [i for i, name in enumerate(table.column_names) if not _INDEX.fullmatch(name)]
    if not indices:
        raise misuse("the rows have no columns")
    return _in_spark(session, table.select(indices))


def _in_spark(session: SparkSession, table: pa.Table) -> DataFrame:
    """A DataFrame with a table's rows; raises as :func:`frame_of` where Spark lacks a type."""
    try:
        return session.createDataFrame(with_types_of_spark(table))
    except pa.ArrowException as problem:
        raise error("DATA_ERROR", message=str(problem)[:200]) from problem
    except (PySparkTypeError, ValueError) as problem:  # the second of decimals over 38 digits
        types = ", ".join(f"{field.name} {field.type}" for field in table.schema)
        detail = f"{str(problem).splitlines()[0]}. The rows have: {types:.200}"
        raise misuse("Spark has no type for a column", detail) from problem


def arrow_of(rows: Any) -> pa.Table:
    """Another library's rows, as Arrow; dicts yield a column for each of their keys."""
    try:
        if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
            names = dict.fromkeys(name for row in rows for name in row)
            return pa.table({n: _array_of(n, [row.get(n) for row in rows]) for n in names})
        # Polars gives types here that Spark knows, and others by the stream.
        table: pa.Table = rows.to_arrow() if hasattr(rows, "to_arrow") else pa.table(rows)
    except pa.ArrowException as problem:
        message = ". ".join(map(str, problem.args))
        raise error("DATA_ERROR", message=message[:200]) from problem
    except _REFUSED as problem:
        # What has no length holds no rows: a lazy frame is a query.
        columns = list(map(str, getattr(rows, "columns", ()))) if isinstance(rows, Sized) else []
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            raise error("DUPLICATE_COLUMN", column=twice) from problem
        if columns:
            message = f"the columns cannot be read: {str(problem)[:200]}"
            raise error("DATA_ERROR", message=message) from problem
        raise _no_rows(rows) from problem
    return table


def _array_of(name: str, values: list[Any]) -> pa.Array:
    """The values of one key of dicts, with their own type."""
    try:
        return pa.array(values)
    except _REFUSED as problem:
        message = f'the values for column "{name}" have no common type: {str(problem)[:200]}'
        raise error("DATA_ERROR", message=message) from problem


_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
"""By type that Spark lacks, the one that holds all its values, as in Spark's Parquet reader."""


def with_types_of_spark(table: pa.Table) -> pa.Table:
    """A table with wider types if Spark lacks a type, nested ones included."""
    fields = [
        field.with_type(with_values(field.type, lambda kind: _WIDER.get(kind, kind)))
        for field in table.schema
    ]
    schema = pa.schema(fields, table.schema.metadata)
    return table if schema == table.schema else table.cast(schema)


def _no_rows(rows: object) -> CtsqlError:
    message = f"a {type(rows).__name__} contains no rows that can be read"
    detail = (
        "Give a DataFrame of pandas, Polars or Spark, an Arrow table or reader, or tuples or dicts."
    )
    return misuse(message, detail)


def rows_for(session: SparkSession, rows: Any, columns: Sequence[Column], table: str) -> DataFrame:
    """Rows for a table, under its column names; tuples fill the columns in order, all else by name.

    Args:
        columns: the columns to fill. table: its name, for errors.

    Raises:
        UNKNOWN_COLUMN, DUPLICATE_COLUMN, COLUMN_COUNT_MISMATCH, INVALID_USAGE: they do not fit.
        DATA_ERROR: values of one column are of several types.
    """
    if isinstance(rows, list | tuple) or (isinstance(rows, Iterable) and _is_plain(rows)):
        return _in_spark(session, _to_arrow(session, list(rows), columns, table))
    frame = frame_of(session, rows)
    names = _column_names(frame.columns, columns, table)
    return frame.toDF(*names)


def _is_plain(rows: object) -> bool:
    """Whether it is an iterator of Python, not a library's table."""
    return not has_java_frame(rows) and not any(hasattr(rows, name) for name in _GIVES_ROWS)


def _column_names(names: Sequence[str], columns: Sequence[Column], table: str) -> list[str]:
    if not names:
        raise misuse("the rows have no columns")
    heading = f"{table} has the columns"
    matches = [schemas.get(columns, name, span=None, heading=heading) for name in names]
    return [c.name for c in schemas.check_unique(matches, ())]


def _to_arrow(
    session: SparkSession, rows: list[Any], columns: Sequence[Column], table: str
) -> pa.Table:
    """Tuples or dicts as Arrow, with the table's types if the values fit."""
    if rows and all(isinstance(row, Mapping) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        fitting = _column_names(names, columns, table)
        columns = [schemas.get(columns, name, span=None) for name in fitting]
        values = [[row.get(name) for row in rows] for name in names]
    else:
        for row in rows:
            if not isinstance(row, Sequence) or isinstance(row, str | bytes | Mapping):
                raise _no_rows(row if rows else rows)
            if len(row) != len(columns):
                message = f"a row has {len(row)} value(s), {table} has {len(columns)} column(s)"
                detail = f"To be filled: {', '.join(c.name for c in columns)}."
                hint = "Give dicts to fill some columns."
                raise error("COLUMN_COUNT_MISMATCH", message=message, detail=detail, hint=hint)
        values = [[row[i] for row in rows] for i in range(len(columns))]
    kinds = arrow_schema(empty(session, columns).schema).types
    arrays = [
        array_of(column, kind, column_values)
        for column, kind, column_values in zip(columns, kinds, values, strict=True)
    ]
    return pa.table(arrays, names=[c.name for c in columns])


def array_of(column: Column, kind: pa.DataType, values: list[Any]) -> pa.Array:
    """Values with a column's type; else with their own, which Spark casts or refuses."""
    kinds = {type(v) for v in values if v is not None}
    if pa.types.is_temporal(kind) and kinds and all(issubclass(k, Integral) for k in kinds):
        return pa.array(values)
    shape = _shape_of(kind)
    try:
        python_values = values if shape is None else [shape(value, column.name) for value in values]
    except ValueError as problem:
        raise _not_all(column, problem) from problem
    try:
        return pa.array(python_values, kind)
    except _REFUSED:
        try:
            return pa.array(python_values)
        except _REFUSED as problem:
            raise _not_all(column, problem) from problem


def _not_all(column: Column, problem: Exception) -> CtsqlError:
    text = str(problem)[:200]
    message = f'the values for column "{column.name}" are not all {column.type}: {text}'
    return error("DATA_ERROR", message=message)


_Shape = Callable[[Any, str], Any]
"""Converts a Python value for Arrow; the text is its name in errors."""


def _shape_of(kind: pa.DataType) -> _Shape | None:
    """The conversion of a type's values for Arrow; None if Arrow takes them unchanged.

    Arrow takes whole numbers for instants, in other units than Spark, and only those keys of a dict
    that are spelled as a struct's fields.
    """
    if pa.types.is_temporal(kind):
        return _instant
    if pa.types.is_list(kind):
        item = _shape_of(kind.value_type)
        return None if item is None else partial(_items, shape=item)
    if pa.types.is_map(kind):
        item = _shape_of(kind.item_type)
        return None if item is None else partial(_entries, shape=item)
    if pa.types.is_struct(kind):
        return partial(_fields, shapes={f.name: _shape_of(f.type) for f in kind})
    return None


def _instant(value: Any, name: str) -> Any:
    if isinstance(value, Integral):
        raise ValueError(f"{value} is a whole number, in {name}")
    return value


def _items(value: Any, name: str, *, shape: _Shape) -> Any:
    return [shape(one, name) for one in value] if isinstance(value, list | tuple) else value


def _entries(value: Any, name: str, *, shape: _Shape) -> Any:
    if not isinstance(value, Mapping):
        return value
    return [(key, shape(one, f"{name}[{key!r}]")) for key, one in value.items()]


def _fields(value: Any, name: str, *, shapes: Mapping[str, _Shape | None]) -> Any:
    """A dict under the names of a struct's fields, in any case."""
    if isinstance(value, tuple) and len(value) == len(shapes):
        value = dict(zip(shapes, value, strict=True))
    if not isinstance(value, Mapping):
        return value
    names = {fold(field): field for field in shapes}
    fields: dict[str, Any] = {}
    for key, one in value.items():
        field = names.get(fold(str(key)))
        full_name = f"{name}.{key}"
        if field is None:
            detail = f"{name} has the fields {', '.join(shapes)}."
            hint = did_you_mean(str(key), list(shapes))
            raise error("UNKNOWN_COLUMN", column=full_name, detail=detail, hint=hint)
        if field in fields:
            raise error("DUPLICATE_COLUMN", column=full_name)
        shape = shapes[field]
        fields[field] = one if shape is None else shape(one, full_name)
    return fields


_GIVES_ROWS = ("__arrow_c_stream__", "__arrow_c_array__", "to_arrow")
"""Methods of other libraries' tables."""
