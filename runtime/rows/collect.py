"""Collects few rows into the driver, as Arrow or as rows of its JVM, within bounds.

A partition sends at most one row more than ``Bounds`` allow. A row that is too wide is sent marked,
without its wide columns. ``spark.driver.maxResultSize`` (1 GB by default) bounds the sum. Beyond
the bounds the answer is ``Declined``, and the rows stay on the executors. The driver holds at most
``FEW``, 10,000 rows of 8 KB, about 80 MB; or as many bytes in ``NARROW`` rows.

A row's width is the bytes of its columns without a fixed width, in UTF-8.
"""

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.catalog.errors import CtsqlError, Declined
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import FILE_COLUMN, WIDE
from ctsql.runtime.rows.types import arrow_schema, fits_arrow, has_fixed_width
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.held_rows import (
    HELD_ROWS,
    JvmRows,
    arrow_batches,
    arrow_of_rows,
    columns_of,
    execute,
    frame_of_stream,
    frame_over,
    physical_plan,
)
from ctsql.runtime.spark.internals.sessions import setting
from ctsql.runtime.spark.missing import or_else


def all_as_arrow(frame: DataFrame) -> pa.Table:
    """All rows of a query, by a Spark job; a VARIANT may be NULL, unlike in ``toArrow``."""
    target = arrow_schema(frame.schema, unique_fields=True)
    batches = arrow_batches(frame)
    return _with_types(pa.Table.from_batches(batches), target)


@or_else(lambda session, rows, output, _: all_as_arrow(frame_over(session, rows, output)))
def arrow_of(session: SparkSession, jvm_rows: Any, output: Any, schema: T.StructType) -> pa.Table:
    """Rows that the JVM holds, with the columns ``output``, as Arrow."""
    with translate_spark_errors():
        if not jvm_rows.size():
            return arrow_schema(schema).empty_table()
        return arrow_of_rows(session, jvm_rows, output)


def as_spark_has_it(rows: pa.Table, schema: T.StructType) -> pa.Table:
    """Rows with Spark's Arrow types for a schema, instants in UTC, in one chunk."""
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
    """Arrow rows as a DataFrame whose rows the driver's JVM holds."""
    arrow = as_spark_has_it(rows, schema)
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        with pa.ipc.new_stream(file, arrow.schema) as stream:
            # In one batch: Spark takes an empty one for the end, and rows behind it would be lost.
            for batch in arrow.to_batches():
                stream.write_batch(batch)
        file.flush()
        with translate_spark_errors():
            return frame_of_stream(session, file.name, schema.json())


DRIVER_ROWS_MAX = 10_000
DRIVER_ROW_BYTES_MAX = 8 * 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many rows the driver takes, and how many bytes of each, both inclusive."""

    rows: int
    row_bytes: int

    @property
    def too_many(self) -> Declined:
        """The reason for declining more rows."""
        return Declined(f"more than {self.rows} rows")

    @property
    def too_wide(self) -> Declined:
        """The reason for declining wider rows."""
        return Declined(f"a row has more than {self.row_bytes} bytes")


FEW = Bounds(DRIVER_ROWS_MAX, DRIVER_ROW_BYTES_MAX)
NARROW = Bounds(20 * FEW.rows, FEW.row_bytes // 20)
TOO_MANY = FEW.too_many
_Rows = TypeVar("_Rows")
_TEXT = (T.StringType, T.CharType, T.VarcharType, T.BinaryType)
_NESTED = (T.ArrayType, T.MapType, T.StructType, T.VariantType)


def collect_bounded(rows: DataFrame) -> DataFrame | Declined:
    """The rows, computed now and held in the driver's JVM; declined if beyond ``FEW``."""
    in_jvm = hold(rows)
    if isinstance(in_jvm, Declined):
        return in_jvm
    return frame_over(rows.sparkSession, in_jvm.rows, in_jvm.output)


@or_else(lambda *_: Declined("this release of Spark lacks a method for it"), HELD_ROWS)
def hold(rows: DataFrame, bounds: Bounds = FEW) -> JvmRows | Declined:
    """The rows, computed now; declined if beyond the bounds.

    They are Spark's own rows: Java objects have no dates of October 5 to 14, 1582, and only texts
    in UTF-8. Unlike with toArrow, a limit needs no exchange.
    """
    session = rows.sparkSession
    marked_rows = mark_wide(rows, bounds)
    if isinstance(marked_rows, Declined):
        return marked_rows
    with unadaptive(session), translate_spark_errors():
        root = physical_plan(marked_rows.limit(bounds.rows + 1))
        output = columns_of(rows)
        is_marked = marked_rows is not rows
        return held_of(session, root, output, rows.schema, bounds, is_marked=is_marked)


def held_of(
    session: SparkSession,
    root: Any,
    output: Any,
    schema: T.StructType,
    bounds: Bounds,
    *,
    is_marked: bool,
) -> JvmRows | Declined:
    """The rows of a physical plan, computed now; declined if beyond the bounds.

    ``root`` yields at most one row more than the bounds; ``is_marked``: it ends with ``WIDE``.
    """
    jvm_rows = within_result_size(lambda: execute(session, root))
    if isinstance(jvm_rows, Declined):
        return jvm_rows
    if jvm_rows.size() > bounds.rows:
        return bounds.too_many
    if not is_marked:
        return JvmRows(jvm_rows, output)
    if not fits_arrow(schema):
        frame = frame_over(session, jvm_rows, root.output())
        return JvmRows(jvm_rows, output) if frame.where(WIDE).isEmpty() else bounds.too_wide
    fields = [*schema.fields, T.StructField(WIDE, T.BooleanType())]
    arrow = arrow_of(session, jvm_rows, root.output(), T.StructType(fields))
    if pc.any(arrow.column(len(schema))).as_py():
        return bounds.too_wide
    return JvmRows(jvm_rows, output, arrow.remove_column(len(schema)))


def within_result_size(compute: Callable[[], _Rows]) -> _Rows | Declined:
    """Compute rows; declined if they are more bytes than ``spark.driver.maxResultSize``."""
    try:
        with translate_spark_errors():
            return compute()
    except CtsqlError as problem:
        if "spark.driver.maxResultSize" in f"{problem.message} {problem.detail}":
            return Declined("more bytes than spark.driver.maxResultSize")
        raise


def mark_wide(rows: DataFrame, bounds: Bounds) -> DataFrame | Declined:
    """Empty wide rows and mark them in a last column ``WIDE``, if there can be any.

    Declined if the width of a column is not computable.
    """
    fields = rows.schema.fields
    kinds = (*_TEXT, *_NESTED)
    if not all(has_fixed_width(f.dataType) or isinstance(f.dataType, kinds) for f in fields):
        return Declined("the width of a column cannot be determined")
    # Where a row is stored is a path of a few hundred bytes.
    names = {f.name for f in fields if not has_fixed_width(f.dataType) and f.name != FILE_COLUMN}
    if not names:
        return rows
    # As text: a function of a Column is four calls into the JVM.
    widths = " + ".join(_width(f) for f in fields if f.name in names)
    narrow = f"{widths} <= {bounds.row_bytes}"
    identifiers = {f.name: backtick(f.name) for f in fields}
    columns = [
        f"CASE WHEN {narrow} THEN {q} END AS {q}" if name in names else q
        for name, q in identifiers.items()
    ]
    return rows.selectExpr(*columns, f"NOT ({narrow}) AS {WIDE}")


def _width(field: T.StructField) -> str:
    value = backtick(field.name)
    text = value if isinstance(field.dataType, _TEXT) else f"CAST({value} AS STRING)"
    return f"coalesce(octet_length({text}), 0)"


def unadaptive(session: SparkSession) -> AbstractContextManager[None]:
    """Plan without adaptive execution: on few rows its stages cost more than they save."""
    return setting(session, "spark.sql.adaptive.enabled", "false")
