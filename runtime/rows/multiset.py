"""Desired minus stored, as multisets: by Spark for any size, on the driver for few rows.

Equality of rows is exact: NULL equals NULL, NaN equals NaN, 0.0 differs from -0.0 (GROUP BY would
merge them), maps are equal in any order of their entries. If k of n equal stored rows are deleted,
they are the first k by file and row number.
"""

import math
from collections.abc import Hashable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.catalog.errors import Declined
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
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows
from ctsql.runtime.rows.types import contains, has_bitwise_equality, is_flat, with_values


def cancel(
    desired: Sequence[Hashable], stored_rows: Sequence[Hashable]
) -> tuple[list[int], list[int]]:
    """Remove equal rows from both lists, one for one; the places of the remaining rows.

    >>> cancel(["a", "a", "b"], ["a", "c"])
    ([1, 2], [1])
    """
    waiting: dict[Hashable, list[int]] = {}
    for i, row in enumerate(stored_rows):
        waiting.setdefault(row, []).append(i)
    for places in waiting.values():
        places.reverse()  # the first stored copy is kept first
    inserts = []
    for i, row in enumerate(desired):
        places = waiting.get(row, [])
        if places:
            places.pop()
        else:
            inserts.append(i)
    return inserts, sorted(i for places in waiting.values() for i in places)


def add_up(signed_rows: pa.Table, diff: str) -> pa.Table:
    """Each row once with the sum of its ``diff``, the last column, if not 0; no nested columns."""
    names = signed_rows.schema.names
    # Arrow reads a name that begins with a dot or a bracket as a path: numbers stand in.
    numbers = [str(n) for n in range(len(names) - 1)]
    bits = [_bits(column) for column in signed_rows.columns[:-1]]
    groups = pa.table([*bits, signed_rows.column(diff)], [*numbers, diff]).group_by(numbers)
    sums = groups.aggregate([(diff, "sum")]).rename_columns(names)
    sums = sums.filter(pc.not_equal(sums.column(diff), 0))
    pairs = zip(sums.columns, signed_rows.schema.types, strict=True)
    columns = [c if c.type == kind else c.combine_chunks().view(kind) for c, kind in pairs]
    return pa.table(columns, signed_rows.schema)


def distinct(rows: pa.Table) -> pa.Table:
    """Each row once; no nested columns and no fractions."""
    numbers = [str(n) for n in range(rows.num_columns)]  # as in add_up
    groups = rows.rename_columns(numbers).group_by(numbers).aggregate([])
    return pa.table(groups.columns, rows.schema)


def _bits(column: pa.ChunkedArray) -> pa.Array:
    """Fractions as integers that are equal exactly when they are; other columns unchanged."""
    values = column.combine_chunks()
    if not pa.types.is_floating(values.type):
        return values
    same = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)
    return same.view(f"int{values.type.bit_width}")


def keys(rows: pa.Table) -> list[Hashable]:
    """Each row as a value that is equal exactly when the rows are."""
    columns = []
    for column, field in zip(rows.columns, rows.schema, strict=True):
        kind = with_values(field.type, _python_type)
        values = (column if kind == field.type else column.cast(kind)).to_pylist()
        is_itself = not (pa.types.is_nested(kind) or pa.types.is_floating(kind))
        columns.append(values if is_itself else [_frozen(value, kind) for value in values])
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def _python_type(kind: pa.DataType) -> pa.DataType:
    """A type with the same equality; Python lacks some dates, and all texts but UTF-8."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_string(kind):
        return pa.binary()
    return kind


def _frozen(value: object, kind: pa.DataType) -> Hashable:
    if value is None:
        return None
    if pa.types.is_floating(kind):
        assert isinstance(value, float)
        return ("NaN",) if math.isnan(value) else (value, math.copysign(1.0, value))
    if pa.types.is_struct(kind):
        assert isinstance(value, dict)
        return tuple(_frozen(value[kind[i].name], kind[i].type) for i in range(kind.num_fields))
    if pa.types.is_map(kind):
        assert isinstance(value, list)
        return frozenset((_frozen(k, kind.key_type), _frozen(v, kind.item_type)) for k, v in value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        assert isinstance(value, list)
        return tuple(_frozen(item, kind.value_type) for item in value)
    assert isinstance(value, Hashable)
    return value


_PLACE_TYPE = "struct<file:string,row:bigint>"


def multiset_difference(
    desired: DataFrame | None, stored_rows: DataFrame, columns: list[str]
) -> DataFrame:
    """The rows of ``desired`` to insert, and those of ``stored_rows``, with locations, to delete.

    Returns:
        The columns, ``DIFF`` (copies to insert, or if negative to delete) and ``LOCATIONS``
        (of the copies to delete).
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
    """As :func:`multiset_difference`, of signed rows with locations; NULL if not stored.

    A row to delete may have fewer locations than ``DIFF`` says.
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
    """The net change of a change feed, each row once."""
    names = backtick_all(columns)
    is_insert = F.col("_change_type").isin("insert", "update_postimage")
    return consolidate(
        change_rows.select(*names, F.when(is_insert, 1).otherwise(-1).alias(DIFF)), columns
    )


def consolidate(signed_rows: DataFrame, columns: list[str]) -> DataFrame:
    """Each row once with the sum of its ``DIFF``, if not 0."""
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
    """The net of signed rows of the same columns; on the driver if it holds all of them."""
    local_parts = [rows.local for rows in parts]
    near = [rows for rows in local_parts if not isinstance(rows, Declined) and is_flat(rows.schema)]
    if len(near) < len(parts):
        return SparkRows(
            consolidate(reduce(DataFrame.unionAll, (p.plain_frame for p in parts)), columns)
        )
    both, schema = _concatenated(near)
    return near[0].with_rows(schema, add_up(both, DIFF))


def distinct_of(parts: Sequence[LocalRows]) -> LocalRows | Declined:
    """Each row of several sets once, without Spark.

    Declined if a type's equality in Arrow differs from Spark's, or the types differ.
    """
    first, *others = parts
    kinds = [f.dataType for f in first.schema]
    are_alike = all([f.dataType for f in rows.schema] == kinds for rows in others)
    if not kinds or not are_alike or not all(map(has_bitwise_equality, kinds)):
        return Declined("Spark says which rows are equal")
    both, schema = _concatenated(parts)
    return first.with_rows(schema, distinct(both))


def _concatenated(parts: Sequence[LocalRows]) -> tuple[pa.Table, T.StructType]:
    """The rows of several sets; one of them may have NULL where others may not."""
    fields = [
        T.StructField(f.name, f.dataType, any(r.schema[f.name].nullable for r in parts), f.metadata)
        for f in parts[0].schema
    ]
    rows = pa.concat_tables([rows.arrow for rows in parts], promote_options="default")
    return rows, T.StructType(fields)


def repeat_by_diff(rows: DataFrame, columns: list[str]) -> DataFrame:
    """Each row as often as ``DIFF`` says, whatever its sign."""
    names = backtick_all(columns)
    each = F.explode(F.sequence(F.lit(1), F.abs(DIFF).cast("int"))).alias(COPY)
    return rows.select(*names, each).select(*names)


def _group(rows: DataFrame, columns: list[str], *more: SparkColumn) -> DataFrame:
    """Each row once with the sum of its ``DIFF``."""
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
    """Values that Spark can group by, ``GROUP_i`` and ``TEXT_i``: equal exactly when rows are."""
    fields = {f.name: f.dataType for f in rows.schema.fields}
    keys: list[SparkColumn] = []
    for i, column in enumerate(columns):
        value = F.col(backtick(column))
        key = _keys_of(value, fields[column], i)
        keys += [value.alias(f"{GROUP_}{i}")] if key[0] is value else key
    return keys


def _keys_of(value: SparkColumn, kind: T.DataType, number: int) -> list[SparkColumn]:
    """The grouping keys of a column; the value itself if that is exact."""
    key = _groupable(value, kind)
    if contains(kind, T.FloatType, T.DoubleType):
        # Grouping takes -0.0 for 0.0; their texts differ, and the value itself is kept.
        text = F.to_json(F.struct(key.alias("v")))
        return [key.alias(f"{GROUP_}{number}"), text.alias(f"{TEXT_}{number}")]
    return [value] if key is value else [key.alias(f"{GROUP_}{number}")]


def _groupable(value: SparkColumn, kind: T.DataType) -> SparkColumn:
    """A value that Spark can group by.

    Spark compares no VARIANTs: their JSON text and type stand for them. Spark 4.2 groups by a map
    through ``MapSort``, whose generated code misreads a NULL among numbers, dates or booleans.
    Sorted arrays of the entries are equal when the maps are.
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
