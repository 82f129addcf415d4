"""The process of the JVM."""

from subprocess import Popen
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkConf


def start_jvm(conf: "SparkConf", output: IO[bytes]) -> None:
    """Start the JVM and its ``SparkContext``, which the process's sessions use from then on.

    The public API, ``SparkSession.builder``, lets Java write to the terminal. Needed: without it,
    each start prints Spark's and Ivy's lines.

    Args:
        output: takes what the JVM prints.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    both = {"stdout": output, "stderr": output}
    gateway = launch_gateway(conf, both)  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


def jvm_process() -> Popen[bytes]:
    """The process of the JVM that was started.

    No public API ends the JVM before this process. Needed: without it, ``ctsql warm-up`` cannot
    make an archive, which Java writes at its end.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None  # it was started
    process: Popen[bytes] = gateway.proc
    return process
