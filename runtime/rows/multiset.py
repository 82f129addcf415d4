"""Desired minus stored, as multisets, by Spark: for differences of any size.

Equality of rows is Spark's grouping equality made exact: NULL equals NULL, NaN equals NaN, and
0.0 differs from -0.0 (which Spark's GROUP BY would merge, changing what is stored). If k of n equal
stored rows must go, the first k by file and row number go.

:mod:`ctsql.runtime.rows.multiset_local` does the same on the driver for few rows.
"""

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.catalog.declined import Declined
from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import (
    COPY,
    DIFF,
    FILE_COLUMN,
    GROUP_,
    LOCATION,
    LOCATIONS,
    ROW_COLUMN,
    TEXT_,
)
from ctsql.runtime.rows.multiset_local import add_up, distinct
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows
from ctsql.runtime.rows.types import contains, has_equality, is_flat

_PLACE_TYPE = "struct<file:string,row:bigint>"


def multiset_difference(
    desired: DataFrame | None, stored_rows: DataFrame, columns: list[str]
) -> DataFrame:
    """The rows to insert, of ``desired``, and to delete, of ``stored_rows``, which are located.

    Returns:
        The columns, ``DIFF`` (copies to insert, or if negative to delete) and ``LOCATIONS``
        (where the copies to delete are).
    """
    names = backtick_all(columns)
    place = F.struct(F.col(FILE_COLUMN).alias("file"), F.col(ROW_COLUMN).alias("row"))
    if desired is None:
        return stored_rows.select(
            *names, F.lit(-1).cast("bigint").alias(DIFF), F.array(place).alias(LOCATIONS)
        )
    both = desired.select(
        *names, F.lit(1).alias(DIFF), F.lit(None).cast(_PLACE_TYPE).alias(LOCATION)
    ).unionAll(stored_rows.select(*names, F.lit(-1).alias(DIFF), place.alias(LOCATION)))
    return _with_locations(both, columns)


def with_locations(signed_rows: DataFrame, columns: list[str]) -> DataFrame:
    """As :func:`multiset_difference`, of signed rows that are located; NULL for one not stored.

    Of rows to delete there may be fewer places than ``DIFF`` says.
    """
    place = F.struct(F.col(FILE_COLUMN).alias("file"), F.col(ROW_COLUMN).alias("row"))
    location = F.when(F.col(FILE_COLUMN).isNotNull(), place).alias(LOCATION)
    return _with_locations(signed_rows.select(*backtick_all(columns), DIFF, location), columns)


def _with_locations(rows: DataFrame, columns: list[str]) -> DataFrame:
    names = backtick_all(columns)
    places = F.sort_array(F.collect_list(LOCATION)).alias(LOCATIONS)
    groups = _group(rows, columns, places).where(F.col(DIFF) != 0)
    deletions = F.slice(F.col(LOCATIONS), 1, F.greatest(-F.col(DIFF), F.lit(0)).cast("int"))
    return groups.select(*names, DIFF, deletions.alias(LOCATIONS))


def consolidate_change_feed(change_rows: DataFrame, columns: list[str]) -> DataFrame:
    """What a change feed changes, each row once: what a commit takes out and puts back cancels."""
    names = backtick_all(columns)
    is_insert = F.col("_change_type").isin("insert", "update_postimage")
    return consolidate(
        change_rows.select(*names, F.when(is_insert, 1).otherwise(-1).alias(DIFF)), columns
    )


def consolidate(signed_rows: DataFrame, columns: list[str]) -> DataFrame:
    """One row for all equal rows with their ``DIFF`` added up, where that is not zero."""
    groups = _group(signed_rows, columns).where(F.col(DIFF) != 0)
    return groups.select(*backtick_all(columns), F.col(DIFF).cast("bigint").alias(DIFF))


def signed_difference(
    desired: DataFrame | None, stored_rows: DataFrame, columns: list[str]
) -> DataFrame:
    """Desired minus stored, as :func:`consolidate` gives it."""
    names = backtick_all(columns)
    both = stored_rows.select(*names, F.lit(-1).alias(DIFF))
    if desired is not None:
        both = both.unionAll(desired.select(*names, F.lit(1).alias(DIFF)))
    return consolidate(both, columns)


def consolidate_all(parts: Sequence[RowSet], columns: list[str]) -> RowSet:
    """The net of signed rows of the same columns; on the driver where it holds all of them."""
    local_parts = [rows.local for rows in parts]
    near = [rows for rows in local_parts if not isinstance(rows, Declined) and is_flat(rows.schema)]
    if len(near) < len(parts):
        return SparkRows(
            consolidate(reduce(DataFrame.unionAll, (p.plain_frame for p in parts)), columns)
        )
    # One of them may have NULL where others may not.
    both = pa.concat_tables([rows.arrow for rows in near], promote_options="default")
    fields = [
        T.StructField(f.name, f.dataType, any(r.schema[f.name].nullable for r in near), f.metadata)
        for f in near[0].schema
    ]
    return near[0].with_rows(T.StructType(fields), add_up(both, DIFF))


def distinct_of(parts: Sequence[LocalRows]) -> LocalRows | Declined:
    """Each row of some sets of the same columns once, without Spark.

    Declined where not all values are equal just where Spark's are, or are of other types.
    """
    first, *others = parts
    kinds = [f.dataType for f in first.schema]
    are_alike = all([f.dataType for f in rows.schema] == kinds for rows in others)
    if not kinds or not are_alike or not all(map(has_equality, kinds)):
        return Declined("Spark says which rows are equal")
    fields = [
        T.StructField(f.name, f.dataType, any(r.schema[f.name].nullable for r in parts), f.metadata)
        for f in first.schema
    ]
    both = pa.concat_tables([rows.arrow for rows in parts], promote_options="default")
    return first.with_rows(T.StructType(fields), distinct(both))


def repeat_by_diff(rows: DataFrame, columns: list[str]) -> DataFrame:
    """Each row as often as ``DIFF`` says, whatever its sign."""
    names = backtick_all(columns)
    each = F.explode(F.sequence(F.lit(1), F.abs(DIFF).cast("int"))).alias(COPY)
    return rows.select(*names, each).select(*names)


def _group(rows: DataFrame, columns: list[str], *more: SparkColumn) -> DataFrame:
    """One row for all equal rows, with their ``DIFF`` added up."""
    fields = {f.name: f.dataType for f in rows.schema.fields}
    metadata = {f.name: f.metadata for f in rows.schema.fields}
    keys: list[SparkColumn] = []
    values: list[SparkColumn] = []
    for i, column in enumerate(columns):
        value = F.col(backtick(column))
        column_keys = _keys_of(value, fields[column], i)
        keys += column_keys
        if column_keys[0] is not value:
            values.append(F.any_value(value).alias(column, metadata=metadata[column]))
    return rows.groupBy(*keys).agg(F.sum(DIFF).alias(DIFF), *more, *values)


def equality_keys(rows: DataFrame, columns: list[str]) -> list[SparkColumn]:
    """Values that Spark can group by, ``GROUP_i`` and ``TEXT_i``: equal just where rows are."""
    fields = {f.name: f.dataType for f in rows.schema.fields}
    keys: list[SparkColumn] = []
    for i, column in enumerate(columns):
        value = F.col(backtick(column))
        key = _keys_of(value, fields[column], i)
        keys += [value.alias(f"{GROUP_}{i}")] if key[0] is value else key
    return keys


def _keys_of(value: SparkColumn, kind: T.DataType, number: int) -> list[SparkColumn]:
    """What Spark groups a column by; the value itself where that is exact."""
    key = _groupable(value, kind)
    if contains(kind, T.FloatType, T.DoubleType):
        # Grouping takes -0.0 for 0.0; their texts differ, and the value itself is kept.
        text = F.to_json(F.struct(key.alias("v")))
        return [key.alias(f"{GROUP_}{number}"), text.alias(f"{TEXT_}{number}")]
    return [value] if key is value else [key.alias(f"{GROUP_}{number}")]


def _groupable(value: SparkColumn, kind: T.DataType) -> SparkColumn:
    """A value that Spark can group by; the value itself where it is one.

    Spark compares no VARIANTs. What a reader can tell of one is its JSON text, and its type, by
    which a date differs from its text.

    Spark groups by a map that it has sorted first, and the code that it generates for that
    (``MapSort``, Spark 4.2) reads a NULL among numbers, dates or booleans as whatever was there
    before. Sorted arrays of the entries are equal when the maps are, and lose nothing.
    """
    if not contains(kind, T.VariantType, T.MapType):
        return value
    match kind:
        case T.ArrayType():
            return F.transform(value, lambda item: _groupable(item, kind.elementType))
        case T.MapType():
            entries = F.transform(
                F.map_entries(value),
                lambda e: F.struct(
                    e["key"].alias("key"), _groupable(e["value"], kind.valueType).alias("value")
                ),
            )
            return F.array_sort(entries)
        case T.StructType():
            parts = [
                _groupable(value.getField(f.name), f.dataType).alias(f"f{i}")
                for i, f in enumerate(kind.fields)
            ]
            return F.when(value.isNotNull(), F.struct(*parts))
        case _:
            text_and_kind = F.struct(
                F.to_json(value).alias("text"), F.schema_of_variant(value).alias("kind")
            )
            return F.when(value.isNotNull(), text_and_kind)
