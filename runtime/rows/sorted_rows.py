"""ORDER BY of few rows that the driver's JVM holds, without a job.

A sort of all rows is two jobs in Spark: one to find bounds, one to exchange and sort. Where nothing
but a sort is left of an optimized plan over rows that are held, with a limit or a choice of columns
above it, they are sorted in place, by Spark's own comparison of rows.
"""

from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame

from ctsql.runtime.rows.arrow_exchange import row_classes
from ctsql.runtime.spark.scala import class_name, singleton

HELD = "LocalRelation"
_ABOVE = ("GlobalLimit", "LocalLimit", "Project")
"""Operators that leave rows in their order."""


def sorted_here(rows: DataFrame) -> DataFrame | None:
    """The rows of a query that needs no job: all are held, and at most to be sorted, as they are.

    None for any other query.
    """
    plan = rows._jdf.queryExecution().optimizedPlan()
    node = plan
    while (name := class_name(node)) in _ABOVE:
        node = node.child()
    if name == HELD:
        return rows
    if name != "Sort" or class_name(node.child()) != HELD or not plan.subqueriesAll().isEmpty():
        return None
    session, child = rows.sparkSession, node.child()
    classes, own = row_classes(session), _classes(session._jvm)
    data = child.data().sorted(own.ordering(node.order(), child.output()))
    relation = classes.relation(child.output(), data, False, classes.nothing)
    new_plan = plan.transform(own.no_entries.updated(node, relation))
    return DataFrame(classes.frame_of(session._jsparkSession, new_plan), session)


class _Classes:
    """What compares rows, and a map to put entries into."""

    def __init__(self, jvm: Any) -> None:
        catalyst = jvm.org.apache.spark.sql.catalyst
        self.ordering = catalyst.expressions.InterpretedOrdering
        self.no_entries = singleton(jvm.scala.collection.immutable, "Map").empty()


@lru_cache(maxsize=2)
def _classes(jvm: Any) -> _Classes:
    """Looked up once: a name below ``jvm`` costs a call for each dot."""
    return _Classes(jvm)
