"""The registry of a warehouse: the table, the write handle and the definition of each object."""

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ctsql.catalog.catalog import Catalog, item_there
from ctsql.catalog.dependencies import all_readers, closure, items_as_of, sources
from ctsql.catalog.errors import CtsqlError, broken, suppress_conditions
from ctsql.catalog.items import (
    Item,
    Maintained,
    MaterializedView,
    ObjectKind,
    Table,
    Task,
    TaskOutput,
)
from ctsql.catalog.schemas import Column
from ctsql.catalog.times import TIME_MAX
from ctsql.planner.binding.binder import BoundDefinition
from ctsql.planner.binding.task import bind_stored
from ctsql.planner.nodes import TaskWrite
from ctsql.runtime.log.table_changes import due_changes
from ctsql.runtime.log.write_handle import Output
from ctsql.runtime.spark.versions import import_pyspark
from ctsql.runtime.warehouse.times.replaced_tables import replaced_error
from ctsql.runtime.warehouse.times.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ctsql.runtime.delta.table import DeltaTable, Gateway


class Relations:
    """Tables, write handles and bound definitions by object, cached until the catalog changes.

    It also caches views' change plans, by object id, and the write handles of their state tables,
    by location. ``load_stored`` returns the newest stored catalog; ``reload`` uses it.

    Attributes:
        catalog: as last read. A task's outputs have the columns of the definition in force, which
            may be older than the newest definition.
    """

    def __init__(self, gateway: "Gateway", timeline: Timeline) -> None:
        self.gateway = gateway
        self.timeline = timeline
        self.catalog: Catalog = Catalog.of(())
        self._newest = self.catalog
        self._revisions: dict[str, int] = {}
        self._outputs: dict[str, Output] = {}
        self._bound: dict[tuple[str, int], BoundDefinition] = {}
        self._columns: dict[str, tuple[str, tuple[Column, ...]]] = {}
        self.change_plans: dict[str, tuple[object, object]] = {}
        self.states: dict[str, Output] = {}
        self.reload: Callable[[], object] = lambda: None
        self.load_stored: Callable[[], Catalog] = lambda: self._newest

    def use(self, catalog: Catalog) -> None:
        """Use a newer catalog; :attr:`catalog` is the same object while nothing changes."""
        if catalog is self._newest and self._revisions == self._numbers(self._revisions):
            return
        self._newest = catalog
        catalog = self._as_in_force(catalog)
        for object_id in set(self._outputs) - set(catalog.items):
            del self._outputs[object_id]
        new_items = [i for i in catalog if self.catalog.items.get(i.id) != i]
        if new_items or len(catalog.items) != len(self.catalog.items):
            self._bound.clear()
        self.catalog = catalog

    def add(self, items: Iterable[Item]) -> None:
        """Add objects that are not in the stored catalog yet."""
        self.use(self._newest.with_items(items))

    def _as_in_force(self, catalog: Catalog) -> Catalog:
        """Give the outputs of tasks the columns of the definitions in force.

        The catalog contains a definition before the timeline puts it in force; its columns count
        from then on.
        """
        tasks = [i for i in catalog if any(d.columns for d in i.revisions)]
        if tasks and self.timeline.read_to < 0:
            self.timeline.refresh()
        self._revisions = self._numbers(i.id for i in tasks)
        for task in tasks:
            then, *outputs = items_as_of(catalog, task, self._revisions[task.id])
            catalog = catalog.with_items([replace(task, columns=then.columns), *outputs])
        return catalog

    def _numbers(self, tasks: Iterable[str]) -> dict[str, int]:
        """The numbers of the tasks' definitions in force, by the timeline as last read."""
        return {task: self.timeline.task(task).revision_at(TIME_MAX) for task in tasks}

    def item(self, object_id: str) -> Item:
        """The object of an id.

        Raises:
            STORED_DATA_INVALID: the catalog cannot be read. UNKNOWN_RELATION: it was dropped.
        """
        return item_there(self.catalog, object_id).check()

    def table(self, item: Item) -> "DeltaTable":
        """The Delta table of a stored object; for a task with outputs, of its first output."""
        item = self.lead(item)
        if item.storage is None:
            detail = f"{item.kind.value} {item.name} has none."
            raise broken("only stored objects are read from a table", detail)
        location = item.storage.location
        table = self.gateway.table(location)
        if table.identity.owner != item.id:
            if table.identity.owner is not None:
                self.gateway.forget(location)  # of an object that was dropped
                table = self.gateway.table(location)
            table.identity.expect(
                item.id, item.storage.table_id, partial(self._replaced_error, item)
            )
        return self.gateway.output_table(location) if item.is_output else table

    def _replaced_error(self, item: Item, facts: str) -> CtsqlError:
        return replaced_error(self.catalog, self.catalog.items.get(item.id, item), facts)

    def lead(self, item: Item) -> Item:
        """The object whose log has the progress: for a task with outputs its first output."""
        return self.item(item.outputs[0]) if item.outputs else item

    def output(self, item: Item) -> Output:
        """The write handle of an output; for a task with outputs, of its first output."""
        item = self.lead(item)
        output = self._outputs.get(item.id)
        if output is None:
            output = self._outputs[item.id] = Output(self.table(item), item.app)
        return output

    def bound(self, item: Item) -> BoundDefinition:
        """The bound definition of an object; for a task the one in force now."""
        return self._bound_as(self.current(item))

    def _bound_as(self, item: Item) -> BoundDefinition:
        definition = self._bound.get((item.id, item.revision))
        if definition is None:
            catalog = self.catalog
            if item.outputs:
                newest = self._newest.items.get(item.id, item)
                catalog = catalog.with_items(items_as_of(self._newest, newest, item.revision)[1:])
            definition = self._bound[item.id, item.revision] = bind_stored(item, catalog)
        return definition

    def readable(self, ids: Iterable[str]) -> set[str]:
        """The ids of the objects, and of those they read, that are readable with all they read."""
        readable_ids: set[str] = set()
        for item in closure(self.catalog, ids):
            read = {r.object_id for r in item.reads} - {item.id}
            if read <= readable_ids and self._is_readable(item):
                readable_ids.add(item.id)
        return readable_ids

    def _is_readable(self, item: Item) -> bool:
        if item.problem or not isinstance(item, Maintained):
            return not item.problem
        with suppress_conditions("STORED_DATA_INVALID"):
            self.bound(item)
            return True
        return False

    def current(self, item: Item) -> Item:
        """An object with the definition in force now; for an output, its task."""
        if isinstance(item, TaskOutput):
            item = self.item(item.owner)
        if not isinstance(item, Task):
            return item
        if self.timeline.read_to < 0:
            self.timeline.refresh()
        return self._at_revision(item, self.timeline.task(item.id).revision_at(TIME_MAX))

    def _at_revision(self, item: Item, number: int) -> Item:
        """A task with one of its definitions, by the newest loaded catalog."""
        newest = self._newest.items.get(item.id, item)
        if number > newest.revision:
            self.reload()  # the timeline was read later than the catalog
            newest = self._newest.items.get(item.id, item)
        if number > newest.revision:
            detail = f"{item.name}: {number} is in force, {newest.revision} is the newest known."
            raise broken("a definition is in the catalog before it is in force", detail)
        return newest.at_revision(number)

    def plans(
        self, item: Item, *, after: int, until: int
    ) -> list[tuple[int, int, Item, TaskWrite]]:
        """(after, until], split where a task's definition changes, with the item of each part."""
        plans = []
        for start, stop, number in self.timeline.task(item.id).spans(after, until):
            then = self._at_revision(item, number)
            plan = self._bound_as(then).task
            plans.append((start, stop, then, plan))
        return plans

    def definitions(self, item: Item, *, after: int, until: int) -> list[Item]:
        """A task's definitions in force in (after, until], one for each span."""
        spans = self.timeline.task(item.id).spans(after, until)
        return [self._at_revision(item, number) for _, _, number in spans]

    def in_force(self, item: Item, at: int) -> tuple[Item, TaskWrite]:
        """A task with its definition in force at a time, and the plan of that definition."""
        ((_, _, then, plan),) = self.plans(item, after=at - 1, until=at)
        return then, plan

    def is_suspended(self, item: Item) -> bool:
        """Whether it is a suspended task."""
        return self.timeline.task(item.id).suspended is not None

    def sources(self) -> "dict[str, tuple[str, DeltaTable]]":
        """Every source that gets Ts, with its name."""
        return {i.id: (i.name.qualified(), self.table(i)) for i in sources(self.catalog)}

    def followed(self, item: Item) -> list[Item]:
        """The objects that an object follows: a task its inputs, a view everything it reads."""
        if item.kind in (ObjectKind.CONTINUAL_TASK, ObjectKind.TASK_OUTPUT):
            plan = self.bound(item).task
            return [self.item(object_id) for object_id in due_changes(plan)]
        return [self.item(r.object_id) for r in item.reads if r.object_id != item.id]

    def is_followed(self, item: Item, watched_ids: Collection[str] = ()) -> bool:
        """Whether a task or subscription follows it, also through views, so every T is written.

        This includes a task that is being created, and a dropped task, which UNDROP would run for
        each T since. ``watched_ids``: the objects of unnamed subscriptions, which no catalog has.
        """
        readers = all_readers(self.catalog, item.id, dropped=True)
        if any(isinstance(r, Task) for r in readers):
            return True
        own = self.catalog.items.get(item.id, item)
        views = [i for i in (own, *readers) if isinstance(i, MaterializedView)]
        if any(view.following.until > self.timeline.now for view in views):
            return True
        drops = self.catalog.drops.values()
        subscriptions = [*self.catalog.subscriptions.values()]
        subscriptions += (s for drop in drops for s in drop.subscriptions)
        if any(s.problem for s in subscriptions) or any(d.problem for d in drops):
            return True  # what it follows is unknown
        followed_ids = {*watched_ids, *(s.object_id for s in subscriptions)}
        return item.id in followed_ids or any(r.id in followed_ids for r in readers)

    def columns_now(self, item: Item) -> tuple[Column, ...]:
        """An object's columns; for a table those in its log, which any process may change."""
        if not isinstance(item, Table):
            return item.columns
        text = self.table(item).schema_text()
        entry = self._columns.get(item.id)
        if entry is None or entry[0] != text:
            entry = self._columns[item.id] = (text, columns_in(text))
        return entry[1]

    def stored_columns(self, item: Item) -> tuple[Column, ...]:
        """The columns of an object's table."""
        return columns_of(self.table(item).frame_of(()).schema)


def columns_in(text: str) -> tuple[Column, ...]:
    """The columns of a schema as a log has it."""
    import_pyspark()
    from pyspark.sql.types import StructType  # no Spark is started

    return columns_of(StructType.fromJson(json.loads(text)))


def columns_of(schema: "StructType") -> tuple[Column, ...]:
    """The columns of a stored table, by its schema."""
    import_pyspark()
    from ctsql.planner.lowering.spark_types import declared_type  # imports Spark's types

    return tuple(
        Column(f.name, declared_type(f), f.nullable, f.metadata.get("comment")) for f in schema
    )
