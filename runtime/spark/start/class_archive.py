"""An archive of loaded classes, from which the JVM starts faster.

Two thirds of a start is loading and checking some fifteen thousand classes. Java can write the
result to a file (class-data sharing) and map that file at the next start. ``ctsql warm-up`` makes
one for a Java and a class path, below the user's cache folder (:mod:`ctsql.console.warm_up`).

Java checks its own build and the JARs' sizes and times and, by ``-Xshare:auto``, continues without
an archive that does not fit. A truncated file would crash it. So the file's name contains its size,
and a file of another size is not used.

Source: JEP 350 (dynamic archives, Java 13).
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_cache_path

from ctsql.runtime.spark.start.environment import Java

_NAME = re.compile(r"(?P<key>.+)-(?P<size>\d+)\.jsa")


def archive_folder() -> Path:
    """The folder of archives; it need not exist."""
    return user_cache_path("ctsql") / "classes"


def archive_of(java: Java, jars: Sequence[Path]) -> Path | None:
    """The valid archive of a Java and the JARs of a class path, if any."""
    try:
        folder = archive_folder()
    except RuntimeError:  # the user has no home folder, so nobody has made one
        return None
    key = _key(java, jars)
    for path in folder.glob("*.jsa"):
        match = _NAME.fullmatch(path.name)
        if match and match["key"] == key and int(match["size"]) == path.stat().st_size:
            return path
    return None


def use(archive: Path | None) -> list[str]:
    """Java's options to use an archive."""
    return [] if archive is None else [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]


def record(draft: Path) -> list[str]:
    """Java's options to write an archive when the JVM ends."""
    return [f"-XX:ArchiveClassesAtExit={draft}"]


def keep(draft: Path, java: Java, jars: Sequence[Path]) -> Path:
    """Rename a JVM's draft to the archive; replaces those of the same Java and class path."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    key, folder = _key(java, jars), archive_folder()
    archive = folder / f"{key}-{draft.stat().st_size}.jsa"
    draft.rename(archive)
    for other in folder.glob(f"{key}-*.jsa"):
        if other != archive:
            other.unlink(missing_ok=True)
    return archive


def _key(java: Java, jars: Sequence[Path]) -> str:
    digest = hashlib.sha256(f"{java.program.resolve()}\n{java.version}\n".encode())
    for jar in jars:
        file_stat = jar.stat()
        digest.update(f"{jar}\n{file_stat.st_size}\n{file_stat.st_mtime_ns}\n".encode())
    return f"java{java.major}-{digest.hexdigest()[:16]}"
