"""A set of rows: few that the driver holds, or any number that Spark reads.

Local rows are Arrow for this process and a DataFrame for Spark, each made from the other on demand.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions as F, types as T

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import KEY_
from ctsql.runtime.rows.collect import (
    FEW,
    NARROW,
    Bounds,
    all_as_arrow,
    arrow_of,
    as_spark_has_it,
    at_hand,
    hold,
)
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.held_rows import (
    HELD_ROWS,
    JvmRows,
    frame_over,
    rows_in_jvm,
)
from ctsql.runtime.spark.internals.sessions import setting
from ctsql.runtime.spark.missing import or_else


class RowSet(ABC):
    """Rows of a session, in the driver or in Spark."""

    session: SparkSession
    schema: T.StructType

    @property
    @abstractmethod
    def frame(self) -> DataFrame:
        """The rows for Spark, to be joined with others."""

    @property
    @abstractmethod
    def plain_frame(self) -> DataFrame:
        """The rows for Spark, to be read alone: without a job if they are local."""

    @property
    @abstractmethod
    def row_count(self) -> int:
        """The number of rows; runs a job unless they are local."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Are there none?"""

    @property
    @abstractmethod
    def local(self) -> "LocalRows | Declined":
        """The rows if the driver holds them; computes nothing."""

    @abstractmethod
    def collect(self) -> "LocalRows | Declined":
        """The rows in the driver, computed now; declined if they are not few."""

    @abstractmethod
    def select(self, names: Sequence[str], new_names: Sequence[str] | None = None) -> "RowSet":
        """Some columns, maybe under other names."""

    @abstractmethod
    def where_nonzero(self, column: str) -> "RowSet":
        """The rows that do not have 0 in a column."""

    @property
    def is_local(self) -> bool:
        """Whether the driver holds the rows."""
        return not isinstance(self.local, Declined)

    @property
    def is_of_few(self) -> bool:
        """Whether the driver holds the rows, or everything that they are computed from."""
        return self.is_local

    def keep(self, stack: ExitStack, *, many: bool = False) -> "RowSet":
        """Rows computed now if they are few, else at the first read; persisted for the stack.

        If ``many`` are expected they are computed once in either case; few take longer then.
        """
        at_once = not many or self.is_of_few
        if at_once and not isinstance(rows := self.collect(), Declined):
            return rows
        row_set = SparkRows(stack.enter_context(persisted(self.frame)))
        if not at_once:
            for bounds in (NARROW, FEW):
                if not isinstance(rows := row_set.collect(bounds), Declined):
                    return rows
        return row_set

    def cast(self, schema: T.StructType) -> "RowSet":
        """The rows cast to a schema's types, lazily."""
        if [f.dataType for f in self.schema.fields] == [f.dataType for f in schema.fields]:
            return self
        return SparkRows(
            self.frame.select(
                *(
                    F.col(backtick(mine)).cast(field.dataType).alias(mine)
                    for mine, field in zip(self.schema.names, schema.fields, strict=True)
                )
            )
        )

    def with_keys(self, keys: "RowSet", pairs: Sequence[tuple[str, str]]) -> "RowSet":
        """The rows that have one of the keys, NULL equal to NULL, by pairs of columns; lazily."""
        columns = [(backtick(mine), F.col(backtick(key))) for mine, key in pairs]
        key_rows = keys.frame.select(
            *(key.alias(f"{KEY_}{i}") for i, (_, key) in enumerate(columns))
        )
        equal = F.lit(True)
        for i, (mine, _) in enumerate(columns):
            equal = equal & F.col(mine).eqNullSafe(F.col(f"{KEY_}{i}"))
        return SparkRows(self.frame.join(key_rows, equal, "left_semi"))


class SparkRows(RowSet):
    """Rows that Spark computes when they are read."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self.session = frame.sparkSession

    @cached_property
    def schema(self) -> T.StructType:  # type: ignore[override]
        """The columns; Spark analyzes the query."""
        return self._frame.schema

    @property
    def frame(self) -> DataFrame:
        """The rows for Spark."""
        return self._frame

    @property
    def plain_frame(self) -> DataFrame:
        """The same."""
        return self._frame

    @property
    def row_count(self) -> int:
        """The number of rows; runs a job."""
        return self._frame.count()

    @property
    def is_empty(self) -> bool:
        """Whether there is no row; runs a job."""
        return self._frame.isEmpty()

    @property
    def local(self) -> "LocalRows | Declined":
        """Not held."""
        return Declined("Spark has the rows")

    def collect(self, bounds: Bounds = FEW) -> "LocalRows | Declined":
        """The rows in the driver, if they are few."""
        in_jvm = hold(self._frame, bounds)
        if isinstance(in_jvm, Declined):
            return in_jvm
        return LocalRows(self.session, self.schema, in_jvm=in_jvm)

    def select(self, names: Sequence[str], new_names: Sequence[str] | None = None) -> RowSet:
        """Some columns, maybe under other names."""
        pairs = zip(names, names if new_names is None else new_names, strict=True)
        return SparkRows(self._frame.select(*(F.col(backtick(n)).alias(c) for n, c in pairs)))

    def where_nonzero(self, column: str) -> RowSet:
        """The rows that do not have 0 in a column."""
        return SparkRows(self._frame.where(F.col(backtick(column)) != 0))


class LocalRows(RowSet):
    """Few rows that the driver holds."""

    def __init__(
        self,
        session: SparkSession,
        schema: T.StructType,
        arrow: pa.Table | None = None,
        frame: DataFrame | None = None,
        in_jvm: JvmRows | None = None,
    ) -> None:
        """From an Arrow table, a DataFrame whose rows the driver's JVM holds, or these rows."""
        self.session = session
        self.schema = schema
        if arrow is not None:
            self.arrow = as_spark_has_it(arrow, schema)
        if frame is not None:
            self.plain_frame = frame
        if in_jvm is not None:
            self.in_jvm = in_jvm

    @staticmethod
    def of(frame: DataFrame) -> "LocalRows":
        """The rows of a DataFrame that the driver's JVM holds."""
        return LocalRows(frame.sparkSession, frame.schema, frame=frame)

    @cached_property
    def arrow(self) -> pa.Table:
        """The rows for this process."""
        return as_spark_has_it(self._as_arrow(), self.schema)

    @or_else(lambda self: all_as_arrow(self.plain_frame), HELD_ROWS)
    def _as_arrow(self) -> pa.Table:
        with translate_spark_errors():
            in_jvm = self.in_jvm
        if in_jvm.arrow is not None:
            return in_jvm.arrow
        return arrow_of(self.session, in_jvm.rows, in_jvm.output, self.schema)

    @cached_property
    def plain_frame(self) -> DataFrame:
        """The rows for Spark, which reads them without a job."""
        in_jvm: JvmRows | None = self.__dict__.get("in_jvm")
        if in_jvm is None:
            return at_hand(self.session, self.arrow, self.schema)
        return frame_over(self.session, in_jvm.rows, in_jvm.output)

    @cached_property
    def in_jvm(self) -> JvmRows:
        """The rows as the JVM has them."""
        return rows_in_jvm(self.plain_frame)

    @cached_property
    def signature(self) -> str:
        """Text that is equal exactly when the columns are."""
        return self.schema.json()

    @property
    def frame(self) -> DataFrame:
        """The rows for Spark, to be joined with others: one task reads them."""
        return self.plain_frame.coalesce(1)

    @property
    @or_else(lambda self: self.arrow.num_rows, HELD_ROWS)
    def row_count(self) -> int:
        """The number of rows."""
        if "arrow" in self.__dict__:
            return int(self.arrow.num_rows)
        return int(self.in_jvm.rows.size())

    @property
    def is_empty(self) -> bool:
        """Are there none?"""
        return not self.row_count

    @property
    def local(self) -> "LocalRows":
        """These."""
        return self

    def collect(self) -> "LocalRows":
        """These."""
        return self

    def with_rows(self, schema: T.StructType, arrow: pa.Table) -> "LocalRows":
        """Other rows, as this process has them."""
        return LocalRows(self.session, schema, arrow)

    def take(self, numbers: Sequence[int]) -> "LocalRows":
        """The rows of these numbers, in order, repeated if a number is."""
        return self.with_rows(self.schema, self.arrow.take(pa.array(numbers, pa.int64())))

    def select(self, names: Sequence[str], new_names: Sequence[str] | None = None) -> "LocalRows":
        """Some columns, maybe under other names."""
        fields = [self.schema[n] for n in names]
        new_names = names if new_names is None else new_names
        schema = T.StructType(
            [
                T.StructField(n, f.dataType, metadata=f.metadata)
                for n, f in zip(new_names, fields, strict=True)
            ]
        )
        return self.with_rows(schema, self.arrow.select(names).rename_columns(list(new_names)))

    def where_nonzero(self, column: str) -> "LocalRows":
        """The rows that do not have 0 in a column."""
        values = self.arrow.column(column).to_pylist()
        return self.take([i for i, n in enumerate(values) if n != 0])


AnyRows = RowSet | DataFrame | None  # none for none at all


def row_set(rows: RowSet | DataFrame) -> RowSet:
    """A row set of rows that may be a DataFrame."""
    return SparkRows(rows) if isinstance(rows, DataFrame) else rows


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, computed once for all reads inside."""
    frame = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()


def computed(frame: DataFrame) -> DataFrame:
    """The rows, computed now and held by Spark, without their lineage.

    Spark 4.2 also keeps constraints, and fails with "key not found" on a union over columns that
    are NOT NULL; so they are disabled.
    """
    with setting(frame.sparkSession, "spark.sql.constraintPropagation.enabled", "false"):
        return frame.localCheckpoint(eager=True)
