"""The log store of what Spark alone reaches: Hadoop's file systems."""

from collections.abc import Sequence
from typing import Any

from ctsql.runtime.delta.internals.handle import DeltaHandle
from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.delta.stores.file_stores import FileStore, path_in_store
from ctsql.runtime.delta.stores.log_stores import LogStore
from ctsql.runtime.spark.failures.errors import translate_spark_errors


class HadoopStore(LogStore):
    """A log in a store that Spark reaches, read through Delta's own log store."""

    def __init__(self, gateway: JvmObjects, handle: DeltaHandle, files: FileStore) -> None:
        """Args: handle: Delta's own, which is opened. files: the store, by Spark's connector."""
        self._gateway, self._files = gateway, files
        with translate_spark_errors():
            self._folder = handle.log_folder
            self._hadoop, self._fs = handle.hadoop, handle.file_system
            self._delta = handle.log_store()
            self.uri = str(self._folder.toString())
        self._last_path: tuple[str, Any] = ("", None)

    def _path(self, name: str) -> Any:
        """The path of a file; the last one is cached, since polling repeats it."""
        last_name, path = self._last_path
        if last_name != name:
            path = self._gateway.path(self._folder, name)
            self._last_path = name, path
        return path

    def exists(self, name: str) -> bool:
        """Whether there is a file."""
        with translate_spark_errors():
            return bool(self._fs.exists(self._path(name)))

    def read(self, name: str) -> str:
        """The text of a file."""
        with translate_spark_errors():
            lines = self._delta.read(self._path(name), self._hadoop)
            return self._gateway.join(lines, "\n")

    def mark(self, name: str) -> tuple[int, int] | None:
        """The time and the length of a file."""
        if not self.exists(name):
            return None
        with translate_spark_errors():
            status = self._fs.getFileStatus(self._path(name))
            return int(status.getModificationTime()), int(status.getLen())

    def open(self, name: str) -> Any:
        """A file that Arrow reads."""
        mark = self.mark(name)
        if mark is None:
            raise FileNotFoundError(f"{self.uri}/{name}")
        return self._files.open_input(f"{path_in_store(self.uri)}/{name}", mark[1])

    def names(self, first: int = 0) -> Sequence[str]:
        """The names in the folder, from those of a version on."""
        with translate_spark_errors():
            if not self._fs.exists(self._folder):
                return ()
            if not first:
                return [str(s.getPath().getName()) for s in self._fs.listStatus(self._folder)]
            statuses = self._delta.listFrom(self._path(f"{first:020d}"), self._hadoop)
            names = list[str]()
            while statuses.hasNext():
                names.append(str(statuses.next().getPath().getName()))
            return names
