"""How far objects are, and what holds them there: tasks that are suspended or have failed.

An object is *complete through* T when all that it holds at T is stored, or when nothing that it
reads changes it between what is stored and T.
"""

from collections.abc import Iterable

from ctsql.catalog.errors import error
from ctsql.catalog.items import Item, ObjectKind
from ctsql.planner.due_times import snapshot_inputs
from ctsql.runtime.log.failures import Failure, find_recorded
from ctsql.runtime.warehouse.warehouse import Warehouse


def complete_through(warehouse: Warehouse, items: Iterable[Item]) -> int:
    """The newest T at which all the items are stored, without computing anything."""
    now = warehouse.timeline.now
    return min((_complete_through(warehouse, i) for i in items), default=now)


def _complete_through(warehouse: Warehouse, item: Item) -> int:
    relations = warehouse.relations
    if item.kind is ObjectKind.TASK_OUTPUT:
        item = relations.item(item.owner)  # all its outputs, or none, hold a T
    through = complete_through(warehouse, relations.followed(item))
    if not item.is_run:
        return through
    written = warehouse.versions.stored_upper(item) - 1
    failure = find_recorded(relations.output(item))
    if failure is not None and item.kind is ObjectKind.CONTINUAL_TASK:
        return min(failure.time - 1, through)
    is_unwritten = item.is_task and relations.output(item).upper <= item.created
    if is_unwritten and first_due(warehouse, item) == item.created:
        return min(item.created - 1, through)  # its first run is still to come
    due = warehouse.schedules.due_times(item, after=written, until=through)
    return min(due) - 1 if due else through


def first_due(warehouse: Warehouse, item: Item) -> int:
    """The T from which a task runs: that of its creation, where it takes in what there is."""
    then, plan = warehouse.relations.in_force(item, item.created)
    return item.created if then.once or snapshot_inputs(plan) else item.created + 1


def suspended_below(warehouse: Warehouse, item: Item) -> list[Item]:
    """The suspended tasks that an object reads, directly or through others."""
    suspended = set(warehouse.timeline.suspended())
    if not suspended:
        return []
    below = warehouse.catalog.closure([item.id])
    return [i for i in below if i.id != item.id and i.id in suspended]


def limit_by_suspended(warehouse: Warehouse, item: Item, until: int) -> int:
    """How far an object can come, at most to ``until``: suspended tasks below it stand still."""
    below = suspended_below(warehouse, item)
    return min(until, complete_through(warehouse, below)) if below else until


def check_not_suspended(warehouse: Warehouse, item: Item) -> None:
    """Refuse what needs an object as of now while it, or what it reads, stands still.

    Raises:
        TASK_SUSPENDED: it would be given contents that RESUME changes afterwards.
    """
    suspended = suspended_below(warehouse, item)
    if warehouse.relations.is_suspended(item):
        suspended.append(item)
    if suspended:
        raise error("TASK_SUSPENDED", name=str(suspended[0].name))


def failure_of(warehouse: Warehouse, item: Item) -> Failure | None:
    """Why an output stands still, by its log; None when it does not, or is none."""
    if not item.is_run:
        return None
    output = warehouse.relations.output(item)
    output.fetch_recent_upper()
    return find_recorded(output)


def check_not_failed(warehouse: Warehouse, items: Iterable[Item]) -> None:
    """Raise what stopped a task on which a read depends, without running anything."""
    for item in warehouse.catalog.closure([i.id for i in items]):
        if item.kind is ObjectKind.CONTINUAL_TASK:
            failure = failure_of(warehouse, item)
            if failure is not None:
                raise failure.task_error(warehouse.relations.in_force(item, failure.time)[0])
