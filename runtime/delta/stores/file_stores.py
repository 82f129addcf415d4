"""The stores whose files this process reads and writes itself.

A local disk is read without the JVM. Every other store is reached by Spark's connector
(:mod:`ctsql.runtime.delta.stores.connector_store`), with Spark's settings and credentials.
"""

import os
import re
from abc import ABC, abstractmethod

from pyarrow import NativeFile
from pyarrow.fs import LocalFileSystem

from ctsql.runtime.delta.stores.locks import local_path

REMOTE_THREADS = 8  # files read in parallel from a remote store; each holds columns of a row group
_PATTERN_SIGN = re.compile(r"[\\*?{}\[\]]")


class FileStore(ABC):
    """A store; all of its methods raise OSError."""

    is_local = False

    @property
    def threads(self) -> int:
        """The number of files to read in parallel."""
        return (os.cpu_count() or 1) if self.is_local else REMOTE_THREADS

    @abstractmethod
    def open_input(self, path: str, size: int) -> NativeFile:
        """A file of some bytes, to read from any place of it."""

    @abstractmethod
    def open_output(self, path: str) -> NativeFile:
        """A new file; it is there when it has been closed."""


class LocalDisk(FileStore):
    """The disk of this machine."""

    is_local = True
    _files = LocalFileSystem()

    def open_input(self, path: str, size: int) -> NativeFile:
        """A file of some bytes, to read from any place of it."""
        return self._files.open_input_file(path)

    def open_output(self, path: str) -> NativeFile:
        """A new file; it is there when it has been closed."""
        return self._files.open_output_stream(path)


LOCAL = LocalDisk()


def path_in_store(location: str) -> str:
    """The path of a table's location in its store: with the bucket, without the scheme."""
    folder = local_path(location)
    return location.partition(":")[2].removeprefix("//") if folder is None else str(folder)


def pattern_of(path: str) -> str:
    """The pattern that matches this path alone, for Spark's readers.

    With their option for literal paths they read all paths again for each path that looks like a
    pattern.
    """
    return _PATTERN_SIGN.sub(r"\\\g<0>", path)
