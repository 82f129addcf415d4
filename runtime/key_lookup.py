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
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.planner.lowering import Found
from ctsql.runtime.delta_log import FILE_COLUMN, ROW_COLUMN, DeltaTable
from ctsql.runtime.delta_lookup import deleted_among, rows_with_deleted
from ctsql.runtime.file_ranges import KeyRanges
from ctsql.runtime.sinks.correction import column_name
from ctsql.runtime.sinks.few import few

_EXACT = (
    T.IntegralType, T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BooleanType,
)  # fmt: skip
AddFile = Any
"""Delta's, of the JVM."""
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
    files = _files(table, version, columns, keys)
    if not files:
        return Found(None)
    equal = (F.col(column_name(c)) == F.col(_name(i)) for i, c in enumerate(columns))
    scanned = rows_with_deleted(table, files)
    found = few(scanned.join(F.broadcast(keys), reduce(and_, equal), "left_semi"))
    return None if found is None else Found(_alive(table, version, found))


def _name(place: int) -> str:
    return f"__ct_key{place}"


def _files(
    table: DeltaTable, version: int, columns: Sequence[str], keys: DataFrame
) -> list[AddFile]:
    """The files that may hold one of the keys."""
    files: list[AddFile] = list(table.files(version).values())
    told = [
        i
        for i, column in enumerate(columns)
        if isinstance(table.schema[column].dataType, T.IntegralType | T.StringType)
    ]
    if table.maps_columns or not told:
        return files
    rows = keys.select(*(_name(i) for i in told)).collect()
    ranges = KeyRanges({columns[i]: [row[n] for row in rows] for n, i in enumerate(told)})
    return [add for add in files if ranges.may_hold(add.stats())]


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
        places.setdefault(file, array("q")).append(number)
    gone = deleted_among(table, version, places)
    alive = [number not in gone[file] for file, number in stored]
    if all(alive):
        return found if alive else None
    left = found.toArrow().filter(pa.array(alive))
    return found.sparkSession.createDataFrame(left, found.schema) if left.num_rows else None
