"""Finds rows by key, and reads few rows with Arrow instead of Spark, for a task's run or a refresh.

    keys --> driver --> files whose statistics allow one of them
                    --> Arrow reads the rows that are not deleted
                    --> columns that Arrow reads otherwise: Spark's scan, joined with the keys

Exact for types with bitwise equality: integers, decimals, texts, dates, instants, booleans. Spark
handles other types and more rows. A file's statistics need not be tight; without usable ones it may
hold any value. Spark plans each scan of a Delta table by two queries over its list of files; a
refresh of a few hundred rows has five or ten scans. If a function declines, Spark reads the rows
(:mod:`ctsql.runtime.views.table_deltas`).

Source: the Delta protocol, "Per-file Statistics".
"""

import json
from array import array
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import DIFF, KEY_
from ctsql.planner.lowering.spark_types import is_padded
from ctsql.runtime.delta.local_scan import (
    PLACES,
    ROWS_MAX,
    TOO_MANY_HERE,
    local_change,
    local_rows,
    move_local_rows,
)
from ctsql.runtime.delta.parquet.parquet_reader import KeySet, NumberRange, having, meets
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.table_rows import locate_in
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.log.table_changes import VersionChange
from ctsql.runtime.rows.collect import collect_bounded
from ctsql.runtime.rows.key_predicates import comparable, may_equal
from ctsql.runtime.rows.multiset import add_up, keys
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows
from ctsql.runtime.rows.types import (
    has_bitwise_equality,
    has_equality_in_files,
    has_read_bounds,
    is_flat,
)
from ctsql.runtime.spark.failures.errors import translate_spark_errors


class KeyRanges:
    """The wanted values of each key column, to be compared with files' statistics.

    >>> ranges = KeyRanges({"k": [5, 3, None]})
    >>> def bounds(low, high):
    ...     return json.dumps({"minValues": {"k": low}, "maxValues": {"k": high}})
    >>> [ranges.may_hold(bounds(*b)) for b in ((0, 2), (0, 3), (4, 4), (4, 9), (6, 9))]
    [False, True, False, True, False]
    >>> ranges.may_hold(None), ranges.may_hold("{}"), ranges.may_hold('{"minValues": null}')
    (True, True, True)
    """

    def __init__(self, values_by_column: Mapping[str, Sequence[int | str | None]]) -> None:
        """Integers or texts by column; NULL is never found."""
        self._sorted_values: dict[str, list[Any]] = {
            column: sorted(v for v in set(values) if v is not None)
            for column, values in values_by_column.items()
        }

    @staticmethod
    def of(schema: T.StructType, keys: Mapping[str, pa.ChunkedArray]) -> "KeyRanges":
        """The values of the key columns that have statistics."""
        python_values: dict[str, list[int | str | None]] = {}
        for name, values in keys.items():
            if has_read_bounds(schema[name].dataType):
                with suppress(UnicodeDecodeError):  # Python has no text that is not UTF-8
                    python_values[name] = values.to_pylist()
        return KeyRanges(python_values)

    def may_hold(self, statistics: str | None) -> bool:
        """Whether a file with these statistics (JSON) may hold a wanted value in each column."""
        stats = json.loads(statistics) if statistics else {}
        low, high = (stats.get(bound) or {} for bound in ("minValues", "maxValues"))
        return all(
            meets(values, low.get(column), high.get(column))
            for column, values in self._sorted_values.items()
        )


KeyPairs = tuple[LocalRows, Sequence[tuple[str, str]]]
"""Few rows, and pairs of a table's column and a column of these; either may occur twice."""


def place_columns(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Select columns, possibly one twice, under numbered names."""
    return rows.select(*(F.col(backtick(n)).alias(_name(i)) for i, n in enumerate(columns)))


def find_with_keys(
    table: DeltaTable, version: int, keys: KeyPairs, *, only_keys: bool = False
) -> LocalRows | Declined | None:
    """The rows at a version that have one of the keys, without NULL; None for no rows.

    Declined if there are too many, or the types are not supported. ``only_keys``: the other columns
    are not needed; rows found by Spark have them anyway.
    """
    few, pairs = keys
    columns = [mine for mine, _ in pairs]
    if not table.is_stored(version) or not _are_exact(table.schema_at(version), few.schema, pairs):
        return Declined("Spark compares keys of these types, or says that there is no such column")
    # Types whose values can be compared as files store them.
    plain = [pair for pair in pairs if has_equality_in_files(few.schema[pair[1]].dataType)]
    values = {mine: few.arrow.column(theirs) for mine, theirs in plain}
    files = list(table.files(version).values())
    if not table.metadata_at(version).maps_columns:
        ranges = KeyRanges.of(table.schema_at(version), values)
        files = [file for file in files if ranges.may_hold(file.statistics)]
    if not files:
        return None
    if len(values) == len(pairs):
        read = columns if only_keys else table.schema_at(version).names
        rows = local_rows(table, files, version, [KeySet(values)], read)
        if rows is TOO_MANY_HERE:
            return rows
        if not isinstance(rows, Declined):
            fields = [f for f in table.schema_at(version) if f.name in read]
            schema = T.StructType([*fields, *PLACES])
            return LocalRows(table.gateway.session, schema, rows) if rows.num_rows else None
        # Spark reads the files, or raises if they are damaged.
    equal = (F.col(backtick(c)) == F.col(_name(i)) for i, c in enumerate(columns))
    with translate_spark_errors():
        all_rows = locate_in(table, files, version)
    key_rows = place_columns(few.plain_frame, [theirs for _, theirs in pairs])
    matches = collect_bounded(
        all_rows.join(F.broadcast(key_rows), reduce(and_, equal), "left_semi")
    )
    if isinstance(matches, Declined):
        return matches
    found = LocalRows.of(matches)
    return None if found.is_empty else found


def _name(place: int) -> str:
    return f"{KEY_}{place}"


def _are_exact(schema: T.StructType, keys: T.StructType, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether each column exists and has its key's type, with bitwise equality.

    Another writer may have dropped or renamed a column.
    """
    if not all(mine in schema.names and theirs in keys.names for mine, theirs in pairs):
        return False
    return all(
        schema[mine].dataType == keys[theirs].dataType
        and has_bitwise_equality(keys[theirs].dataType)
        and not (is_padded(schema[mine]) or is_padded(keys[theirs]))
        for mine, theirs in pairs
    )


def group_by_file(places: Iterable[tuple[str, int]]) -> dict[str, "array[int]"]:
    """The row numbers of each file, eight bytes each."""
    groups: dict[str, array[int]] = {}
    for file, number in places:
        groups.setdefault(file, array("Q")).append(number)
    return groups


SMALL_MAX = 10_000  # the most rows of a table that is read as a whole
STORED_MAX = 2_000  # the most rows of a view that is read as a whole for a lookup
FILES_MAX = 10_000  # the most files whose statistics are searched for keys
OTHER_KEYS_SHARE = 1 / 8  # the share of keys that may differ from an earlier lookup

_NOT_READ = Declined("no rows of such keys were read, at a version that is read alike")


def change_of(
    table: DeltaTable, version_change: VersionChange, columns: Sequence[str]
) -> LocalRows | Declined:
    """The consolidated change of a table over some columns."""
    if (
        version_change.is_shared
        or version_change.parts
        or not _is_readable(table, version_change.version)
    ):
        return Declined("the change is not one of whole files in the table")
    if not table.versions.read_alike(max(version_change.before, 0), version_change.version):
        return Declined("files were read otherwise before")
    schema = table.schema_at(version_change.version)
    if not set(columns) <= set(schema.names):
        return Declined("a column is not there yet, or by another name")
    fields = [schema[c] for c in columns]
    if any(is_padded(f) for f in fields):
        return Declined("Spark pads a CHAR column")
    change = local_change(table, version_change.before, version_change.version, columns)
    if isinstance(change, Declined):
        return change
    inserts, deletes = change
    signed_rows = pa.concat_tables([_sign(inserts, 1), _sign(deletes, -1)]).select([*columns, DIFF])
    schema = T.StructType([*fields, T.StructField(DIFF, T.LongType())])
    return LocalRows(table.gateway.session, schema, add_up(signed_rows, DIFF))


def _sign(rows: pa.Table, diff: int) -> pa.Table:
    return rows.append_column(DIFF, pa.array([diff] * rows.num_rows, pa.int64()))


def rows_of(
    table: DeltaTable, version: int, columns: Sequence[str], rows_max: int | None = None
) -> LocalRows | Declined:
    """All rows of a table with at most ``rows_max`` rows, or ``SMALL_MAX``."""
    rows = _all(table, version, columns, SMALL_MAX if rows_max is None else rows_max)
    return rows if isinstance(rows, Declined) else rows.select(columns)


def _all(
    table: DeltaTable, version: int, columns: Sequence[str], most: int
) -> LocalRows | Declined:
    count = table.rows_count(version) if table.is_stored(version) else None
    if count is None or count > most:
        return Declined(f"the log does not say that it has at most {most} rows")
    read = KeyedRead.of(table, version, columns, ())
    return read if isinstance(read, Declined) else read.at(version)


def rows_between(
    table: DeltaTable, files: Collection[DataFile], version: int, number_range: NumberRange
) -> LocalRows | Declined:
    """The rows of files with a whole number in a range."""
    schema = table.schema_at(version)
    if not _is_readable(table, version) or any(map(is_padded, schema)):
        return Declined("Spark reads columns of these types, or of other names")
    rows = local_rows(table, files, version, [number_range], rows_max=ROWS_MAX)
    if isinstance(rows, Declined):
        return rows
    return LocalRows(table.gateway.session, schema, rows.select(schema.names))


class StoredRows:
    """The rows of a view, or of its state table, at a version, with their locations."""

    def __init__(self, table: DeltaTable, version: int) -> None:
        self._table = table
        self._version = version

    @cached_property
    def _near(self) -> LocalRows | Declined:
        return _all(self._table, self._version, self._names, STORED_MAX)

    @property
    def _names(self) -> list[str]:
        return self._table.schema_at(self._version).names

    @property
    def count(self) -> int | None:
        """Their number; None if the log lacks it."""
        return self._table.rows_count(self._version)

    @property
    def is_near(self) -> bool:
        """Whether they are so few that this process reads all of them."""
        return not isinstance(self._near, Declined)

    @cached_property
    def all(self) -> RowSet:
        """All of them."""
        near = self._near
        if isinstance(near, Declined):
            near = _all(self._table, self._version, self._names, SMALL_MAX)
        if isinstance(near, Declined):
            return SparkRows(self._table.locate_rows(self._version))
        return near

    def with_keys(self, keys: RowSet, pairs: Sequence[tuple[str, str]]) -> RowSet:
        """The rows that have a key, NULL equal to NULL; ``pairs`` of a column and a key's."""
        rows = self.having(keys, pairs)
        # Keys that are not in the driver, or of other types, were not compared.
        is_compared = rows.is_local and keys.is_local and pairs
        if is_compared and len(pairs) == len(comparable(rows.schema, keys.schema, pairs)):
            return rows
        return rows.with_keys(keys, pairs)

    def having(self, keys: RowSet, pairs: Sequence[tuple[str, str]]) -> RowSet:
        """A superset of the rows that have a key, NULL equal to NULL.

        Local rows have a key in the pairs that this process compares.
        """
        local_keys = keys.local
        if isinstance(local_keys, Declined):
            return self.all
        if not isinstance(self._near, Declined):
            key_set = _key_set(self._near.schema, local_keys, pairs)
            if isinstance(key_set, Declined):
                return self._near
            rows = having(self._near.arrow, self._near.schema, key_set)
            return self._near.with_rows(self._near.schema, rows)
        read = KeyedRead.of(self._table, self._version, self._names, [(local_keys, pairs)])
        near = read if isinstance(read, Declined) else read.at(self._version)
        if not isinstance(near, Declined):
            return near
        frame = self.all.frame
        return SparkRows(frame.where(may_equal(frame, local_keys.plain_frame, pairs)))


def _is_readable(table: DeltaTable, version: int) -> bool:
    return table.is_stored(version) and not table.metadata_at(version).maps_columns


@dataclass(frozen=True, slots=True)
class KeyedRead:
    """A read of some columns, of the rows with a key of any set, or of all rows."""

    table: DeltaTable
    fields: Sequence[T.StructField]
    sets: Sequence[KeySet]

    @staticmethod
    def of(
        table: DeltaTable, version: int, columns: Sequence[str], keys: Sequence[KeyPairs]
    ) -> "KeyedRead | Declined":
        """Add the keys' columns, by the schema of a version; declined if only Spark can read it."""
        schema = table.schema_at(version)
        key_sets = [_key_set(schema, *key) for key in keys]
        sets = [one for one in key_sets if not isinstance(one, Declined)]
        if not columns or len(sets) < len(keys):
            return Declined("no column is read, or Spark compares the keys")
        names = {*columns}.union(*(one.columns for one in sets))
        fields = [f for f in schema.fields if f.name in names]
        if not is_flat(T.StructType(fields)):
            return Declined("Spark reads columns of these types")
        return KeyedRead(table, fields, sets)

    @property
    def identity(self) -> Hashable:
        """Equal for reads with the same result at each version."""
        return self.shape, tuple(frozenset(_values(one)) for one in self.sets)

    @property
    def shape(self) -> Hashable:
        """Equal for reads of the same columns by the same keys' columns."""
        kinds = tuple(f.dataType for f in self.fields)
        by = tuple(tuple(one.columns) for one in self.sets)
        return self.table.location, tuple(self._columns), kinds, by

    def at(self, version: int) -> LocalRows | Declined:
        """The rows at a version of the table."""
        files = self._files(version)
        if isinstance(files, Declined):
            return files
        read = files.values()
        rows = local_rows(self.table, read, version, self.sets, self._columns, ROWS_MAX)
        if isinstance(rows, Declined):
            return rows
        return LocalRows(self.table.gateway.session, T.StructType([*self.fields, *PLACES]), rows)

    def move(self, before: int, rows: LocalRows | Declined, after: int) -> LocalRows | Declined:
        """Derive the rows at a version from those at another one."""
        if isinstance(rows, Declined):
            return rows
        was, now = self._files(before), self._files(after)
        if isinstance(was, Declined):
            return was
        if isinstance(now, Declined):
            return now
        new_rows = move_local_rows(
            self.table, rows.arrow, was, now, after, self.sets, self._columns
        )
        return new_rows if isinstance(new_rows, Declined) else rows.with_rows(rows.schema, new_rows)

    def less(self, other: "KeyedRead") -> "KeyedRead | Declined":
        """The same read of the keys that another read of one set lacks; declined for too many."""
        (mine,), (others,) = self.sets, other.sets
        values, had = _values(mine), {*_values(others)}
        missing = [i for i, key in enumerate(values) if key not in had]
        odd = len(missing) + len(had.difference(values))
        if odd > len(values) * OTHER_KEYS_SHARE:
            return Declined("too many other keys")
        places = pa.array(missing, pa.int64())
        columns = {name: column.take(places) for name, column in mine.columns.items()}
        return replace(self, sets=[replace(mine, columns=columns)])

    @property
    def _columns(self) -> list[str]:
        return [f.name for f in self.fields]

    def _files(self, version: int) -> Mapping[str, DataFile] | Declined:
        if not _is_readable(self.table, version):
            return Declined("the version is not committed, or its columns have other names")
        files = self.table.files(version)
        if len(files) > FILES_MAX:
            return Declined(f"more than {FILES_MAX} files")
        if not self.sets:
            return files
        schema = self.table.schema_at(version)
        # NULL equals NULL here, and statistics have no bounds of it.
        sets = [{c: v for c, v in one.columns.items() if not v.null_count} for one in self.sets]
        ranges = [KeyRanges.of(schema, one) for one in sets]
        return {p: f for p, f in files.items() if any(r.may_hold(f.statistics) for r in ranges)}


class Lookups:
    """A cache of keyed scans, for one refresh.

    A plan reads the same keys several times, before a change and after it. The rows at one version
    are derived from those at another and from the files that differ; those of nearly the same keys,
    from the earlier rows and the keys that differ.
    """

    def __init__(self) -> None:
        self._reads: dict[Hashable, _CachedRead] = {}

    def rows(
        self,
        table: DeltaTable,
        version: int,
        columns: Sequence[str],
        keys: Sequence[KeyPairs],
        also: Sequence[str] = (),
    ) -> LocalRows | Declined:
        """A superset of the rows that have one of the keys, NULL equal to NULL.

        ``also``: columns for other reads of the same keys, read too if possible.
        """
        read = KeyedRead.of(table, version, [*columns, *also], keys)
        if isinstance(read, Declined):
            read = KeyedRead.of(table, version, columns, keys)
        if isinstance(read, Declined):
            return read
        entry = self._reads.setdefault(read.identity, _CachedRead(read))
        rows = entry.derive(version)
        if rows is _NOT_READ:
            rows = self._derive_from_alike(read, version)
        if rows is _NOT_READ:
            rows = read.at(version)
        entry.rows_by_version[version] = rows
        return rows if isinstance(rows, Declined) else rows.select(columns)

    def _derive_from_alike(self, read: KeyedRead, version: int) -> LocalRows | Declined:
        """The rows of a read of nearly the same keys, and those of the other keys."""
        if len(read.sets) != 1:
            return _NOT_READ  # a row may have keys of several sets
        for entry in self._reads.values():
            if not entry.rows_by_version or entry.read.shape != read.shape:
                continue
            less = read.less(entry.read)
            had = less if isinstance(less, Declined) else entry.derive(version)
            if isinstance(less, Declined) or isinstance(had, Declined):
                continue
            others = less.at(version)
            if isinstance(others, Declined):
                continue
            # Only the wanted ones: else a third read of its keys would have some of them twice.
            rows = having(had.arrow, had.schema, read.sets[0])
            return had.with_rows(had.schema, pa.concat_tables([rows, others.arrow]))
        return _NOT_READ


@dataclass(slots=True)
class _CachedRead:
    """A read with its rows by version."""

    read: KeyedRead
    rows_by_version: dict[int, LocalRows | Declined] = field(default_factory=dict)

    def derive(self, version: int) -> LocalRows | Declined:
        """The rows at a version, from those at another one."""
        if version in self.rows_by_version:
            return self.rows_by_version[version]
        table = self.read.table
        for v, rows in self.rows_by_version.items():
            if table.versions.read_alike(min(v, version), max(v, version)):
                return self.read.move(v, rows, version)
        return _NOT_READ


def _values(keys_: KeySet) -> list[Hashable]:
    return keys(pa.table(dict(keys_.columns)))


def _key_set(
    schema: T.StructType, keys: LocalRows, pairs: Sequence[tuple[str, str]]
) -> KeySet | Declined:
    usable = comparable(schema, keys.schema, pairs)
    if not usable:
        return Declined("Spark compares the keys")
    return KeySet({mine: keys.arrow.column(theirs) for mine, theirs in usable}, nulls_equal=True)
