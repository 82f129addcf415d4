"""The stores whose files this process reads and writes itself: local disks, and others by Arrow.

Which others, and how Arrow finds them, :mod:`ctsql.runtime.delta.remote_stores` says. A store is
left to Spark if a setting has no counterpart in Arrow, if there are no credentials, or if Arrow
does not find a file there that Spark sees.
"""

import os
import re
from dataclasses import dataclass

import pyarrow as pa
from pyarrow.fs import FileSystem, LocalFileSystem

from ctsql.runtime.delta.locks import local_path
from ctsql.runtime.delta.remote_stores import KINDS, Setting
from ctsql.runtime.rows.declined import Declined

REMOTE_THREADS = 8
"""Files read at a time from a store whose answers take long; each holds columns of a row group."""
_PATTERN_SIGN = re.compile(r"[\\*?{}\[\]]")


@dataclass(frozen=True, eq=False, slots=True)
class FileStore:
    """A store; ``may_write``: whether a file that Arrow writes is as one that Spark writes."""

    files: FileSystem
    is_local: bool = False
    may_write: bool = True

    @property
    def threads(self) -> int:
        """The number of files to read at a time."""
        return (os.cpu_count() or 1) if self.is_local else REMOTE_THREADS


LOCAL = FileStore(LocalFileSystem(), is_local=True)


def split_store(location: str) -> tuple[str, str, str]:
    """The scheme, the authority and the path of a location that is not on a local disk.

    >>> split_store("abfss://box@lake.dfs.core.windows.net/w#1")
    ('abfss', 'box@lake.dfs.core.windows.net', '/w#1')
    """
    scheme, _, rest = location.partition("://")
    authority, slash, path = rest.partition("/")
    return scheme, authority, slash + path


def path_in_store(location: str) -> str:
    """The path of a table's location, as Arrow takes it: without the scheme.

    >>> path_in_store("file:/w/t%201"), path_in_store("gs://lake/w/t 1%20")
    ('/w/t%201', 'lake/w/t 1%20')
    >>> path_in_store("abfs://box@lake.dfs.core.windows.net/w"), path_in_store("hdfs://n:8020/w")
    ('box/w', '/w')
    """
    folder = local_path(location)
    if folder is not None:
        return str(folder)
    scheme, authority, path = split_store(location)
    return KINDS[scheme].root(authority) + path


def open_store(location: str, setting: Setting) -> FileStore | Declined:
    """The store of a location as Spark's connector reaches it; no file is asked for yet."""
    scheme, authority, _ = split_store(location)
    kind = KINDS.get(scheme)
    if kind is None:
        return Declined("Spark reads this kind of store")
    found = kind.reach(authority, setting)
    if isinstance(found, Declined):
        return found
    arguments, may_write = found
    try:
        return FileStore(kind.connect(**arguments), may_write=may_write)
    except (ImportError, OSError, TypeError, ValueError, pa.ArrowException) as problem:
        # Arrow may be built without the file system, or be too old for one of its arguments.
        return Declined(f"Arrow cannot reach {scheme}://{authority}: {problem}")


def who_has_few_rows(store: FileStore | Declined) -> str:
    """Who reads and writes few rows in a store, for people.

    >>> who_has_few_rows(LOCAL), who_has_few_rows(Declined("there are no credentials"))
    ('read and written by this process', 'read and written by Spark: there are no credentials')
    """
    if isinstance(store, Declined):
        return f"read and written by Spark: {store.reason}"
    if store.may_write:
        return "read and written by this process"
    return "read by this process, written by Spark"


def pattern_of(path: str) -> str:
    """The pattern that means this path alone, for Spark's readers.

    Their option that a path is no pattern is of no use: for each path that looks like a pattern
    they take all paths again.
    """
    return _PATTERN_SIGN.sub(r"\\\g<0>", path)
