"""Stages the difference between the desired and the stored rows of a view.

The rows of a new view over small tables are computed by a cached plan over driver-local rows
(:mod:`ctsql.runtime.rows.prepared_rows`): Spark's scans with file lists, statistics and exchanges
take longer than the query.
"""

from collections.abc import Hashable, Sequence

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.errors import Declined
from ctsql.catalog.reserved_columns import BROKEN, DIFF
from ctsql.planner.bodies.reads import reads_of
from ctsql.planner.lowering.constraints import fail_broken, with_refused
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.view import cast_to_stored, lower_view
from ctsql.planner.nodes import ViewWrite
from ctsql.planner.shapes import Shapes
from ctsql.runtime.delta.diff_writer import stage_signed
from ctsql.runtime.rows.prepared_rows import derive
from ctsql.runtime.rows.row_set import LocalRows, RowSet
from ctsql.runtime.spark.analyzer import HeldSources
from ctsql.runtime.views.outcomes import WayOutcome
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.warehouse.query_engine import StoredRelations


def stored_form(view: ViewWrite, desired: RowSet) -> RowSet:
    """Rows in the types of the view's table, with its checks; not computed yet."""
    return derive(
        [desired],
        lambda rows: fail_broken(cast_to_stored(rows[0], view), view.failing),
        stored_key(view),
    )


def stage_rows(context: RefreshContext, desired: RowSet, stored_rows: RowSet) -> None:
    """Stage the difference between rows in :func:`stored_form` and the stored rows."""
    context.warehouse.queries.stage(
        context.staging, desired, stored_rows, context.columns, small=True
    )


def signed_form(view: ViewWrite, signed_rows: RowSet) -> RowSet:
    """Signed rows in the types of the view's table, with its checks; not computed yet."""
    return derive(
        [signed_rows],
        lambda rows: with_refused(cast_to_stored(rows[0], view, [DIFF]), view.failing),
        ("signed", stored_key(view)),
    )


def stage_signed_rows(context: RefreshContext, rows: RowSet, strategy: Strategy) -> WayOutcome:
    """Stage the signed change of the view in its :func:`signed_form`, found by a strategy."""
    view = context.view
    not_null = (BROKEN,) if view.failing else ()
    declined = stage_signed(context.staging, rows, context.stored_rows, context.columns, not_null)
    return strategy if declined is None else declined


def stored_key(view: ViewWrite) -> Hashable:
    """The part of a view that decides how rows are stored."""
    columns = tuple((c.name, c.type) for c in view.columns)
    rules = tuple((c.name, c.rule) for c in view.failing)
    return columns, rules


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
