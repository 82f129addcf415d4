"""Finds the stored rows of an output by key, for a change of few keys.

    keys --> driver --> files whose statistics allow one of them
                    --> on a local disk: Arrow reads the rows that are not deleted
                    --> elsewhere: one scan, without deletion vectors, joined with the keys
                        --> driver --> rows that a deletion vector marks are dropped

Exact for types with bitwise equality: integers, decimals, texts, dates, instants, booleans. Spark
handles other types and more rows. A file's statistics need not be tight; without usable ones it may
hold any value.

Source: the Delta protocol, "Per-file Statistics".
"""

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.declined import Declined
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import FILE_COLUMN, KEY_, ROW_COLUMN
from ctsql.planner.lowering.spark_types import is_padded
from ctsql.runtime.delta.local_scan import (
    PLACES,
    TOO_MANY_HERE,
    find_deleted,
    local_rows,
    rows_with_deleted,
)
from ctsql.runtime.delta.parquet.parquet_reader import KeySet, meets
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.rows.collect import collect_bounded
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.rows.types import has_bitwise_equality, has_equality_in_files, has_read_bounds


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


@dataclass(frozen=True)
class Keys:
    """The wanted keys: columns of few rows, in order; a column may occur twice."""

    rows: LocalRows
    columns: Sequence[str]

    @property
    def fields(self) -> list[T.StructField]:
        """The key columns with their types."""
        return [self.rows.schema[name] for name in self.columns]

    @property
    def frame(self) -> DataFrame:
        """The keys, with numbered column names."""
        return place_columns(self.rows.plain_frame, self.columns)


def place_columns(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Select columns, possibly one twice, under numbered names."""
    return rows.select(*(F.col(backtick(n)).alias(_name(i)) for i, n in enumerate(columns)))


def find_with_keys(
    table: DeltaTable,
    version: int,
    columns: Sequence[str],
    keys: Keys,
    *,
    only_keys: bool = False,
) -> LocalRows | Declined | None:
    """The rows at a version whose columns equal, in order, those of a key; None for no rows.

    Declined if there are too many, or the types are not supported.

    Args:
        only_keys: the other columns are not needed; rows found by Spark have them anyway.
    """
    if not table.is_stored(version) or not _are_exact(table.schema_at(version), columns, keys):
        return Declined("Spark compares keys of these types, or says that there is no such column")
    # Types whose values can be compared as files store them.
    plain = [i for i, key in enumerate(keys.fields) if has_equality_in_files(key.dataType)]
    values = {columns[i]: keys.rows.arrow.column(keys.columns[i]) for i in plain}
    files = list(table.files(version).values())
    if not table.metadata_at(version).maps_columns:
        ranges = KeyRanges.of(table.schema_at(version), values)
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


def _name(place: int) -> str:
    return f"{KEY_}{place}"


def _are_exact(schema: T.StructType, columns: Sequence[str], keys: Keys) -> bool:
    """Whether each column exists and has its key's type, with bitwise equality.

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
