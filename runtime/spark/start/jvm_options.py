"""The class path and options of the process's JVM.

In a plain start (:mod:`ctsql.runtime.spark.start.environment`) Delta's JARs are on the class path.
Otherwise ``spark.jars`` also sends them to executors and puts them into the class loader of further
packages, and the JVM has only its configured options.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_cache_path

from ctsql.runtime.spark.start.environment import (
    Java,
    delta_jars,
    is_plain,
    spark_builder_config,
    spark_home,
)

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


def use_archive(archive: Path | None) -> list[str]:
    """Java's options to use an archive."""
    return [] if archive is None else [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]


def record_archive(draft: Path) -> list[str]:
    """Java's options to write an archive when the JVM ends."""
    return [f"-XX:ArchiveClassesAtExit={draft}"]


def keep_archive(draft: Path, java: Java, jars: Sequence[Path]) -> Path:
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


_GIVES_BACK = [
    # A JVM that was busy kept its whole heap for ever. Now and then it looks whether it was idle
    # meanwhile, and gives back what goes beyond 30 % of free space (JEP 346).
    "-XX:+IgnoreUnrecognizedVMOptions",  # of a Java that was built without this collector
    "-XX:G1PeriodicGCInterval=30000",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=30",
]
JAVA_CONFIGURED_BY = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_STARTS_FAST = ["-XX:TieredStopAtLevel=1"]
"""The optimising compiler takes most of the CPU of the first seconds, and pays after a minute."""


def jvm_settings(
    java: Java, master: str, *, is_short: bool, draft: Path | None = None
) -> dict[str, str]:
    """Spark's settings for the JVM, with Delta's JARs.

    ``is_short``: the JVM runs one command. ``draft``: an archive to write.
    """
    jars = delta_jars()
    if not jars or not is_plain(master):
        return spark_builder_config()
    is_own = not any(os.environ.get(name) for name in JAVA_CONFIGURED_BY)
    options = [*_STARTS_FAST] if is_short else [*_GIVES_BACK] if is_own else []
    if draft is None:
        options += use_archive(archive_of(java, class_path(spark_home())))
    else:
        options += record_archive(draft)
    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": option_text(options),
    }


def class_path(home: Path) -> list[Path]:
    """The JARs of a plain start."""
    return [*delta_jars(), *sorted(home.glob("jars/*.jar"))]


def option_text(options: Sequence[str]) -> str:
    r"""Java's options as one text, as Spark's launcher takes it apart again.

    >>> print(option_text(["-Xa", "-Xb=/a b"]))
    "-Xa" "-Xb=/a b"
    """
    return " ".join('"' + o.replace("\\", r"\\").replace('"', r"\"") + '"' for o in options)
