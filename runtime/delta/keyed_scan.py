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
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
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
)
from ctsql.runtime.delta.parquet.parquet_reader import KeySet, NumberRange, having, meets
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.table_rows import locate_in
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.log.table_changes import VersionChange
from ctsql.runtime.rows.collect import collect_bounded
from ctsql.runtime.rows.key_predicates import comparable, may_equal
from ctsql.runtime.rows.multiset import add_up
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
    return _read(table, version, columns, ())


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
        near = _read(self._table, self._version, self._names, [(local_keys, pairs)])
        if not isinstance(near, Declined):
            return near
        frame = self.all.frame
        return SparkRows(frame.where(may_equal(frame, local_keys.plain_frame, pairs)))


def _is_readable(table: DeltaTable, version: int) -> bool:
    return table.is_stored(version) and not table.metadata_at(version).maps_columns


def _read(
    table: DeltaTable, version: int, columns: Sequence[str], keys: Sequence[KeyPairs]
) -> LocalRows | Declined:
    """Some columns, with the keys' and the places, of the rows with a key of any set, or of all."""
    schema = table.schema_at(version)
    key_sets = [_key_set(schema, *key) for key in keys]
    sets = [one for one in key_sets if not isinstance(one, Declined)]
    if not columns or len(sets) < len(keys):
        return Declined("no column is read, or Spark compares the keys")
    names = {*columns}.union(*(one.columns for one in sets))
    fields = [f for f in schema.fields if f.name in names]
    if not is_flat(T.StructType(fields)):
        return Declined("Spark reads columns of these types")
    if not _is_readable(table, version):
        return Declined("the version is not committed, or its columns have other names")
    files = table.files(version)
    if len(files) > FILES_MAX:
        return Declined(f"more than {FILES_MAX} files")
    # NULL equals NULL here, and statistics have no bounds of it.
    bounded = [{c: v for c, v in one.columns.items() if not v.null_count} for one in sets]
    ranges = [KeyRanges.of(schema, one) for one in bounded]
    read = [
        f for f in files.values() if not ranges or any(r.may_hold(f.statistics) for r in ranges)
    ]
    rows = local_rows(table, read, version, sets, [f.name for f in fields], ROWS_MAX)
    if isinstance(rows, Declined):
        return rows
    return LocalRows(table.gateway.session, T.StructType([*fields, *PLACES]), rows)


def rows_with_keys(
    table: DeltaTable, version: int, columns: Sequence[str], keys: Sequence[KeyPairs]
) -> LocalRows | Declined:
    """A superset of the rows that have one of the keys, NULL equal to NULL."""
    rows = _read(table, version, columns, keys)
    return rows if isinstance(rows, Declined) else rows.select(columns)


def _key_set(
    schema: T.StructType, keys: LocalRows, pairs: Sequence[tuple[str, str]]
) -> KeySet | Declined:
    usable = comparable(schema, keys.schema, pairs)
    if not usable:
        return Declined("Spark compares the keys")
    return KeySet({mine: keys.arrow.column(theirs) for mine, theirs in usable}, nulls_equal=True)
