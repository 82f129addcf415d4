"""Lists of many files for Delta, by few calls into the JVM, not by one or more for each file.

A table that gets some rows at a time has thousands of files until somebody compacts it, and each
read names all of them. Delta's own reader and writer of JSON takes an array of them as well.
"""

import json
from collections.abc import Sequence
from typing import Any

from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.spark.internals.java import singleton

FILES_A_CALL = 5_000
_ANY_FILE = (
    '{"add":{"path":"p","partitionValues":{},"size":0,"modificationTime":0,"dataChange":true}}'
)


class FileLists:
    """Gives Delta many files.

    No public API makes actions of files. Needed: without it, Spark reads no table.
    """

    def __init__(self, jvm: Any) -> None:
        delta = jvm.org.apache.spark.sql.delta
        self._json: Any = singleton(delta.util, "JsonUtils").mapper()
        self._list: Any = jvm.java.util.ArrayList
        add_class = delta.actions.Action.fromJson(_ANY_FILE).getClass()
        types = self._json.getTypeFactory()
        self._adds: Any = types.constructCollectionType(self._list().getClass(), add_class)

    def to_java(self, files: Sequence[DataFile]) -> Any:
        """A Java list of Delta's own objects (AddFile)."""
        java_list = self._list()
        for first in range(0, len(files), FILES_A_CALL):
            actions = [file.action for file in files[first : first + FILES_A_CALL]]
            java_list.addAll(self._json.readValue(json.dumps(actions), self._adds))
        return java_list
