"""Finds the stored rows of an output by key, for a change of few keys.

    keys --> driver --> files whose statistics allow one of them
                    --> on a local disk: Arrow reads the rows that are not deleted
                    --> elsewhere: one scan, without deletion vectors, joined with the keys
                        --> driver --> rows that a deletion vector marks are dropped

Exact for keys of types with bitwise equality: integers, decimals, texts, dates, instants, booleans.
Spark handles other types, and more rows than :mod:`ctsql.runtime.rows.collect` allows.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.declined import Declined
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import FILE_COLUMN, KEY_, ROW_COLUMN
from ctsql.planner.lowering import is_padded
from ctsql.runtime.delta.local_scan import (
    PLACES,
    TOO_MANY_HERE,
    find_deleted,
    local_rows,
    rows_with_deleted,
)
from ctsql.runtime.delta.parquet.file_ranges import KeyRanges
from ctsql.runtime.delta.parquet.parquet_reader import KeySet
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.rows.collect import collect_bounded
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.rows.types import has_bitwise_equality, has_equality_in_files, has_read_bounds


@dataclass(frozen=True)
class Keys:
    """The keys to look for: for each, in order, a column of few rows; one may be there twice."""

    rows: LocalRows
    columns: Sequence[str]

    @property
    def fields(self) -> list[T.StructField]:
        """The columns with their types."""
        return [self.rows.schema[name] for name in self.columns]

    @property
    def frame(self) -> DataFrame:
        """The keys, with numbered column names."""
        return place_columns(self.rows.plain_frame, self.columns)


def place_columns(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Select columns, one maybe twice, and number their names."""
    return rows.select(*(F.col(backtick(n)).alias(_name(i)) for i, n in enumerate(columns)))


def find_with_keys(
    table: DeltaTable,
    version: int,
    columns: Sequence[str],
    keys: Keys,
    *,
    only_keys: bool = False,
) -> LocalRows | Declined | None:
    """The rows at a version whose columns equal, in order, those of a key; None for none.

    Declined if there are too many, or the types are not supported.

    Args:
        only_keys: whether the other columns are not asked for; rows that Spark finds have them
            all the same.
    """
    if not table.is_stored(version) or not _are_exact(table.schema_at(version), columns, keys):
        return Declined("Spark compares keys of these types, or says that there is no such column")
    # Types whose values can be compared as files store them.
    plain = [i for i, key in enumerate(keys.fields) if has_equality_in_files(key.dataType)]
    values = {columns[i]: keys.rows.arrow.column(keys.columns[i]) for i in plain}
    files = list(table.files(version).values())
    if not table.metadata_at(version).maps_columns:
        ranges = KeyRanges(comparable_with_statistics(table.schema_at(version), values))
        files = [file for file in files if ranges.may_hold(file.statistics)]
    if not files:
        return None
    if len(values) == len(columns):
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
    all_rows = rows_with_deleted(table, files, version)
    matches = collect_bounded(
        all_rows.join(F.broadcast(keys.frame), reduce(and_, equal), "left_semi")
    )
    return matches if isinstance(matches, Declined) else _alive(table, version, matches)


def comparable_with_statistics(
    schema: T.StructType, keys: Mapping[str, pa.ChunkedArray]
) -> dict[str, list[int | str | None]]:
    """The values of the key columns that have statistics, as Python objects."""
    python_values: dict[str, list[int | str | None]] = {}
    for name, values in keys.items():
        if has_read_bounds(schema[name].dataType):
            with suppress(UnicodeDecodeError):  # Python has no text that is not UTF-8
                python_values[name] = values.to_pylist()
    return python_values


def _name(place: int) -> str:
    return f"{KEY_}{place}"


def _are_exact(schema: T.StructType, columns: Sequence[str], keys: Keys) -> bool:
    """Whether each key has the type of its column, one with bitwise equality, and both are there.

    Another writer may have dropped or renamed a column.
    """
    if not {*columns} <= {*schema.names} or not {*keys.columns} <= {*keys.rows.schema.names}:
        return False
    return all(
        schema[column].dataType == key.dataType
        and has_bitwise_equality(key.dataType)
        and not (is_padded(schema[column]) or is_padded(key))
        for column, key in zip(columns, keys.fields, strict=True)
    )


def _alive(table: DeltaTable, version: int, frame: DataFrame) -> LocalRows | None:
    rows = LocalRows.of(frame)
    files, numbers = (rows.arrow.column(c).to_pylist() for c in (FILE_COLUMN, ROW_COLUMN))
    places = list(zip(files, numbers, strict=True))
    deleted_numbers = find_deleted(table, version, group_by_file(places))
    alive = [i for i, (file, number) in enumerate(places) if number not in deleted_numbers[file]]
    return rows.take(alive) if alive else None


def group_by_file(places: Iterable[tuple[str, int]]) -> dict[str, "array[int]"]:
    """The row numbers of each file, eight bytes each."""
    groups: dict[str, array[int]] = {}
    for file, number in places:
        groups.setdefault(file, array("Q")).append(number)
    return groups
