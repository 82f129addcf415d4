"""Reads few rows of Parquet files on a local disk, without Spark: all, or those with a key.

A table on a local disk is read by the machine that the driver runs on, and what is asked for is a
thousand rows, of millions or in a new file: Arrow takes a quarter of the time of a Spark job. All
columns are read in small batches, a row group by each core, so that what is held is bounded by
what is found.

Only for columns whose values Arrow gives as Spark would: no nested ones, and no dates or instants
that an old calendar wrote.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

FLAT = (
    T.IntegralType, T.FloatType, T.DoubleType, T.DecimalType, T.BooleanType, T.BinaryType,
    T.DateType, T.TimestampType, T.TimestampNTZType,
)  # fmt: skip
BATCH_ROWS = 1 << 15
BATCH_BYTES = 32 * 1024 * 1024
"""Of the values as the file says they are; a text that it holds once may be there often."""
_SPARK_VERSION = b"org.apache.spark.version"
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to look into.

    Attributes:
        name: what is told of the rows found in it. deleted: rows that are not to be found.
        only: the numbers of the rows to be found; None for any.
    """

    name: str
    path: Path
    deleted: BitMap64
    only: BitMap64 | None = None


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys, of which a row that is looked for has one.

    Attributes:
        columns: column to its value in each key; neither fractions nor instants.
        nulls_equal: does NULL equal NULL? Otherwise a key with one is not found.
    """

    columns: Mapping[str, Sequence[Any] | pa.ChunkedArray]
    nulls_equal: bool = False


class OnlySpark(Exception):
    """The files hold something that only Spark reads as Spark does, or are damaged."""


class TooMany(Exception):
    """There are more of the rows that are wanted than may be given."""


def is_flat(schema: T.StructType) -> bool:
    """Does Arrow give the values of all columns as Spark would?"""
    return all(isinstance(f.dataType, FLAT) or f.dataType == T.StringType() for f in schema.fields)


def has_old_calendar(metadata: Mapping[bytes, bytes]) -> bool:
    """May dates and instants before 1900 be those of the Julian calendar?

    >>> has_old_calendar({b"org.apache.spark.version": b"2.4.8"})
    True
    """
    is_old = metadata.get(_SPARK_VERSION, b"4").startswith((b"1.", b"2."))
    return is_old or any(mark in metadata for mark in _OLD_CALENDAR)


def find(
    files: Sequence[LocalFile],
    schema: T.StructType,
    keys: Sequence[KeySet],
    *,
    places: tuple[str, str],
    rows_max: int,
    bytes_max: int,
) -> pa.Table:
    """The rows whose columns equal those of a key of any set; without a set, all rows.

    Args:
        schema: of the rows, with the keys' columns; see :func:`is_flat`.
        places: two more columns, for the name of a row's file and its number there.
        rows_max, bytes_max: how much is given at most.

    Raises:
        OnlySpark, TooMany.
    """
    wanted = _Wanted(to_arrow_schema(schema, timezone="UTC"), keys, places, rows_max, bytes_max)
    try:
        opened = [(file, pq.read_metadata(file.path)) for file in files]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            looking = [
                pool.submit(_in_group, file, told, group, wanted)
                for file, told in opened
                for group in range(told.num_row_groups)
            ]
            parts = [part.result() for part in looking]
    except (OSError, pa.ArrowException) as problem:
        raise OnlySpark(str(problem)) from problem
    found = pa.concat_tables([wanted.located.empty_table(), *parts])
    wanted.check(found.num_rows, found.nbytes)
    return found


class _Keys:
    """The keys of a set, as a batch of rows is asked for them.

    Several columns: a row that has some key's value in each may yet have it of different keys.
    """

    def __init__(self, keys: KeySet, schema: pa.Schema) -> None:
        self.nulls_equal = keys.nulls_equal
        self.values = {}
        for name, listed in keys.columns.items():
            values = _array(listed, schema.field(name).type).unique()
            self.values[name] = values if self.nulls_equal else values.drop_null()
        self.tuples = set()
        if len(self.values) > 1:
            columns = (_array(c, schema.field(n).type).to_pylist() for n, c in keys.columns.items())
            self.tuples = {
                key for key in zip(*columns, strict=True) if self.nulls_equal or None not in key
            }

    def matches(self, batch: pa.RecordBatch) -> Any:
        """Which rows of a batch of the file's own columns have a key, as an array of booleans."""
        if not set(batch.schema.names).issuperset(self.values):
            if self.nulls_equal and any(v.null_count for v in self.values.values()):
                raise OnlySpark("the file is older than a key column, and NULL is looked for")
            return np.zeros(len(batch), bool)
        each = (
            pc.is_in(batch.column(name).cast(values.type), value_set=values)
            for name, values in self.values.items()
        )
        found = reduce(pc.and_, each).to_numpy(zero_copy_only=False)
        if len(self.values) > 1:
            (numbers,) = found.nonzero()
            columns = [batch.column(c).take(pa.array(numbers)).to_pylist() for c in self.values]
            is_key = [key in self.tuples for key in zip(*columns, strict=True)]
            found[numbers] = np.array(is_key, bool)
        return found


def _array(values: Sequence[Any] | pa.ChunkedArray, data_type: pa.DataType) -> Any:
    """The values of a column as Arrow has them."""
    if isinstance(values, pa.ChunkedArray):
        return values.cast(data_type)
    return pa.array(values, data_type)


class _Wanted:
    """What is looked for, and the columns that are read."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[KeySet],
        places: tuple[str, str],
        rows_max: int,
        bytes_max: int,
    ) -> None:
        self.schema, self.rows_max, self.bytes_max = schema, rows_max, bytes_max
        file, row = places
        self.located = schema.append(pa.field(file, pa.string())).append(pa.field(row, pa.int64()))
        self.keys = [_Keys(one, schema) for one in keys]

    def rows_in(self, batch: pa.RecordBatch, file: LocalFile, first: int) -> Any:
        """The numbers in a batch of its rows that are wanted; ``first`` is the file's for 0."""
        if file.only is not None:
            within = file.only & BitMap64(range(first, first + len(batch)))
            numbers = np.array(within, np.int64) - first
        elif self.keys:
            (numbers,) = reduce(np.logical_or, (k.matches(batch) for k in self.keys)).nonzero()
        else:
            numbers = np.arange(len(batch))
        if not file.deleted or not len(numbers):
            return numbers
        return numbers[np.array([n + first not in file.deleted for n in numbers.tolist()], bool)]

    def check(self, rows_count: int, bytes_count: int) -> None:
        """Raise TooMany when that is more than is wanted."""
        if rows_count > self.rows_max or bytes_count > self.bytes_max:
            raise TooMany

    def rows(self, batch: pa.RecordBatch, numbers: Any, file: LocalFile, first: int) -> pa.Table:
        """Some rows of a batch, as the table has them; a column that the file lacks is NULL."""
        chosen = batch.take(pa.array(numbers))
        there = set(batch.schema.names)
        values = [
            chosen.column(f.name).cast(f.type) if f.name in there else pa.nulls(len(chosen), f.type)
            for f in self.schema
        ]
        names = pa.array([file.name] * len(chosen), pa.string())
        return pa.table([*values, names, pa.array(numbers + first, pa.int64())], self.located)


def _in_group(file: LocalFile, told: pq.FileMetaData, group: int, wanted: _Wanted) -> pa.Table:
    """What is found in a row group."""
    if has_old_calendar(told.metadata or {}):
        raise OnlySpark(f"{file.path} holds dates of another calendar")
    found = [wanted.located.empty_table()]
    rows_count = bytes_count = 0
    rows_there = told.row_group(group).num_rows
    row_bytes = told.row_group(group).total_byte_size // rows_there
    batch_rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, row_bytes)))
    first = sum(told.row_group(i).num_rows for i in range(group))
    if file.only is not None and not file.only.range_cardinality(first, first + rows_there):
        return found[0]
    with pq.ParquetFile(
        file.path, metadata=told, memory_map=True, coerce_int96_timestamp_unit="us"
    ) as stored:
        there = set(stored.schema_arrow.names)
        columns = [name for name in wanted.schema.names if name in there]
        columns = columns or stored.schema_arrow.names[:1]  # rows without a column are not counted
        for batch in stored.iter_batches(batch_rows, [group], columns, use_threads=False):
            rows = wanted.rows_in(batch, file, first)
            if len(rows):
                found.append(wanted.rows(batch, rows, file, first))
                rows_count += len(rows)
                bytes_count += found[-1].nbytes
                wanted.check(rows_count, bytes_count)
            first += len(batch)
    return pa.concat_tables(found)
