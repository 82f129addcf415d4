"""How the JVM of the process's session is started: its class path and its options.

A start is *plain* when the master is local and nothing of Spark's own configuration is given: then
Delta's JARs stand on the class path. Otherwise they are given by ``spark.jars``, which also sends
them to executors, and puts them into the class loader where further packages are; and the JVM has
the options that were configured for it, and none of ours.
"""

import os
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from ctsql.runtime.spark import class_archive
from ctsql.runtime.spark.environment import Java, delta_jars, spark_builder_config

_LOCAL = re.compile(r"local(\[[^\[\]]*\])?")
_CONFIGURED = (
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
)


class Life(Enum):
    """How long a JVM is going to be used."""

    SHORT = "one command"
    LONG = "until the process ends"
    TRAINING = "to write the archive of classes"


_OPTIONS = {
    # The optimising compiler takes most of the CPU of the first seconds, and pays after a minute.
    Life.SHORT: ["-XX:TieredStopAtLevel=1"],
    Life.LONG: [],
    Life.TRAINING: ["-XX:TieredStopAtLevel=1"],
}


def is_plain(master: str, environ: Mapping[str, str], spark_home: Path) -> bool:
    """Whether a start is plain; see the module's text."""
    configured = any(environ.get(name) for name in _CONFIGURED)
    return bool(_LOCAL.fullmatch(master)) and not configured and not (spark_home / "conf").exists()


def jvm_settings(
    java: Java, master: str, life: Life, archive: Path | None = None
) -> dict[str, str]:
    """Spark's settings for the JVM, with Delta's JARs.

    Args:
        archive: the archive to write, with :attr:`Life.TRAINING`.
    """
    spark_home = Path(_find_spark_home())
    jars = delta_jars()
    if not jars or not is_plain(master, os.environ, spark_home):
        return spark_builder_config()
    options = [*_OPTIONS[life]]
    if archive is not None:
        options += class_archive.record(archive)
    elif class_archive.is_on():
        found = class_archive.archive_of(java, class_path(spark_home))
        options += class_archive.use(found)
        class_archive.make_at_exit(found)
    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": option_text(options),
    }


def class_path(spark_home: Path) -> list[Path]:
    """The JARs of a plain start."""
    return [*delta_jars(), *sorted(spark_home.glob("jars/*.jar"))]


def option_text(options: Sequence[str]) -> str:
    r"""Java's options as one text, as Spark's launcher takes it apart again.

    >>> print(option_text(["-Xa", "-Xb=/a b"]))
    "-Xa" "-Xb=/a b"
    """
    return " ".join('"' + o.replace("\\", r"\\").replace('"', r"\"") + '"' for o in options)
