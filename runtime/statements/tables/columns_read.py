"""Which columns of an object its readers read, as Spark analyses their definitions.

Which columns a text names is never read from the text: ``SELECT *``, USING, lateral columns and
struct fields would make that a second analyser. A definition reads a column if Spark analyses it
otherwise without, or if the column is left in its optimized plan
(docs/decisions/0100-alter-table.md).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

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
from ctsql.planner.nodes import Query, TaskWrite, ViewWrite
from ctsql.planner.syntax import ast as st
from ctsql.runtime.engine import Engine
from ctsql.runtime.spark.columns_read import reads_columns
from ctsql.runtime.tasks.progress import complete_through


@dataclass(frozen=True, slots=True)
class Analysis:
    """A definition over some columns: the columns of its rows, or what it fails with."""

    columns: Schema = ()
    plan: Query | TaskWrite | ViewWrite | None = None
    problem: CtsqlError | None = None

    @property
    def rows(self) -> object:
        """Equal if the rows have the same columns, or reading fails in the same way."""
        return self.problem and self.problem.message, signature(self.columns)


def readers_of(catalog: Catalog, item: Item) -> list[Item]:
    """The tasks and views that read an object itself, or by plain views, nearest first."""
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


def readers_of_columns(
    engine: Engine, catalog: Catalog, item: Item, columns: Collection[str]
) -> list[Item]:
    """Those of the readers that read one of some columns; none that fails already.

    A task is given with its definition that does so.
    """
    names = {fold(c) for c in columns}
    other_columns = tuple(c for c in item.columns if fold(c.name) not in names)
    # A row has a column at least.
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
    """The definitions of a reader that still run: of a task that is behind those from before, too.

    A view has its columns of now also as of the Ts that are behind, so they miss one that goes.
    """
    current = engine.relations.current(reader)
    if len(reader.revisions) == 1 or not is_behind(engine, reader):
        return [current]
    last_time, now = complete_through(engine.warehouse, [reader]), engine.timeline.now
    due = engine.relations.definitions(reader, after=last_time, until=now)
    return [current, *(i for i in due if i.revision != current.revision)]


def is_behind(engine: Engine, reader: Item) -> bool:
    """Whether it is a suspended task that has missed some T."""
    if not isinstance(reader, Task) or not engine.relations.is_suspended(reader):
        return False
    return complete_through(engine.warehouse, [reader]) < engine.timeline.now


def readers_of_changed(engine: Engine, catalog: Catalog, item: Item, columns: Schema) -> list[Item]:
    """Those of the readers that read a column which an object lacks, or has otherwise, then.

    Args:
        columns: those that it gets. More of them, or another order, are nothing to who reads it.
    """
    names = [c.name for c in lacking(item.columns, columns)]
    return readers_of_columns(engine, catalog, item, names) if names else []


def columns_with_readers(
    engine: Engine, catalog: Catalog, item: Item, columns: Sequence[Column]
) -> list[Column]:
    """Those of some columns of an object that somebody reads."""
    without = ((c, tuple(o for o in item.columns if o is not c)) for c in columns)
    return [c for c, others in without if readers_of_changed(engine, catalog, item, others)]


def reads(
    engine: Engine,
    reader: Analysis,
    source: Item,
    columns: Schema,
    names: Collection[str],
    catalog: Catalog | None = None,
) -> bool:
    """Whether what was analysed over a table or view of these columns reads one of some of them.

    Args:
        names: folded.
    """
    if reader.plan is None:
        return False  # it reads nothing
    items = (engine.catalog if catalog is None else catalog).items
    relations = engine.relations

    def columns_of(object_id: str) -> Schema:
        is_source = object_id == source.id
        return columns if is_source else relations.columns_now(items[object_id])

    return reads_columns(engine.session, reader.plan, columns_of, source.id, names)


def analyse(
    engine: Engine, reader: Item, source: Item, columns: Schema, catalog: Catalog | None = None
) -> Analysis:
    """A reader's definition over a table or view of these columns.

    Args:
        reader: of a task with the definition that is meant, as :meth:`Relations.current` gives it.
    """
    relations = engine.relations
    if catalog is None:
        catalog = engine.catalog
    if isinstance(source, View):
        # Its query does not matter here, so it is taken for a table.
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
