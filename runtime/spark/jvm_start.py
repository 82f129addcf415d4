"""Starts the process's JVM and Spark in it.

The JVM may be on its way before Spark is asked for: :func:`begin` starts it by what is noted of an
earlier start (:mod:`ctsql.runtime.spark.noted_starts`), and needs no import of PySpark. Then
:func:`start_spark` finds it, if it was started as is needed now; else it is ended, and not used.
"""

import os
import threading
from collections.abc import Callable, Mapping
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from ctsql.runtime.spark import noted_starts
from ctsql.runtime.spark.environment import (
    Java,
    check_java,
    delta_jars,
    explain_start_failure,
)
from ctsql.runtime.spark.jvm_options import Life, class_path, jvm_settings
from ctsql.runtime.spark.noted_starts import Launch
from ctsql.runtime.spark.plain_start import LOCAL, is_plain, spark_home
from ctsql.runtime.spark.start_settings import start_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_lock = threading.Lock()
_launch: Launch | None = None
_is_asked_for = False  # did this process start Spark?


def begin(master: str | None, life: Life) -> None:
    """Start the JVM that a session of this process is going to need, where it is known how."""
    global _launch
    with _lock:
        if _is_asked_for or _launch is not None or not _has_notes(master):
            return
        java = noted_starts.known_java()
        if java is not None:
            settings = {**start_settings(master), **jvm_settings(java, master or LOCAL, life)}
            _launch = noted_starts.launch(settings, java, class_path(spark_home()))


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
            :func:`ctsql.runtime.spark.environment.explain_start_failure`.
    """
    global _is_asked_for
    _is_asked_for = True
    has_notes = _has_notes(settings.get("spark.master"))
    java = (noted_starts.known_java() if has_notes else None) or check_java()
    import delta  # noqa: F401  (its import installs the conversion of Delta's exceptions)
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    options = {**settings, **jvm(java)}
    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    gateway = _noted_gateway(options, java) if has_notes else None
    with TemporaryFile() as chatter:
        try:
            if gateway is None:
                java = check_java()
                output = {"stdout": chatter, "stderr": chatter}
                gateway = launch_gateway(conf, output)  # type: ignore[no-untyped-call]
                if has_notes:
                    noted_starts.keep(options, java, class_path(spark_home()), gateway.proc.pid)
            SparkContext(conf=conf, gateway=gateway)
            return SparkSession.builder.getOrCreate()
        except (PySparkException, Py4JError, OSError) as problem:
            raise explain_start_failure(problem, chatter=_contents(chatter)) from problem


def gateway_at(port: int, secret: str) -> Any:
    """PySpark's gateway to a JVM that is up."""
    from pyspark.java_gateway import launch_gateway

    os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def _has_notes(master: str | None) -> bool:
    return is_plain(master) and bool(delta_jars())


def _noted_gateway(settings: Mapping[str, str], java: Java) -> Any:
    """The gateway to the JVM that begin() started, or that is started now; None for neither."""
    global _launch
    from pyspark.serializers import UTF8Deserializer, read_int

    with _lock:
        launch, _launch = _launch, None
    if launch is not None and launch.settings != settings:
        launch.stop()  # it was started for another purpose
        launch = None
    launch = launch or noted_starts.launch(settings, java, class_path(spark_home()))
    info = None if launch is None else launch.info()
    if launch is None or info is None:
        return None
    stream = BytesIO(info)
    port = read_int(stream)  # type: ignore[no-untyped-call]
    gateway = gateway_at(port, UTF8Deserializer().loads(stream))  # type: ignore[no-untyped-call]
    gateway.proc = launch.process
    return gateway


def _contents(chatter: IO[bytes]) -> str:
    chatter.seek(0)
    return chatter.read().decode(errors="replace")
