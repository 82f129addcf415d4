"""Finds the stored rows of an output by key, for a change of few keys.

    keys --> driver --> files whose statistics allow one of them
                    --> on a local disk: Arrow reads these and gives the rows that are not deleted
                    --> elsewhere: one scan of these, without deletion vectors, joined with the keys
                        --> driver --> rows that a deletion vector names are left out

Exact for keys of types whose equality is that of their bits: numbers without a fraction, decimals,
texts, dates, instants, booleans. Others are left to Spark, as is what turns out not to be few
(:mod:`ctsql.runtime.sinks.few`).
"""

from array import array
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.planner.lowering import Found
from ctsql.runtime.data_files import DataFile
from ctsql.runtime.delta_log import FILE_COLUMN, ROW_COLUMN, DeltaTable
from ctsql.runtime.delta_lookup import deleted_among, rows_with_deleted
from ctsql.runtime.file_ranges import KeyRanges
from ctsql.runtime.local_lookup import LocalFile, OnlySpark, TooMany, find, is_flat
from ctsql.runtime.sinks.correction import column_name
from ctsql.runtime.sinks.few import DRIVER_ROW_BYTES_MAX, DRIVER_ROWS_MAX, at_hand, few
from ctsql.runtime.spark_errors import converted

_EXACT = (
    T.IntegralType, T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BooleanType,
)  # fmt: skip
_LISTED = (T.IntegralType, T.DecimalType, T.DateType, T.BooleanType, T.StringType)
_PLACES = (T.StructField(FILE_COLUMN, T.StringType()), T.StructField(ROW_COLUMN, T.LongType()))
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"
"""Of a column that Spark stores as a text: how it is to be compared."""


def key_columns(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """The keys of rows, as :func:`stored_with_keys` wants them; a column may be there twice."""
    return rows.select(*(F.col(column_name(n)).alias(_name(i)) for i, n in enumerate(names)))


def stored_with_keys(
    table: DeltaTable, version: int, columns: Sequence[str], keys: DataFrame
) -> Found | None:
    """The rows at a version whose columns equal, in order, those of a row of ``keys``.

    None when they are not few, or cannot be found this way.

    Args:
        keys: few rows of :func:`key_columns`, held by the driver.
    """
    if not table.is_stored(version) or not _are_exact(table, columns, keys):
        return None
    values = _values(columns, keys)
    ranges = KeyRanges({c: v for c, v in values.items() if _is_told(table.schema[c])})
    files = list(table.files(version).values())
    if not table.maps_columns:
        files = [file for file in files if ranges.may_hold(file.statistics)]
    if not files:
        return Found(None)
    if len(values) == len(columns):
        paths = table.local_paths(files)
        if paths is not None and is_flat(table.schema):
            try:
                return _found_locally(table, dict(zip(paths, files, strict=True)), values)
            except TooMany:
                return None
            except OnlySpark:
                pass  # it reads them, or says what is wrong with them
    equal = (F.col(column_name(c)) == F.col(_name(i)) for i, c in enumerate(columns))
    scanned = rows_with_deleted(table, files)
    found = few(scanned.join(F.broadcast(keys), reduce(and_, equal), "left_semi"))
    return None if found is None else Found(_alive(table, version, found))


def _values(columns: Sequence[str], keys: DataFrame) -> dict[str, list[Any]]:
    """Each column's value in each key, for types whose values Python has as they are."""
    listed = {
        column: _name(i)
        for i, (column, key) in enumerate(zip(columns, keys.schema.fields, strict=True))
        if isinstance(key.dataType, _LISTED)
    }
    rows = keys.select(*listed.values()).collect() if listed else []
    return {column: [row[i] for row in rows] for i, column in enumerate(listed)}


def _is_told(field: T.StructField) -> bool:
    """Do a file's statistics write the values of a column as Python has them?"""
    return isinstance(field.dataType, T.IntegralType | T.StringType)


def _found_locally(
    table: DeltaTable, files: Mapping[Path, DataFile], values: Mapping[str, Sequence[Any]]
) -> Found:
    """The rows of files on a local disk that have a key."""
    with converted():
        looked = [
            LocalFile(file.path, path, table.vectors.deleted_rows(file))
            for path, file in files.items()
        ]
    rows = find(
        looked,
        table.schema,
        values,
        places=(FILE_COLUMN, ROW_COLUMN),
        rows_max=DRIVER_ROWS_MAX,
        bytes_max=DRIVER_ROWS_MAX * DRIVER_ROW_BYTES_MAX,
    )
    if not rows.num_rows:
        return Found(None)
    located = T.StructType(
        [
            *table.schema,
            T.StructField(FILE_COLUMN, T.StringType()),
            T.StructField(ROW_COLUMN, T.LongType()),
        ]
    )
    return Found(at_hand(table.gateway.session, rows, located))


def _name(place: int) -> str:
    return f"__ct_key{place}"


def _are_exact(table: DeltaTable, columns: Sequence[str], keys: DataFrame) -> bool:
    """Does each key have the type of its column, and one whose equality is that of its bits?"""
    fields = {f.name: f for f in table.schema}
    return all(
        fields[column].dataType == key.dataType
        and (isinstance(key.dataType, _EXACT) or key.dataType == T.StringType())
        and not (_PADDED in fields[column].metadata or _PADDED in key.metadata)
        for column, key in zip(columns, keys.schema.fields, strict=True)
    )


def _alive(table: DeltaTable, version: int, found: DataFrame) -> DataFrame | None:
    """Those of few rows that are not deleted; None for none."""
    stored = found.select(FILE_COLUMN, ROW_COLUMN).collect()
    places: dict[str, array[int]] = {}
    for file, number in stored:
        places.setdefault(file, array("Q")).append(number)
    gone = deleted_among(table, version, places)
    alive = [number not in gone[file] for file, number in stored]
    if all(alive):
        return found if alive else None
    left = found.toArrow().filter(pa.array(alive))
    return at_hand(found.sparkSession, left, found.schema) if left.num_rows else None
