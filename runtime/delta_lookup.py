"""Reading rows of some files without their deletion vectors, and asking the vectors afterwards.

Part of the adapter to Delta (:mod:`ctsql.runtime.delta_log`): nothing else touches Delta's
classes.

Delta's reader looks at a vector for every row, and plans every scan with two queries over the
list of files. Who is after few rows of many does better to find them first, deleted or not, and
to ask the vectors about those rows only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from ctsql.runtime.data_files import DataFile
from ctsql.runtime.delta_log import FILE_COLUMN, ROW_COLUMN, DeltaTable
from ctsql.runtime.delta_transaction import files_by_name, relative_path
from ctsql.runtime.local_files import LocalFile, OnlySpark, find, is_flat
from ctsql.runtime.sinks.few import DRIVER_ROW_BYTES_MAX, DRIVER_ROWS_MAX
from ctsql.runtime.spark_errors import converted


def rows_with_deleted(table: DeltaTable, files: Sequence[DataFile]) -> DataFrame:
    """The rows of some files with where each is stored, deleted ones too."""
    paths = table.plain_paths([file.path for file in files])
    if paths is not None:
        return table.placed(table.plain_rows(paths))
    with converted():
        return table.placed(table.frame_of(file.without_vector() for file in files))


def local_rows(
    table: DeltaTable, files: Sequence[DataFile], keys: Mapping[str, Sequence[Any]]
) -> pa.Table:
    """The rows of files that have a key, with where each is stored; read by this process.

    Args:
        keys: column to its value in each key, as :func:`ctsql.runtime.local_files.find` has them.

    Raises:
        OnlySpark: they are on no local disk, or of a kind that only Spark reads.
        TooMany: they are not few.
    """
    paths = table.local_paths(files)
    if paths is None or not is_flat(table.schema):
        raise OnlySpark(table.location)
    with converted():
        looked = [
            LocalFile(file.path, path, table.vectors.deleted_rows(file))
            for path, file in zip(paths, files, strict=True)
        ]
    return find(
        looked,
        table.schema,
        keys,
        places=(FILE_COLUMN, ROW_COLUMN),
        rows_max=DRIVER_ROWS_MAX,
        bytes_max=DRIVER_ROWS_MAX * DRIVER_ROW_BYTES_MAX,
    )


def deleted_among(
    table: DeltaTable, version: int, places: Mapping[str, Sequence[int]]
) -> dict[str, BitMap64]:
    """Which of some rows count as deleted at a version.

    Args:
        places: full path of a file, as ``_metadata.file_path`` gives it, to row numbers.
    """
    by_name = files_by_name(table, version)
    found = {}
    with converted():
        for path, rows in places.items():
            file = by_name[relative_path(path, table.location)]
            found[path] = table.vectors.deleted_rows(file) & BitMap64(rows)
    return found
