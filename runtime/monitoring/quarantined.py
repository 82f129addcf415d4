"""The rows of all quarantines: ``system.quarantine``.

Unlike the other system tables it is made of rows, not of logs: one relation over the tables of all
quarantines; Spark reads the parts that the query needs. The quarantine of a view is another view,
which may be written later: as long as it is not, its query is read instead, as of the T that the
view shows.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, functions as F

from ctsql.catalog.items import Item, MaterializedView
from ctsql.catalog.names import backtick
from ctsql.catalog.schemas import Column
from ctsql.planner.binding.constraints import QUARANTINE_REASON
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.rows.given_rows import rows_for
from ctsql.runtime.tasks.constraints import as_quarantined
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.table_checks import are_there

NAME = "quarantine"


def quarantined(session: SparkSession, reader: LogReader, columns: Sequence[Column]) -> DataFrame:
    """The rows that are set aside, as stored; none of a table that is gone."""
    with reader.as_stored():
        reader.refresh_catalog()
        reader.timeline.refresh()
        owners = [i for i in reader.catalog if i.quarantine is not None and not i.problem]
        frames = (_rows_of(reader, owner) for owner in sorted(owners, key=lambda i: i.name.key))
        parts = [rows for rows in frames if rows is not None]
    if not parts:
        return rows_for(session, [], [*columns], f"system.{NAME}")
    return reduce(DataFrame.unionAll, (p.select(*(c.name for c in columns)) for p in parts))


def _rows_of(reader: LogReader, owner: Item) -> DataFrame | None:
    quarantine = reader.catalog.items[owner.quarantine or ""]
    if not are_there(reader.relations, [owner, quarantine]):
        return None
    at = min(reader.versions.stored_upper(owner) - 1, reader.timeline.now)
    if not isinstance(owner, MaterializedView):
        rows = reader.versions.contents_at(quarantine, at)
    else:
        shown_at = reader.warehouse.schedules.shown_at(owner, at)
        if shown_at is None or at < owner.created_at:
            return None  # it was not written yet
        rows = _of_view(reader, quarantine, shown_at)
        own = rows.columns
        names, reasons = own[: -len(QUARANTINE_REASON)], own[-len(QUARANTINE_REASON) :]
        rows = as_quarantined(
            rows,
            names,
            at=None,
            relation=owner.name.qualified(),
            constraint_name=F.col(backtick(reasons[0])),
            reason=F.col(backtick(reasons[1])),
        )
    object_column = F.lit(str(owner.name)).alias("object")
    return rows.select(object_column, F.lit(owner.kind.value).alias("kind"), "*")


def _of_view(reader: LogReader, quarantine: Item, at: int) -> DataFrame:
    """The rows that a view leaves out as of T, be they written or not."""
    if reader.versions.stored_upper(quarantine) > at:
        return reader.versions.contents_at(quarantine, at)
    session = reader.warehouse.gateway.session
    context = Context(session, StoredSources(reader.warehouse), at, clock_at=at)
    plan = reader.relations.bound(quarantine).view
    return lower_query(plan.desired, context).toDF(*(c.name for c in plan.columns))
