"""Spark sessions: one for the process, started on first need; and the engine's own.

The engine evaluates SQL in its own session, made by ``newSession()``: it shares the context and the
executors with the process's or the caller's session, whose settings are unchanged.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

from filelock import FileLock
from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from ctsql.catalog.errors import error
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.java import (
    has_class,
    has_context,
    has_java_session,
    is_stopped,
    java,
    java_context,
    start_jvm,
)
from ctsql.runtime.spark.internals.sessions import (
    CHECKPOINT_FILES,
    MERGE_SUBQUERIES,
    PUSH_PROJECTION,
    compare_not_in_by_value,
    names_set,
    setting,
)
from ctsql.runtime.spark.result_settings import changes_results
from ctsql.runtime.spark.start.environment import (
    LOCAL,
    Java,
    check_java,
    check_spark_home,
    configured,
    explain_start_failure,
    is_local,
    ivy_jars_folder,
)
from ctsql.runtime.spark.start.jvm_options import jvm_settings


def start_spark(
    settings: Mapping[str, str], jvm: Callable[[Java], Mapping[str, str]] = lambda _: {}
) -> SparkSession:
    """Start Spark in a process without a session; the JVM prints into a temporary file.

    Args:
        jvm: further settings, for the Java that was found.

    Raises:
        The errors of :func:`ctsql.runtime.spark.start.environment.explain_start_failure`.
    """
    options = {**settings, **jvm(check_java())}
    check_spark_home()
    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    with translate_spark_errors(), TemporaryFile() as chatter:
        _check_alone()
        try:
            # Not by the builder, which SPARK_REMOTE sends to Spark Connect.
            with _one_ivy(options):
                session = SparkSession(start_jvm(conf, chatter))
        except (PySparkException, Py4JError, OSError) as problem:
            chatter.seek(0)
            output = chatter.read().decode(errors="replace")
            raise explain_start_failure(problem, chatter=output) from problem
        if not has_class(session, DELTA["spark.sql.extensions"]):
            session.stop()
            message = "the JVM of this process was started without Delta Lake"
            hint = "Restart the process, and use ctsql before another Spark."
            raise error("SPARK_ERROR", message=message, detail="", hint=hint)
        return session


@contextmanager
def _one_ivy(settings: Mapping[str, str]) -> Iterator[None]:
    """If Spark will fetch JARs, wait for other processes that do.

    Ivy does not lock its cache: of two first starts at once, one failed.
    """
    if "spark.jars.packages" not in settings:
        yield
        return
    folder = Path(configured("spark.jars.ivy") or ivy_jars_folder().parent)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "ctsql.lock"):
        yield


def _check_alone() -> None:
    """Raise SPARK_ERROR if this process has a Spark of the caller's: PySpark starts no other."""
    if is_remote():
        detail, hint = "It is of Spark Connect.", "Run ctsql in another process."
    elif has_context():
        detail, hint = "", "Give it to ctsql: connect(spark=...). Or stop it."
    else:
        return
    message = "this process has a SparkSession already"
    raise error("SPARK_ERROR", message=message, detail=detail, hint=hint)


DRIVER_MEMORY = "2g"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""They give a session Delta Lake."""
_STATIC = {
    **DELTA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # On a local disk Hadoop's default file context starts a process for every rename.
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
    "spark.sql.catalogImplementation": "in-memory",
    # By default Spark caches a hundred generated classes, and a refresh runs more than that.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # One class loader for all sessions; else each session compiles the same code again.
    "spark.sql.artifact.isolation.enabled": "false",
    # A broadcast, hash or sort takes at least one page; with the default of 64 MB on few cores, a
    # dozen small joins took all of the memory.
    "spark.buffer.pageSize": "4m",
    # Else each function of a Column sends the place of its Python call: a third of all calls.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


def start_settings(master: str | None) -> dict[str, str]:
    """The settings except those of the JVM; ``master`` None for the default."""
    return {
        "spark.app.name": "ctsql",
        # It takes precedence over spark-defaults.conf, so the variable must be able to override it.
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", DRIVER_MEMORY),
        "spark.master": master or LOCAL,
        # Nothing is stored there, but Spark makes the folder.
        "spark.sql.warehouse.dir": Path(gettempdir(), "ctsql-spark-warehouse").as_uri(),
        "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 2, 8)),
        **_STATIC,
    }


_ADD_DELTA = "\n".join([
    "Add these lines to its builder, and Delta's JARs by delta.configure_spark_with_delta_pip;",
    "or leave spark= out, and ctsql starts a session:",
    *(f'    .config("{name}", "{value}")' for name, value in DELTA.items()),
])  # fmt: skip
_TABLE_DEFAULTS = "spark.databricks.delta.properties.defaults."  # of tables that are made
_EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
_RUNTIME = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.default": "delta",
    # Else files have no bounds of instants.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Partitions that the first job of a limited read covers.
    "spark.sql.limit.initialNumPartitions": "8",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    # This join for NOT IN compares the bits of floating-point numbers, the other joins the values.
    "spark.sql.optimizeNullAwareAntiJoin": "false",
    # Spark pushes filters and prunes columns through UNION ALL without this rule.
    _EXCLUDED_RULES: PUSH_PROJECTION,
    # Readers of Parquet do not check the checksums of pages by default.
    "parquet.page.verify-checksum.enabled": "true",
    # For columns mapped by id; Delta sets it only in a session that has read such a table by SQL.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # They cost time in each query, and help only to debug.
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
    # Delta rebuilds a table's state with 50 tasks by default; ours are small.
    "spark.databricks.delta.snapshotPartitions": "2",
    # The catalog keeps one domain metadata an object, and reads them from the checksum file.
    "spark.databricks.delta.domainMetadatasInCrc.maxAllowed": "1000000",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    "spark.databricks.delta.properties.defaults.enableInCommitTimestamps": "true",
    # A commit waits for its checkpoint. Delta's default is 10. Outputs and the timeline have other
    # intervals, so few checkpoints fall on the same tick.
    "spark.databricks.delta.properties.defaults.checkpointInterval": "103",
    # The engine pins versions: age alone is no reason to refuse.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
}

_lock = threading.Lock()
_process_session: SparkSession | None = None


def process_session(master: str | None = None, *, is_short: bool = False) -> SparkSession:
    """The process's session; the first call starts it, for one command if ``is_short``.

    Raises JAVA_NOT_FOUND, JAVA_UNSUPPORTED, JAR_DOWNLOAD_FAILED: with what to do about it.
    """
    global _process_session
    with _lock:
        if _process_session is None or is_stopped(_process_session):
            _process_session = _start(master, is_short=is_short)
        return _process_session


def training_session(draft: Path) -> SparkSession:
    """A session whose JVM writes an archive of its classes when it ends; raises as above."""
    return _start(None, is_short=True, draft=draft)


@contextmanager
def python_of_functions(master: str | None) -> Iterator[None]:
    """Let Spark, started inside, run the user's Python functions in this Python.

    Spark would take ``python3`` of the PATH. ``PYSPARK_PYTHON`` counts if it is set, and on a
    cluster Spark's rule. Later processes get the environment as it was.
    """
    if not is_local(master) or not sys.executable or "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]


def _start(master: str | None, *, is_short: bool, draft: Path | None = None) -> SparkSession:
    # Errors of queries are raised; PySpark also writes them to standard error.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with python_of_functions(master):
        session = start_spark(
            start_settings(master),
            lambda java: jvm_settings(java, master or LOCAL, is_short=is_short, draft=draft),
        )
    session.sparkContext.setLogLevel("OFF")
    _write_no_checksum_files(session)
    return session


def _write_no_checksum_files(session: SparkSession) -> None:
    """Let Hadoop write no ``.NAME.crc`` files on the local disk; existing ones are still checked.

    Parquet's pages, deletion vectors and Delta's state have their own checksums.
    """
    jvm, configuration = java(session), java_context(session).hadoopConfiguration()
    local = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), configuration)
    local.setWriteChecksum(False)


def _check(base: SparkSession) -> None:
    """Raise an error if the caller's session was stopped or cannot use Delta Lake."""
    if not has_java_session(base):
        detail = "It is a Spark Connect session, which has no JVM in this process."
        hint = "Give a classic session: SparkSession.builder.master(...).getOrCreate()."
        raise error("SPARK_WITHOUT_DELTA", detail=detail, hint=hint)
    if is_stopped(base):
        message, hint = "the given SparkSession was stopped", "Give a new one, or leave spark= out."
        raise error("SPARK_ERROR", message=message, detail="", hint=hint)
    (extensions, extension), (catalogs, catalog) = DELTA.items()
    given = base.conf.get(catalogs, "")
    detail = ""
    if extension not in (base.conf.get(extensions, "") or ""):
        detail = f"{extensions} does not name {extension}."
    elif given in (None, "", "builtin"):  # another one may pass on to Delta's, as Unity Catalog's
        detail = f"{catalogs} does not name {catalog}."
    elif not has_class(base, extension):
        detail = f"Its JVM does not find {extension}: Delta's JARs are missing."
    if detail:
        raise error("SPARK_WITHOUT_DELTA", detail=detail, hint=_ADD_DELTA)


def engine_session(base: SparkSession) -> SparkSession:
    """A session for the engine with its settings, in the context of the given one.

    Raises SPARK_WITHOUT_DELTA, SPARK_ERROR: the given session has no Delta Lake, or was stopped.
    """
    _check(base)
    with translate_spark_errors():
        session = base.newSession()
        partitions = base.conf.get("spark.sql.shuffle.partitions", "200") or "200"
        session.conf.set("spark.sql.shuffle.partitions", partitions)
        for key in names_set(session):
            # A static setting is the process's.
            is_fixed = changes_results(key) and session.conf.isModifiable(key)
            if is_fixed or key.startswith(_TABLE_DEFAULTS):
                session.conf.unset(key)
        for key, value in _RUNTIME.items():
            session.conf.set(key, value)
        compare_not_in_by_value(session)
    return session


def delta_version(session: SparkSession) -> str:
    """The release of Delta that a session's JVM has loaded."""
    return str(java(session).io.delta.package.VERSION())


def reset_setting(session: SparkSession, name: str) -> None:
    """Reset a setting of an engine's session to ctsql's value, or Spark's default."""
    if name in _RUNTIME:
        session.conf.set(name, _RUNTIME[name])
    else:
        session.conf.unset(name)


@contextmanager
def without_merged_subqueries(session: SparkSession) -> Iterator[None]:
    """Spark does not merge subqueries of plans made inside."""
    rules = f"{session.conf.get(_EXCLUDED_RULES)},{MERGE_SUBQUERIES}"
    with setting(session, _EXCLUDED_RULES, rules):
        yield
