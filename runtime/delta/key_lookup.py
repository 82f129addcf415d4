"""Finds the stored rows of an output by key, for a change of few keys.

    keys --> driver --> files whose statistics allow one of them
                    --> on a local disk: Arrow reads these and gives the rows that are not deleted
                    --> elsewhere: one scan of these, without deletion vectors, joined with the keys
                        --> driver --> rows that a deletion vector names are left out

Exact for keys of types whose equality is that of their bits: numbers without a fraction, decimals,
texts, dates, instants, booleans. Others are left to Spark, as is what turns out not to be few
(:mod:`ctsql.runtime.rows.collect`).
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
from ctsql.runtime.log.data_files import DataFile
from ctsql.runtime.rows.arrow_exchange import at_hand, collect_arrow
from ctsql.runtime.rows.collect import few
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.types import has_bitwise_equality, has_equality_in_files, has_read_bounds


@dataclass(frozen=True)
class Keys:
    """The keys to look for: columns of few rows.

    Attributes:
        rows: held by the driver. columns: of each key, in order; one may be there twice.
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
        """The keys, with the columns' places as their names."""
        return self.rows.select(
            *(F.col(backtick(n)).alias(_name(i)) for i, n in enumerate(self.columns))
        )

    def listed(self, places: Sequence[int]) -> list[pa.ChunkedArray]:
        """The columns at some places, each with its value in each key.

        Not by way of Python's dates and texts, which cannot be all that Spark's can.
        """
        if self.values is not None:
            return [self.values.column(self.columns[i]) for i in places]
        kinds = [self.fields[i].dataType for i in places]
        told = [_fetchable(_name(i), kind) for i, kind in zip(places, kinds, strict=True)]
        rows = self.frame.select(*told).collect() if places else []
        return [
            pa.chunked_array([_array([row[n] for row in rows], kind)])
            for n, kind in enumerate(kinds)
        ]


def find_with_keys(
    table: DeltaTable, version: int, columns: Sequence[str], keys: Keys
) -> Found | Declined:
    """The rows at a version whose columns equal, in order, those of a key.

    Declined when they are not few, or cannot be found this way.
    """
    if not table.is_stored(version) or not _are_exact(table, columns, keys):
        return Declined("Spark compares keys of these types")
    # Of these types it can be read from files which value equals which.
    plain = [i for i, key in enumerate(keys.fields) if has_equality_in_files(key.dataType)]
    values = {columns[i]: listed for i, listed in zip(plain, keys.listed(plain), strict=True)}
    files = list(table.files(version).values())
    if not table.metadata_at(version).maps_columns:
        ranges = KeyRanges(comparable_with_statistics(table.schema_at(version), values))
        files = [file for file in files if ranges.may_hold(file.statistics)]
    if not files:
        return Found(None)
    if len(values) == len(columns):
        try:
            return _found_locally(table, version, files, values)
        except TooMany as problem:
            return Declined(repr(problem))
        except OnlySpark:
            pass  # it reads them, or says what is wrong with them
    equal = (F.col(backtick(c)) == F.col(_name(i)) for i, c in enumerate(columns))
    scanned = rows_with_deleted(table, files, version)
    found = few(scanned.join(F.broadcast(keys.frame), reduce(and_, equal), "left_semi"))
    return found if isinstance(found, Declined) else Found(_alive(table, version, found))


def comparable_with_statistics(
    schema: T.StructType, keys: Mapping[str, pa.ChunkedArray]
) -> dict[str, list[int | str | None]]:
    """The keys' columns that files' statistics say something of, as Python has the values."""
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
    """Texts; None where one of them is not UTF-8."""
    try:
        return [None if v is None else v.decode() for v in values.cast(pa.binary()).to_pylist()]
    except UnicodeDecodeError:
        return None


def _fetchable(name: str, kind: T.DataType) -> SparkColumn:
    """How a column is brought to Python: dates as days, texts as bytes."""
    if isinstance(kind, T.DateType):
        return F.unix_date(F.col(name)).alias(name)
    return F.col(name).cast("binary").alias(name) if isinstance(kind, T.StringType) else F.col(name)


def _array(values: list[Any], kind: T.DataType) -> pa.Array:
    """A column that was brought to Python so."""
    if isinstance(kind, T.DateType):
        return pa.array(values, pa.int32()).cast(pa.date32())
    if isinstance(kind, T.StringType):
        return pa.array([None if v is None else bytes(v) for v in values], pa.binary())
    return pa.array(values, to_arrow_type(kind))


def _found_locally(
    table: DeltaTable,
    version: int,
    files: Sequence[DataFile],
    values: Mapping[str, pa.ChunkedArray],
) -> Found:
    rows = local_rows(table, files, version, [KeySet(values)])
    located = T.StructType([*table.schema_at(version), *PLACES])
    return Found(at_hand(table.gateway.session, rows, located) if rows.num_rows else None)


def _name(place: int) -> str:
    return f"{KEY_}{place}"


def _are_exact(table: DeltaTable, columns: Sequence[str], keys: Keys) -> bool:
    """Does each key have the type of its column, and one whose equality is that of its bits?"""
    fields = {f.name: f for f in table.schema}
    return all(
        fields[column].dataType == key.dataType
        and has_bitwise_equality(key.dataType)
        and not (is_padded(fields[column]) or is_padded(key))
        for column, key in zip(columns, keys.fields, strict=True)
    )


def _alive(table: DeltaTable, version: int, found: DataFrame) -> DataFrame | None:
    """Those of few rows that are not deleted; None for none."""
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
