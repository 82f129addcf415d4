"""Files and logs in stores that this process reaches by Spark's connectors, through the JVM.

With Spark's settings and credentials. Data that is read passes through a temporary file: as the
answer of a call, bytes would arrive as text, ten times as slow.

Source: Hadoop's "FileSystem Specification" (``openFile`` with its read policies, ``createFile``).
"""

import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError

from ctsql.runtime.delta.internals.handle import DeltaHandle
from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.delta.stores.file_stores import FileStore, path_in_store
from ctsql.runtime.delta.stores.log_stores import LogStore
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.failures.storage_errors import translate_os_errors

_READ_POLICY = "fs.option.openfile.read.policy"
_LENGTH = "fs.option.openfile.length"
_POLICIES = "parquet, columnar, random"  # the first one that a connector knows
_UNASKED = "fs.s3a.create.performance"  # no request that asks for a file of the same name
_BUFFER_BYTES = 64 * 1024
_BYTES_AT_ONCE = 8 * 1024 * 1024
"""The most bytes of a writing call, sent as text, and of a buffer of the JVM."""


class ConnectorStore(FileStore):
    """A Hadoop file system in the JVM."""

    def __init__(self, jvm: Any, scheme: str, file_system: Any) -> None:
        self._scheme = scheme
        self._files = file_system
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self._new_file = jvm.java.io.FileOutputStream
        self._limit = jvm.org.apache.commons.io.input.BoundedInputStream
        self._copy = jvm.org.apache.hadoop.io.IOUtils.copyBytes

    def _path(self, path: str) -> Any:
        return self._path_of(f"{self._scheme}://{path}")

    def open_input(self, path: str, size: int) -> pa.NativeFile:
        """A seekable file of ``size`` bytes, opened by the first read."""
        return pa.PythonFile(_Input(self, path, size), "r")

    def stream_of(self, path: str, size: int) -> Any:
        """A stream of the JVM."""
        opening = self._files.openFile(self._path(path))
        # Connectors ignore unknown options.
        return opening.opt(_READ_POLICY, _POLICIES).opt(_LENGTH, str(size)).build().get()

    def new_copies(self, path: str) -> Any:
        """A stream of the JVM that appends to a local file."""
        return self._new_file(path, True)

    def copy(self, stream: Any, place: int, size: int, copies: Any) -> None:
        """Copy bytes of a stream; the connector requests ``size`` bytes at once."""
        stream.seek(place)
        self._copy(self._limit(stream, size), copies, min(size, _BYTES_AT_ONCE), False)

    def read(self, path: str) -> bytes:
        """All bytes of a small file."""
        with _as_os_errors(), tempfile.NamedTemporaryFile(prefix="ctsql-") as copy:
            stream = self._files.open(self._path(path))
            self._copy(stream, self._new_file(copy.name), _BUFFER_BYTES, True)  # closes both
            return copy.read()

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file; it exists once closed, also after an error, and then without a reference."""
        with _as_os_errors():
            opening = self._files.createFile(self._path(path)).recursive().overwrite(False)
            return pa.PythonFile(_Output(opening.opt(_UNASKED, "true").build()), "w")


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """A connector's exceptions become OSError."""
    try:
        yield
    except Py4JJavaError as problem:
        exception = problem.java_exception
        raise OSError(str(exception.toString())) from problem
    except Py4JError as problem:
        raise OSError(str(problem)) from problem


class _Input(io.RawIOBase):
    """A seekable stream of the JVM, copied in pieces through an unlinked file."""

    def __init__(self, store: ConnectorStore, path: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._path = path
        self._size = size
        self._place = 0
        self._handles: tuple[Any, Any, int] | None = None  # two streams, and the file of copies
        self._closing = ExitStack()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def read(self, size: int | None = -1, /) -> bytes:
        rest = max(0, self._size - self._place)
        count = rest if size is None or size < 0 else min(size, rest)
        if not count:
            return b""
        with _as_os_errors():
            if self._handles is None:
                self._handles = self._open()
            stream, copies, file = self._handles
            os.ftruncate(file, 0)
            self._store.copy(stream, self._place, count, copies)
        data = os.pread(file, count, 0)
        if len(data) < count:
            raise OSError(f"{self._path} is shorter than the table's log says")
        self._place += count
        return data

    def _open(self) -> tuple[Any, Any, int]:
        file, path = tempfile.mkstemp(prefix="ctsql-")
        try:
            with ExitStack() as closing:
                closing.callback(os.close, file)
                copies = self._store.new_copies(path)
                closing.callback(copies.close)
                stream = self._store.stream_of(self._path, self._size)
                closing.callback(stream.close)
                self._closing = closing.pop_all()
            return stream, copies, file
        finally:
            os.unlink(path)

    def close(self) -> None:
        self._handles = None
        try:
            with _as_os_errors():
                self._closing.close()  # everything, even if a part of it fails
        finally:
            super().close()


class _Output(io.RawIOBase):
    """A stream of the JVM for sequential writes."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream
        self._place = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def write(self, data: Any, /) -> int:
        content = bytes(data)
        with _as_os_errors():
            for begin in range(0, len(content), _BYTES_AT_ONCE):
                self._stream.write(content[begin : begin + _BYTES_AT_ONCE])
        self._place += len(content)
        return len(content)

    def close(self) -> None:
        if self.closed:
            return
        try:
            with _as_os_errors():
                self._stream.close()
        finally:
            super().close()


class HadoopStore(LogStore):
    """A log in a store that Spark reaches, listed through Delta's own log store."""

    def __init__(self, gateway: JvmObjects, handle: DeltaHandle, files: ConnectorStore) -> None:
        self._gateway, self._files = gateway, files
        with translate_spark_errors():
            self._folder = handle.log_folder
            self._hadoop, self._fs = handle.hadoop, handle.file_system
            self._delta = handle.log_store()
            self.uri = str(self._folder.toString())

    def _path(self, name: str) -> Any:
        return self._gateway.path(self._folder, name)

    def exists(self, name: str) -> bool:
        """Whether there is a file."""
        with translate_spark_errors():
            return bool(self._fs.exists(self._path(name)))

    def read(self, name: str) -> str:
        """The text of a file."""
        with translate_os_errors(f"{self.uri}/{name}"):
            data = self._files.read(f"{path_in_store(self.uri)}/{name}")
        return data.decode("utf-8", errors="replace")

    def mark(self, name: str) -> tuple[int, int] | None:
        """The time and the length of a file."""
        if not self.exists(name):
            return None
        with translate_spark_errors():
            status = self._fs.getFileStatus(self._path(name))
            return int(status.getModificationTime()), int(status.getLen())

    def open(self, name: str) -> Any:
        """A file for Arrow."""
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
