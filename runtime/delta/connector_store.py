"""A store whose files this process reads and writes by Spark's own connector, through the JVM.

It is reached wherever Spark reaches it, with the same settings and credentials. What is read passes
through a temporary file: as the answer of a call, bytes would come as text, ten times as slow.

Source: Hadoop's "FileSystem Specification" (``openFile`` with its read policies).
"""

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError

from ctsql.runtime.delta.file_stores import FileStore

_READ_POLICY = "fs.option.openfile.read.policy"
_LENGTH = "fs.option.openfile.length"
_POLICIES = "parquet, columnar, random"  # the first one that a connector knows
_BYTES_AT_ONCE = 8 * 1024 * 1024
"""The most bytes of one call that writes: they are sent as text."""


class ConnectorStore(FileStore):
    """A Hadoop file system in the JVM."""

    def __init__(self, jvm: Any, scheme: str, file_system: Any) -> None:
        """Args: scheme: of its locations."""
        self._scheme = scheme
        self._files = file_system
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self._new_file = jvm.java.io.FileOutputStream
        self._copy = jvm.org.apache.commons.io.IOUtils.copyLarge

    def _path(self, path: str) -> Any:
        return self._path_of(f"{self._scheme}://{path}")

    def size_of(self, path: str) -> int:
        """The bytes of a file."""
        with _as_os_errors():
            return int(self._files.getFileStatus(self._path(path)).getLen())

    def open_input(self, path: str) -> pa.NativeFile:
        """A file, to read from any place of it."""
        where = self._path(path)
        with _as_os_errors():
            size = int(self._files.getFileStatus(where).getLen())
            opening = self._files.openFile(where).opt(_READ_POLICY, _POLICIES)
            stream = opening.opt(_LENGTH, str(size)).build().get()
            return pa.PythonFile(_Input(stream, size, self._copy, self._new_file), "r")

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file; it is there when it has been closed."""
        with _as_os_errors():
            return pa.PythonFile(_Output(self._files.create(self._path(path), False)), "w")

    def make_folder(self, path: str) -> None:
        """Nothing: a connector makes the folders of a file."""


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """What a connector raises, as other stores do."""
    try:
        yield
    except Py4JJavaError as problem:
        thrown = problem.java_exception
        raise OSError(str(thrown.toString())) from problem
    except Py4JError as problem:
        raise OSError(str(problem)) from problem


class _Input(io.RawIOBase):
    """A stream of the JVM of which any place can be read.

    The JVM copies what is asked for to the end of a file that has no name any more.
    """

    def __init__(self, stream: Any, size: int, copy: Any, new_file: Any) -> None:
        super().__init__()
        self._stream = stream
        self._size = size
        self._copy = copy
        self._place = 0
        self._copied = 0
        self._file, path = tempfile.mkstemp(prefix="ctsql-")
        try:
            self._copies = new_file(path)
        except BaseException:
            os.close(self._file)
            raise
        finally:
            os.unlink(path)

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
        left = max(0, self._size - self._place)
        wanted = left if size is None or size < 0 else min(size, left)
        with _as_os_errors():
            self._stream.seek(self._place)
            self._copy(self._stream, self._copies, 0, wanted)
        data = os.pread(self._file, wanted, self._copied)
        if len(data) < wanted:
            raise OSError("the file is shorter than its store says")
        self._copied += wanted
        self._place += wanted
        return data

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
            with _as_os_errors():
                self._copies.close()
                self._stream.close()
        super().close()


class _Output(io.RawIOBase):
    """A stream of the JVM that is written from its begin to its end."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream
        self._place = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def write(self, data: Any, /) -> int:
        written = bytes(data)
        with _as_os_errors():
            for begin in range(0, len(written), _BYTES_AT_ONCE):
                self._stream.write(written[begin : begin + _BYTES_AT_ONCE])
        self._place += len(written)
        return len(written)

    def close(self) -> None:
        if not self.closed:
            with _as_os_errors():
                self._stream.close()
        super().close()
