"""The whole query, compared with the stored rows."""

from pyspark.sql import DataFrame

from ctsql.catalog.items import MaterializedView
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX
from ctsql.runtime.rows.row_set import AnyRows
from ctsql.runtime.views.outcomes import translated_failure
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.warehouse.replaced_views import awaits_columns, is_redefined
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.table_checks import missing_table


def recompute(context: RefreshContext) -> None:
    """Stage the difference; raises VIEW_FAILED if the query cannot be computed on the data."""
    warehouse, item, batch = context.warehouse, context.item, context.batch
    # With a schedule, foreign rows may have to be corrected between two refreshes.
    at = warehouse.schedules.shown_at(item, context.time)
    assert at is not None  # a view has contents from its first refresh on
    with translated_failure(item, context.time), discard_on_error([batch]):
        outputs = {item.id: (item, batch.version_read)}
        small, sources = _is_small(context), StoredSources(warehouse)
        desired: AnyRows = _staged_rows(context, at)
        if desired is None:
            desired = warehouse.queries.view_rows(context.view, sources, at, small=small)
        stored_rows = None
        if awaits_columns(warehouse, item):
            batch.overwrite_with_schema(warehouse.queries.schema_text(item))
        else:
            stored_rows = StoredSources(warehouse, outputs=outputs).stored_rows(item.id)
        warehouse.queries.stage(context.staging, desired, stored_rows, context.columns, small=small)


def _staged_rows(context: RefreshContext, at: int) -> DataFrame | None:
    """The rows of an applied replacement, if they are as of T; else None."""
    warehouse, item = context.warehouse, context.item
    if not isinstance(item, MaterializedView) or item.staged_in is None:
        return None
    if not is_redefined(warehouse, item):
        return None
    replacement_id, revision = item.staged_in
    replacements = (i for _, i in warehouse.catalog.all_dropped() if i.id == replacement_id)
    replacement = next(replacements, None)
    if replacement is None or revision != item.revision:
        return None
    if missing_table(warehouse.relations, [replacement]) is not None:
        return None
    if not StoredSources(warehouse).is_exact(replacement, at):
        return None
    return warehouse.versions.contents_at(replacement, at)


def _is_small(context: RefreshContext) -> bool:
    """Whether the difference likely fits the driver, by the size of the view or of its inputs."""
    warehouse, item = context.warehouse, context.item
    output = warehouse.relations.output(item)
    if output.upper > item.created_at:
        rows = output.table.rows_count(context.batch.version_read)
        return rows is not None and rows <= DRIVER_ROWS_MAX
    counts = [
        warehouse.versions.rows_count(warehouse.relations.item(r.object_id), context.time)
        for r in item.reads
    ]
    return all(c is not None and c <= DRIVER_ROWS_MAX for c in counts)
