"""A view over few rows, computed whole: this process reads its tables, and its plan is kept.

What a view's first contents are made of is often little. A scan of each table, with its file list,
its statistics and an exchange, takes Spark longer than the query; and the plan of the query over
rows that the driver holds is the same each time (:mod:`ctsql.runtime.rows.prepared_rows`).
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.declined import Declined
from ctsql.planner.lowering import Context, lower_view
from ctsql.planner.nodes import NormalReference, Query, Relation, ViewReference, ViewWrite, descend
from ctsql.planner.shapes import Shapes
from ctsql.runtime.rows.prepared_rows import derive
from ctsql.runtime.rows.row_set import LocalRows, RowSet
from ctsql.runtime.spark.analyzer import HeldSources
from ctsql.runtime.views.view_diff import stored_key
from ctsql.runtime.warehouse.query_engine import StoredRelations


def view_of_few(
    view: ViewWrite, sources: StoredRelations, at: int, session: SparkSession
) -> RowSet | Declined:
    """What a view ought to hold as of T; declined where that is not of few stored rows alone."""
    read = _read(view)
    if isinstance(read, Declined):
        return read
    rows_by_source: dict[str, LocalRows] = {}
    for object_id in read:
        rows = sources.local_rows(object_id, at)
        if isinstance(rows, Declined):
            return rows
        rows_by_source[object_id] = rows

    def build(frames: Sequence[DataFrame]) -> DataFrame:
        sources = HeldSources(session, dict(zip(rows_by_source, frames, strict=True)))
        return lower_view(view, Context(session, sources, at, clock_at=at))

    key = ("view", Shapes(list(rows_by_source)).of(view.desired), stored_key(view))
    return derive(list(rows_by_source.values()), build, key, origin=view)


def _read(view: ViewWrite) -> list[str] | Declined:
    """The objects that a view reads the rows of; declined where it reads anything else."""
    object_ids: dict[str, None] = {}
    for node in descend(view.desired):
        match node:
            case NormalReference(object_id=object_id):
                object_ids[object_id] = None
            case ViewReference():
                pass  # the relations of its query follow
            case Relation():
                return Declined("it reads more than contents")
            case Query(sql=sql) if sql.clocks:
                return Declined("it reads the clock")
    return list(object_ids) or Declined("it reads no object")
