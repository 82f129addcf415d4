"""Finds the stored rows of an output by key, for a change of few keys.

    keys --> driver --> files whose statistics allow one of them
                    --> one scan of these, without deletion vectors, joined with the keys
                    --> driver --> rows that a deletion vector names are left out

Exact for keys of types whose equality is that of their bits: numbers without a fraction, decimals,
texts, dates, instants, booleans. Others are left to Spark, as is what turns out not to be few
(:mod:`ctsql.runtime.sinks.few`).
"""

from array import array
from collections.abc import Sequence
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ctsql.planner.lowering import Found
from ctsql.runtime.delta_log import FILE_COLUMN, ROW_COLUMN, DeltaTable
from ctsql.runtime.delta_lookup import deleted_among, rows_with_deleted
from ctsql.runtime.file_ranges import KeyRanges
from ctsql.runtime.sinks.correction import column_name
from ctsql.runtime.sinks.few import few

_EXACT = (
    T.IntegralType, T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BooleanType,
)  # fmt: skip
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"
"""Of a column that Spark stores as a text: how it is to be compared."""


def stored_with_keys(
    table: DeltaTable, version: int, columns: Sequence[str], keys: DataFrame
) -> Found | None:
    """The rows at a version whose columns equal, in order, those of a row of ``keys``.

    None when they are not few, or cannot be found this way.
    """
    if not table.is_stored(version) or not _are_exact(table, columns, keys):
        return None
    held = few(keys)
    if held is None:
        return None
    files = list(table.files(version).values())
    if not table.maps_columns:
        wanted = held.toArrow()
        ranges = KeyRanges({c: wanted.column(i).to_pylist() for i, c in enumerate(columns)})
        files = [add for add in files if ranges.may_hold(add.stats())]
    if not files:
        return Found(None)
    named = held.toDF(*(f"__ct_key{i}" for i in range(len(columns))))
    equal = (F.col(column_name(c)) == F.col(f"__ct_key{i}") for i, c in enumerate(columns))
    rows = rows_with_deleted(table, files)
    found = few(rows.join(F.broadcast(named), reduce(and_, equal), "left_semi"))
    return None if found is None else Found(_alive(table, version, found))


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
    rows = found.toArrow()
    files = rows.column(FILE_COLUMN).to_pylist()
    numbers = rows.column(ROW_COLUMN).to_pylist()
    places: dict[str, array[int]] = {}
    for file, number in zip(files, numbers, strict=True):
        places.setdefault(file, array("q")).append(number)
    gone = deleted_among(table, version, places)
    alive = [number not in gone[file] for file, number in zip(files, numbers, strict=True)]
    if all(alive):
        return found if alive else None
    left = rows.filter(pa.array(alive))
    return found.sparkSession.createDataFrame(left, found.schema) if left.num_rows else None
