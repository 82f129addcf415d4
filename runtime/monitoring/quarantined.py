"""The rows of all quarantines: ``system.quarantine``.

Unlike the other system tables it is made of rows, not of logs: one relation over the tables of the
quarantines that are asked for, of which Spark reads what the query needs.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, functions as F

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.schemas import Column
from ctsql.planner.binding.constraints import QUARANTINE_REASON
from ctsql.planner.lowering import AS_JSON
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.wanted import Wanted
from ctsql.runtime.rows.given_rows import rows_for
from ctsql.runtime.warehouse.table_checks import missing_table

NAME = "quarantine"


def quarantined(
    session: SparkSession, reader: LogReader, columns: Sequence[Column], wanted: Wanted
) -> DataFrame:
    """The rows that are set aside, as stored; none of a table that is gone."""
    with reader.as_stored():
        reader.refresh_catalog()
        reader.timeline.refresh()
        owners = [i for i in reader.catalog if i.quarantine is not None and not i.problem]
        owners = [i for i in owners if wanted.has(str(i.name))]
        found = (_rows_of(reader, owner) for owner in sorted(owners, key=lambda i: i.name.key))
        parts = [rows for rows in found if rows is not None]
    if not parts:
        return rows_for(session, [], [*columns], f"system.{NAME}")
    return reduce(DataFrame.unionAll, (p.select(*(c.name for c in columns)) for p in parts))


def _rows_of(reader: LogReader, owner: Item) -> DataFrame | None:
    quarantine = reader.catalog.items[owner.quarantine or ""]
    if missing_table(reader.relations, [owner, quarantine]) is not None:
        return None
    is_view = owner.kind is ObjectKind.MATERIALIZED_VIEW
    at = reader.versions.stored_upper(quarantine if is_view else owner) - 1
    rows = reader.versions.contents_at(quarantine, min(at, reader.timeline.now))
    if is_view:
        own = [c.name for c in quarantine.columns]
        names, reasons = own[: -len(QUARANTINE_REASON)], own[-len(QUARANTINE_REASON) :]
        rows = rows.select(
            F.lit(None).cast("bigint").alias("t"),
            F.lit(owner.name.qualified()).alias("relation"),
            F.col(backtick(reasons[0])).alias("constraint_name"),
            F.col(backtick(reasons[1])).alias("reason"),
            F.lit(None).cast("string").alias("place"),
            F.to_json(F.struct(*backtick_all(names)), AS_JSON).alias("row_json"),
        )
    named = F.lit(str(owner.name)).alias("object")
    return rows.select(named, F.lit(owner.kind.value).alias("kind"), "*")
