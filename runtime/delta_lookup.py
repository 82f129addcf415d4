"""Reading rows of some files without their deletion vectors, and asking the vectors afterwards.

Part of the adapter to Delta (:mod:`ctsql.runtime.delta_log`): nothing else touches Delta's
classes.

Delta's reader looks at a vector for every row, and plans every scan with two queries over the
list of files. Who is after few rows of many does better to find them first, deleted or not, and
to ask the vectors about those rows only.
"""

from collections.abc import Mapping, Sequence

from pyroaring import BitMap64
from pyspark.sql import DataFrame

from ctsql.runtime.data_files import DataFile
from ctsql.runtime.delta_log import DeltaTable
from ctsql.runtime.delta_transaction import files_by_name, relative_path
from ctsql.runtime.spark_errors import converted


def rows_with_deleted(table: DeltaTable, files: Sequence[DataFile]) -> DataFrame:
    """The rows of some files with where each is stored, deleted ones too."""
    paths = table.plain_paths([file.path for file in files])
    if paths is not None:
        return table.placed(table.plain_rows(paths))
    with converted():
        return table.placed(table.frame_of(file.without_vector() for file in files))


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
