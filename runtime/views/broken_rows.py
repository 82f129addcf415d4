"""Counts the rows of a view's query that break its constraints, whatever ON VIOLATION says."""

from pyspark.sql import functions as F

from ctsql.catalog.items import Item
from ctsql.planner.binding.binder import Binder
from ctsql.planner.binding.constraints import kept_texts, over_query
from ctsql.planner.binding.definitions import definition_of
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.syntax import ast as st
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.warehouse import Warehouse


def count_broken(warehouse: Warehouse, item: Item) -> tuple[dict[str, int], int] | None:
    """The counts by constraint, and their T; None for a view without a commit.

    Raises:
        DATA_ERROR: the query cannot be computed on the data.
    """
    definition = definition_of(item)
    assert isinstance(definition, st.CreateMaterializedView)  # the definition of such a view
    upper = warehouse.relations.output(item).upper
    at = warehouse.schedules.shown_at(item, min(upper - 1, warehouse.timeline.now))
    if at is None or upper <= item.created_at:
        return None
    view = warehouse.relations.bound(item).view
    names = [c.name for c in view.columns]
    checks = ", ".join(f"{text} AS n{i}" for i, text in enumerate(kept_texts(definition)))
    binder = Binder(warehouse.catalog, item.search_schema, None, reads=item.reads)
    query = binder.query(over_query(definition, names, checks))
    with translate_spark_errors():
        context = Context(warehouse.gateway.session, StoredSources(warehouse), at, clock_at=at)
        sums = (F.expr(f"count_if(NOT n{i})") for i in range(len(definition.constraints)))
        counts = lower_query(query, context).agg(*sums).first()
    assert counts is not None  # an aggregate without groups gives one row
    return dict(zip((c.name for c in definition.constraints), counts, strict=True)), at
