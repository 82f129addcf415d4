"""Computes a small view from scratch, by a cached plan.

For a new view over small tables, Spark's scans with file lists, statistics and exchanges take
longer than the query. So this process reads the tables, and the plan over driver-local rows is
reused (:mod:`ctsql.runtime.rows.prepared_rows`).
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.declined import Declined
from ctsql.planner.bodies.reads import reads_of
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.view import lower_view
from ctsql.planner.nodes import ViewWrite
from ctsql.planner.shapes import Shapes
from ctsql.runtime.rows.prepared_rows import derive
from ctsql.runtime.rows.row_set import LocalRows, RowSet
from ctsql.runtime.spark.analyzer import HeldSources
from ctsql.runtime.views.view_diff import stored_key
from ctsql.runtime.warehouse.query_engine import StoredRelations


def view_of_few(
    view: ViewWrite, sources: StoredRelations, at: int, session: SparkSession
) -> RowSet | Declined:
    """The desired rows of a view as of T; Declined unless they come from few stored rows."""
    reads = reads_of(view.desired)
    if not reads.contents or reads.inserts or reads.outputs or not reads.is_all:
        return Declined("it reads more than the contents of tables")
    few_rows: dict[str, LocalRows] = {}
    for object_id in reads.contents:
        rows = sources.local_rows(object_id, at)
        if isinstance(rows, Declined):
            return rows
        few_rows[object_id] = rows

    def build(frames: Sequence[DataFrame]) -> DataFrame:
        sources = HeldSources(session, dict(zip(few_rows, frames, strict=True)))
        return lower_view(view, Context(session, sources, at, clock_at=at))

    key = ("view", Shapes(list(few_rows)).of(view.desired), stored_key(view))
    return derive(list(few_rows.values()), build, key, origin=view)
