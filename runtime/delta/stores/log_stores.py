"""The stores of logs: listing and reading the files of one log.

On a local disk this process reads them without the JVM, where a call takes a hundred times as long
as the read.

Source: Hadoop's ``ChecksumFileSystem`` for the ``.NAME.crc`` files, which Delta checks as well.
"""

import os
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctsql.runtime.spark.failures.storage_errors import damaged_file, translate_os_errors

_SUM_HEADER = struct.Struct(">4sI")


class LogStore(ABC):
    """The folder of one log."""

    uri: str  # its name in errors
    table_folder: str | None = None  # the folder around it, on a local disk

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether the folder has a file; one request to the store."""

    @abstractmethod
    def read(self, name: str) -> str:
        """The text of a file."""

    @abstractmethod
    def mark(self, name: str) -> tuple[int, int] | None:
        """The time, in milliseconds, and the length of a file; None if there is none."""

    @abstractmethod
    def open(self, name: str) -> Any:
        """A file that Arrow reads from any place of it, to be closed."""

    @abstractmethod
    def names(self, first: int = 0) -> Sequence[str]:
        """The names in the folder, at least from those of a version on."""


class LocalStore(LogStore):
    """A folder of a local disk."""

    def __init__(self, folder: Path) -> None:
        self.table_folder = str(folder.parent)
        self._folder = str(folder)
        self.uri = f"file:{folder}"

    def mark(self, name: str) -> tuple[int, int] | None:
        """The time and the length of a file."""
        path = f"{self._folder}/{name}"
        with translate_os_errors(path):
            try:
                status = os.stat(path)
            except FileNotFoundError:
                return None
        return status.st_mtime_ns // 1_000_000, status.st_size

    def exists(self, name: str) -> bool:
        """Whether there is a file."""
        return self.mark(name) is not None

    def read(self, name: str) -> str:
        """The text of a file, checked by Hadoop's checksums if there are any."""
        # Not by Path: making one takes about as long as reading a cached file.
        with translate_os_errors(f"{self._folder}/{name}"):
            with open(f"{self._folder}/{name}", "rb") as file:
                data = file.read()
            try:
                with open(f"{self._folder}/.{name}.crc", "rb") as file:
                    sums = file.read()
            except FileNotFoundError:
                sums = b""
        if not _fits(data, sums):
            how = "its contents do not match its checksum"
            raise damaged_file(f"{self.uri}/{name}", how)
        return data.decode("utf-8", errors="replace")

    def open(self, name: str) -> Any:
        """A file that Arrow reads."""
        from pyarrow import OSFile

        return OSFile(f"{self._folder}/{name}")

    def names(self, first: int = 0) -> Sequence[str]:
        """The names in the folder."""
        with translate_os_errors(self._folder):
            try:
                return os.listdir(self._folder)
            except FileNotFoundError:
                return ()


def _fits(data: bytes, sums: bytes) -> bool:
    """Whether a file's bytes fit Hadoop's checksums of them; True without any."""
    if len(sums) < _SUM_HEADER.size:
        return True
    magic, step = _SUM_HEADER.unpack_from(sums)
    if magic != b"crc\0" or step <= 0:
        return True  # Hadoop ignores such a file
    checksums = (zlib.crc32(data[i : i + step]) for i in range(0, len(data), step))
    return b"".join(s.to_bytes(4, "big") for s in checksums) == sums[_SUM_HEADER.size :]
