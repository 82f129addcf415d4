"""The class path and options of the process's JVM.

In a plain start (:mod:`ctsql.runtime.spark.start.environment`) Delta's JARs are on the class path.
Otherwise ``spark.jars`` also sends them to executors and puts them into the class loader of further
packages, and the JVM has only its configured options.
"""

import os
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from ctsql.runtime.spark.start import class_archive
from ctsql.runtime.spark.start.environment import (
    Java,
    delta_jars,
    is_plain,
    spark_builder_config,
    spark_home,
)


class Life(Enum):
    """How long a JVM will be used."""

    SHORT = "one command"
    LONG = "until the process ends"


_GIVES_BACK = [
    # A JVM that was busy kept its whole heap for ever. Now and then it looks whether it was idle
    # meanwhile, and gives back what goes beyond 30 % of free space (JEP 346).
    "-XX:+IgnoreUnrecognizedVMOptions",  # of a Java that was built without this collector
    "-XX:G1PeriodicGCInterval=30000",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=30",
]
JAVA_CONFIGURED_BY = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")

_OPTIONS = {
    # The optimising compiler takes most of the CPU of the first seconds, and pays after a minute.
    Life.SHORT: ["-XX:TieredStopAtLevel=1"],
    Life.LONG: _GIVES_BACK,
}


def jvm_settings(java: Java, master: str, life: Life, draft: Path | None = None) -> dict[str, str]:
    """Spark's settings for the JVM, with Delta's JARs; ``draft``: an archive to write."""
    jars = delta_jars()
    if not jars or not is_plain(master):
        return spark_builder_config()
    is_own = not any(os.environ.get(name) for name in JAVA_CONFIGURED_BY)
    options = [o for o in _OPTIONS[life] if is_own or o not in _GIVES_BACK]
    if draft is None:
        options += class_archive.use(class_archive.archive_of(java, class_path(spark_home())))
    else:
        options += class_archive.record(draft)
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
