"""Few rows, held by the driver: how many, and how wide.

What the driver takes is bounded whatever the rows turn out to be: a partition sends at most one
row more than ``Bounds`` have, a row that would be wider is sent without its wide columns and
marked, and what all partitions send together is bounded by ``spark.driver.maxResultSize`` (1 GB
unless set). In each case the answer is "not few", and the caller takes the way on which rows stay
on the executors. What is kept is at most ``FEW``, 10,000 rows of 8 KB, about 80 MB; or as many
bytes in ``NARROW`` rows, where what they are made of is many rows already.

A row's width is that of its texts and other columns without a fixed width, in bytes of UTF-8.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.catalog.declined import Declined
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import FILE_COLUMN, WIDE
from ctsql.runtime.rows.arrow_exchange import arrow_of
from ctsql.runtime.rows.types import fits_arrow, has_fixed_width
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.held_rows import (
    HELD_ROWS,
    JvmRows,
    columns_of,
    execute,
    frame_over,
    physical_plan,
)
from ctsql.runtime.spark.internals.sessions import setting
from ctsql.runtime.spark.missing import or_else

DRIVER_ROWS_MAX = 10_000
DRIVER_ROW_BYTES_MAX = 8 * 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many rows the driver takes, and how many bytes of each, both inclusive."""

    rows: int
    row_bytes: int

    @property
    def too_many(self) -> Declined:
        """Why more rows are declined."""
        return Declined(f"more than {self.rows} rows")

    @property
    def too_wide(self) -> Declined:
        """Why wider rows are declined."""
        return Declined(f"a row has more than {self.row_bytes} bytes")


FEW = Bounds(DRIVER_ROWS_MAX, DRIVER_ROW_BYTES_MAX)
NARROW = Bounds(20 * FEW.rows, FEW.row_bytes // 20)
TOO_MANY = FEW.too_many
_Rows = TypeVar("_Rows")
_TEXT = (T.StringType, T.CharType, T.VarcharType, T.BinaryType)
_NESTED = (T.ArrayType, T.MapType, T.StructType, T.VariantType)


def collect_bounded(rows: DataFrame) -> DataFrame | Declined:
    """The rows, computed now and held in the driver's JVM; declined when they are not few."""
    in_jvm = hold(rows)
    if isinstance(in_jvm, Declined):
        return in_jvm
    return frame_over(rows.sparkSession, in_jvm.rows, in_jvm.output)


@or_else(lambda *_: Declined("this release of Spark lacks a method for it"), HELD_ROWS)
def hold(rows: DataFrame, bounds: Bounds = FEW) -> JvmRows | Declined:
    """The rows, computed now; declined when they are not few, or as few as ``bounds`` say.

    As Spark's own rows: one of Java's objects has no dates of October 5 to 14, 1582, and no text
    that is not UTF-8. A limit needs no exchange here, as with toArrow it would.
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
    """What a physical plan gives, computed now; declined when it is not few.

    Args:
        root: gives at most one row more than may be held. is_marked: is there ``WIDE`` behind
            the columns?
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
    """Rows computed now; declined where they are more bytes than Spark gives to the driver."""
    try:
        with translate_spark_errors():
            return compute()
    except CtsqlError as problem:
        if "spark.driver.maxResultSize" in f"{problem.message} {problem.detail}":
            return Declined("more bytes than spark.driver.maxResultSize")
        raise


def mark_wide(rows: DataFrame, bounds: Bounds) -> DataFrame | Declined:
    """The rows with wide ones emptied, and marked in a last column ``WIDE`` where any can be.

    Declined when a width cannot be told.
    """
    fields = rows.schema.fields
    kinds = (*_TEXT, *_NESTED)
    if not all(has_fixed_width(f.dataType) or isinstance(f.dataType, kinds) for f in fields):
        return Declined("the width of a column cannot be told")
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
    """The bytes of a value, as an expression."""
    value = backtick(field.name)
    text = value if isinstance(field.dataType, _TEXT) else f"CAST({value} AS STRING)"
    return f"coalesce(octet_length({text}), 0)"


def unadaptive(session: SparkSession) -> AbstractContextManager[None]:
    """Plan without adaptive execution: on few rows its stages cost more than they save."""
    return setting(session, "spark.sql.adaptive.enabled", "false")
