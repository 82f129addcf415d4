"""VERIFY: compares a view's stored rows with its query as of its last write."""

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.errors import Declined
from ctsql.catalog.items import Item, MaterializedView
from ctsql.catalog.names import backtick_all, fold
from ctsql.catalog.reserved_columns import DIFF
from ctsql.catalog.times import CLOSED
from ctsql.planner.syntax.ast import VerifyView
from ctsql.runtime.engine import Engine
from ctsql.runtime.rows.collect import collect_bounded
from ctsql.runtime.rows.multiset import repeat_by_diff, signed_difference
from ctsql.runtime.rows.row_set import computed
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.statements.objects.refresh_view import check_not_finished
from ctsql.runtime.tasks.progress import check_not_suspended
from ctsql.runtime.views.outcomes import translated_failure
from ctsql.runtime.views.sink import ViewSink
from ctsql.runtime.warehouse.replaced_views import check_written
from ctsql.runtime.warehouse.sources import StoredSources

CHANGE = "change"


def verify(names: Namespace, statement: VerifyView) -> DataFrame:
    """VERIFY [MATERIALIZED VIEW] name [REPAIR].

    Returns: Each missing row with ``+`` and each wrong row with ``-`` in a first column,
    repeated by multiplicity.

    Raises:
        VIEW_FAILED: the view's contents are an error, or its query cannot be computed.
        VIEW_REPLACED: no contents of its new definition are stored yet.
        VIEW_FINISHED: REPAIR of a view after its last refresh.
    """
    only = "Only a materialized view can be compared with its query."
    engine, item = names.engine, names.of_kind(statement.target, MaterializedView, only=only)
    engine.timeline.refresh()
    if statement.repair:
        check_not_finished(engine, item)
    difference = _difference(engine, item)
    if statement.repair and not difference.isEmpty():
        _repair(engine, item)
    return difference


def _difference(engine: Engine, item: Item) -> DataFrame:
    warehouse = engine.warehouse
    plan = warehouse.relations.bound(item).view
    output = warehouse.relations.output(item)
    upper = output.fetch_recent_upper()
    last = output.uppers.last
    time = upper - 1 if upper else item.created_at
    if upper == CLOSED:  # nothing changes it any more
        time = engine.timeline.now
    at = warehouse.schedules.shown_at(item, time)
    table = warehouse.relations.table(item)
    version = table.version()
    failure = warehouse.versions.error_as_of(item, last.version) if last else None
    if failure is not None:
        raise failure.view_error(item)
    check_written(warehouse, item)
    columns = [c.name for c in plan.columns]
    with translated_failure(item, time):
        desired = None
        if at is not None and upper:
            desired = warehouse.queries.view_rows(plan, StoredSources(warehouse), at).frame
        change = signed_difference(desired, table.frame(version), columns)
        return _compute(change, columns)


def _compute(change: DataFrame, columns: list[str]) -> DataFrame:
    """Compute the rows with their sign, repeated by multiplicity."""
    folded_names = {fold(c) for c in columns}
    label = CHANGE
    while label in folded_names:
        label = f"_{label}"
    sign = F.when(F.col(DIFF) > 0, "+").otherwise("-").alias(label)
    signed_rows = change.select(sign, *backtick_all(columns), DIFF)
    rows = repeat_by_diff(signed_rows, [label, *columns])
    local_rows = collect_bounded(rows)
    return computed(rows) if isinstance(local_rows, Declined) else local_rows


def _repair(engine: Engine, item: Item) -> None:
    """Compare in full at the newest T, and commit the difference."""
    until = engine.mint()
    check_not_suspended(engine.warehouse, item)
    if engine.relations.output(item).fetch_recent_upper() > until:
        until = engine.mint_fresh()
    engine.advance([engine.relations.item(r.object_id) for r in item.reads], until)
    ViewSink(engine.warehouse, item).advance(until, full=True)
