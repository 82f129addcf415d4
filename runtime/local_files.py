"""Reads few rows of Parquet files on a local disk, without Spark: all, or those with a key.

A table on a local disk is read by the machine that the driver runs on, and what is asked for is a
thousand rows, of millions or in a new file. DuckDB looks at the columns of the keys first, and at
others only where a key is; it takes a tenth of the time of a Spark job.

Only for columns whose values it gives as Spark would: no nested ones, and no dates or instants
that an old calendar wrote. A file's own types are those of its Arrow schema; each file is read as
its types are, and a value is brought to the table's type by Arrow, which refuses to lose any of it.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from ctsql.catalog.names import double_quoted
from ctsql.planner.lowering import is_padded
from ctsql.runtime.duck import connect

FLAT = (
    T.IntegralType, T.FloatType, T.DoubleType, T.DecimalType, T.BooleanType, T.BinaryType,
    T.DateType, T.TimestampType, T.TimestampNTZType,
)  # fmt: skip
BATCH_ROWS = 1 << 14
"""Rows after which it is looked whether there are too many, or too large ones."""
_FILE, _ROW = "__ct_file", "__ct_row"
_SPARK_VERSION = b"org.apache.spark.version"
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to look into.

    Attributes:
        name: what is told of the rows found in it. deleted: rows that are not to be found.
        only: the numbers of the rows among which is looked; None for all.
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
    return all(
        isinstance(f.dataType, FLAT) or (f.dataType == T.StringType() and not is_padded(f))
        for f in schema.fields
    )


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
    try:
        with closing(_shared().cursor()) as connection:
            search = _Search(connection, schema, keys, places, rows_max, bytes_max)
            for file in files:
                search.check(file.path)
            for file in files:
                if file.only is not None:
                    has_key = search.condition(_layout(file.path).schema)
                    search.read([file], f"{search.is_among(file.only)} AND ({has_key})")
            whole: dict[pa.Schema, list[LocalFile]] = {}
            for file in files:
                if file.only is None:
                    whole.setdefault(_layout(file.path).schema, []).append(file)
            for layout, alike in whole.items():
                search.read(alike, search.condition(layout))
            return search.found()
    except (OSError, pa.ArrowException, duckdb.Error) as problem:
        if isinstance(problem, duckdb.FatalException):
            _shared.cache_clear()  # this database refuses everything now
        raise OnlySpark(str(problem)) from problem


@lru_cache(maxsize=1)
def _shared() -> duckdb.DuckDBPyConnection:
    """A database of this process without a table; each search has a cursor of its own."""
    return connect(os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a file says of itself."""

    schema: pa.Schema
    is_old: bool


@lru_cache(maxsize=50_000)
def _layout(path: Path) -> _Layout:
    """Of a file that never changes."""
    told = pq.read_metadata(path)
    schema = told.schema.to_arrow_schema().remove_metadata()
    return _Layout(schema, has_old_calendar(told.metadata or {}))


class _Search:
    """What is looked for, and what was found."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        schema: T.StructType,
        keys: Sequence[KeySet],
        places: tuple[str, str],
        rows_max: int,
        bytes_max: int,
    ) -> None:
        self.connection = connection
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.rows_max, self.bytes_max = rows_max, bytes_max
        file, row = places
        self.located = self.schema.append(pa.field(file, pa.string()))
        self.located = self.located.append(pa.field(row, pa.int64()))
        self.parts = [self.located.empty_table()]
        self.keys = [self._keys(number, one) for number, one in enumerate(keys)]
        self._numbers = 0

    def check(self, path: Path) -> None:
        """Refuse a file that only Spark reads as Spark does."""
        if _layout(path).is_old:
            raise OnlySpark(f"{path} holds dates of another calendar")

    def _keys(self, number: int, keys: KeySet) -> tuple[str, pa.Table]:
        """A set's keys as a relation; instants and fractions are none."""
        columns = {
            name: _array(values, self.schema.field(name).type)
            for name, values in keys.columns.items()
        }
        table = pa.table(columns)
        if not keys.nulls_equal:
            table = table.drop_null()
        name = f"{_FILE}_keys_{number}"
        self.connection.register(name, table)
        return name, table

    def is_among(self, rows: BitMap64) -> str:
        """Has a row one of some numbers?"""
        self._numbers += 1
        name = f"{_ROW}_numbers_{self._numbers}"
        self.connection.register(name, pa.table({"n": pa.array(list(rows), pa.int64())}))
        return f"f.file_row_number IN (SELECT n FROM {name})"

    def condition(self, layout: pa.Schema) -> str:
        """What a row of files with some columns must meet to be found."""
        if not self.keys:
            return "true"
        tests = []
        for name, table in self.keys:
            if set(layout.names).issuperset(table.schema.names):
                tests.append(_has_key(name, table))
            elif any(column.null_count for column in table.columns):
                raise OnlySpark("a file is older than a key column, and NULL is looked for")
        return " OR ".join(tests) or "false"

    def read(self, files: Sequence[LocalFile], condition: str) -> None:
        """Read the rows of files of one layout that meet a condition."""
        if condition == "false":
            return
        layout = _layout(files[0].path).schema
        there = [_value(layout.field(f.name)) for f in self.schema if f.name in layout.names]
        listed = ", ".join([*there, f'"filename" AS {_FILE}', f'"file_row_number" AS {_ROW}'])
        paths = ", ".join("'" + str(f.path).replace("'", "''") + "'" for f in files)
        gone = sum(len(f.deleted) for f in files)
        source = f"read_parquet([{paths}], filename = true, file_row_number = true)"
        text = (
            f"SELECT {listed} FROM {source} AS f WHERE {condition} LIMIT {self.rows_max + gone + 1}"
        )
        names = {str(f.path): f for f in files}
        reader = self.connection.execute(text).to_arrow_reader(BATCH_ROWS)
        for batch in reader:
            self._add(pa.Table.from_batches([batch]), layout, names)

    def _add(self, rows: pa.Table, layout: pa.Schema, files: Mapping[str, LocalFile]) -> None:
        """Keep rows that are not deleted, as the table has them."""
        places = rows.column(_FILE).combine_chunks().dictionary_encode()
        left = _left(places, rows.column(_ROW), {p: f.deleted for p, f in files.items()})
        if left is not None:
            rows, places = rows.filter(left), places.filter(left)
        values = []
        for field in self.schema:
            if field.name in layout.names:
                values.append(_given(rows.column(field.name), layout.field(field.name), field.type))
            else:
                values.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
        names = pa.array([files[p].name for p in places.dictionary.to_pylist()], pa.string())
        found = [*values, names.take(places.indices), rows.column(_ROW)]
        self.parts.append(pa.table(found, self.located))
        found_rows = sum(part.num_rows for part in self.parts)
        if found_rows > self.rows_max or sum(p.nbytes for p in self.parts) > self.bytes_max:
            raise TooMany

    def found(self) -> pa.Table:
        """All that was found."""
        return pa.concat_tables(self.parts)


def _has_key(name: str, keys: pa.Table) -> str:
    """Has a row a key of a relation? Plain equalities, by which parts of files are passed over."""
    tests = []
    for nulls in _null_patterns(keys):
        tested = [f"f.{double_quoted(c)} IS NULL" for c in nulls]
        told = [c for c in keys.schema.names if c not in nulls]
        if told:
            tested += [w for c in told if (w := _within(c, keys.column(c)))]
            mine = ", ".join(f"f.{double_quoted(c)}" for c in told)
            theirs = ", ".join(map(double_quoted, told))
            among = " AND ".join(
                f"{double_quoted(c)} IS {'' if c in nulls else 'NOT '}NULL"
                for c in keys.schema.names
            )
            tested.append(f"({mine}) IN (SELECT {theirs} FROM {name} WHERE {among})")
        tests.append(f"({' AND '.join(tested)})")
    return " OR ".join(tests) or "false"


def _null_patterns(keys: pa.Table) -> list[frozenset[str]]:
    """Which columns are NULL together in some key."""
    names = keys.schema.names
    if not any(column.null_count for column in keys.columns):
        return [frozenset()] if keys.num_rows else []
    # Arrow reads a name that begins with a dot or a bracket as a path: numbers stand in.
    numbers = [str(n) for n in range(len(names))]
    masks = pa.table([pc.is_null(column) for column in keys.columns], numbers)
    return [
        frozenset(names[int(number)] for number, is_null in row.items() if is_null)
        for row in masks.group_by(numbers).aggregate([]).to_pylist()
    ]


def _within(column: str, values: pa.ChunkedArray) -> str:
    """Between the least and the greatest number, by which whole parts of a file are passed over."""
    ends = pc.min_max(values) if pa.types.is_integer(values.type) else None
    if ends is None or not ends["min"].is_valid:
        return ""
    return f"f.{double_quoted(column)} BETWEEN {ends['min']} AND {ends['max']}"


def not_deleted(
    rows: pa.Table, places: tuple[str, str], deleted: Mapping[str, BitMap64]
) -> pa.Table:
    """The rows that are in some files and not deleted there.

    Args:
        places: the columns with the name of a row's file, and its number there.
        deleted: of each of the files, by name.
    """
    file, number = places
    coded = rows.column(file).combine_chunks().dictionary_encode()
    left = _left(coded, rows.column(number), deleted)
    return rows if left is None else rows.filter(left)


def _left(
    places: pa.DictionaryArray, rows: pa.ChunkedArray, files: Mapping[str, BitMap64]
) -> pa.Array | None:
    """Which rows are not deleted, by the name of each one's file and its number; None for all."""
    codes, numbers = places.indices.to_numpy(), rows.to_numpy()
    gone = np.zeros(len(numbers), bool)
    for code, name in enumerate(places.dictionary.to_pylist()):
        deleted = files.get(name)
        if deleted is None:
            gone |= codes == code
        elif deleted:
            mine = codes == code
            met = deleted & BitMap64(numbers[mine].tolist())
            gone[mine] = np.isin(numbers[mine], np.array(list(met), np.int64))
    return pa.array(~gone) if gone.any() else None


def _value(field: pa.Field) -> str:
    """How a column is asked for: an instant as a number, whose zone is then nobody's matter."""
    name = double_quoted(field.name)
    if not pa.types.is_timestamp(field.type):
        return f"f.{name}"
    return f"epoch_us(f.{name}) AS {name}"


def _given(values: pa.ChunkedArray, field: pa.Field, wanted: pa.DataType) -> pa.ChunkedArray:
    """A column's values as the table has them."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us")).cast(wanted)
    if not any(both(kind) and both(wanted) for both in _ALIKE):
        raise OnlySpark(f"a column of {kind} as {wanted}")
    return values.cast(wanted)


_ALIKE = (
    pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean,
    pa.types.is_date, lambda t: pa.types.is_string(t) or pa.types.is_large_string(t),
    lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t),
)  # fmt: skip
"""Kinds of types within which Arrow casts, or refuses to lose digits."""


def _array(values: Sequence[Any] | pa.ChunkedArray, data_type: pa.DataType) -> Any:
    """The values of a column as Arrow has them."""
    if isinstance(values, pa.ChunkedArray):
        return values.cast(data_type)
    return pa.array(values, data_type)
