"""Reading rows of some files without their deletion vectors, and asking the vectors afterwards.

Part of the adapter to Delta (:mod:`ctsql.runtime.delta_log`): nothing else touches Delta's
classes.

Delta's reader looks at a vector for every row, and plans every scan with two queries over the
list of files. Who is after few rows of many does better to find them first, deleted or not, and
to ask the vectors about those rows only.
"""

import json
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from ctsql.runtime.delta_log import DeltaTable
from ctsql.runtime.delta_transaction import relative_path
from ctsql.runtime.delta_vectors import VectorFile
from ctsql.runtime.spark_errors import converted


def rows_with_deleted(table: DeltaTable, files: Sequence[Any]) -> DataFrame:
    """The rows of some files (AddFile objects) with where each is stored, deleted ones too."""
    paths = table.plain_paths([str(add.path()) for add in files])
    if paths is not None:
        return table.placed(table.plain_rows(paths))
    with converted():
        return table.placed(table.frame_of(_without_vector(table, add) for add in files))


def _without_vector(table: DeltaTable, add: Any) -> Any:
    if add.deletionVector() is None:
        return add
    action = json.loads(add.json())
    del action["add"]["deletionVector"]
    return table.gateway.parse_action(json.dumps(action))


def deleted_among(
    table: DeltaTable, version: int, places: "Mapping[str, array[int]]"
) -> dict[str, set[int]]:
    """Which of some rows count as deleted at a version.

    Args:
        places: full path of a file, as ``_metadata.file_path`` gives it, to row numbers.
    """
    by_name = {
        relative_path(path, table.location): add for path, add in table.files(version).items()
    }
    found = {}
    with converted():
        vectors = VectorFile(table)
        for file, rows in places.items():
            add = by_name[relative_path(file, table.location)]
            packed = array("q", rows)
            packed.byteswap()
            gone = array("q", vectors.already_deleted(add, packed.tobytes()))
            gone.byteswap()
            found[file] = set(gone)
    return found
