"""What Spark's plans say about a query."""

import re
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ctsql.runtime.spark.internals.java import (
    class_name,
    in_order,
    java,
    java_session,
    query_execution,
    singleton,
)
from ctsql.runtime.spark.missing import or_else
from ctsql.runtime.spark.versions import at_least

ASSIGNMENTS_CACHED_MAX = 10_000
"""Pairs of types."""
_FIELDS_MAX = 10_000_000
_CONSTANTS = ("LocalRelation", "OneRowRelation")
_OF_SEVERAL_ROWS = ("Aggregate", "Generate", "Window")
_ROW_BY_ROW = ("Project", "Filter", "Union", "Generate", "LogicalRelation")


def is_definite(rows: DataFrame) -> bool:
    """Whether a query has no random function, no clock, and no text that means a day or a moment.

    No public API says whether a query is deterministic. Needed: without it, views and tasks could
    not refuse such queries.
    """
    return is_definite_plan(rows.sparkSession, query_execution(rows).analyzed())


def is_definite_plan(session: SparkSession, plan: Any) -> bool:
    """:func:`is_definite` for an analyzed plan.

    No public API says whether a query is deterministic. Needed: without it, views and tasks could
    not refuse such queries.
    """
    clock, special = _classes(java(session))
    if not plan.deterministic() or plan.containsPattern(clock):
        return False
    # 'now', 'today' and their like, cast to a date or an instant, are replaced only later.
    return bool(special.apply(plan).fastEquals(plan))


@lru_cache(maxsize=2)
def _classes(jvm: Any) -> tuple[Any, Any]:
    catalyst = jvm.org.apache.spark.sql.catalyst
    special = singleton(catalyst.optimizer, "SpecialDatetimeValues")
    return catalyst.trees.TreePattern.CURRENT_LIKE(), special


def is_by_row(rows: DataFrame) -> bool:
    """Whether each value of a SELECT is one of one row: no aggregate, window or generator.

    No public API reports it. Needed: without it, such a value in SET or VALUES would fail when the
    statement runs.
    """
    node = query_execution(rows).analyzed()
    while class_name(node) == "Project":
        node = node.child()
    return class_name(node) not in _OF_SEVERAL_ROWS


def has_union(rows: DataFrame) -> bool:
    """Whether a query has UNION anywhere, so that columns come from several queries.

    No public API reports it, except the text of EXPLAIN. Needed: without it, the columns of a UNION
    could have the declared type of its first query's.
    """
    nodes = query_execution(rows).analyzed().toString()
    return re.search(r"^\W*Union(Loop)?\b", nodes, re.MULTILINE) is not None


@or_else(lambda _: True)
def reads_range(rows: DataFrame) -> bool:
    """Whether a query has range() in FROM.

    No public API reports it. A fast path: without it, each query is planned as one that has.
    """
    leaves = query_execution(rows).analyzed().collectLeaves()
    return any(leaf.nodeName() == "Range" for leaf in in_order(leaves))


@or_else(lambda _: False)
def are_constants(rows: DataFrame) -> bool:
    """Whether rows are made of those of a text only, so that no table is read for them.

    No public API reports it. A fast path: without it, Spark runs each INSERT.
    """
    leaves = query_execution(rows).optimizedPlan().collectLeaves()
    return all(leaf.nodeName() in _CONSTANTS for leaf in in_order(leaves))


@or_else(lambda _: False)
def is_row_by_row(rows: DataFrame) -> bool:
    """Whether the first row costs little, so that to keep all of them costs more than to ask.

    No public API reports it. A fast path: without it, rows are kept before the first is read.
    """
    # Of another DataFrame: one whose plan is known does not notice that it is persisted later.
    waiting = [query_execution(rows.select("*")).optimizedPlan()]
    while waiting:
        node = waiting.pop()
        if class_name(node) not in _ROW_BY_ROW:
            return False
        waiting += in_order(node.children())
    return True


@or_else(lambda _: "")
def plans_text(rows: DataFrame) -> str:
    """All plans of a query, as ``EXPLAIN EXTENDED`` prints them.

    No public API gives the text of a DataFrame's plans; ``explain()`` prints it. Optional: without
    it, ``EXPLAIN PHYSICAL`` shows nothing of Spark.
    """
    return str(query_execution(rows).toString())


def optimized_text(rows: DataFrame) -> str:
    """A query's optimized plan, with all columns of wide operators.

    No public API gives it with all columns. Needed: without it, a query over a lost column could
    read another column of the same name.
    """
    plan = query_execution(rows).optimizedPlan()
    outputs = (False,) if at_least(4, 1) else ()  # whether they are printed once more
    return str(plan.treeString(True, False, _FIELDS_MAX, False, *outputs))


@lru_cache(maxsize=ASSIGNMENTS_CACHED_MAX)
def is_assignable(session: SparkSession, value_type: str, column_type: str) -> bool:
    """ANSI store assignment of one type to another, as Spark's INSERT has it.

    No public API says which types may be stored. Needed: without it, such an assignment would fail
    when the statement runs.
    """
    parser = java_session(session).sessionState().sqlParser()
    cast = java(session).org.apache.spark.sql.catalyst.expressions.Cast
    source, target = parser.parseDataType(value_type), parser.parseDataType(column_type)
    return value_type == "void" or bool(cast.canANSIStoreAssign(source, target))
