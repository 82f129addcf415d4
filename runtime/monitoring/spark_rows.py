"""The rows of system tables for Spark, made from logs, and of ``system.quarantine``.

On a local disk a reader without Spark reads the logs: it ignores what a read-only engine has
computed in memory, and opening a log costs it no call of the JVM.

``system.quarantine`` is one relation over the tables of all quarantines. The quarantine of a view
is another view, which may be written later: until then its query is read, as of the T that the view
shows.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F, types as T

from ctsql.catalog.items import Item, MaterializedView
from ctsql.catalog.names import backtick
from ctsql.catalog.schemas import Column
from ctsql.catalog.system_tables import SYSTEM_TABLES
from ctsql.planner.binding.constraints import QUARANTINE_REASON
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.log_reader import LocalLogReader, LogReader
from ctsql.runtime.monitoring.system_tables import as_arrow, system_rows
from ctsql.runtime.rows.given_rows import rows_for
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.spark.internals.plans import empty
from ctsql.runtime.tasks.constraints import as_quarantined
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.table_checks import are_there

QUARANTINE = "quarantine"


def quarantined(session: SparkSession, reader: LogReader, columns: Sequence[Column]) -> DataFrame:
    """The rows of all quarantines; none of a missing table."""
    with reader.as_stored():
        reader.refresh_catalog()
        reader.timeline.refresh()
        owners = [i for i in reader.catalog if i.quarantine is not None and not i.problem]
        frames = (_rows_of(reader, owner) for owner in sorted(owners, key=lambda i: i.name.key))
        parts = [rows for rows in frames if rows is not None]
    if not parts:
        return rows_for(session, [], [*columns], f"system.{QUARANTINE}")
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
    """The rows that a view leaves out as of T, written or not."""
    if reader.versions.stored_upper(quarantine) > at:
        return reader.versions.contents_at(quarantine, at)
    session = reader.warehouse.gateway.session
    context = Context(session, StoredSources(reader.warehouse), at, clock_at=at)
    plan = reader.relations.bound(quarantine).view
    return lower_query(plan.desired, context).toDF(*(c.name for c in plan.columns))


class SystemRows:
    """Gives the rows of system tables to one session; ``reader`` reads logs if Spark is needed."""

    def __init__(self, session: SparkSession, reader: LogReader) -> None:
        self._session = session
        self._reader = reader
        self._local: LocalLogReader | None = None
        self._schemas: dict[str, T.StructType] = {}

    def of(self, name: str) -> DataFrame:
        """All rows of a system table, by its name without the schema."""
        columns = SYSTEM_TABLES[name].columns
        if name == QUARANTINE:
            return quarantined(self._session, self._reader, columns)
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = empty(self._session, columns).schema
        return LocalRows(self._session, schema, as_arrow(self._rows(name), schema)).plain_frame

    def _rows(self, name: str) -> list[Any]:
        try:
            if self._local is None:
                self._local = LocalLogReader(self._reader.location, may_create=False)
            return system_rows(self._local, name)
        except NeedsSpark:
            return system_rows(self._reader, name)
