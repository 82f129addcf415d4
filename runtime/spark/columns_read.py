"""Which columns of a table a definition reads, by Spark's optimized plan.

A definition that is valid without a column may still have read it: ``x`` may then resolve to a
column of an outer query, or to another item of the same SELECT.
"""

from collections.abc import Collection, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F

from ctsql.catalog.names import fold
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query, lower_relation
from ctsql.planner.lowering.transaction import lower_transaction
from ctsql.planner.nodes import Query, TaskWrite, ViewWrite
from ctsql.planner.rules import transform
from ctsql.runtime.spark.analyzer import ColumnsOf, UnknownSources
from ctsql.runtime.spark.internals.plan_reader import (
    Alias,
    Attribute,
    Call,
    PlanOperator,
    optimized_plan,
)

_BY_NAME = frozenset(
    {
        *("Aggregate", "Expand", "Filter", "Generate", "GlobalLimit", "Join", "LocalLimit"),
        *("Offset", "Project", "Repartition", "RepartitionByExpression", "Sample", "Sort"),
        *("Tail", "Window", "WindowGroupLimit"),
    }
)
"""Operators that name the columns they read; other operators read all columns."""


def reads_columns(
    session: SparkSession,
    plan: Query | TaskWrite | ViewWrite,
    columns_of: ColumnsOf,
    table: str,
    names: Collection[str],
) -> bool:
    """Whether a definition reads one of some columns of a table.

    Args:
        columns_of: the columns with which it was bound. names: folded column names.
    """
    sources = _Sources(session, columns_of)
    rows = optimized_plan(sources.contents(table, 0))
    places = {i for i, c in enumerate(columns_of(table)) if fold(c.name) in names}
    return any(
        is_read(optimized_plan(frame), rows.parts, places)
        for frame in _frames(plan, Context(session, sources, 0, clock_at=0))
    )


def is_read(plan: PlanOperator, table: tuple[Any, ...], places: Collection[int]) -> bool:
    """Whether a query reads some columns of a table.

    Args:
        table: the parts of the table's own plan. places: of the columns.
    """
    rdds = {part for part in table if _is_rdd(part)}
    columns = {
        node.outputs[place]
        for node in _nodes(plan)
        if not node.children and not rdds.isdisjoint(filter(_is_rdd, node.parts))
        for place in places
    }
    return not columns.isdisjoint(_used_columns(plan))


class _Sources(UnknownSources):
    """Outputs hold rows, too."""

    def stored_rows(self, object_id: str) -> DataFrame:
        return self.contents(object_id, 0)


def _frames(plan: Query | TaskWrite | ViewWrite, context: Context) -> Iterator[DataFrame]:
    match plan:
        case Query():
            yield lower_query(transform(plan), context)
        case ViewWrite():
            yield lower_query(transform(plan.desired), context)
        case TaskWrite():
            task = transform(plan)
            for proposed_rows in lower_transaction(task.transaction, context).values():
                yield from (
                    f for f in (proposed_rows.inserts, proposed_rows.victims) if f is not None
                )
            for view in task.input_views:  # which rows there are; the body says which columns
                yield lower_relation(view, context).select(F.lit(1))


def _is_rdd(part: Any) -> bool:
    return isinstance(part, tuple) and part[:1] == ("rdd",)


def _outermost(part: Any) -> Iterator[PlanOperator | Attribute]:
    """The plans and columns in a part, without those inside of a plan."""
    match part:
        case PlanOperator() | Attribute():
            yield part
        case tuple():
            for each in part:
                yield from _outermost(each)
        case Call():
            yield from _outermost(part.parts)
        case Alias():
            yield from _outermost(part.child)


def _nodes(part: Any) -> Iterator[PlanOperator]:
    """A plan's operators, those of subqueries included."""
    for one in _outermost(part):
        if isinstance(one, PlanOperator):
            yield one
            yield from _nodes((*one.children, *one.parts))


def _used_columns(plan: PlanOperator) -> Iterator[int]:
    """The ids of the columns that a query returns or reads."""
    yield from plan.outputs
    for node in _nodes(plan):
        if node.children:
            yield from _attributes(node.parts)
        if node.name not in _BY_NAME:
            for child in node.children:
                yield from child.outputs


def _attributes(part: Any) -> Iterator[int]:
    for one in _outermost(part):
        if isinstance(one, PlanOperator):
            yield from _used_columns(one)
        else:
            yield one.id
