"""Reads few rows of some files first and applies their deletion vectors afterwards.

Delta's reader checks a vector for every row, and plans each scan by two queries over the list of
files. For few rows among many it is cheaper to check only those.
"""

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ctsql.catalog.errors import Declined
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.delta.parquet.parquet_reader import (
    KeySet,
    NumberRange,
    OnlySpark,
    ScannedFile,
    TooMany,
    drop_deleted,
    find,
)
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log.actions import DataFile, select_changed
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.rows.types import is_flat
from ctsql.runtime.spark.failures.errors import translate_spark_errors

PLACES = (StructField(FILE_COLUMN, StringType()), StructField(ROW_COLUMN, LongType()))
"""The columns that locate a row."""
ROWS_MAX = 100_000  # the most rows with a key, or changed rows, that are read for a refresh
CHANGES_KEPT_MAX = 8  # changes whose rows are cached; the oldest is evicted
CHANGE_BYTES_MAX = 8 * 1024 * 1024  # bytes of a cached change
TOO_MANY_HERE = Declined("more rows, or bytes, than this process reads")


Changed = tuple[pa.Table, pa.Table]  # inserted and deleted rows


def local_rows(
    table: DeltaTable,
    files: Collection[DataFile],
    version: int,
    keys: Sequence[KeySet | NumberRange] = (),
    columns: Sequence[str] | None = None,
    rows_max: int = DRIVER_ROWS_MAX,
    was: Mapping[str, DataFile] = {},
) -> pa.Table | Declined:
    """Read the rows of files that have a key of any set, with their locations, without Spark.

    Declined for too many rows, and for stores or values that only Spark reads.

    Args:
        keys: empty for all rows. columns: with the keys'; None for all.
        was: earlier states of files, by path; only rows that were deleted then are read of these.
    """
    schema = table.schema_at(version)
    if columns is not None:
        schema = StructType([f for f in schema.fields if f.name in columns])
    if not is_flat(schema):
        return Declined("Spark reads columns of these types")
    with translate_spark_errors():
        store_and_paths = table.paths_in_store(files, version)
        if isinstance(store_and_paths, Declined):
            return store_and_paths
        store, paths = store_and_paths
        scanned_files = []
        for path, file in zip(paths, files, strict=True):
            deleted_rows = table.vectors.deleted_rows(file)
            if file.path not in was:
                scanned_files.append(ScannedFile(file.path, store, path, file.size, deleted_rows))
            elif restored_rows := table.vectors.deleted_rows(was[file.path]) - deleted_rows:
                scanned_files.append(
                    ScannedFile(file.path, store, path, file.size, BitMap64(), only=restored_rows)
                )
    try:
        return find(scanned_files, schema, keys, rows_max=rows_max)
    except TooMany:
        return TOO_MANY_HERE
    except OnlySpark as problem:
        return Declined(str(problem))


def live_rows(table: DeltaTable, files: Sequence[DataFile], version: int) -> LocalRows | Declined:
    """All rows of files, under a version's columns, without their locations."""
    rows = local_rows(table, files, version)
    if isinstance(rows, Declined):
        return rows
    schema = table.schema_at(version)
    return LocalRows(table.gateway.session, schema, rows.select(schema.names))


def move_local_rows(
    table: DeltaTable,
    rows: pa.Table,
    was: Mapping[str, DataFile],
    now: Mapping[str, DataFile],
    version: int,
    keys: Sequence[KeySet],
    columns: Sequence[str],
) -> pa.Table | Declined:
    """Derive the rows of files from those of other, mostly equal files; reads only differences.

    Args:
        rows: the result of :func:`local_rows` for the same keys and columns.
        was, now: files by path; a file in both may have other rows deleted.
    """
    new_rows = local_rows(table, now.values(), version, keys, columns, ROWS_MAX, was)
    if isinstance(new_rows, Declined):
        return new_rows
    with translate_spark_errors():
        deleted_rows = {p: table.vectors.deleted_rows(file) for p, file in now.items() if p in was}
    return pa.concat_tables([drop_deleted(rows, deleted_rows), new_rows])


def local_change(
    table: DeltaTable, before: int, after: int, columns: Sequence[str]
) -> Changed | Declined:
    """The rows only in the later, and only in the earlier of two versions, with their locations.

    A row that moved to another file is in both. ``before`` is -1 for an empty table; files are read
    alike at both versions. Small changes are cached: the views of a table read the same change,
    each by its own columns.
    """
    recent, which = table.gateway.recent_rows, (table.log_files, before, after)
    change = recent.get(which)
    there = [] if change is None else change[0].schema.names
    missing = [c for c in columns if c not in there]
    if change is None or missing:
        read = _read_change(table, before, after, missing)
        if isinstance(read, Declined):
            return read
        change = read if change is None else tuple(map(_with_columns, change, read))
        if sum(rows.nbytes for rows in change) <= CHANGE_BYTES_MAX:
            recent[which] = change
            if len(recent) > CHANGES_KEPT_MAX:
                recent.popitem(last=False)
    names = [*columns, *(place.name for place in PLACES)]
    inserts, deletes = (rows.select(names) for rows in change)
    return inserts, deletes


def _read_change(
    table: DeltaTable, before: int, after: int, columns: Sequence[str]
) -> Changed | Declined:
    old = table.files(before) if before >= 0 else {}
    new = table.files(after)
    # By path: columns read later of the same files are added row by row.
    new_files, old_files = (
        dict(sorted(select_changed(*both).items())) for both in ((new, old), (old, new))
    )
    whole = [file for p, file in (new_files | old_files).items() if not (p in old and p in new)]
    if sum(file.rows_count or 0 for file in whole) > 2 * ROWS_MAX:
        return TOO_MANY_HERE
    inserts = local_rows(table, new_files.values(), after, (), columns, ROWS_MAX, old)
    if isinstance(inserts, Declined):
        return inserts
    deletes = local_rows(table, old_files.values(), after, (), columns, ROWS_MAX, new)
    return deletes if isinstance(deletes, Declined) else (inserts, deletes)


def _with_columns(rows: pa.Table, more: pa.Table) -> pa.Table:
    """Rows with columns read later of the same files, in the same order."""
    places = [place.name for place in PLACES]
    assert rows.select(places).equals(more.select(places))
    for field in more.schema:
        if field.name not in places:
            rows = rows.append_column(field, more.column(field.name))
    return rows
