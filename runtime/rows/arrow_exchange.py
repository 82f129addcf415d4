"""Few rows as Arrow: out of the driver's JVM and back, without a Spark job."""

import tempfile
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.runtime.spark.arrow_types import arrow_schema
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.held_rows import (
    HELD_ROWS,
    arrow_batches,
    arrow_of_rows,
    collect_in_jvm,
    frame_of_stream,
    frame_over,
)
from ctsql.runtime.spark.missing import or_else


def all_as_arrow(frame: DataFrame) -> pa.Table:
    """All rows of a query, by a job, as ``DataFrame.toArrow``; a VARIANT may be NULL here."""
    target = arrow_schema(frame.schema, unique_fields=True)
    batches = arrow_batches(frame)
    return _with_types(pa.Table.from_batches(batches), target)


@or_else(all_as_arrow, HELD_ROWS)
def collect_arrow(rows: DataFrame) -> pa.Table:
    """The rows, computed now; without a job where the driver's JVM holds them."""
    with translate_spark_errors():
        held = collect_in_jvm(rows)
        return arrow_of(rows.sparkSession, held.rows, held.output, rows.schema)


@or_else(lambda session, rows, output, _: all_as_arrow(frame_over(session, rows, output)))
def arrow_of(session: SparkSession, jvm_rows: Any, output: Any, schema: T.StructType) -> pa.Table:
    """Rows that the JVM holds, of the columns ``output``, as this process has them."""
    with translate_spark_errors():
        if not jvm_rows.size():
            return arrow_schema(schema).empty_table()
        return arrow_of_rows(session, jvm_rows, output)


def as_spark_has_it(rows: pa.Table, schema: T.StructType) -> pa.Table:
    """Rows with the Arrow types that Spark has for a schema's, instants in UTC, in one chunk."""
    target = arrow_schema(schema)
    return _with_types(rows.select(schema.names), target).combine_chunks()


def _with_types(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    # Arrow refuses to cast a NULL of a struct whose fields are NOT NULL, as VARIANT's are, even to
    # the type that it has.
    pairs = zip(rows.columns, schema.types, strict=True)
    columns = [c if c.type.equals(kind) else c.cast(kind) for c, kind in pairs]
    return pa.table(columns, schema=schema)


def _created(session: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    return session.createDataFrame(as_spark_has_it(rows, schema), schema)


@or_else(_created, HELD_ROWS)
def at_hand(session: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """Rows that this process has, as a DataFrame whose rows the driver's JVM holds."""
    arrow = as_spark_has_it(rows, schema)
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        with pa.ipc.new_stream(file, arrow.schema) as stream:
            # In one batch: Spark takes an empty one for the end, and rows behind it would be lost.
            for batch in arrow.to_batches():
                stream.write_batch(batch)
        file.flush()
        with translate_spark_errors():
            return frame_of_stream(session, file.name, schema.json())
