"""The part of the adapter to Delta that rewrites, lists and deletes a table's files.

Compaction is what Delta's OPTIMIZE does, in a transaction of ours: OPTIMIZE commits by itself, so
on a local disk, where a commit must hold our lock, the lock would have to be held as long as the
rewriting takes, and every sink would wait for it. Here only the commit holds it. A table that
somebody else may have clustered, or tracks the rows of, is left to OPTIMIZE, lock and all.

What may be deleted is decided elsewhere (:mod:`ctsql.runtime.maintenance.retention`). Delta's
VACUUM is not asked: it cannot be told what a consumer needs, and for three files it takes four
seconds of Spark jobs (19 the first time).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from ctsql.runtime.delta.locks import commit_lock
from ctsql.runtime.delta.table import DeltaTable, Gateway
from ctsql.runtime.log.batches import StagedFile
from ctsql.runtime.log.data_files import Bin, DataFile, StoredFile
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.spark.errors import translate_spark_errors

LOG_FOLDER = "_delta_log"
CHANGE_FOLDER = "_change_data"
FEATURES_OF_OTHERS = ("clustering", "rowTracking")
FEATURES_OF_LOGS = ("catalogManaged", "checkpointProtection", "v2Checkpoint")


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did: files taken away and brought, and the version; None if nothing."""

    before: int = 0
    after: int = 0
    version: int | None = None


def compact(
    table: DeltaTable, choose: Callable[[Iterable[DataFile]], Sequence[Bin]]
) -> Compacted | None:
    """Rewrite the chosen files; None when another commit came first, and nothing is changed.

    No row changes, so no T comes of it. Whoever writes meanwhile: one who only adds files, and
    this one, both go in; of one who deletes rows of a chosen file and this one, the first.
    """
    txn = table.begin()
    bins = choose(table.files(txn.version_read).values())
    if not bins:
        return Compacted()
    staged: list[StagedFile] = []
    try:
        for one in bins:
            staged += txn.rewrite(one)
    except BaseException:
        _discard(table, staged)
        raise
    try:
        version = txn.commit_rewrites()
    except Conflict:
        landed = _find_landed(table, staged, after=txn.version_read)
        if landed is None:
            _discard(table, staged)
            return None
        version = landed
    # After any other problem the commit may be in, so nothing is discarded then.
    return Compacted(sum(map(len, bins)), len(staged), version)


def _discard(table: DeltaTable, staged: Sequence[StagedFile]) -> None:
    table.discard(unquote(file.path) for file in staged)


def _find_landed(table: DeltaTable, staged: Sequence[StagedFile], *, after: int) -> int | None:
    """The version that added one of the staged files: a commit may be in and yet be refused."""
    paths = {file.path for file in staged}
    for version in range(after + 1, table.version() + 1):
        if any(added.path in paths for added in table.commit_at(version).adds):
            return version
    return None


def optimize(table: DeltaTable) -> Compacted:
    """Delta's own OPTIMIZE, for tables that others may have clustered; waits for other writers."""
    before = table.version()
    with commit_lock(table.location), translate_spark_errors():
        table.gateway.session.sql(f"OPTIMIZE delta.`{table.location}`")
    commits = [table.commit_at(v) for v in range(before + 1, table.version() + 1)]
    rewrites = [c for c in commits if not c.changes_data and c.adds]
    taken, brought = sum(len(c.removes) for c in rewrites), sum(len(c.adds) for c in rewrites)
    return Compacted(taken, brought, rewrites[-1].version if rewrites else None)


def is_of_others(table: DeltaTable) -> bool:
    """Has it a layout or row ids that only Delta's own OPTIMIZE keeps?"""
    return any(table.has_feature(name) for name in FEATURES_OF_OTHERS)


# ---- files and folders


def stored_files(table: DeltaTable) -> list[StoredFile]:
    """The data, change and vector files in a table's folder.

    Hidden folders and tables inside it are left out.

    They come to the driver one by one, as the live files do.
    """
    with translate_spark_errors():
        return list(_list(table, table.jpath, ""))


def _list(table: DeltaTable, folder: Any, prefix: str) -> Iterator[StoredFile]:
    statuses = list(table._fs.listStatus(folder))
    if prefix and any(str(s.getPath().getName()) == LOG_FOLDER for s in statuses):
        return  # a table of its own
    for status in statuses:
        path = status.getPath()
        name = str(path.getName())
        if status.isDirectory():
            if not name.startswith(("_", ".")) or name == CHANGE_FOLDER:
                yield from _list(table, path, f"{prefix}{name}/")
        elif not name.startswith(("_", ".")):
            yield StoredFile(
                path=prefix + name,
                size=int(status.getLen()),
                modified_ms=int(status.getModificationTime()),
            )


def delete_files(table: DeltaTable, files: Sequence[StoredFile]) -> list[StoredFile]:
    """Delete files of a table's folder, but for those that are live now; gives what is gone.

    What is live is told anew and by Delta's own reading of paths: a file may have come back by a
    RESTORE since it was decided, and a mistake there must not lose a row of the newest version.
    It makes no version, so it needs no lock.
    """
    if not files:
        return []
    path_class = table.gateway.jvm.org.apache.hadoop.fs.Path
    gone: list[StoredFile] = []
    with translate_spark_errors():
        live = _live_places(table)
        for file in files:
            path = table._fs.makeQualified(path_class(table.jpath, file.path))
            if path.toString() not in live and table._fs.delete(path, False):
                gone.append(file)
    return gone


def _live_places(table: DeltaTable) -> set[str]:
    """The full paths of the newest version's data and vector files."""
    path_class, uri_class = (
        table.gateway.jvm.org.apache.hadoop.fs.Path,
        table.gateway.jvm.java.net.URI,
    )
    found: set[str] = set()
    for file in table.files(table.version()).values():
        path = path_class(uri_class(file.path))
        found.add(table._fs.makeQualified(path_class(table.jpath, path)).toString())
        if file.vector is None:
            continue
        vector = table.gateway.add_file(file).deletionVector()
        if vector.isOnDisk():
            found.add(table._fs.makeQualified(vector.absolutePath(table.jpath)).toString())
    return found


def first_logged(table: DeltaTable) -> int:
    """The oldest version whose commit is still in the log; lists it only when that may be another.

    A log loses its oldest files only, so what was the oldest is it for as long as it is there.
    """
    if table.oldest_seen is not None and table.has(table.oldest_seen):
        return table.oldest_seen
    with translate_spark_errors():
        statuses = table.log.store().listFrom(
            table._names.listingPrefix(table.log.logPath(), 0), table._hadoop
        )
        while statuses.hasNext():
            name = str(statuses.next().getPath().getName())
            if name.endswith(".json") and name[:-5].isdigit():
                table.oldest_seen = int(name[:-5])
                return table.oldest_seen
    return table.version()


def log_names(table: DeltaTable) -> list[str]:
    """The names of a log's files; none where ctsql may not take any away."""
    if any(table.has_feature(name) for name in FEATURES_OF_LOGS):
        return []
    with translate_spark_errors():
        statuses = table._fs.listStatus(table.log.logPath())
        return [str(s.getPath().getName()) for s in statuses if s.isFile()]


def delete_log_files(table: DeltaTable, names: Iterable[str]) -> int:
    """Delete log files in the order given, which must be the oldest first; how many that is.

    After a crash in the middle the log still begins somewhere and goes on without a hole.
    """
    count = 0
    path_class = table.gateway.jvm.org.apache.hadoop.fs.Path
    with translate_spark_errors():
        for name in names:
            count += bool(table._fs.delete(path_class(table.log.logPath(), name), False))
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder two levels below a warehouse.

    ``modified_ms`` is the newest time of anything in it.
    """

    location: str
    name: str
    modified_ms: int
    size: int
    files_count: int


def table_folders(gateway: Gateway, warehouse: str, *, leave_out: str) -> list[Folder]:
    """The folders where a warehouse has its tables: ``<warehouse>/<schema>/<folder>``."""
    path_class = gateway.jvm.org.apache.hadoop.fs.Path
    root = path_class(warehouse)
    found: list[Folder] = []
    with translate_spark_errors():
        fs = root.getFileSystem(gateway.jsession.sessionState().newHadoopConf())
        for schema in fs.listStatus(root):
            if not schema.isDirectory() or schema.getPath().getName() == leave_out:
                continue
            for status in fs.listStatus(schema.getPath()):
                if status.isDirectory():
                    found.append(_folder(fs, status))
    return found


def _folder(fs: Any, status: Any) -> Folder:
    modified, size, count = int(status.getModificationTime()), 0, 0
    inside = fs.listFiles(status.getPath(), True)
    while inside.hasNext():
        one = inside.next()
        modified = max(modified, int(one.getModificationTime()))
        size += int(one.getLen())
        count += 1
    location = str(status.getPath().toString())
    name = str(status.getPath().getName())
    return Folder(location=location, name=name, modified_ms=modified, size=size, files_count=count)
