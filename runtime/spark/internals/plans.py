"""Facts about a query from Spark's plans, analysed INSERTs, and empty tables for analysis."""

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.catalog.errors import Declined
from ctsql.catalog.names import backtick
from ctsql.catalog.schemas import Column, plain_type
from ctsql.runtime.spark.internals.java import (
    class_name,
    frame_of_plan,
    in_order,
    java,
    java_rows,
    java_session,
    query_execution,
    singleton,
    typed,
)
from ctsql.runtime.spark.missing import or_else
from ctsql.runtime.spark.versions import at_least

ASSIGNMENTS_CACHED_MAX = 10_000  # cached pairs of types
_FIELDS_MAX = 10_000_000
_CONSTANTS = ("LocalRelation", "OneRowRelation")
_OF_SEVERAL_ROWS = ("Aggregate", "Generate", "Window")
_ROW_BY_ROW = ("Project", "Filter", "Union", "Generate", "LogicalRelation")


def _node(plan: Any) -> str:
    return typed(str, plan.nodeName())


def is_definite(rows: DataFrame) -> bool:
    """Whether a query has no random function, no clock, and no literal like 'today'.

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
    if not typed(bool, plan.deterministic()) or typed(bool, plan.containsPattern(clock)):
        return False
    # Casts of 'now', 'today' and so on to a date or an instant are replaced later.
    return typed(bool, special.apply(plan).fastEquals(plan))


@lru_cache(maxsize=2)
def _classes(jvm: Any) -> tuple[Any, Any]:
    catalyst = jvm.org.apache.spark.sql.catalyst
    special = singleton(catalyst.optimizer, "SpecialDatetimeValues")
    return catalyst.trees.TreePattern.CURRENT_LIKE(), special


def is_by_row(rows: DataFrame) -> bool:
    """Whether each value of a SELECT is computed from one row: no aggregate, window or generator.

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

    No public API reports it. A fast path: without it, each query is planned as if it had one.
    """
    leaves = query_execution(rows).analyzed().collectLeaves()
    return any(_node(leaf) == "Range" for leaf in in_order(leaves))


@or_else(lambda _: False)
def are_constants(rows: DataFrame) -> bool:
    """Whether rows are constants: no table is read.

    No public API reports it. A fast path: without it, Spark runs each INSERT.
    """
    leaves = query_execution(rows).optimizedPlan().collectLeaves()
    return all(_node(leaf) in _CONSTANTS for leaf in in_order(leaves))


@or_else(lambda _: False)
def is_row_by_row(rows: DataFrame) -> bool:
    """Whether the first row is cheap, so that persisting all rows costs more than reading one.

    No public API reports it. A fast path: without it, rows are kept before the first is read.
    """
    # Ask another DataFrame: one that has a plan does not notice that it is persisted later.
    waiting = [query_execution(rows.select("*")).optimizedPlan()]
    while waiting:
        node = waiting.pop()
        if class_name(node) not in _ROW_BY_ROW:
            return False
        waiting += in_order(node.children())
    return True


def optimized_text(rows: DataFrame) -> str:
    """A query's optimized plan, with all columns of wide operators.

    No public API gives it with all columns. Needed: without it, a query over a lost column could
    read another column of the same name.
    """
    plan = query_execution(rows).optimizedPlan()
    outputs = (False,) if at_least(4, 1) else ()  # whether they are printed again
    return typed(str, plan.treeString(True, False, _FIELDS_MAX, False, *outputs))


@lru_cache(maxsize=ASSIGNMENTS_CACHED_MAX)
def is_assignable(session: SparkSession, value_type: str, column_type: str) -> bool:
    """ANSI store assignment of one type to another, as in Spark's INSERT.

    No public API says which types may be stored. Needed: without it, such an assignment would fail
    when the statement runs.
    """
    parser = java_session(session).sessionState().sqlParser()
    cast = java(session).org.apache.spark.sql.catalyst.expressions.Cast
    source, target = parser.parseDataType(value_type), parser.parseDataType(column_type)
    return value_type == "void" or typed(bool, cast.canANSIStoreAssign(source, target))


_VALUES = ("LocalRelation", "UnresolvedInlineTable")  # the parsed form of VALUES


class AnalysedInsert:
    """A statement, analysed.

    No public API analyses an INSERT without running it. Needed: without it, tables with constraints
    and transactions take no INSERT, and rows of constants take a job.
    """

    def __init__(self, session: SparkSession, text: str, target: Any | None = None) -> None:
        """Analyse a statement; raises errors of Spark's parser and analyser.

        Args:
            target: of an earlier statement into this table, with the same metadata; else Spark
                lists the table's log.
        """
        self._session = session
        self._text = text
        state = java_session(session).sessionState()
        plan = state.sqlParser().parsePlan(text)
        self._by_known = target is not None and _inserts_values(plan)
        if self._by_known:
            fields = range(2, plan.productArity() + 1)  # seven before Spark 4.2, now nine
            others = (getattr(plan, f"copy$default${n}")() for n in fields)
            plan = plan.copy(target, *others)
        # In this mode Spark analyses a command and does not run it.
        self._plan = state.executePlan(plan, _skip(java(session))).analyzed()

    @property
    def target(self) -> Any | None:
        """The resolved table, for the next statement; None for another command."""
        return typed(object, self._plan.table()) if _node(self._plan) == "AppendData" else None

    @cached_property
    def rows(self) -> DataFrame | Declined:
        """The appended rows, lazily, under the names and types of the table's columns.

        Columns that it does not fill may be missing. Declined if it overwrites, for example, or has
        options.
        """
        plan, node = self._plan, _node(self._plan)
        if node != "AppendData" or not typed(bool, plan.writeOptions().isEmpty()):
            return Declined(node)
        return frame_of_plan(self._session, plan.query())

    def run(self) -> DataFrame:
        """Let Spark run it."""
        if self._by_known:
            return AnalysedInsert(self._session, self._text).run()
        return frame_of_plan(self._session, self._plan)


def _inserts_values(plan: Any) -> bool:
    """Whether it is INSERT INTO ... VALUES, which does not read the target."""
    if _node(plan) != "InsertIntoStatement":
        return False
    return _node(plan.query()) in _VALUES


@lru_cache(maxsize=2)
def _skip(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()


def _created(session: SparkSession, columns: Sequence[Column]) -> DataFrame:
    ddl = ", ".join(f"{backtick(c.name)} {plain_type(c.type)}" for c in columns)
    return session.createDataFrame([], ddl or T.StructType())


@or_else(_created)
def empty(session: SparkSession, columns: Sequence[Column]) -> DataFrame:
    """An empty table that Spark plans like one with rows; all columns may be NULL.

    The public API, ``createDataFrame``, takes sixty calls. A fast path: without it, that one does.
    """
    types, texts = _type_classes(java(session))
    ddl = ", ".join(f"{backtick(c.name)} {c.type}" for c in columns)
    fields = types.StructType.fromDDL(ddl) if columns else types.StructType()
    schema = texts.replaceCharVarcharWithStringInSchema(fields)
    rows = session.sparkContext._jsc.emptyRDD()
    return java_rows(session, java_session(session).createDataFrame(rows, schema))


@lru_cache(maxsize=2)
def _type_classes(jvm: Any) -> tuple[Any, Any]:
    sql = jvm.org.apache.spark.sql
    return sql.types, sql.catalyst.util.CharVarcharUtils
