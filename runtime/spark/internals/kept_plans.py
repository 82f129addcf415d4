"""Physical plans that are made once over empty leaves, and run with rows in place of these.

The functions' results are opaque to the caller. All are a fast path: kept plans.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ctsql.runtime.spark.internals.java import (
    class_name,
    frame_of_plan,
    in_order,
    java,
    java_session,
    query_execution,
    singleton,
    typed,
)
from ctsql.runtime.spark.internals.plans import is_definite_plan
from ctsql.runtime.spark.internals.sessions import settings_of
from ctsql.runtime.spark.missing import or_else
from ctsql.runtime.spark.versions import at_least

KEPT_PLANS = "spark.internals.kept_plans"  # a caller that keeps plans needs all functions here
_CHANGEABLE = (
    "PYTHON_UDF",
    "SCALA_UDF",
    "SQL_SCALAR_FUNCTION",
    "SQL_TABLE_FUNCTION",
    *(["VARIABLE_REFERENCE"] if at_least(4, 1) else []),
)
"""Kinds of expressions that can be redefined, so a kept plan could be wrong."""
_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
_LEAF = "RDDScanExec"
_CONSTANTS = ("LocalTableScanExec", "OneRowRelationExec", "EmptyRelationExec")


class _Classes:
    def __init__(self, jvm: Any) -> None:
        sql = jvm.org.apache.spark.sql
        self.map = jvm.java.util.HashMap
        self.none = jvm.scala.Option.empty()
        self.empty_map = singleton(jvm.scala.collection.immutable, "Map").empty()
        self.scan = sql.execution.LocalTableScanExec
        self.leaf = sql.execution.LogicalRDD
        self.patterns = [getattr(sql.catalyst.trees.TreePattern, name)() for name in _CHANGEABLE]
        self.one_task, self.as_input = sql.execution.CoalesceExec, sql.execution.InputAdapter
        # So no rows are exchanged for a join or for groups. coalesce() above a leaf is not enough:
        # Spark moves semi joins below it, and then exchanges the rows of the leaf.
        self.partitioning = singleton(sql.catalyst.plans.physical, "SinglePartition")
        self.no_order = singleton(jvm.scala.collection.immutable, "Nil")


_classes = lru_cache(maxsize=2)(_Classes)


def _settings_of_conf(session: SparkSession) -> Any:
    return {name: value for name, value in session.conf.getAll.items() if name != _LAST_COMMIT}


@or_else(_settings_of_conf)
def settings_now(session: SparkSession) -> Any:
    """A copy of all settings for comparison, without the last commit, which Delta stores there.

    The public API, ``conf.getAll``, takes two calls for each. A fast path: without it, that one
    does.
    """
    settings = _classes(java(session)).map(settings_of(session))
    settings.remove(_LAST_COMMIT)
    return settings


def fixed_columns(rows: DataFrame) -> Any | None:
    """The columns of a deterministic query; None for another query.

    No public API says whether a query is deterministic. A fast path: without it, queries are
    planned each time.
    """
    session = rows.sparkSession
    plan = query_execution(rows).analyzed()
    patterns = _classes(java(session)).patterns
    is_fixed = not any(typed(bool, plan.containsPattern(each)) for each in patterns)
    return typed(object, plan.output()) if is_fixed and is_definite_plan(session, plan) else None


def empty_leaf(session: SparkSession, output: Any) -> tuple[DataFrame, int]:
    """A DataFrame of one partition with some columns, and the number of its leaf in a plan.

    No public API makes a DataFrame of one partition whose size Spark's optimizer does not see. A
    fast path: without it, queries are planned each time.
    """
    classes = _classes(java(session))
    rdd = session.sparkContext._jsc.emptyRDD().rdd()
    relation = classes.leaf(
        output,
        rdd,
        classes.partitioning,
        classes.no_order,
        False,
        classes.none,
        java_session(session),
        classes.none,
        classes.none,
    )
    return frame_of_plan(session, relation.newInstance()), typed(int, rdd.id())


def find_leaves(plan: Any, places: Mapping[int, int]) -> list[tuple[Any, Any, int]] | str:
    """The leaves of a physical plan, with columns and places; or the reason why it is not kept.

    ``places`` are by the numbers of the leaves. The public API gives plans only as text. A fast
    path: without it, queries are planned each time.
    """
    if not typed(bool, plan.subqueriesAll().isEmpty()):
        return "the plan has a subquery"
    leaves: list[tuple[Any, Any, int]] = []
    for node in in_order(plan.collectLeaves()):
        kind = class_name(node)
        if kind == _LEAF and (place := places.get(typed(int, node.rdd().id()))) is not None:
            leaves.append((node, typed(object, node.output()), place))
        elif kind not in _CONSTANTS:
            return f"the plan reads a {kind}"
    return leaves


def with_leaves(session: SparkSession, plan: Any, leaves: Iterable[tuple[Any, Any, Any]]) -> Any:
    """A physical plan with its leaves replaced by rows, given as leaf, columns and rows.

    No public API changes a plan. A fast path: without it, queries are planned each time.
    """
    classes = _classes(java(session))
    to_put = classes.empty_map
    for node, output, rows in leaves:
        scan = classes.scan(output, rows, classes.none)
        # One partition, as planned, also without rows.
        to_put = to_put.updated(node, classes.as_input(classes.one_task(1, scan)))
    return typed(object, plan.transform(to_put))
