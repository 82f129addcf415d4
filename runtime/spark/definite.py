"""What Spark's analyzed plan tells of a query: same rows for the same data, values of one row."""

from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.errors import CtsqlError, invalid
from ctsql.catalog.spans import Span
from ctsql.runtime.spark.scala import class_name, singleton


def is_definite(session: SparkSession, plan: Any) -> bool:
    """Whether it has no random function, no clock, and no text that means a day or a moment.

    Args:
        plan: the JVM's, analyzed.
    """
    clock, special = _classes(session._jvm)
    if not plan.deterministic() or plan.containsPattern(clock):
        return False
    # 'now', 'today' and their like, cast to a date or an instant, are replaced only later.
    return bool(special.apply(plan).fastEquals(plan))


def is_by_row(frame: DataFrame) -> bool:
    """Whether each value of a SELECT is one of one row: no aggregate, window or generator."""
    node = frame._jdf.queryExecution().analyzed()
    while class_name(node) == "Project":
        node = node.child()
    return class_name(node) not in ("Aggregate", "Generate", "Window")


def not_by_row(span: Span, message: str) -> CtsqlError:
    """The refusal of values of which :func:`is_by_row` is false; the caller raises it."""
    detail = "A value there is computed from one row."
    hint = "Compute it in a subquery: SET v = (SELECT max(v) FROM t)."
    return invalid(span, message, detail, hint)


@lru_cache(maxsize=2)
def _classes(jvm: Any) -> tuple[Any, Any]:
    catalyst = jvm.org.apache.spark.sql.catalyst
    special = singleton(catalyst.optimizer, "SpecialDatetimeValues")
    return catalyst.trees.TreePattern.CURRENT_LIKE(), special
