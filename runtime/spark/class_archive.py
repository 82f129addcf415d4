"""The archive of classes that lets the JVM start without reading them from their JARs again.

Two thirds of a start is loading and checking some fifteen thousand classes. Java can write what it
made of them to a file (class-data sharing) and map that file the next time. One archive is kept for
each Java and class path, below the user's cache folder.

Life of an archive
    A process that started Spark without one starts, when it ends, a detached process of low
    priority (:mod:`ctsql.class_training`). That one runs typical statements and has its JVM write
    the archive to another name. It is renamed when the JVM has ended without an error, so an
    archive is whole or not there. A lock file lets one process at a time make it. Where the JVM
    would not write one, a mark is left, and this Java and class path are not tried again.

Java checks the archive itself (its own build, the JARs' sizes and times) and, by ``-Xshare:auto``,
goes on without one that does not fit. It does not check that the file is whole, and would crash, so
the size that it had when it was made stands beside it. One of another size is made again.

Source: JEP 350 (dynamic archives, Java 13). Java 19 could renew one by itself
(``-XX:+AutoCreateSharedArchive``); the way here is the same for all versions that Spark runs on.
"""

import atexit
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs import user_cache_path

from ctsql.catalog.switches import read_switch
from ctsql.runtime.spark.environment import Java

SWITCH = "CTSQL_CLASS_ARCHIVE"
"""The environment variable that turns archives off, by ``off``."""
TRAINING = "ctsql.class_training"
KEPT_MAX = 3  # archives of 100 to 200 MB, for other versions and environments

_training: subprocess.Popen[bytes] | None = None  # a reference, as it goes on after this process


def is_on() -> bool:
    """Whether archives are used and made."""
    return read_switch(os.environ.get(SWITCH, "")) is not False


def archive_of(java: Java, jars: Sequence[Path], folder: Path | None = None) -> Path:
    """Where the archive of a Java and a class path is kept; it need not be there.

    Args:
        jars: the JARs of the class path. One that is made anew has another archive.
        folder: where to keep it, instead of the user's cache folder.
    """
    digest = hashlib.sha256(f"{java.program.resolve()}\n{java.version}\n".encode())
    for jar in jars:
        file_stat = jar.stat()
        digest.update(f"{jar}\n{file_stat.st_size}\n{file_stat.st_mtime_ns}\n".encode())
    folder = user_cache_path("ctsql") / "classes" if folder is None else folder
    return folder / f"java{java.major}-{digest.hexdigest()[:16]}.jsa"


def draft_of(archive: Path) -> Path:
    """Where the JVM writes an archive before it is renamed."""
    return archive.with_suffix(".draft")


def refusal_of(archive: Path) -> Path:
    """The mark that no archive can be made here."""
    return archive.with_suffix(".refused")


def size_of(archive: Path) -> Path:
    """The file with the size of an archive, in bytes."""
    return archive.with_suffix(".size")


def is_whole(archive: Path) -> bool:
    """Whether an archive is there with the size that it was made with."""
    try:
        return size_of(archive).read_text() == str(archive.stat().st_size)
    except (OSError, UnicodeDecodeError):
        return False


def use(archive: Path) -> list[str]:
    """Java's options to use an archive; none if it is not there as it was made."""
    if not is_whole(archive):
        return []
    with suppress(OSError):
        os.utime(archive)  # the least recently used one goes first
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]


def record(archive: Path) -> list[str]:
    """Java's options to write the draft of an archive when the JVM ends."""
    return [f"-XX:ArchiveClassesAtExit={draft_of(archive)}"]


@contextmanager
def refused_unless_made(archive: Path) -> Iterator[None]:
    """Leave the mark when the block ends without the archive, except by a kill."""
    try:
        yield
    finally:
        if not is_whole(archive):
            draft_of(archive).unlink(missing_ok=True)
            refusal_of(archive).touch()


def keep(archive: Path, *, status: int) -> None:
    """Make a draft the archive, if the JVM that wrote it ended well.

    Args:
        status: the exit status of that JVM.
    """
    draft = draft_of(archive)
    if status or not draft.is_file():
        return
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    size_of(archive).write_text(str(draft.stat().st_size))
    draft.rename(archive)
    others = [path for path in archive.parent.glob("*.jsa") if path != archive]
    for old in sorted(others, key=lambda path: -path.stat().st_mtime)[KEPT_MAX - 1 :]:
        old.unlink(missing_ok=True)
        size_of(old).unlink(missing_ok=True)


def make_at_exit(archive: Path) -> None:
    """Have an archive made once this process ends, unless there is one or none can be made."""
    if not is_whole(archive) and not refusal_of(archive).exists():
        atexit.unregister(_make)  # it was asked for before
        atexit.register(_make, archive)


def _make(archive: Path) -> None:
    """Start the process that makes it, with the modules of this one, and do not wait."""
    global _training
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    with suppress(OSError):  # no right to write there, no memory: the next start is as slow
        archive.parent.mkdir(parents=True, exist_ok=True)
        _training = subprocess.Popen(
            [sys.executable, "-P", "-m", TRAINING, str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
