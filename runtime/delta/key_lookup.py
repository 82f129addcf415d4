"""Finds the stored rows of an output by key, for a change of few keys.

    keys --> driver --> files whose statistics allow one of them
                    --> on a local disk: Arrow reads the rows that are not deleted
                    --> elsewhere: one scan, without deletion vectors, joined with the keys
                        --> driver --> rows that a deletion vector marks are dropped

Exact for keys of types with bitwise equality: integers, decimals, texts, dates, instants, booleans.
Spark handles other types, and more rows than :mod:`ctsql.runtime.rows.collect` allows.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T
from pyspark.sql.pandas.types import to_arrow_type

from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import FILE_COLUMN, KEY_, ROW_COLUMN
from ctsql.planner.lowering import Found, is_padded
from ctsql.runtime.delta.file_ranges import KeyRanges
from ctsql.runtime.delta.local_scan import PLACES, find_deleted, local_rows, rows_with_deleted
from ctsql.runtime.delta.parquet_reader import KeySet, OnlySpark, TooMany
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.rows.arrow_exchange import at_hand, collect_arrow
from ctsql.runtime.rows.collect import few
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.types import has_bitwise_equality, has_equality_in_files, has_read_bounds


@dataclass(frozen=True)
class Keys:
    """The keys to look for: columns of few rows.

    Attributes:
        rows: in the driver's JVM. columns: of each key, in order; one may occur twice.
        values: the same rows, if this process has them.
    """

    rows: DataFrame
    columns: Sequence[str]
    values: pa.Table | None = None

    @property
    def fields(self) -> list[T.StructField]:
        """The columns with their types."""
        schema = self.rows.schema
        return [schema[name] for name in self.columns]

    @property
    def frame(self) -> DataFrame:
        """The keys, with numbered column names."""
        return self.rows.select(
            *(F.col(backtick(n)).alias(_name(i)) for i, n in enumerate(self.columns))
        )

    def fetch(self, numbers: Sequence[int]) -> list[pa.ChunkedArray]:
        """The values of the columns with some numbers.

        As days and bytes: Python's dates and texts cannot represent all of Spark's.
        """
        if self.values is not None:
            return [self.values.column(self.columns[i]) for i in numbers]
        kinds = [self.fields[i].dataType for i in numbers]
        columns = [_fetchable(_name(i), kind) for i, kind in zip(numbers, kinds, strict=True)]
        rows = self.frame.select(*columns).collect() if numbers else []
        return [
            pa.chunked_array([_array([row[n] for row in rows], kind)])
            for n, kind in enumerate(kinds)
        ]


def find_with_keys(
    table: DeltaTable, version: int, columns: Sequence[str], keys: Keys
) -> Found | Declined:
    """The rows at a version whose columns equal, in order, those of a key.

    Declined if there are too many, or the types are not supported.
    """
    if not table.is_stored(version) or not _are_exact(table, columns, keys):
        return Declined("Spark compares keys of these types")
    # Types whose values can be compared as files store them.
    plain = [i for i, key in enumerate(keys.fields) if has_equality_in_files(key.dataType)]
    values = {columns[i]: fetched for i, fetched in zip(plain, keys.fetch(plain), strict=True)}
    files = list(table.files(version).values())
    if not table.metadata_at(version).maps_columns:
        ranges = KeyRanges(comparable_with_statistics(table.schema_at(version), values))
        files = [file for file in files if ranges.may_hold(file.statistics)]
    if not files:
        return Found(None)
    if len(values) == len(columns):
        try:
            rows = local_rows(table, files, version, [KeySet(values)])
        except TooMany as problem:
            return Declined(repr(problem))
        except OnlySpark:
            pass  # Spark reads the files, or raises if they are damaged
        else:
            located = T.StructType([*table.schema_at(version), *PLACES])
            return Found(at_hand(table.gateway.session, rows, located) if rows.num_rows else None)
    equal = (F.col(backtick(c)) == F.col(_name(i)) for i, c in enumerate(columns))
    scanned = rows_with_deleted(table, files, version)
    found = few(scanned.join(F.broadcast(keys.frame), reduce(and_, equal), "left_semi"))
    return found if isinstance(found, Declined) else Found(_alive(table, version, found))


def comparable_with_statistics(
    schema: T.StructType, keys: Mapping[str, pa.ChunkedArray]
) -> dict[str, list[int | str | None]]:
    """The values of the key columns that have statistics, as Python objects."""
    found: dict[str, list[int | str | None]] = {}
    for name, values in keys.items():
        if not has_read_bounds(schema[name].dataType):
            continue
        listed = (
            values.to_pylist()
            if isinstance(schema[name].dataType, T.IntegralType)
            else _decode(values)
        )
        if listed is not None:
            found[name] = listed
    return found


def _decode(values: pa.ChunkedArray) -> list[int | str | None] | None:
    """Decode texts; None if one is not UTF-8."""
    try:
        return [None if v is None else v.decode() for v in values.cast(pa.binary()).to_pylist()]
    except UnicodeDecodeError:
        return None


def _fetchable(name: str, kind: T.DataType) -> SparkColumn:
    """A column as it is collected: dates as days, texts as bytes."""
    if isinstance(kind, T.DateType):
        return F.unix_date(F.col(name)).alias(name)
    return F.col(name).cast("binary").alias(name) if isinstance(kind, T.StringType) else F.col(name)


def _array(values: list[Any], kind: T.DataType) -> pa.Array:
    """The values of a column of :func:`_fetchable`."""
    if isinstance(kind, T.DateType):
        return pa.array(values, pa.int32()).cast(pa.date32())
    if isinstance(kind, T.StringType):
        return pa.array([None if v is None else bytes(v) for v in values], pa.binary())
    return pa.array(values, to_arrow_type(kind))


def _name(number: int) -> str:
    return f"{KEY_}{number}"


def _are_exact(table: DeltaTable, columns: Sequence[str], keys: Keys) -> bool:
    """Whether each key has the type of its column, one with bitwise equality."""
    fields = {f.name: f for f in table.schema}
    return all(
        fields[column].dataType == key.dataType
        and has_bitwise_equality(key.dataType)
        and not (is_padded(fields[column]) or is_padded(key))
        for column, key in zip(columns, keys.fields, strict=True)
    )


def _alive(table: DeltaTable, version: int, found: DataFrame) -> DataFrame | None:
    """Drop deleted rows from few rows; None if none is left."""
    stored = found.select(FILE_COLUMN, ROW_COLUMN).collect()
    places: dict[str, array[int]] = {}
    for file, number in stored:
        places.setdefault(file, array("Q")).append(number)
    gone = find_deleted(table, version, places)
    alive = [number not in gone[file] for file, number in stored]
    if all(alive):
        return found if alive else None
    left = collect_arrow(found).filter(pa.array(alive))
    return at_hand(found.sparkSession, left, found.schema) if left.num_rows else None
