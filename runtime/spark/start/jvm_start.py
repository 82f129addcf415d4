"""Starts the process's JVM and Spark in it."""

from collections.abc import Callable, Mapping
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from ctsql.runtime.spark.start.environment import Java, check_java, explain_start_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(
    settings: Mapping[str, str], jvm: Callable[[Java], Mapping[str, str]] = lambda _: {}
) -> "SparkSession":
    """Start Spark with these settings, or say in one sentence why it cannot be.

    The JVM's own output goes to a file that disappears with the JVM. To be called when the
    process has no session yet; afterwards the session is to be had from PySpark.

    Args:
        jvm: further settings, for the Java that was found.

    Raises:
        JAVA_NOT_FOUND, JAVA_UNSUPPORTED, JAR_DOWNLOAD_FAILED, SPARK_ERROR: see
            :func:`ctsql.runtime.spark.start.environment.explain_start_failure`.
    """
    java = check_java()
    import delta  # noqa: F401  (its import installs the conversion of Delta's exceptions)
    from py4j.protocol import Py4JError
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from ctsql.runtime.spark.failures.errors import translate_spark_errors
    from ctsql.runtime.spark.internals.jvm import start_jvm

    options = {**settings, **jvm(java)}
    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    with translate_spark_errors(), TemporaryFile() as chatter:
        try:
            start_jvm(conf, chatter)
            return SparkSession.builder.getOrCreate()
        except (PySparkException, Py4JError, OSError) as problem:
            raise explain_start_failure(problem, chatter=_contents(chatter)) from problem


def _contents(chatter: IO[bytes]) -> str:
    chatter.seek(0)
    return chatter.read().decode(errors="replace")
