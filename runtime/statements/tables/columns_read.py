"""Which columns of an object its readers read, by Spark's analysis of their definitions.

The text alone does not decide it: ``SELECT *``, USING, lateral columns and struct fields would need
a second analyser. A definition reads a column if Spark analyses it differently without it, or if
the column is in its optimized plan: ``x`` may resolve to a column of an outer query without it
(docs/decisions/0100-other-columns.md).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import outputs_of
from ctsql.catalog.errors import CtsqlError, EnvironmentProblem
from ctsql.catalog.items import Item, Table, Task, TaskOutput, View
from ctsql.catalog.names import fold
from ctsql.catalog.reserved_columns import NUMBER
from ctsql.catalog.schemas import Column, Schema, lacking, signature
from ctsql.planner.binding.binder import Binder
from ctsql.planner.binding.definitions import definition_of
from ctsql.planner.binding.task import bind_task
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query, lower_relation
from ctsql.planner.lowering.transaction import lower_transaction
from ctsql.planner.nodes import Query, TaskWrite, ViewWrite
from ctsql.planner.syntax import ast as st
from ctsql.runtime.engine import Engine
from ctsql.runtime.spark.analyzer import UnknownSources
from ctsql.runtime.spark.internals.plan_reader import (
    Alias,
    Attribute,
    Call,
    PlanOperator,
    optimized_plan,
)
from ctsql.runtime.tasks.progress import complete_through

_BY_NAME = frozenset(
    {
        *("Aggregate", "Expand", "Filter", "Generate", "GlobalLimit", "Join", "LocalLimit"),
        *("Offset", "Project", "Repartition", "RepartitionByExpression", "Sample", "Sort"),
        *("Tail", "Window", "WindowGroupLimit"),
    }
)
"""Operators that name the columns they read; other operators read all columns."""


def is_read(plan: PlanOperator, table: tuple[Any, ...], places: Collection[int]) -> bool:
    """Whether a query reads some columns of a table.

    ``table``: the parts of the table's own plan. ``places``: of the columns.
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
            yield lower_query(plan, context)
        case ViewWrite():
            yield lower_query(plan.desired, context)
        case TaskWrite():
            for proposed_rows in lower_transaction(plan.transaction, context).values():
                yield from (
                    f for f in (proposed_rows.inserts, proposed_rows.victims) if f is not None
                )
            for view in plan.input_views:  # which rows there are; the body says which columns
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


@dataclass(frozen=True, slots=True)
class Analysis:
    """A definition over some columns: its columns, or its error."""

    columns: Schema = ()
    plan: Query | TaskWrite | ViewWrite | None = None
    problem: CtsqlError | None = None

    @property
    def rows(self) -> object:
        """Equal if the rows have the same columns, or it fails in the same way."""
        return self.problem and self.problem.message, signature(self.columns)


def readers_of(catalog: Catalog, item: Item) -> list[Item]:
    """The tasks and views that read an object, directly or by plain views, nearest first."""
    readers: dict[str, Item] = {}
    queue = [item.id]
    while queue:
        for reader in catalog.readers(queue.pop(0)):
            if isinstance(reader, TaskOutput) or reader.id in readers:
                continue
            readers[reader.id] = reader
            if isinstance(reader, View):
                queue.append(reader.id)
    return list(readers.values())


def readers_of_changed(engine: Engine, catalog: Catalog, item: Item, columns: Schema) -> list[Item]:
    """The readers of a column that the new ``columns`` lack or change, unless they fail already.

    More columns, or another order, do not matter. A task has the definition that reads them.
    """
    names = {fold(c.name) for c in lacking(item.columns, columns)}
    if not names:
        return []
    other_columns = tuple(c for c in item.columns if fold(c.name) not in names)
    # A row has at least one column.
    other_columns = other_columns or (Column(NUMBER, "int"),)
    readers = []
    for reader in readers_of(catalog, item):
        for definition in _definitions(engine, reader):
            before = analyse(engine, definition, item, item.columns, catalog)
            if before.problem is not None:
                continue
            is_other = before.rows != analyse(engine, definition, item, other_columns, catalog).rows
            if is_other or reads(engine, before, item, item.columns, names, catalog):
                readers.append(definition)
                break
    return readers


def _definitions(engine: Engine, reader: Item) -> list[Item]:
    """The definitions of a reader that still run, including older ones of a task that is behind.

    A view has its current columns also as of earlier Ts.
    """
    current = engine.relations.current(reader)
    if len(reader.revisions) == 1 or not is_behind(engine, reader):
        return [current]
    last_time, now = complete_through(engine.warehouse, [reader]), engine.timeline.now
    due = engine.relations.definitions(reader, after=last_time, until=now)
    return [current, *(i for i in due if i.revision != current.revision)]


def is_behind(engine: Engine, reader: Item) -> bool:
    """Whether it is a suspended task with a missed T."""
    if not isinstance(reader, Task) or not engine.relations.is_suspended(reader):
        return False
    return complete_through(engine.warehouse, [reader]) < engine.timeline.now


def reads(
    engine: Engine,
    reader: Analysis,
    source: Item,
    columns: Schema,
    names: Collection[str],
    catalog: Catalog | None = None,
) -> bool:
    """Whether a definition, analysed over these columns, reads one of ``names`` (folded)."""
    if reader.plan is None:
        return False  # it reads nothing
    items, session = (engine.catalog if catalog is None else catalog).items, engine.session
    relations = engine.relations

    def columns_of(object_id: str) -> Schema:
        is_source = object_id == source.id
        return columns if is_source else relations.columns_now(items[object_id])

    sources = _Sources(session, columns_of)
    rows = optimized_plan(sources.contents(source.id, 0))
    places = {i for i, c in enumerate(columns) if fold(c.name) in names}
    return any(
        is_read(optimized_plan(frame), rows.parts, places)
        for frame in _frames(reader.plan, Context(session, sources, 0, clock_at=0))
    )


def analyse(
    engine: Engine, reader: Item, source: Item, columns: Schema, catalog: Catalog | None = None
) -> Analysis:
    """Analyse a definition (of :meth:`Relations.current`) over a table or view of these columns."""
    relations = engine.relations
    if catalog is None:
        catalog = engine.catalog
    if isinstance(source, View):
        # Its query does not matter here, so a table stands for it.
        table = Table(id=source.id, name=source.name, columns=columns)
        catalog = catalog.with_items([table])
    current = catalog

    def columns_of(item: Item) -> tuple[Column, ...]:
        return columns if item.id == source.id else relations.columns_now(item)

    analyst = engine.queries.analyst(lambda i: columns_of(current.items[i]))
    try:
        binder = Binder(
            current, reader.search_schema, analyst, reads=reader.reads, columns_of=columns_of
        )
        match definition_of(reader):
            case st.CreateContinualTask() as task:
                plan = bind_task(binder, task, reader, outputs_of(current, reader)).plan
                return Analysis(reader.columns, plan)
            case st.CreateMaterializedView() as view:
                bound = binder.bind_materialized_view(view, reader)
                return Analysis(bound.columns, bound.plan)
            case st.CreateView() as view:
                bound = binder.bind_view(view)
                return Analysis(bound.columns, bound.plan)
            case _:
                return Analysis(reader.columns)
    except EnvironmentProblem:
        raise  # it says nothing of the definition
    except CtsqlError as problem:
        return Analysis(problem=problem)
