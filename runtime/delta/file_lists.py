"""Lists of many files, by few calls into the JVM, not by one or more for each file.

A table that gets some rows at a time has thousands of files until somebody compacts it, and each
read names all of them.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ctsql.runtime.log.data_files import DataFile
from ctsql.runtime.spark.java_source import new_object

ONE_BY_ONE_MAX = 200
"""Of fewer files the calls take less time than the class takes to compile."""
FILES_A_CALL = 5_000
_ANY_ACTION = '{"protocol":{"minReaderVersion":1,"minWriterVersion":1}}'
_SOURCE = """
package ctsql;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.Action$;

public class NAME {
    public void parse(String lines, List files) {
        int begun = 0;
        while (begun < lines.length()) {
            int end = lines.indexOf('\\n', begun);
            if (end < 0) end = lines.length();
            files.add(Action$.MODULE$.fromJson(lines.substring(begun, end)));
            begun = end + 1;
        }
    }

    public String write(List files, int first, int end) {
        StringBuilder lines = new StringBuilder();
        for (int i = first; i < end && i < files.size(); i++) {
            lines.append(((Action) files.get(i)).json()).append('\\n');
        }
        return lines.toString();
    }
}
"""


@lru_cache(maxsize=1)
def file_lists(jvm: Any) -> "FileLists":
    """That of a JVM, which is compiled once in a process."""
    return FileLists(jvm)


class FileLists:
    """Gives Delta many files, and takes them from it."""

    def __init__(self, jvm: Any) -> None:
        beside = jvm.org.apache.spark.sql.delta.actions.Action.fromJson(_ANY_ACTION)
        self._java: Any = new_object(jvm, _SOURCE, beside)
        self._list: Any = jvm.java.util.ArrayList

    def to_java(self, files: Sequence[DataFile]) -> Any:
        """A Java list of Delta's own objects (AddFile)."""
        java_list = self._list(len(files))
        for first in range(0, len(files), FILES_A_CALL):
            lines = "\n".join(file.line for file in files[first : first + FILES_A_CALL])
            self._java.parse(lines, java_list)
        return java_list

    def from_java(self, files: Any) -> list[DataFile]:
        """The files of a Java list of Delta's own objects."""
        count = int(files.size())
        lines = (
            self._java.write(files, first, first + FILES_A_CALL)
            for first in range(0, count, FILES_A_CALL)
        )
        # Not by splitlines(): a path or a bound may have signs at which that splits.
        return [DataFile(line) for text in lines for line in str(text).split("\n")[:-1]]
