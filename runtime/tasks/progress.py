"""How far objects are, and which tasks are suspended or have failed.

An object is *complete through* T when all its rows at T are stored, or nothing that it reads
changes it between its stored rows and T.
"""

from collections.abc import Iterable, Iterator

from ctsql.catalog.dependencies import behind_needs, closure
from ctsql.catalog.errors import error
from ctsql.catalog.items import Item, Maintained, Task, TaskOutput
from ctsql.planner.bodies.reads import snapshot_inputs
from ctsql.runtime.log.failures import Failure, find_recorded
from ctsql.runtime.warehouse.times.timeline import TaskState
from ctsql.runtime.warehouse.warehouse import Warehouse


def complete_through(warehouse: Warehouse, items: Iterable[Item]) -> int:
    """The newest T at which all the items are stored, without computing anything."""
    waiting = list(items)
    by_id = {item.id: item for item in waiting}
    relations = warehouse.relations

    def followed(object_id: str) -> Iterator[str]:
        if object_id not in by_id:
            by_id[object_id] = relations.item(object_id)
        return (i.id for i in relations.followed(_run(warehouse, by_id[object_id])))

    through: dict[str, int] = {}
    for object_id in behind_needs([item.id for item in waiting], followed):
        item, now = by_id[object_id], warehouse.timeline.now
        below = (through[i.id] for i in relations.followed(_run(warehouse, item)))
        through[object_id] = _complete_through(warehouse, item, min(below, default=now))
    return min((through[item.id] for item in waiting), default=warehouse.timeline.now)


def _run(warehouse: Warehouse, item: Item) -> Item:
    """The object that is run for an item: for an output, its task."""
    is_output = isinstance(item, TaskOutput)
    return warehouse.relations.item(item.owner) if is_output else item


def _complete_through(warehouse: Warehouse, item: Item, through: int) -> int:
    """The T through which an item is complete, if all that it follows is complete ``through`` T."""
    relations, item = warehouse.relations, _run(warehouse, item)
    if not isinstance(item, Maintained):
        return through
    last_write = warehouse.versions.stored_upper(item) - 1
    failure = find_recorded(relations.output(item))
    if failure is not None and isinstance(item, Task):
        return min(failure.time - 1, through)
    is_unwritten = isinstance(item, Task) and relations.output(item).upper <= item.created_at
    if is_unwritten and first_due(warehouse, item) == item.created_at:
        return min(item.created_at - 1, through)  # it has not run yet
    due = warehouse.schedules.due_times(item, after=last_write, until=through)
    return min(due) - 1 if due else through


def first_due(warehouse: Warehouse, item: Item) -> int:
    """The T from which a task runs: its creation, at which it reads its inputs' contents."""
    then, plan = warehouse.relations.in_force(item, item.created_at)
    return (
        item.created_at
        if then.definition.copies_rows or snapshot_inputs(plan)
        else item.created_at + 1
    )


def suspended_below(warehouse: Warehouse, item: Item) -> list[Item]:
    """The suspended tasks that an object reads, directly or through others."""
    suspended_ids = set(warehouse.timeline.suspended())
    if not suspended_ids:
        return []
    below = closure(warehouse.catalog, [item.id])
    return [i for i in below if i.id != item.id and i.id in suspended_ids]


def limit_by_suspended(warehouse: Warehouse, item: Item, until: int) -> int:
    """How far an object can advance, at most to ``until``: suspended tasks below it do not."""
    below = suspended_below(warehouse, item)
    return min(until, complete_through(warehouse, below)) if below else until


def check_not_suspended(warehouse: Warehouse, item: Item) -> None:
    """Raise TASK_SUSPENDED if an object, or one that it reads, is suspended.

    A new object would otherwise start with contents that RESUME changes afterwards.
    """
    tasks = suspended_below(warehouse, item)
    if warehouse.relations.is_suspended(item):
        tasks.append(item)
    if tasks:
        raise error("TASK_SUSPENDED", name=str(tasks[0].name))


def failure_of(warehouse: Warehouse, item: Item) -> Failure | None:
    """The failure recorded in an output's log; None without one, or for another object."""
    if not isinstance(item, Maintained):
        return None
    output = warehouse.relations.output(item)
    output.fetch_recent_upper()
    return find_recorded(output)


def mended_from(warehouse: Warehouse, item: Item, state: TaskState, now: int) -> int:
    """The T from which a new definition of a task is in force: ``now``, or its failed T.

    Another process may have moved past that T, for example by SKIP, or replaced the failed
    definition: later Ts then run by that definition.

    ``state``: its bindings on the timeline.
    """
    failure = failure_of(warehouse, item)
    if failure is None or failure.revision not in (None, state.revision_at(failure.time)):
        return now
    return failure.time


def check_not_failed(warehouse: Warehouse, items: Iterable[Item]) -> None:
    """Raise the error of a failed task on which a read depends; runs nothing."""
    for item in closure(warehouse.catalog, [i.id for i in items]):
        if isinstance(item, Task):
            failure = failure_of(warehouse, item)
            if failure is not None:
                raise failure.task_error(warehouse.relations.in_force(item, failure.time)[0])
