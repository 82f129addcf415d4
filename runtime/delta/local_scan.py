"""Reads few rows of some files first and applies their deletion vectors afterwards.

Delta's reader checks a vector for every row, and plans every scan with two queries over the list of
files. To find few rows among many, it is cheaper to check the vectors for those rows only.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.delta.file_stores import FileStore
from ctsql.runtime.delta.parquet_reader import (
    KeySet,
    OnlySpark,
    StoredFile,
    TooMany,
    drop_deleted,
    find,
)
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.transaction import files_by_name, relative_path
from ctsql.runtime.log.data_files import DataFile, select_changed
from ctsql.runtime.rows.collect import DRIVER_ROW_BYTES_MAX, DRIVER_ROWS_MAX
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.types import is_flat
from ctsql.runtime.spark.errors import translate_spark_errors

PLACES = (StructField(FILE_COLUMN, StringType()), StructField(ROW_COLUMN, LongType()))
"""The columns that locate a row."""


def rows_with_deleted(table: DeltaTable, files: Sequence[DataFile], version: int) -> DataFrame:
    """The rows of some files with their locations, deleted ones included.

    Args:
        version: whose metadata is used; so in all functions here.
    """
    paths = table.plain_paths([file.path for file in files], version)
    if paths is not None:
        return table.add_locations(table.plain_rows(paths, version))
    with translate_spark_errors():
        return table.add_locations(
            table.frame_of((file.without_vector() for file in files), version)
        )


def local_rows(
    table: DeltaTable,
    files: Sequence[DataFile],
    version: int,
    keys: Sequence[KeySet] = (),
    columns: Sequence[str] | None = None,
    rows_max: int = DRIVER_ROWS_MAX,
) -> pa.Table:
    """Read the rows of files that have a key of any set, with their locations, without Spark.

    Args:
        keys: empty for all rows. columns: with the keys'; None for all. rows_max: the bound.

    Raises:
        OnlySpark: they are in a store, or of a kind, that only Spark reads.
        TooMany: there are more.
    """
    with translate_spark_errors():
        store, paths = _paths(table, files, version)
        wanted = [
            StoredFile(file.path, store, path, table.vectors.deleted_rows(file))
            for path, file in zip(paths, files, strict=True)
        ]
    return _search(table, version, wanted, columns, keys, rows_max)


def move_local_rows(
    table: DeltaTable,
    rows: pa.Table,
    was: Mapping[str, DataFile],
    now: Mapping[str, DataFile],
    version: int,
    keys: Sequence[KeySet],
    columns: Sequence[str],
    rows_max: int,
) -> pa.Table:
    """Derive the rows of files from those of other, mostly equal files; reads only differences.

    Args:
        rows: the result of :func:`local_rows` for the same keys and columns.
        was, now: files by path; a file in both may have other rows deleted.

    Raises:
        OnlySpark, TooMany: as :func:`local_rows`.
    """
    deleted = table.vectors.deleted_rows
    store, paths = _paths(table, list(now.values()), version)
    with translate_spark_errors():
        left = {name: deleted(file) for name, file in now.items() if name in was}
        wanted = []
        for path, (name, file) in zip(paths, now.items(), strict=True):
            if name not in was:
                wanted.append(StoredFile(name, store, path, deleted(file)))
            elif restored := deleted(was[name]) - left[name]:
                wanted.append(StoredFile(name, store, path, BitMap64(), only=restored))
    stayed = drop_deleted(rows, (FILE_COLUMN, ROW_COLUMN), left)
    return pa.concat_tables([stayed, _search(table, version, wanted, columns, keys, rows_max)])


def local_change(
    table: DeltaTable, before: int, after: int, columns: Sequence[str], rows_max: int
) -> tuple[pa.Table, pa.Table]:
    """The rows that are only in the later, and only in the earlier of two versions of a table.

    With their locations. A row that moved from one file to another is in both.

    Args:
        before: -1 for an empty table; files are read alike at both. rows_max: of each result.

    Raises:
        OnlySpark, TooMany: as :func:`local_rows`.
    """
    old = table.files(before) if before >= 0 else {}
    new = table.files(after)
    differ = [*(select_changed(old, new) | select_changed(new, old))]
    whole = [(old.get(p) or new[p]).rows_count for p in differ if not (p in old and p in new)]
    if sum(count or 0 for count in whole) > 2 * rows_max:
        raise TooMany
    come: list[StoredFile] = []
    gone: list[StoredFile] = []
    store, paths = _paths(table, [old.get(name) or new[name] for name in differ], after)
    deleted = table.vectors.deleted_rows
    with translate_spark_errors():
        for name, path in zip(differ, paths, strict=True):
            was, now = old.get(name), new.get(name)
            if was is None:
                come.append(StoredFile(name, store, path, deleted(new[name])))
            elif now is None:
                gone.append(StoredFile(name, store, path, deleted(was)))
            else:
                first, second = deleted(was), deleted(now)
                for rows, found in ((second - first, gone), (first - second, come)):
                    if rows:
                        found.append(StoredFile(name, store, path, BitMap64(), only=rows))
    return (
        _search(table, after, come, columns, (), rows_max),
        _search(table, after, gone, columns, (), rows_max),
    )


def _paths(
    table: DeltaTable, files: Sequence[DataFile], version: int
) -> tuple[FileStore, list[str]]:
    found = table.paths_in_store(files, version)
    if isinstance(found, Declined):
        raise OnlySpark(found.reason)
    return found


def _search(
    table: DeltaTable,
    version: int,
    files: Sequence[StoredFile],
    columns: Sequence[str] | None,
    keys: Sequence[KeySet],
    rows_max: int,
) -> pa.Table:
    schema = table.schema_at(version)
    if columns is not None:
        schema = StructType([f for f in schema.fields if f.name in columns])
    if not is_flat(schema):
        raise OnlySpark(table.location)
    return find(
        files,
        schema,
        keys,
        places=(FILE_COLUMN, ROW_COLUMN),
        rows_max=rows_max,
        bytes_max=DRIVER_ROWS_MAX * DRIVER_ROW_BYTES_MAX,
    )


def find_deleted(
    table: DeltaTable, version: int, places: Mapping[str, Sequence[int]]
) -> dict[str, BitMap64]:
    """Those of some rows that are deleted at a version.

    Args:
        places: row numbers by full path, as in ``_metadata.file_path``.
    """
    by_name = files_by_name(table, version)
    found = {}
    with translate_spark_errors():
        for path, rows in places.items():
            file = by_name[relative_path(path, table.location)]
            found[path] = table.vectors.deleted_rows(file) & BitMap64(rows)
    return found
