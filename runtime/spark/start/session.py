"""Spark sessions: one for the process, started on first need; and the engine's own.

The engine evaluates SQL in its own session, made by ``newSession()``: it shares the context
(and the executors) with the process's or the caller's session, whose settings stay as they are.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from ctsql.catalog.errors import error
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.class_names import MERGE_SUBQUERIES, PUSH_PROJECTION
from ctsql.runtime.spark.internals.java import (
    has_class,
    has_java_session,
    is_stopped,
    java,
    java_context,
)
from ctsql.runtime.spark.internals.sessions import compare_not_in_by_value, names_set, setting
from ctsql.runtime.spark.result_settings import changes_results
from ctsql.runtime.spark.start.jvm_options import Life, jvm_settings
from ctsql.runtime.spark.start.jvm_start import start_spark
from ctsql.runtime.spark.start.plain_start import LOCAL
from ctsql.runtime.spark.start.start_settings import DELTA, start_settings

_ADD_DELTA = "\n".join([
    "Add these lines to its builder, and Delta's JARs by delta.configure_spark_with_delta_pip;",
    "or leave spark= out, and ctsql starts a session:",
    *(f'    .config("{name}", "{value}")' for name, value in DELTA.items()),
])  # fmt: skip
_EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
_RUNTIME = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.default": "delta",
    # Without it there are no bounds of instants within a file, and all of it is read to find some.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A limited read looks at some partitions in its first job, not at one and then at more; of
    # thousands of small files there are hundreds.
    "spark.sql.limit.initialNumPartitions": "8",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    # Spark's own join for NOT IN compares the bits of floating-point numbers, so that -0.0 is not
    # in (0.0), and its other joins compare values. Which one it takes depends on sizes.
    "spark.sql.optimizeNullAwareAntiJoin": "false",
    # This rule fails with "key not found" on a correlated subquery over UNION ALL. Spark pushes
    # filters and prunes columns through UNION ALL without it.
    _EXCLUDED_RULES: PUSH_PROJECTION,
    # Parquet's writers give each page a checksum, and its readers look at none unless asked to.
    "parquet.page.verify-checksum.enabled": "true",
    # Delta refuses to read columns that are mapped by id without it. It sets it itself, but only in
    # a session that has asked for such a table in SQL.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # What only helps to find a call in a program, or Spark's authors: paid for by every query.
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
    # Delta rebuilds a table's state with 50 tasks by default; ours are small.
    "spark.databricks.delta.snapshotPartitions": "2",
    # The catalog keeps one domain metadata an object, and reads them from the checksum file.
    "spark.databricks.delta.domainMetadatasInCrc.maxAllowed": "1000000",
    "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    "spark.databricks.delta.properties.defaults.enableInCommitTimestamps": "true",
    # A commit waits for its checkpoint. Delta's default is 10. Outputs and the timeline have other
    # intervals, so that few checkpoints fall on the same tick.
    "spark.databricks.delta.properties.defaults.checkpointInterval": "103",
    # The engine follows logs itself and pins versions; age alone is no reason to refuse.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
}

_lock = threading.Lock()
_process_session: SparkSession | None = None


def process_session(master: str | None = None, life: Life = Life.LONG) -> SparkSession:
    """The process's session; started by the first call, for as long as that one says.

    Raises:
        JAVA_NOT_FOUND, JAVA_UNSUPPORTED, JAR_DOWNLOAD_FAILED: with what to do about it.
    """
    global _process_session
    with _lock:
        if _process_session is None or is_stopped(_process_session):
            _process_session = _start(master, life)
        return _process_session


def training_session(draft: Path) -> SparkSession:
    """A session whose JVM writes an archive of its classes when it ends; raises as above."""
    return _start(None, Life.SHORT, draft)


def _start(master: str | None, life: Life, draft: Path | None = None) -> SparkSession:
    # Errors of queries are raised; PySpark also writes them to standard error.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    session = start_spark(
        start_settings(master),
        lambda java: jvm_settings(java, master or LOCAL, life, draft),
    )
    session.sparkContext.setLogLevel("OFF")
    _write_no_checksum_files(session)
    return session


def _write_no_checksum_files(session: SparkSession) -> None:
    """Let Hadoop write no hidden file (``.NAME.crc``) beside each file of the local disk.

    Parquet's pages, deletion vectors and Delta's state have their own checksums, on every store.
    Files of checksums that others wrote are still compared.
    """
    jvm, configuration = java(session), java_context(session).hadoopConfiguration()
    local = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), configuration)
    local.setWriteChecksum(False)


def _check(base: SparkSession) -> None:
    """Raise an error where the caller's session was stopped or cannot use Delta Lake."""
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
    """A session of the engine's own beside the given one, with the settings it needs.

    Raises:
        SPARK_WITHOUT_DELTA, SPARK_ERROR: the given session has no Delta Lake, or was stopped.
    """
    _check(base)
    with translate_spark_errors():
        session = base.newSession()
        partitions = base.conf.get("spark.sql.shuffle.partitions", "200") or "200"
        session.conf.set("spark.sql.shuffle.partitions", partitions)
        for key in filter(changes_results, names_set(session)):
            if session.conf.isModifiable(key):  # a static one is the process's
                session.conf.unset(key)
        for key, value in _RUNTIME.items():
            session.conf.set(key, value)
        compare_not_in_by_value(session)
    return session


def delta_version(session: SparkSession) -> str:
    """The release of Delta that a session's JVM has loaded."""
    return str(java(session).io.delta.package.VERSION())


def reset_setting(session: SparkSession, name: str) -> None:
    """Give a setting of an engine's session ctsql's own value again, or Spark's default."""
    if name in _RUNTIME:
        session.conf.set(name, _RUNTIME[name])
    else:
        session.conf.unset(name)


@contextmanager
def without_merged_subqueries(session: SparkSession) -> Iterator[None]:
    """A session that does not make one subquery of several, for what is planned inside."""
    rules = f"{session.conf.get(_EXCLUDED_RULES)},{MERGE_SUBQUERIES}"
    with setting(session, _EXCLUDED_RULES, rules):
        yield
