"""Moves a few rows between the driver's JVM and this process, without a Spark job.

``DataFrame.toArrow`` runs a job even for rows in the driver's JVM, and ``createDataFrame`` makes
some fifty calls. Here both take a few calls of Spark's own converters. The bytes go through a file,
as in PySpark: an answer of more than 8 KB over the socket waits 40 ms for an acknowledgement.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.runtime.spark.internals.java import (
    class_name,
    frame_of_plan,
    java,
    java_context,
    java_rows,
    java_session,
    query_execution,
    singleton,
    typed,
)
from ctsql.runtime.spark.internals.sessions import settings_of, without_code
from ctsql.runtime.spark.missing import or_else

HELD_ROWS = "spark.internals.held_rows"
"""The functions of this fast path, which are used together."""
_UNBOUNDED = 2**62  # rows and bytes of a batch: there is one batch
_LENGTH_BYTES = 4  # bytes that Spark writes before each batch


@dataclass(frozen=True, slots=True)
class JvmRows:
    """A few rows in the driver's JVM, as a sequence, and their columns.

    A row may have more values than columns at its end. ``arrow`` is a copy in this process, if any.
    """

    rows: Any
    output: Any
    arrow: pa.Table | None = None


class _Classes:
    """The JVM's classes that hold and convert rows."""

    def __init__(self, jvm: Any) -> None:
        spark, collections = jvm.org.apache.spark, jvm.scala.collection
        self.wrap = collections.immutable.ArraySeq.unsafeWrapArray
        self.relation = spark.sql.catalyst.plans.logical.LocalRelation
        self.nothing = jvm.scala.Option.empty()
        types = singleton(spark.sql.catalyst.types, "DataTypeUtils")
        self.schema_of = types.fromAttributes
        self.converters = singleton(spark.sql.execution.arrow, "ArrowConverters")
        self.file = jvm.java.io.FileOutputStream
        self.stream = jvm.java.io.DataOutputStream
        self.write = spark.api.python.PythonRDD.writeIteratorToStream
        self.read = spark.sql.api.python.PythonSQLUtils.readArrowStreamFromFile
        self.to_frame = spark.sql.api.python.PythonSQLUtils.toDataFrame


_classes = lru_cache(maxsize=2)(_Classes)
"""Looked up once: each dot of a name below ``jvm`` costs a call."""


def physical_plan(rows: DataFrame) -> Any:
    """A query's physical plan, made now under the current settings.

    The public API gives plans only as text. A fast path: without it, small refreshes run jobs.
    """
    return typed(object, query_execution(rows).executedPlan())


def columns_of(rows: DataFrame) -> Any:
    """The columns of a query, with Spark's ids.

    The public API gives plans only as text. A fast path: without it, small refreshes run jobs.
    """
    return typed(object, query_execution(rows).analyzed().output())


def execute(session: SparkSession, plan: Any) -> Any:
    """Run a physical plan; its rows, as a sequence in the JVM.

    Tasks get the session's settings as local properties (``SQLExecution.withSQLConfPropagated``).
    No public API runs a plan without listeners, and keeps its rows in the JVM. A fast path: without
    it, small refreshes run jobs.
    """
    context = _context(session)
    before = context.getLocalProperties()
    properties = before.clone()
    properties.putAll(settings_of(session))
    context.setLocalProperties(properties)
    try:
        return typed(object, _classes(java(session)).wrap(plan.executeCollect()))
    finally:
        context.setLocalProperties(before)


_context = lru_cache(maxsize=16)(java_context)


def rows_in_jvm(rows: DataFrame) -> JvmRows:
    """The rows of a DataFrame that the driver's JVM holds.

    No public API keeps rows in the JVM. A fast path: without it, small refreshes run jobs.
    """
    query = query_execution(rows)
    plan = query.analyzed()
    if class_name(plan) == "LocalRelation":
        jvm_rows = plan.data()  # as Spark would return them, without a plan
    else:
        with without_code(rows.sparkSession):
            wrap = _classes(java(rows.sparkSession)).wrap
            jvm_rows = wrap(query.executedPlan().executeCollect())
    return JvmRows(typed(object, jvm_rows), typed(object, plan.output()))


def _frame_by_arrow(session: SparkSession, rows: Any, output: Any) -> DataFrame:
    """The same, through this process."""
    schema = json.loads(_classes(java(session)).schema_of(output).json())
    arrow = arrow_of_rows(session, rows, output) if rows.size() else []
    return session.createDataFrame(arrow, T.StructType.fromJson(schema))


@or_else(_frame_by_arrow)
def frame_over(session: SparkSession, rows: Any, output: Any) -> DataFrame:
    """Rows in the JVM as a DataFrame with new column ids, so it can be joined with its origin.

    No public API makes a DataFrame of Spark's own rows. A fast path: without it, small refreshes
    run jobs.
    """
    classes = _classes(java(session))
    relation = classes.relation(output, rows, False, classes.nothing).newInstance()
    return frame_of_plan(session, relation)


def arrow_of_rows(session: SparkSession, jvm_rows: Any, output: Any) -> pa.Table:
    """Rows in the JVM (at least one) with the columns ``output``, as Arrow.

    The public API, ``toArrow``, runs a job. A fast path: without it, that one does.
    """
    classes = _classes(java(session))
    batches = classes.converters.toBatchWithSchemaIterator(
        jvm_rows.iterator(),
        classes.schema_of(output),
        _UNBOUNDED,
        _UNBOUNDED,
        "UTC",
        False,
        False,
    )
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        with closing(classes.stream(classes.file(file.name))) as stream:
            classes.write(batches, stream)
        file.seek(_LENGTH_BYTES)
        return pa.ipc.open_stream(file.read()).read_all()


def frame_of_stream(session: SparkSession, path: str, schema: str) -> DataFrame:
    """A DataFrame over an Arrow stream of one batch in a file, whose rows are then in the JVM.

    The public API, ``createDataFrame``, makes some fifty calls. A fast path: without it, that one
    does. ``schema`` is Spark's, as JSON.
    """
    classes = _classes(java(session))
    with without_code(session):
        batches = classes.read(path)
        return java_rows(session, classes.to_frame(batches, schema, java_session(session)))


def arrow_batches(rows: DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows of a query, by a job.

    The public API, ``toArrow``, refuses a NULL of a VARIANT. Needed: without it, so do results.
    """
    yield from rows._collect_as_arrow(empty_list_if_zero_records=False)  # type: ignore[operator]
