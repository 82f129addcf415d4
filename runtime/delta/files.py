"""Rewrites, lists and deletes a table's files.

Delta's OPTIMIZE commits by itself, so on a local disk all writers would wait for its lock while it
rewrites files. Here the files are rewritten in a transaction, and only its commit holds the lock. A
clustered table, or one with row tracking, needs OPTIMIZE.

:mod:`ctsql.runtime.maintenance.retention` decides which files may be deleted. Delta's VACUUM
ignores the needs of consumers, and takes four seconds of Spark jobs for three files.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import table_at
from ctsql.runtime.delta.clones import is_of_copy
from ctsql.runtime.delta.local_scan import live_rows
from ctsql.runtime.delta.stores.locks import commit_lock, local_path
from ctsql.runtime.delta.table import DeltaTable, Gateway
from ctsql.runtime.log.actions import Bin, DataFile, StoredFile, sum_known
from ctsql.runtime.log.batches import StagedFile
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX, TOO_MANY
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.failures.storage_errors import translate_os_errors

LOG_FOLDER = "_delta_log"
CHANGE_FOLDER = "_change_data"
ICEBERG_FOLDER = "metadata"
"""The folder for readers of Iceberg, with ``delta.universalFormat.enabledFormats``."""
FEATURES_OF_OTHERS = ("clustering", "rowTracking")
FEATURES_OF_LOGS = ("catalogManaged", "checkpointProtection", "v2Checkpoint")


@dataclass(frozen=True, slots=True)
class Compaction:
    """Numbers of files before and after a compaction, and its version; None if nothing was done."""

    before: int = 0
    after: int = 0
    version: int | None = None


def compact(
    table: DeltaTable, choose: Callable[[Iterable[DataFile]], Sequence[Bin]]
) -> Compaction | None:
    """Rewrite the chosen files; None, with nothing changed, if a conflicting commit came first.

    No row changes, so no T is assigned. Delta opens the log only if there are files to rewrite.
    """
    if not choose(table.files(table.version()).values()):
        return Compaction()
    txn = table.begin()
    bins = choose(table.files(txn.version_read).values())
    if not bins:
        return Compaction()
    new_files: list[StagedFile] = []
    try:
        for one in bins:
            new_files += txn.rewrite(one, _few_rows(table, one, txn.version_read))
    except BaseException:
        _discard(table, new_files)
        raise
    try:
        version = txn.commit_rewrites()
    except Conflict:
        own_version = _find_landed(table, new_files, after=txn.version_read)
        if own_version is None:
            _discard(table, new_files)
            return None
        version = own_version
    # After any other error the commit may have succeeded, so nothing is discarded.
    return Compaction(sum(map(len, bins)), len(new_files), version)


def _few_rows(table: DeltaTable, files: Bin, version: int) -> LocalRows | Declined:
    """The live rows of files; declined if many, or if only Spark reads them."""
    if (sum_known(file.rows_count for file in files) or DRIVER_ROWS_MAX + 1) > DRIVER_ROWS_MAX:
        return TOO_MANY
    return live_rows(table, files, version)


def _discard(table: DeltaTable, files: Sequence[StagedFile]) -> None:
    table.discard(unquote(file.path) for file in files)


def _find_landed(table: DeltaTable, files: Sequence[StagedFile], *, after: int) -> int | None:
    """The version that added a staged file: a commit may succeed although a conflict was raised."""
    paths = {file.path for file in files}
    for version in range(after + 1, table.version() + 1):
        if any(add.path in paths for add in table.commit_at(version).adds):
            return version
    return None


def optimize(table: DeltaTable) -> Compaction:
    """Run Delta's own OPTIMIZE under the commit lock."""
    before = table.version()
    with commit_lock(table.location), translate_spark_errors():
        table.gateway.session.sql(f"OPTIMIZE {table_at(table.location)}")
    commits = [table.commit_at(v) for v in range(before + 1, table.version() + 1)]
    rewrites = [c for c in commits if not c.changes_data and c.adds]
    removes_count = sum(len(c.removes) for c in rewrites)
    adds_count = sum(len(c.adds) for c in rewrites)
    return Compaction(removes_count, adds_count, rewrites[-1].version if rewrites else None)


def is_of_others(table: DeltaTable) -> bool:
    """Whether only Delta's own OPTIMIZE keeps the table's clustering or row ids."""
    return any(table.has_feature(name) for name in FEATURES_OF_OTHERS)


# ---- files and folders


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file or folder in a folder."""

    name: str
    is_folder: bool
    size: int
    modified_ms: int


def _entries(gateway: Gateway, folder: str) -> Iterator[_Entry]:
    """What is in a folder; on a local disk without calls of the JVM, which are five for a file."""
    here = local_path(folder)
    if here is None:
        path = gateway.path(folder)
        for status in path.getFileSystem(gateway.hadoop_settings()).listStatus(path):
            size, modified_ms = int(status.getLen()), int(status.getModificationTime())
            is_folder = bool(status.isDirectory())
            yield _Entry(str(status.getPath().getName()), is_folder, size, modified_ms)
        return
    with os.scandir(here) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # it is being deleted
                stat = entry.stat()
                yield _Entry(
                    entry.name, entry.is_dir(), stat.st_size, stat.st_mtime_ns // 1_000_000
                )


def stored_files(table: DeltaTable) -> list[StoredFile]:
    """The data, change and vector files in a table's folder, without nested tables.

    The remains of a killed transaction's copy are listed too, with its log.
    """
    with translate_spark_errors(), translate_os_errors(table.location):
        return list(_list(table.gateway, table.location, ""))


def _list(gateway: Gateway, location: str, prefix: str) -> Iterator[StoredFile]:
    children = list(_entries(gateway, f"{location}/{prefix}".rstrip("/")))
    is_copy = is_of_copy(prefix.partition("/")[0])
    if prefix and not is_copy and any(one.name == LOG_FOLDER for one in children):
        return  # another table
    for one in children:
        if one.is_folder:
            if is_copy or not _is_of_others(one.name):
                yield from _list(gateway, location, f"{prefix}{one.name}/")
        elif is_copy or not one.name.startswith(("_", ".")):
            path = prefix + one.name
            yield StoredFile(path=path, size=one.size, modified_ms=one.modified_ms)


def _is_of_others(folder: str) -> bool:
    """Whether a folder has no files of the table, as in Delta's VACUUM."""
    is_hidden = folder.startswith(("_", ".")) and folder != CHANGE_FOLDER
    return is_hidden or folder == ICEBERG_FOLDER


def delete_files(table: DeltaTable, files: Sequence[StoredFile]) -> list[StoredFile]:
    """Delete files of a table's folder except for live ones; returns the deleted ones.

    Live files are read again, with Delta's reading of paths: a RESTORE may have revived a file. It
    makes no version, so it needs no lock.
    """
    if not files:
        return []
    deleted_files: list[StoredFile] = []
    with translate_spark_errors():
        live = _live_places(table)
        for file in files:
            path = table._fs.makeQualified(table.gateway.path(table.jpath, file.path))
            if path.toString() not in live and table._fs.delete(path, False):
                deleted_files.append(file)
    return deleted_files


def _live_places(table: DeltaTable) -> set[str]:
    path_class, uri_class = table.gateway.path, table.gateway.jvm.java.net.URI
    places: set[str] = set()
    for file in table.files(table.version()).values():
        path = path_class(uri_class(file.path))
        places.add(table._fs.makeQualified(path_class(table.jpath, path)).toString())
        if file.vector is None:
            continue
        vector_path = table.gateway.vector_path(file, table.jpath)
        if vector_path is not None:
            places.add(table._fs.makeQualified(vector_path).toString())
    return places


def first_logged(table: DeltaTable) -> int:
    """The oldest version whose commit is still in the log.

    Only a log's oldest files are deleted, so the cached version is valid while its file exists.
    """
    if table.oldest_seen is not None and table.has(table.oldest_seen):
        return table.oldest_seen
    table.oldest_seen = table.log_files.first_version(after=-1)
    return table.version() if table.oldest_seen is None else table.oldest_seen


def log_names(table: DeltaTable) -> list[str]:
    """The names of a log's files; empty if ctsql may not delete any."""
    if any(table.has_feature(name) for name in FEATURES_OF_LOGS):
        return []
    return list(table.log_files.names())


def delete_log_files(table: DeltaTable, names: Sequence[str]) -> int:
    """Delete log files, oldest first: a crash leaves no gap; returns their number."""
    if not names:
        return 0
    path, folder = table.gateway.path, table.handle.log_folder
    with translate_spark_errors():
        return sum(bool(table._fs.delete(path(folder, name), False)) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFolder:
    """A folder two levels below a warehouse; ``modified_ms`` is the newest time in it."""

    location: str
    modified_ms: int
    size: int
    files_count: int


def table_folders(gateway: Gateway, warehouse: str, *, leave_out: str) -> list[str]:
    """The folders of a warehouse's tables: ``<warehouse>/<schema>/<folder>``."""
    with translate_spark_errors(), translate_os_errors(warehouse):
        schemas = [
            f"{warehouse}/{one.name}"
            for one in _entries(gateway, warehouse)
            if one.is_folder and one.name != leave_out
        ]
        return [
            f"{schema}/{one.name}"
            for schema in schemas
            for one in _entries(gateway, schema)
            if one.is_folder
        ]


def measure_folder(gateway: Gateway, location: str) -> TableFolder:
    """The newest time, the bytes and the number of the files at any depth."""
    around, _, name = location.rstrip("/").rpartition("/")
    with translate_spark_errors(), translate_os_errors(location):
        files = list(_files_below(gateway, location))
        own = [one for one in _entries(gateway, around) if one.name == name]
        return TableFolder(
            location=location,
            modified_ms=max(one.modified_ms for one in (*own, *files)),
            size=sum(one.size for one in files),
            files_count=len(files),
        )


def _files_below(gateway: Gateway, folder: str) -> Iterator[_Entry]:
    # Not Hadoop's listFiles, which asks for permissions.
    for one in _entries(gateway, folder):
        if one.is_folder:
            yield from _files_below(gateway, f"{folder}/{one.name}")
        else:
            yield one
