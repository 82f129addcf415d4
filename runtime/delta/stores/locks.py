"""Cross-process locks for commits on a local disk.

Delta's log stores for local disks check that a version is free and then rename: two processes can
both win a version, and one commit is lost. So every commit of ctsql to a table on a local disk
holds a lock file in the table's log folder. Object stores and HDFS have atomic puts or renames and
need no lock. The operating system frees a lock when its process dies.

The JVM outlives a killed process by seconds, and may still finish its commit. So it holds a lock
too, if this process started it.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.failures.storage_errors import translate_os_errors
from ctsql.runtime.spark.internals.java import own_java

LOCK_FILE = ".ctsql.lock"
JVM_LOCK_FILE = ".ctsql.jvm.lock"
"""Two files, because on some systems a lock of Python's would exclude one of its JVM's."""
_POLL_SECONDS = 0.05  # between two tries to get the JVM's lock
_this_thread = threading.local()  # the folders whose lock this thread holds


def split_location(location: str) -> tuple[str, str]:
    """The scheme in lower case, maybe empty, and the path of a location; nothing is decoded.

    As in Hadoop's ``Path``, ``%``, ``?`` and ``#`` are plain characters.

    >>> split_location("s3a://lake/w#1"), split_location("FILE:/w%20"), split_location("w/a:b")
    (('s3a', '/w#1'), ('file', '/w%20'), ('', 'w/a:b'))
    """
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return "", location
    if path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    return scheme.lower(), path


def local_path(location: str) -> Path | None:
    """The path of a location on a local disk, None for any other store."""
    scheme, path = split_location(location)
    return Path(path) if scheme in ("", "file") else None


def commit_lock(location: str) -> AbstractContextManager[None]:
    """Hold the lock of a table's log; a no-op for stores without locks."""
    return folder_lock(f"{location}/_delta_log")


@contextmanager
def folder_lock(location: str) -> Iterator[None]:
    """Hold the lock of a folder, created if missing; re-entrant. Raises STORAGE_ERROR."""
    folder = local_path(location)
    folders: set[Path] = _this_thread.__dict__.setdefault("folders", set())
    if folder is None or folder in folders:
        yield
        return
    # A new object each time: two threads of one process exclude each other as well.
    lock = FileLock(folder / LOCK_FILE, thread_local=False)
    with translate_os_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    folders.add(folder)
    try:
        with _jvm_lock(str(folder / JVM_LOCK_FILE)):
            yield
    finally:
        folders.discard(folder)
        lock.release()


@contextmanager
def _jvm_lock(path: str) -> Iterator[None]:
    """Hold a lock by the JVM that this process started; waits for the JVM of a killed process."""
    jvm = own_java()
    if jvm is None:
        yield
        return
    with translate_spark_errors():
        file = _file_class(jvm)(path, True)
    try:
        with translate_spark_errors():
            channel = file.getChannel()
            while channel.tryLock() is None:
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        with translate_spark_errors():
            file.close()  # it frees the lock


@lru_cache(maxsize=2)
def _file_class(jvm: Any) -> Any:
    return jvm.java.io.FileOutputStream


@contextmanager
def try_folder_lock(location: str, name: str, *, wait_seconds: float) -> Iterator[bool]:
    """Hold a named lock of an existing folder; yields whether it was free within the wait.

    True for stores without locks. Not re-entrant. Raises STORAGE_ERROR.
    """
    folder = local_path(location)
    if folder is None:
        yield True
        return
    lock = FileLock(folder / name, thread_local=False)
    with translate_os_errors(str(folder)):
        is_free = _acquire(lock, wait_seconds)
    try:
        yield is_free
    finally:
        if is_free:
            lock.release()


def _acquire(lock: FileLock, wait_seconds: float) -> bool:
    try:
        lock.acquire(timeout=wait_seconds)
    except Timeout:  # an OSError, too
        return False
    return True
