"""The swap of a task and its replacement: both of its definitions come into force in one commit.

    at the T of the swap      DELETE FROM task; INSERT INTO task SELECT ... FROM replacement
    from the T after it on    the replacement's body

With several outputs the first definition does so for each of them. Where the replacement has a
quarantine, the task's own gets those rows at the same T
(:func:`ctsql.runtime.tasks.proposals.taken_over`).

Both are definite: any process that runs the task at the swap writes the same difference, in one
commit; the Ts before it are run by the old body, whatever was committed while the replacement was
being built. A task that fails before the swap is taken past all Ts up to it
(:class:`ctsql.runtime.tasks.sink.TaskSink`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.cutovers import Cutover, together
from ctsql.catalog.dependencies import (
    beside as goes_with,
    check_no_cycle,
    outputs_of,
    replacement_of,
)
from ctsql.catalog.items import (
    Item,
    ObjectKind,
    Reading,
    Task,
    altered_meanwhile,
    was_dropped,
)
from ctsql.catalog.spans import Span
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.definitions.cutover import beginning
from ctsql.runtime.statements.definitions.first_rows import copy_of
from ctsql.runtime.statements.definitions.view_replacement import (
    check_same_columns,
    check_unfollowed,
    exists_already,
)
from ctsql.runtime.statements.objects.name_resolution import check_free

_KIND = ObjectKind.CONTINUAL_TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """A task that gets what its replacement holds, and another definition.

    Attributes:
        items: the replacement, then its outputs and its quarantine.
        is_known: whether the catalog has the replacement, or is to get it with the swap.
        text: the definition to come. reads: what that reads. follows: what of it is an input.
        quarantine: the one that the task gets, whose table is there; None if it has one, or none.
    """

    task: Task
    items: tuple[Item, ...]
    is_known: bool
    text: str
    reads: tuple[Reading, ...]
    follows: Item
    quarantine: Item | None = None
    span: Span | None = None

    def on_top(self, current: Catalog) -> Cutover:
        """All that changes, on top of a catalog."""
        there = self._still_there(current)
        new_items = self.items
        if self.is_known:
            replacement = self._check(current, there)
            new_items = (replacement, *goes_with(current, replacement))
        else:
            check_alone(current, new_items[0])
            for item in new_items:
                check_free(current, item.name, self.span, quiet=False)
        check_fits(current, new_items, there, self.span)
        outputs, sources = outputs_of(current, there) or [there], outputs_among(new_items)
        away = next((i for i in new_items if i.id == new_items[0].quarantine), None)
        copy = copy_of(there, outputs, sources, self.follows, clears=True, quarantine=away)
        number = there.revision + 1
        newest = replace(there.definition.followed_by(self.text, self.reads), number=number + 1)
        later = replace(
            there, definition=newest, earlier=(*there.revisions, replace(copy, number=number))
        )
        if self.quarantine is not None:
            later = replace(later, quarantine=self.quarantine.id)
        changed = Cutover(items=(later,) if self.is_known else (later, *new_items))
        return together([changed, beginning(current, self.quarantine, self.span)])

    def _still_there(self, current: Catalog) -> Task:
        """The task in the newest catalog; raises ALTERED_MEANWHILE, UNKNOWN_RELATION."""
        task = self.task
        there = still_there(current, task, "while it was being replaced")
        if there.revision != task.revision:
            detail = "It has another definition now, which the replacement does not know."
            raise altered_meanwhile(there, detail)
        missing_reads = [r for r in self.reads if r.object_id not in current.items]
        if missing_reads:
            raise was_dropped(missing_reads[0].name, "while the task was being replaced")
        return there

    def _check(self, current: Catalog, task: Item) -> Item:
        """A registered replacement in the newest catalog, which nobody follows."""
        beside = self.items[0]
        there = current.items.get(beside.id)
        if there is None or there.replaces != task.id:
            raise was_dropped(beside.name, "while it was being applied", _KIND.value)
        check_unfollowed(current, there, self.span)
        return there


def outputs_among(items: Sequence[Item]) -> list[Item]:
    """The objects that hold the rows of a replacement, among it and what goes with it."""
    return [i for i in items if i.id in items[0].outputs] or [items[0]]


def advance_beside(engine: Engine, items: Sequence[Item], *, is_known: bool) -> None:
    """Run a replacement up to now.

    Args:
        items: it, then what goes with it. is_known: whether the catalog has it.

    Raises:
        UNKNOWN_RELATION: it, or what it reads, was dropped by another process.
    """
    beside, there = items[0], engine.refresh_catalog().items
    now = engine.mint_for([there[r.object_id] for r in beside.reads if r.object_id in there])
    there = engine.catalog.items
    if is_known:
        still_there(engine.catalog, beside, "while it was being applied")
    missing_reads = [
        r for r in beside.reads if r.object_id not in there and r.object_id != beside.id
    ]
    if missing_reads:
        raise was_dropped(missing_reads[0].name, "while the task was being replaced")
    if not is_known:
        engine.relations.add(items)
    engine.advance([beside], now)


def check_alone(current: Catalog, item: Item) -> None:
    """Raise where another process was first to make a replacement, or dropped the task.

    Args:
        item: the replacement, or what goes with it.
    """
    if item.replaces is None:
        return
    task = current.items.get(item.replaces or "")
    if task is None:
        raise was_dropped(item.name, "while its replacement was being made", _KIND.value)
    there = replacement_of(current, task.id)
    if there is not None and there.id != item.id:
        raise exists_already(task, there, None)


def check_fits(catalog: Catalog, items: Sequence[Item], task: Item, span: Span | None) -> None:
    """Raise where a task cannot get the definition of a replacement.

    Args:
        items: the replacement, then what goes with it.
    """
    outputs = outputs_of(catalog, task) or [task]
    for item, output in zip(outputs_among(items), outputs, strict=True):
        check_same_columns(item, output, span)
    others = [r for r in items[0].reads if r.object_id != items[0].id]
    detail = "The body of its replacement reads what reads it."
    check_no_cycle(catalog, task, others, span, detail)
