"""Few rows go from the JVM to this process and back as Arrow, without a Spark job.

``DataFrame.toArrow`` runs a job even for rows that the driver's JVM holds, and ``createDataFrame``
makes some fifty calls into the JVM. Here both are a few calls, by Spark's own converters; so the
values are what Spark makes of them. The bytes go through a file, as PySpark's do: an answer of
more than 8 KB over the socket waits 40 ms for an acknowledgement.
"""

import tempfile
from contextlib import closing
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.runtime.spark.arrow_types import arrow_schema
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.spark.scala import singleton
from ctsql.runtime.spark.session import settings_of, without_code

_UNBOUNDED = 2**62
"""Rows, and bytes, of one batch: all go in one."""
_LENGTH_BYTES = 4
"""What Spark writes before each batch."""


class RowClasses:
    """What the JVM keeps and converts rows with."""

    def __init__(self, jvm: Any) -> None:
        spark, collections = jvm.org.apache.spark, jvm.scala.collection
        self.wrap = collections.immutable.ArraySeq.unsafeWrapArray
        self.relation = spark.sql.catalyst.plans.logical.LocalRelation
        self.nothing = jvm.scala.Option.empty()
        self.frame_of = spark.sql.classic.Dataset.ofRows
        types = singleton(spark.sql.catalyst.types, "DataTypeUtils")
        self.schema_of = types.fromAttributes
        self.converters = singleton(spark.sql.execution.arrow, "ArrowConverters")
        self.file = jvm.java.io.FileOutputStream
        self.stream = jvm.java.io.DataOutputStream
        self.write = spark.api.python.PythonRDD.writeIteratorToStream
        self.read = spark.sql.api.python.PythonSQLUtils.readArrowStreamFromFile
        self.to_frame = spark.sql.api.python.PythonSQLUtils.toDataFrame


def row_classes(session: SparkSession) -> RowClasses:
    """Looked up once: a name below ``jvm`` costs a call for each dot."""
    return _classes(session._jvm)


@lru_cache(maxsize=2)
def _classes(jvm: object) -> RowClasses:
    return RowClasses(jvm)


def execute(session: SparkSession, plan: Any) -> Any:
    """Run a physical plan; its rows, as a sequence in the JVM.

    Tasks have the session's settings as local properties, where Spark puts them for the queries
    that it runs itself (``SQLExecution.withSQLConfPropagated``); else they would have the defaults.
    """
    context = _context(session)
    before = context.getLocalProperties()
    properties = before.clone()
    properties.putAll(settings_of(session))
    context.setLocalProperties(properties)
    try:
        return row_classes(session).wrap(plan.executeCollect())
    finally:
        context.setLocalProperties(before)


@lru_cache(maxsize=16)
def _context(session: SparkSession) -> Any:
    return session.sparkContext._jsc.sc()


def frame_over(session: SparkSession, rows: Any, output: Any) -> DataFrame:
    """Rows that the JVM holds, as a DataFrame; ``output`` are their columns.

    New columns, else a join with what the rows were made of had one column on both sides.
    """
    classes = row_classes(session)
    relation = classes.relation(output, rows, False, classes.nothing).newInstance()
    return DataFrame(classes.frame_of(session._jsparkSession, relation), session)


def collect_arrow(rows: DataFrame) -> pa.Table:
    """The rows, computed now; without a job where the driver's JVM holds them."""
    classes = row_classes(rows.sparkSession)
    with translate_spark_errors():
        query = rows._jdf.queryExecution()
        jvm_rows = classes.wrap(query.executedPlan().executeCollect())
        return arrow_of(rows.sparkSession, jvm_rows, query.analyzed().output(), rows.schema)


def arrow_of(session: SparkSession, jvm_rows: Any, output: Any, schema: T.StructType) -> pa.Table:
    """Rows that the JVM holds, of the columns ``output``, as this process has them."""
    classes = row_classes(session)
    with translate_spark_errors():
        if not jvm_rows.size():
            return arrow_schema(schema).empty_table()
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


def as_spark_has_it(rows: pa.Table, schema: T.StructType) -> pa.Table:
    """Rows with the Arrow types that Spark has for a schema's, instants in UTC, in one chunk."""
    target = arrow_schema(schema)
    return _with_types(rows.select(schema.names), target).combine_chunks()


def all_as_arrow(frame: DataFrame) -> pa.Table:
    """All rows of a query, by a job, as ``DataFrame.toArrow``; a VARIANT may be NULL here."""
    target = arrow_schema(frame.schema, unique_fields=True)
    batches = frame._collect_as_arrow(empty_list_if_zero_records=False)  # type: ignore[operator]
    return _with_types(pa.Table.from_batches(batches), target)


def _with_types(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    # Arrow refuses to cast a NULL of a struct whose fields are NOT NULL, as VARIANT's are, even to
    # the type that it has.
    pairs = zip(rows.columns, schema.types, strict=True)
    columns = [c if c.type.equals(kind) else c.cast(kind) for c, kind in pairs]
    return pa.table(columns, schema=schema)


def at_hand(session: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """Rows that this process has, as a DataFrame whose rows the driver's JVM holds."""
    classes = row_classes(session)
    arrow = as_spark_has_it(rows, schema)
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        with pa.ipc.new_stream(file, arrow.schema) as stream:
            # In one batch: Spark takes an empty one for the end, and rows behind it would be lost.
            for batch in arrow.to_batches():
                stream.write_batch(batch)
        file.flush()
        with translate_spark_errors(), without_code(session):
            batches = classes.read(file.name)
            jvm_frame = classes.to_frame(batches, schema.json(), session._jsparkSession)
    return DataFrame(jvm_frame, session)
