"""Views from which time only removes rows: these are searched in the view itself.

    change of the view  =  - stored rows that no longer pass  +  change of the rows that pass now

No table is read for them. The first contents are stored in the order of expiry: files, row groups
and pages hold rows of about the same time, so statistics limit the search
(docs/decisions/0085-time-in-views.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import Declined
from ctsql.catalog.items import Item
from ctsql.catalog.reserved_columns import DIFF, FILE_COLUMN, ROW_COLUMN
from ctsql.planner.ivm import NEVER, ClockWindow
from ctsql.runtime.delta.keyed_scan import group_by_file
from ctsql.runtime.log.staging import OutputBatch, Staging
from ctsql.runtime.rows.row_set import SparkRows
from ctsql.runtime.spark.internals.partitions import partition_rows
from ctsql.runtime.views.outcomes import Due
from ctsql.runtime.views.refresh_policy import looked_ahead
from ctsql.runtime.warehouse.warehouse import Warehouse

_EXPIRY, _IS_TOUCHED = "expiry", "is_touched"


@dataclass(frozen=True, slots=True)
class LeavingRows:
    """The rows that leave a view between the Ts ``before`` and ``at``.

    Attributes:
        window: the condition of the view's rows. batch: over the stored version of the view's
            table, whose rows pass at ``before``.
    """

    warehouse: Warehouse
    item: Item
    window: ClockWindow
    batch: OutputBatch
    before: int
    at: int

    @property
    def _stored_rows(self) -> DataFrame:
        return self.warehouse.relations.table(self.item).locate_rows(self.batch.version_read)

    def stage(self, staging: Staging) -> None:
        """Stage the deletion of the stored rows that leave."""
        expiring = self._stored_rows.where(self.window.may_expire(self.before, self.at))
        rows = expiring.where(f"NOT ({self.window.passes(self.at)})")
        rows = rows.select(FILE_COLUMN, ROW_COLUMN)
        few = SparkRows(rows).collect()
        if isinstance(few, Declined):
            staging.delete_rows(_by_file(rows))
        elif few.arrow.num_rows:
            files, numbers = (few.arrow.column(c).to_pylist() for c in (FILE_COLUMN, ROW_COLUMN))
            places = sorted(zip(files, numbers, strict=True))
            staging.delete_rows(group_by_file(places).items())

    def due(self, signed_rows: DataFrame | None = None) -> Due:
        """The first T after ``at`` at which a remaining row leaves.

        ``signed_rows``: the view's change without the leaving rows; None for no change.
        """
        table, version = self.warehouse.relations.table(self.item), self.batch.version_read
        count = table.rows_count(version) if table.is_stored(version) else None
        for until in looked_ahead([count], self.at):
            expiries = self._expiries(self._stored_rows, until).withColumn(DIFF, F.lit(1))
            if signed_rows is not None:
                expiries = _expiries_left(expiries, self._expiries(signed_rows, until, DIFF))
            (row,) = expiries.agg(F.min(_EXPIRY).alias(_EXPIRY)).collect()
            if row[_EXPIRY] is not None:
                return Due(int(row[_EXPIRY]))
        return Due(None)

    def _expiries(self, rows: DataFrame, until: int | None, *more: str) -> DataFrame:
        """The expiries of the rows that pass now."""
        passing = rows.where(self.window.passes(self.at))
        if until is not None:
            passing = passing.where(self.window.may_expire(self.at, until))
        _, leaves = self.window.interval
        expiry = F.expr(leaves).alias(_EXPIRY)
        is_near = (F.col(_EXPIRY) > self.at) & (F.col(_EXPIRY) < NEVER)
        return passing.select(expiry, *more).where(is_near)


def _expiries_left(stored_expiries: DataFrame, signed_rows: DataFrame) -> DataFrame:
    """The expiries with a remaining row. Equal rows expire together, so counts are enough."""
    touched_expiries = signed_rows.where(F.col(DIFF) < 0).select(_EXPIRY).distinct()
    marks = F.broadcast(touched_expiries.withColumn(_IS_TOUCHED, F.lit(True)))
    both = stored_expiries.unionAll(signed_rows).join(marks, _EXPIRY, "left")
    # Expiries that lose no row are one group.
    groups = both.groupBy(F.when(F.col(_IS_TOUCHED), F.col(_EXPIRY))).agg(
        F.min(_EXPIRY).alias(_EXPIRY), F.sum(DIFF).alias(DIFF)
    )
    return groups.where(F.col(DIFF) > 0)


def _by_file(rows: DataFrame) -> Iterator[tuple[str, list[int]]]:
    files = rows.groupBy(FILE_COLUMN).agg(F.collect_list(ROW_COLUMN).alias("rows"))
    for row in partition_rows(files):
        yield row[FILE_COLUMN], row["rows"]


def in_order(rows: DataFrame, window: ClockWindow) -> DataFrame:
    """The rows in the order in which they leave."""
    return rows.orderBy(F.expr(window.order))
