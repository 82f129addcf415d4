"""Rows that the driver holds: as Arrow for this process, as a DataFrame for Spark.

Either is made of the other when it is first asked for.
"""

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types as T
from pyspark.sql.pandas.types import to_arrow_schema

from ctsql.runtime.rows.collect import at_hand


class HeldRows:
    """A few rows.

    Attributes:
        schema: their columns.
    """

    def __init__(
        self,
        session: SparkSession,
        schema: T.StructType,
        arrow: pa.Table | None = None,
        local: DataFrame | None = None,
    ) -> None:
        """Of an Arrow table, or of a DataFrame whose rows the driver's JVM holds."""
        self.sparkSession = session
        self.schema = schema
        if arrow is not None:
            self.arrow = _normal(arrow, schema)
        if local is not None:
            self.local = local

    @staticmethod
    def of(local: DataFrame) -> "HeldRows":
        """The rows of a DataFrame that the driver's JVM holds."""
        return HeldRows(local.sparkSession, local.schema, local=local)

    @cached_property
    def arrow(self) -> pa.Table:
        """The rows for this process."""
        return _normal(self.local.toArrow(), self.schema)

    @cached_property
    def local(self) -> DataFrame:
        """The rows for Spark, which reads them without a job."""
        return at_hand(self.sparkSession, self.arrow, self.schema)

    @property
    def frame(self) -> DataFrame:
        """The rows for Spark, to be joined with others: one task reads them."""
        return self.local.coalesce(1)

    @property
    def is_empty(self) -> bool:
        """Are there none?"""
        if "arrow" in self.__dict__:
            return not self.arrow.num_rows
        return self.local.isEmpty()

    def made(self, schema: T.StructType, arrow: pa.Table) -> "HeldRows":
        """Other rows, as this process has them."""
        return HeldRows(self.sparkSession, schema, arrow)

    def taken(self, numbers: Sequence[int]) -> "HeldRows":
        """The rows with some numbers, each as often as its number is there."""
        return self.made(self.schema, self.arrow.take(pa.array(numbers, pa.int64())))

    def select(self, names: Sequence[str], called: Sequence[str] | None = None) -> "HeldRows":
        """Some columns, maybe under other names."""
        fields = [self.schema[n] for n in names]
        called = names if called is None else called
        made = T.StructType(
            [
                T.StructField(n, f.dataType, metadata=f.metadata)
                for n, f in zip(called, fields, strict=True)
            ]
        )
        return self.made(made, self.arrow.select(names).rename_columns(list(called)))


def _normal(rows: pa.Table, schema: T.StructType) -> pa.Table:
    """Rows as Arrow has a schema's; instants are those of UTC."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    return rows.select(schema.names).cast(wanted).combine_chunks()


Rows = HeldRows | DataFrame


def has_none(rows: Rows) -> bool:
    """Are there no rows?"""
    return rows.is_empty if isinstance(rows, HeldRows) else rows.isEmpty()


def frame_of(rows: Rows) -> DataFrame:
    """The rows for Spark."""
    return rows.frame if isinstance(rows, HeldRows) else rows
