"""Desired minus stored, as multisets; and how the difference gets into an attempt.

Equality of rows is Spark's grouping equality made exact: NULL equals NULL, NaN equals NaN, and
0.0 differs from -0.0 (which Spark's GROUP BY would merge, changing what is stored). Of n equal
stored rows of which k must go, the first k by file and row number go.

A small difference comes to the driver as Arrow and is written as one file. Past
``DRIVER_ROWS_MAX`` rows nothing but row numbers, one file's at a time, comes to the driver.
"""

from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ctsql.runtime.delta_log import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.write_handle import Attempt

DRIVER_ROWS_MAX = 10_000
COPIES = "__ct_n"
PLACES = "__ct_at"
_PLACES_TYPE = "array<struct<file:string,row:bigint>>"


def difference(
    desired: DataFrame | None, stored: DataFrame | None, columns: list[str]
) -> DataFrame | None:
    """The rows to insert and to delete, or None when there is nothing to look at.

    Args:
        desired: rows that should be there. stored: rows that are, with the columns that locate
            them. columns: the output's, in order.

    Returns:
        The columns, ``COPIES`` (copies to insert, or if negative to delete) and ``PLACES``
        (where the copies to delete are).
    """
    names = [_name(c) for c in columns]
    no_places = F.expr(f"CAST(array() AS {_PLACES_TYPE})").alias(PLACES)
    if desired is None and stored is None:
        return None
    if stored is None:
        assert desired is not None
        return desired.select(*names, F.lit(1).cast("bigint").alias(COPIES), no_places)
    place = F.struct(F.col(FILE_COLUMN).alias("file"), F.col(ROW_COLUMN).alias("row"))
    if desired is None:
        return stored.select(
            *names, F.lit(-1).cast("bigint").alias(COPIES), F.array(place).alias(PLACES)
        )
    weight, at = "__ct_w", "__ct_p"
    both = desired.select(
        *names, F.lit(1).alias(weight), F.lit(None).cast("struct<file:string,row:bigint>").alias(at)
    ).unionAll(stored.select(*names, F.lit(-1).alias(weight), place.alias(at)))
    fields = {f.name: f.dataType for f in desired.schema.fields}
    keys: list[SparkColumn] = []
    kept: list[SparkColumn] = []
    for i, column in enumerate(columns):
        keys.append(F.col(_name(column)))
        if _has_float(fields[column]):
            # Grouping takes -0.0 for 0.0; their texts differ, and the value itself is kept.
            text = F.to_json(F.struct(F.col(_name(column)).alias("v")))
            keys[-1] = keys[-1].alias(f"__ct_k{i}")
            keys.append(text.alias(f"__ct_s{i}"))
            kept.append(F.any_value(F.col(_name(column))).alias(column))
    grouped = both.groupBy(*keys).agg(
        F.sum(weight).alias(COPIES), F.sort_array(F.collect_list(at)).alias(PLACES), *kept
    )
    changed = grouped.where(F.col(COPIES) != 0)
    places = F.slice(F.col(PLACES), 1, F.greatest(-F.col(COPIES), F.lit(0)).cast("int"))
    return changed.select(*names, COPIES, places.alias(PLACES))


def inserted(change_rows: DataFrame, columns: list[str]) -> DataFrame:
    """The rows a change feed inserts, net: rows that a commit takes out and puts back cancel."""
    names = [_name(c) for c in columns]
    is_insert = F.col("_change_type").isin("insert", "update_postimage")
    weighted = change_rows.select(*names, F.when(is_insert, 1).otherwise(-1).alias(COPIES))
    summed = weighted.groupBy(*names).agg(F.sum(COPIES).alias(COPIES)).where(F.col(COPIES) > 0)
    return summed.select(*names, _copies()).select(*names)


def write(attempt: Attempt, change: DataFrame | None, columns: list[str]) -> bool:
    """Stage a difference; says whether there was any.

    Args:
        change: what :func:`difference` gave.
    """
    if change is None:
        return False
    if _fits_arrow(change.schema):
        rows = change.limit(DRIVER_ROWS_MAX + 1).toArrow()
        if rows.num_rows <= DRIVER_ROWS_MAX:
            return _write_small(attempt, rows, change, columns)
    return _write_large(attempt, change, columns)


def _write_small(attempt: Attempt, rows: pa.Table, change: DataFrame, columns: list[str]) -> bool:
    copies = rows.column(COPIES).to_pylist()
    taken = [i for i, n in enumerate(copies) for _ in range(n)]
    if taken:
        fresh = rows.select(columns).take(pa.array(taken, pa.int64()))
        schema = T.StructType([change.schema[c] for c in columns])
        attempt.stage(change.sparkSession.createDataFrame(fresh, schema).coalesce(1))
    victims: dict[str, array[int]] = {}
    for n, places in zip(copies, rows.column(PLACES).to_pylist(), strict=True):
        for place in places if n < 0 else ():
            victims.setdefault(place["file"], array("q")).append(place["row"])
    if victims:
        attempt.delete_rows((file, packed(rows)) for file, rows in victims.items())
    return bool(taken or victims)


def _write_large(attempt: Attempt, change: DataFrame, columns: list[str]) -> bool:
    names = [_name(c) for c in columns]
    with persisted(change) as kept:
        counted = kept.agg(
            F.sum(F.greatest(F.col(COPIES), F.lit(0))).alias("i"),
            F.sum(F.greatest(-F.col(COPIES), F.lit(0))).alias("d"),
        ).first()
        assert counted is not None  # an aggregate without groups gives one row
        if counted["i"]:
            fresh = kept.where(F.col(COPIES) > 0).select(*names, _copies()).select(*names)
            attempt.stage(fresh)
        if counted["d"]:
            exploded = kept.where(F.col(COPIES) < 0).select(F.explode(PLACES).alias("p"))
            by_file = exploded.groupBy("p.file").agg(F.collect_list("p.row").alias("rows"))
            attempt.delete_rows(_victims(by_file))
        return bool(counted["i"] or counted["d"])


def _victims(by_file: DataFrame) -> Iterator[tuple[str, bytes]]:
    for row in by_file.toLocalIterator():
        yield row["file"], packed(row["rows"])


def packed(rows: Iterable[int]) -> bytes:
    """Row numbers as big-endian 64-bit integers."""
    numbers = array("q", rows)
    numbers.byteswap()
    return numbers.tobytes()


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, computed once however often they are read inside."""
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _copies() -> SparkColumn:
    return F.explode(F.sequence(F.lit(1), F.col(COPIES).cast("int"))).alias("__ct_copy")


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _has_float(data_type: T.DataType) -> bool:
    match data_type:
        case T.FloatType() | T.DoubleType():
            return True
        case T.ArrayType():
            return _has_float(data_type.elementType)
        case T.MapType():
            return _has_float(data_type.keyType) or _has_float(data_type.valueType)
        case T.StructType():
            return any(_has_float(f.dataType) for f in data_type.fields)
        case _:
            return False


def _fits_arrow(data_type: T.DataType) -> bool:
    match data_type:
        case T.StructType():
            return all(_fits_arrow(f.dataType) for f in data_type.fields)
        case T.ArrayType():
            return _fits_arrow(data_type.elementType)
        case T.MapType():
            return _fits_arrow(data_type.keyType) and _fits_arrow(data_type.valueType)
        case T.YearMonthIntervalType() | T.CalendarIntervalType() | T.VariantType():
            return False
        case _:
            return True
