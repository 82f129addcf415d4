"""Tables on a local disk, read from their logs alone: no Spark, no rows.

Used before Spark has started, or without it. If it raises :class:`NeedsSpark`, the caller runs the
same code over :class:`ctsql.runtime.delta.table.Gateway`.
"""

import os
from pathlib import Path
from typing import Never

from ctsql.runtime.delta.log.log_files import LogFiles, Snapshot
from ctsql.runtime.delta.log.table_log import TableLog
from ctsql.runtime.delta.stores.locks import local_path
from ctsql.runtime.delta.stores.log_stores import LocalStore
from ctsql.runtime.spark.failures.storage_errors import translate_os_errors

_URI = "file:"


class NeedsSpark(Exception):
    """Logs on a local disk do not have the answer; the message names the question."""


class OnSpark:
    """All other attributes need Spark."""

    def __getattr__(self, name: str) -> Never:
        raise NeedsSpark(name)


class LocalTable(OnSpark, TableLog):
    """The log of one table on a local disk."""

    def _open_log(self) -> LogFiles:
        store = LocalStore(_folder(self.location) / "_delta_log")
        return LogFiles(self.location, store, _check_protocol)

    def begin(self) -> Never:
        """Needs Spark."""
        raise NeedsSpark("a commit")


class LocalGateway(OnSpark):
    """Makes :class:`LocalTable` objects; the part of ``Gateway`` that needs no Spark."""

    read_only = True

    def __init__(self) -> None:
        self._tables: dict[str, LocalTable] = {}

    def table(self, location: str) -> LocalTable:
        """The table at a location; the same object for the same location."""
        table = self._tables.get(location)
        if table is None:
            table = self._tables[location] = LocalTable(location)
        return table

    def output_table(self, location: str) -> LocalTable:
        """The same."""
        return self.table(location)

    def forget(self, location: str) -> None:
        """Drop the cache of a table."""
        self._tables.pop(location, None)

    def qualify(self, location: str) -> str:
        """A location as a full URI; a relative one is relative to the working folder."""
        folder = local_path(location)
        if folder is None:
            raise NeedsSpark(f"the store of {location}")
        return f"{_URI}{os.path.abspath(folder)}"

    def exists(self, location: str) -> bool:
        """Whether the location has a folder for a Delta log."""
        with translate_os_errors(location):
            return (_folder(location) / "_delta_log").exists()

    def entries(self, location: str) -> list[str] | None:
        """The names in a folder, empty if it does not exist; None for a file."""
        folder = _folder(location)
        with translate_os_errors(location):
            if not folder.exists():
                return []
            return os.listdir(folder) if folder.is_dir() else None


def _check_protocol(snapshot: Snapshot) -> None:
    """Let Delta decide whether it reads a table of this protocol."""
    if not snapshot.is_understood:
        raise NeedsSpark("a table of another protocol")


def _folder(location: str) -> Path:
    folder = local_path(location)
    if folder is None:
        raise NeedsSpark(f"the store of {location}")
    return folder
