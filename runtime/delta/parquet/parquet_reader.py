"""Reads few rows of Parquet files without Spark: all, or those with a key.

Meant for a thousand rows, among millions or in a new file. Arrow reads the key columns first, of
the row groups whose statistics allow a key, and the other columns only of row groups with a match.
Each thread reads a row group, in batches, so memory is bounded by the matching rows.

Decoding the key column takes most of the time, and the next change reads the same column of the
same immutable file. So key columns of whole numbers are cached.

Only for columns that Arrow reads as Spark does: no nested ones, and no dates or instants of an old
calendar. Arrow casts a file's values to the table's types and refuses lossy casts.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql import types as T

from ctsql.catalog.names import fold
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.delta.bounded_cache import BoundedCache
from ctsql.runtime.delta.stores.file_stores import FileStore
from ctsql.runtime.rows.collect import DRIVER_ROW_BYTES_MAX, DRIVER_ROWS_MAX
from ctsql.runtime.rows.types import arrow_schema

BYTES_MAX = 128 * 1024 * 1024  # bytes of all cached columns
COLUMN_BYTES_MAX = BYTES_MAX // 4  # bytes of a cached column of a row group
column_cache: BoundedCache[pa.Array] = BoundedCache(BYTES_MAX)
"""Key columns of whole numbers, each of one row group."""


def meets(values: Sequence[Any], low: Any, high: Any) -> bool:
    """Whether one of the sorted values may be within the bounds; True for other types of bounds."""
    if not values:
        return False
    kind = type(values[0])
    if type(low) is not kind or type(high) is not kind:
        return True
    first = bisect_left(values, low)
    return first < len(values) and bool(values[first] <= high)


BATCH_ROWS = 1 << 16  # rows of a batch; the bounds are checked after each one
BATCH_BYTES = 32 * 1024 * 1024
"""Bytes of a batch by the file's statistics; dictionary-encoded texts may be larger."""
LAYOUT_BYTES_MAX = 128 * 1024 * 1024  # bytes of all cached layouts
FOOTER_GROWS = 16  # a layout takes roughly so many times the bytes of its footer
ENTRY_BYTES = 2_048  # bytes of a cached entry with its name, in addition
_SPARK_VERSION = b"org.apache.spark.version"
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")

PLACES_SCHEMA = pa.schema([(FILE_COLUMN, pa.string()), (ROW_COLUMN, pa.int64())])
"""The columns that locate a row."""
_ENDING = (1 << 16) - 1
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file to read; ``name`` is the location reported for its rows, ``size`` is in bytes.

    ``deletion_vector`` are the numbers of rows to skip, ``only`` of rows to read, None for all.
    """

    name: str
    store: FileStore
    path: str
    size: int
    deletion_vector: BitMap64
    only: BitMap64 | None = None


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys; a wanted row has one of them."""

    # the values of each column, one per key; neither fractions nor instants
    columns: Mapping[str, pa.ChunkedArray]
    nulls_equal: bool = False  # whether NULL equals NULL; otherwise a key with NULL matches nothing


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Whole numbers of a column after ``after``, through ``until`` (None: unbounded)."""

    column: str
    after: int
    until: int | None

    @property
    def names(self) -> list[str]:
        """The column, as the key columns of a set."""
        return [self.column]

    def meets(self, low: int | None, high: int | None) -> bool:
        """Whether numbers within bounds may be in the range; None for an unknown bound.

        >>> wanted = NumberRange("expiry", 4, 5)
        >>> [wanted.meets(*bounds) for bounds in ((5, 7), (6, 7), (3, 4), (None, 5), (5, None))]
        [True, False, False, True, True]
        """
        is_past = high is not None and high <= self.after
        is_later = low is not None and self.until is not None and low > self.until
        return not is_past and not is_later

    def are_in(self, layout: pa.Schema) -> bool:
        """Whether a file has the column."""
        return self.column in layout.names

    def may_be_in(self, group: pq.RowGroupMetaData, layout: "_Layout") -> bool:
        """Whether a row group may hold a number of the range, by its statistics."""
        place = layout.places.get(self.column)
        bounds = None if place is None else group.column(place).statistics
        return bounds is None or not bounds.has_min_max or self.meets(bounds.min, bounds.max)

    def numbers(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> "Numbers":
        """The numbers of the rows in the range, given their column."""
        (values,) = columns
        is_within = pc.greater(values, self.after)
        if self.until is not None:
            is_within = pc.and_(is_within, pc.less_equal(values, self.until))
        return np.flatnonzero(pc.fill_null(is_within, False).to_numpy(zero_copy_only=False))


class OnlySpark(Exception):
    """The files are damaged, or Arrow reads their values differently from Spark."""


class TooMany(Exception):
    """There are more wanted rows or bytes than the bound."""


def has_old_calendar(metadata: Mapping[bytes, bytes]) -> bool:
    """Whether dates and instants before 1900 may be in the Julian calendar.

    >>> has_old_calendar({b"org.apache.spark.version": b"2.4.8"})
    True
    """
    is_old = metadata.get(_SPARK_VERSION, b"4").startswith((b"1.", b"2."))
    return is_old or any(mark in metadata for mark in _OLD_CALENDAR)


def find(
    files: Sequence[ScannedFile],
    schema: T.StructType,
    keys: Sequence[KeySet | NumberRange],
    *,
    rows_max: int,
    bytes_max: int = DRIVER_ROWS_MAX * DRIVER_ROW_BYTES_MAX,
) -> pa.Table:
    """Read the rows that have a key of any set, with their locations; without a set, all rows.

    Args:
        schema: of the rows, with the keys' columns; see :func:`is_flat`.
        rows_max, bytes_max: the bounds of the result.

    Raises OnlySpark or TooMany.
    """
    try:
        search = _Search(arrow_schema(schema), keys, rows_max, bytes_max)
        threads = max((file.store.threads for file in files), default=1)
        with ThreadPoolExecutor(threads) as pool:
            try:
                groups = [pool.submit(search.groups, file) for file in files]
                rows = [pool.submit(search.rows, g) for future in groups for g in future.result()]
                parts = [one.result() for one in rows]
            finally:
                pool.shutdown(cancel_futures=True)  # stop reading after an error
    except (OSError, pa.ArrowException) as problem:
        raise OnlySpark(str(problem)) from problem
    return pa.concat_tables([search.schema_with_places.empty_table(), *parts])


def having(rows: pa.Table, schema: T.StructType, keys: KeySet) -> pa.Table:
    """The rows that have a key of a set."""
    key_set = _Keys(keys, arrow_schema(schema))
    return rows.take(pa.array(key_set.numbers([rows.column(name) for name in key_set.names])))


def _are_among(numbers: Numbers, rows: BitMap64) -> npt.NDArray[np.bool_]:
    hits = rows & BitMap64(numbers.tolist()) if rows else rows
    return np.isin(numbers, np.array(list(hits), np.int64))


@dataclass(frozen=True, slots=True)
class _Layout:
    """The footer and schema of a file; ``places`` are the columns' indexes in row groups."""

    footer: pq.FileMetaData
    schema: pa.Schema
    places: Mapping[str, int]


layouts: BoundedCache[_Layout] = BoundedCache(LAYOUT_BYTES_MAX)


def layout_of(file: ScannedFile) -> _Layout:
    """The layout of a file, cached."""
    identity = file.store, file.path
    layout = layouts.find(identity)
    if layout is None:
        layout = _read_layout(file)
        size = int(layout.footer.serialized_size) * FOOTER_GROWS
        layouts.keep(identity, layout, size + ENTRY_BYTES)
    return layout


def _read_layout(file: ScannedFile) -> _Layout:
    with file.store.open_input(file.path, file.size) as stream:
        footer = pq.read_metadata(stream)
    schema = footer.schema.to_arrow_schema().remove_metadata()
    paths = [footer.schema.column(i).path for i in range(footer.num_columns)]
    count, number = Counter(paths), {path: i for i, path in enumerate(paths)}
    places = {name: number[name] for name in schema.names if count[name] == 1}
    return _Layout(footer, schema, places)


class _Keys:
    """The keys of a set, encoded for comparison column by column.

    A value's code is its index among the distinct values of its column; the code of a key's first n
    columns is the index among the distinct combinations in all keys. So types do not matter, and
    NULL is a value like others.
    """

    def __init__(self, keys: KeySet, schema: pa.Schema) -> None:
        table = pa.table(
            {name: values.cast(schema.field(name).type) for name, values in keys.columns.items()}
        )
        if not keys.nulls_equal:
            table = table.drop_null()
        columns = [column.combine_chunks() for column in table.columns]
        self.names = table.schema.names
        self._has_null = any(column.null_count for column in columns)
        self._values = [column.unique() for column in columns]
        self._sorted_values = {
            name: raw
            for name, values in zip(self.names, self._values, strict=True)
            if not values.null_count and (raw := _raw(values)) is not None
        }
        self._heads: list[pa.Array] = []
        self._endings = _endings(self._values[0])
        codes = pc.index_in(columns[0], value_set=self._values[0])
        for column, values in zip(columns[1:], self._values[1:], strict=True):
            codes = _join(codes, column, values)
            self._heads.append(codes.unique())
            codes = pc.index_in(codes, value_set=self._heads[-1])

    def are_in(self, layout: pa.Schema) -> bool:
        """Whether a file has all columns of the keys; a missing column is NULL."""
        if set(layout.names).issuperset(self.names):
            return True
        if self._has_null:
            raise OnlySpark("a file is older than a key column, and NULL is looked for")
        return False

    def may_be_in(self, group: pq.RowGroupMetaData, layout: _Layout) -> bool:
        """Whether a row group may hold a key, by its statistics."""
        for name, values in self._sorted_values.items():
            place = layout.places.get(name)
            bounds = None if place is None else group.column(place).statistics
            if bounds is None or not bounds.has_min_max:
                continue
            if not _has_raw(layout.schema.field(name).type):
                continue
            if not meets(values, bounds.min_raw, bounds.max_raw):
                return False
        return True

    def numbers(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Numbers:
        """The numbers of the rows with a key, given their key columns."""
        maybe = None
        if self._endings is not None and not columns[0].null_count:
            maybe = np.flatnonzero(self._endings[columns[0].to_numpy() & _ENDING])
        return self._among(maybe, columns)

    def _among(
        self, maybe: Numbers | None, columns: Sequence[pa.Array | pa.ChunkedArray]
    ) -> Numbers:
        """The numbers of the rows with a key among ``maybe``; None for all rows."""
        first = columns[0] if maybe is None else columns[0].take(pa.array(maybe))
        first = first.cast(self._values[0].type)
        codes = pc.index_in(first, value_set=self._values[0])
        numbers = _valid(codes) if maybe is None else maybe[_valid(codes)]
        for column, values, heads in zip(columns[1:], self._values[1:], self._heads, strict=True):
            rest = column.take(pa.array(numbers)).cast(values.type)
            codes = _join(codes.drop_null(), rest, values)
            codes = pc.index_in(codes, value_set=heads)
            numbers = numbers[_valid(codes)]
        return numbers


def _endings(keys: pa.Array) -> npt.NDArray[np.bool_] | None:
    """The low bits of integer keys: they reject most rows in a fifth of the time."""
    if keys.type not in (pa.int32(), pa.int64()):
        return None
    endings = np.zeros(_ENDING + 1, bool)
    endings[keys.drop_null().to_numpy() & _ENDING] = True
    return endings


def _join(codes: pa.Array, column: pa.Array, values: pa.Array) -> pa.Array:
    """Extend codes by one more column; NULL if its value is in no key."""
    wide = pc.multiply(codes.cast(pa.int64()), len(values))
    return pc.add(wide, pc.index_in(column, value_set=values).cast(pa.int64()))


def _valid(codes: pa.Array | pa.ChunkedArray) -> Numbers:
    return np.flatnonzero(codes.is_valid().to_numpy(zero_copy_only=False))


def _has_raw(kind: pa.DataType) -> bool:
    """Whether values are ordered like the raw bounds in a file's statistics."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_text or pa.types.is_signed_integer(kind) or pa.types.is_date32(kind))


def _raw(values: pa.Array) -> list[Any] | None:
    if not _has_raw(values.type):
        return None
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    raw = values.cast(pa.binary()) if pa.types.is_string(values.type) else values
    return sorted(raw.to_pylist())


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group that may hold a wanted row, and the number of its first row in the file."""

    file: ScannedFile
    layout: _Layout
    number: int
    first: int
    rows_count: int
    batch_rows: int

    def numbers(self) -> Numbers:
        """The numbers, in the group, of the rows to read."""
        if self.file.only is None:
            return np.arange(self.rows_count)
        within = self.file.only & BitMap64(range(self.first, self.first + self.rows_count))
        return np.array(list(within), np.int64) - self.first

    def are_left(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        return ~_are_among(numbers + self.first, self.file.deletion_vector)


class _Search:
    """The wanted rows, and what remains of the bounds."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[KeySet | NumberRange],
        rows_max: int,
        bytes_max: int,
    ) -> None:
        self.schema = schema
        self.schema_with_places = pa.schema([*schema, *PLACES_SCHEMA])
        self._keys = [one if isinstance(one, NumberRange) else _Keys(one, schema) for one in keys]
        self._rows_left, self._bytes_left = rows_max, bytes_max
        self._lock = Lock()

    def groups(self, file: ScannedFile) -> list[_Group]:
        layout = layout_of(file)
        if has_old_calendar(layout.footer.metadata or {}):
            raise OnlySpark(f"{file.path} holds dates of another calendar")
        others = set(layout.schema.names).difference(self.schema.names)
        if not {fold(name) for name in others}.isdisjoint(map(fold, self.schema.names)):
            raise OnlySpark(f"{file.path} has a column's name in upper or lower case")
        sets = self._sets(layout)
        groups, first = [], 0
        for number in range(layout.footer.num_row_groups):
            metadata = layout.footer.row_group(number)
            count = metadata.num_rows
            among = (
                count if file.only is None else file.only.range_cardinality(first, first + count)
            )
            may_hold = not self._keys or any(one.may_be_in(metadata, layout) for one in sets)
            if among and may_hold:
                row_bytes = 1 + metadata.total_byte_size // count
                batch_rows = max(1, min(BATCH_ROWS, BATCH_BYTES // row_bytes))
                groups.append(_Group(file, layout, number, first, count, batch_rows))
            first += count
        return groups

    def _sets(self, layout: _Layout) -> list[_Keys | NumberRange]:
        return [one for one in self._keys if one.are_in(layout.schema)]

    def rows(self, group: _Group) -> pa.Table:
        stored_names = set(group.layout.schema.names)
        there = [name for name in self.schema.names if name in stored_names]
        store = group.file.store
        with (
            store.open_input(group.file.path, group.file.size) as file,
            pq.ParquetFile(
                file,
                metadata=group.layout.footer,
                coerce_int96_timestamp_unit="us",
                pre_buffer=not store.is_local,  # fewer, larger requests
                page_checksum_verification=True,
            ) as parquet_file,
        ):
            if self._keys:
                numbers, columns = self._with_key(parquet_file, group)
            else:
                numbers, columns = group.numbers(), {}
                numbers = numbers[group.are_left(numbers)]
                self._count(len(numbers), 0)
            rest = [name for name in there if name not in columns]
            if len(numbers) and rest:
                parts = []
                for _, rows in self._read(parquet_file, group, rest, numbers):
                    self._count(0, rows.nbytes)
                    parts.append(rows)
                columns |= _columns(parts)
        if not len(numbers):
            return self.schema_with_places.empty_table()
        values = [
            columns[f.name] if f.name in columns else pa.nulls(len(numbers), f.type)
            for f in self.schema
        ]
        name = pa.array([group.file.name], pa.string())
        files = name.take(pa.array(np.zeros(len(numbers), np.int64)))
        return pa.table([*values, files, pa.array(numbers + group.first)], self.schema_with_places)

    def _with_key(
        self, parquet_file: pq.ParquetFile, group: _Group
    ) -> tuple[Numbers, dict[str, pa.ChunkedArray]]:
        sets = self._sets(group.layout)
        names = list(dict.fromkeys(name for one in sets for name in one.names))
        columns = self._key_columns(parquet_file, group, names)
        all_rows = group.numbers()
        batches = (
            self._read(parquet_file, group, names, all_rows)
            if columns is None
            else [(all_rows, columns)]
        )
        numbers, parts = [], []
        for here, rows in batches:
            hits = reduce(
                np.union1d, (one.numbers([rows.column(n) for n in one.names]) for one in sets)
            )
            hits = hits[group.are_left(here[hits])]
            numbers.append(here[hits])
            parts.append(rows.take(pa.array(hits)))
            self._count(len(hits), parts[-1].nbytes)
        return np.concatenate(numbers), _columns(parts)

    def _key_columns(
        self, parquet_file: pq.ParquetFile, group: _Group, names: list[str]
    ) -> pa.RecordBatch | None:
        """Cached columns of a group, read now if missing; None if they are not cached.

        They are not cached if few rows of the file are read.
        """
        if group.file.only is not None or not all(self._may_be_kept(group, n) for n in names):
            return None
        columns = []
        for name in names:
            identity = group.file.store, group.file.path, group.number, name
            column = column_cache.find(identity)
            if column is None:
                rows = parquet_file.read_row_group(group.number, [name], use_threads=False)
                column = rows.column(0).combine_chunks()
                column_cache.keep(identity, column, column.nbytes + ENTRY_BYTES)
            columns.append(column)
        return pa.record_batch(columns, names)

    def _may_be_kept(self, group: _Group, name: str) -> bool:
        """Whether a row group's column has whole numbers, of the table's type, and fits."""
        kind = group.layout.schema.field(name).type
        if name not in group.layout.places or kind != self.schema.field(name).type:
            return False
        size = group.rows_count * kind.bit_width // 8 if pa.types.is_signed_integer(kind) else None
        return size is not None and size <= COLUMN_BYTES_MAX

    def _read(
        self, parquet_file: pq.ParquetFile, group: _Group, names: list[str], numbers: Numbers
    ) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
        """Read some columns of the rows with some numbers, in the table's types, in batches."""
        schema = pa.schema([self.schema.field(name) for name in names])
        start = index = 0
        for batch in parquet_file.iter_batches(
            group.batch_rows, [group.number], names, use_threads=False
        ):
            end = start + len(batch)
            until = int(np.searchsorted(numbers, end))
            here = numbers[index:until]
            if len(here):
                rows = batch if len(here) == len(batch) else batch.take(pa.array(here - start))
                values = (_declare(rows.column(f.name), f.type) for f in schema)
                yield here, pa.record_batch(list(values), schema)
            start, index = end, until
            if index == len(numbers):
                return

    def _count(self, rows_count: int, bytes_count: int) -> None:
        with self._lock:
            self._rows_left -= rows_count
            self._bytes_left -= bytes_count
            if self._rows_left < 0 or self._bytes_left < 0:
                raise TooMany


def _columns(parts: Sequence[pa.RecordBatch]) -> dict[str, pa.ChunkedArray]:
    rows = pa.Table.from_batches(parts)
    return dict(zip(rows.schema.names, rows.columns, strict=True))


def _declare(values: pa.Array, target: pa.DataType) -> pa.Array:
    kind = values.type
    if kind == target:
        return values
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(target):
        # By way of integers, which have no zone.
        return values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(target)
    loses_digits = pa.types.is_floating(kind) and kind.bit_width > target.bit_width
    if loses_digits or not any(both(kind) and both(target) for both in _ALIKE):
        raise OnlySpark(f"a column of {kind} as {target}")
    return values.cast(target)


_ALIKE = (
    pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean,
    pa.types.is_date, lambda t: pa.types.is_string(t) or pa.types.is_large_string(t),
    lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t),
)  # fmt: skip
"""Kinds of types within which Arrow casts, and raises if digits would be lost."""
