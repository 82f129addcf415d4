"""Converts rows of an earlier version to the columns of a later one.

:mod:`ctsql.runtime.log.table_metadata` defines which columns correspond. A new column is NULL.
"""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, functions as F, types as T

from ctsql.catalog.names import backtick, fold
from ctsql.catalog.schemas import (
    Column as CatalogColumn,
    Schema,
    keeps_columns,
    plain_type,
    same_columns,
)
from ctsql.runtime.log.table_metadata import TableMetadata, fits


def align(
    rows: DataFrame, old: TableMetadata, new: TableMetadata, schema: T.StructType
) -> DataFrame:
    """Convert rows to the columns of a later version.

    Values that do not fit are NULL; callers must refuse to read such a column.
    """
    return rows.select(*(_later_column(rows, old, new, f).alias(f.name) for f in schema.fields))


def fill(
    rows: DataFrame, old: TableMetadata, new: TableMetadata, schema: T.StructType
) -> DataFrame:
    """Add a later version's new columns to rows."""
    more = [f for f in schema.fields if fold(f.name) not in old.columns]
    return rows.select("*", *(_later_column(rows, old, new, f).alias(f.name) for f in more))


def with_nulls(rows: DataFrame, columns: Iterable[CatalogColumn]) -> DataFrame:
    """Append columns of NULL to rows."""
    return rows.select("*", *(_null(column) for column in columns))


def _null(column: CatalogColumn) -> Column:
    return F.lit(None).cast(plain_type(column.type)).alias(column.name)


def shown_under(rows: DataFrame, there: Schema, columns: Schema) -> DataFrame:
    """Rows of an output under other columns, by name; a column of another type is another column.

    Extra columns of the rows are kept.
    """
    if same_columns(there, columns):
        return rows
    if keeps_columns(there, columns):
        return with_nulls(rows, columns[len(there) :])
    by_name = {fold(c.name): c for c in there}
    columns_under = []
    for column in columns:
        was = by_name.get(fold(column.name))
        known = was is not None and same_columns([was], [column])
        columns_under.append(
            F.col(backtick(column.name)).alias(column.name) if known else _null(column)
        )
    others = (backtick(c) for c in rows.columns if fold(c) not in by_name)
    return rows.select(*columns_under, *others)


def _later_column(
    rows: DataFrame, old: TableMetadata, new: TableMetadata, field: T.StructField
) -> Column:
    column = new.columns[fold(field.name)]
    was = old.counterpart(column)
    if was is None or not fits(was.field["type"], column.field["type"]):
        return F.lit(None).cast(field.dataType)
    return _as(rows[backtick(was.name)], rows.schema[was.name].dataType, field.dataType)


def _as(value: Column, old_type: T.DataType, new_type: T.DataType) -> Column:
    """Convert a value to a type that includes all values of its type."""
    if old_type == new_type:
        return value
    match old_type, new_type:
        case T.StructType(), T.StructType():
            fields = {fold(f.name): f for f in old_type.fields}
            parts = []
            for f in new_type.fields:
                was = fields.get(fold(f.name))
                part = F.lit(None) if was is None else value.getField(was.name)
                kind = f.dataType if was is None else was.dataType
                parts.append(_as(part, kind, f.dataType).cast(f.dataType).alias(f.name))
            return F.when(value.isNotNull(), F.struct(*parts))
        case T.ArrayType(), T.ArrayType():
            return F.transform(value, lambda x: _as(x, old_type.elementType, new_type.elementType))
        case T.MapType(), T.MapType():
            each = F.transform(
                F.map_entries(value),
                lambda e: F.struct(
                    _as(e["key"], old_type.keyType, new_type.keyType),
                    _as(e["value"], old_type.valueType, new_type.valueType),
                ),
            )
            return F.map_from_entries(each)
        case _:
            return value.cast(new_type)
