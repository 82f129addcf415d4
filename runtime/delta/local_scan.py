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
TOO_MANY_HERE = Declined("more rows, or bytes, than this process reads")


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


def local_change(
    table: DeltaTable, before: int, after: int, columns: Sequence[str]
) -> tuple[pa.Table, pa.Table] | Declined:
    """The rows only in the later, and only in the earlier of two versions, with their locations.

    A row that moved to another file is in both. ``before`` is -1 for an empty table; files are read
    alike at both versions.
    """
    old = table.files(before) if before >= 0 else {}
    new = table.files(after)
    new_files, old_files = select_changed(new, old), select_changed(old, new)
    whole = [file for p, file in (new_files | old_files).items() if not (p in old and p in new)]
    if sum(file.rows_count or 0 for file in whole) > 2 * ROWS_MAX:
        return TOO_MANY_HERE
    inserts = local_rows(table, new_files.values(), after, (), columns, ROWS_MAX, old)
    if isinstance(inserts, Declined):
        return inserts
    deletes = local_rows(table, old_files.values(), after, (), columns, ROWS_MAX, new)
    return deletes if isinstance(deletes, Declined) else (inserts, deletes)
