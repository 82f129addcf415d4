"""Dependencies between the objects of a catalog."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from ctsql.catalog.catalog import Catalog, StoredSubscription, item_there
from ctsql.catalog.errors import error
from ctsql.catalog.items import (
    Item,
    Maintained,
    MaterializedView,
    Reading,
    Table,
    TaskOutput,
    Unreadable,
    View,
)
from ctsql.catalog.names import fold
from ctsql.catalog.spans import Span


def check_outlined(catalog: Catalog) -> None:
    """Raise STORED_DATA_INVALID if an object or a reader has an unreadable entry."""
    for subscription in catalog.subscriptions.values():
        subscription.check()
    for drop in catalog.drops.values():
        drop.check()
    for item in (*catalog, *(i for _, i in catalog.all_dropped())):
        if isinstance(item, Unreadable) and not item.is_outlined:
            item.check()


def flow_targets(catalog: Catalog, task: Item) -> list[MaterializedView]:
    """The view of a flow's task; none for another task."""
    readers = catalog.readers(task.id) if task.flow else []
    return [i for i in readers if i.flow and isinstance(i, MaterializedView)]


def all_readers(catalog: Catalog, object_id: str, *, dropped: bool = False) -> list[Item]:
    """The direct and indirect readers of an object, also ``dropped`` ones, nearest first."""
    nearest = catalog.readers(object_id, dropped=dropped)
    return _reached(nearest, lambda item: catalog.readers(item.id, dropped=dropped))


def _reached(items: Iterable[Item], following: Callable[[Item], Iterable[Item]]) -> list[Item]:
    """Some objects and all that follow on them, each once, nearest first."""
    reached: dict[str, Item] = {}
    queue = [*items]
    while queue:
        item = queue.pop(0)
        if item.id not in reached:
            reached[item.id] = item
            queue += following(item)
    return list(reached.values())


def outputs_of(catalog: Catalog, task: Item) -> list[Item]:
    """The outputs of a task that are separate objects, in order; none for others."""
    return [catalog.items[object_id] for object_id in task.outputs]


def outputs_or_itself(catalog: Catalog, item: Item) -> list[Item]:
    """The objects that hold the rows of a task or view, in order: its outputs, or itself."""
    return outputs_of(catalog, item) or [item]


def going_with(catalog: Catalog, object_ids: Iterable[str]) -> list[Item]:
    """The objects and all that is dropped with them, each once.

    These are their direct and indirect readers; with an output its task and the task's other
    outputs; with a task its outputs; with a view its replacement.
    """

    def with_it(item: Item) -> Iterator[Item]:
        yield from catalog.readers(item.id)
        replacement = replacement_of(catalog, item.id)
        if replacement is not None:
            yield replacement
        if isinstance(item, TaskOutput):
            yield catalog.items[item.owner]
        elif item.quarantine is not None:
            yield catalog.items[item.quarantine]

    return _reached((catalog.items[object_id] for object_id in object_ids), with_it)


def closure(catalog: Catalog, object_ids: Iterable[str]) -> list[Item]:
    """The objects and all they read, each after what it reads; UNKNOWN_RELATION: dropped."""
    items: dict[str, Item] = {}

    def reads(object_id: str) -> Iterator[str]:
        item = items[object_id] = item_there(catalog, object_id)
        return (r.object_id for r in item.reads)

    return [items[object_id] for object_id in behind_needs(object_ids, reads)]


def fingerprint_of(catalog: Catalog, item: Item) -> str:
    """A short text that changes with an object's definition, or that of a plain view in it."""
    definitions = [
        (i.id, i.search_schema, i.definition.text) for i in with_plain_views(catalog, item)
    ]
    return hashlib.sha256(repr(sorted(definitions)).encode()).hexdigest()[:16]


def sources(catalog: Catalog) -> list[Table]:
    """The tables that are not outputs: those whose commits get Ts."""
    return [i for i in catalog if isinstance(i, Table)]


def subscribers(catalog: Catalog, object_id: str) -> list[StoredSubscription]:
    """The named readers that follow this object itself, in order of name."""
    subscriptions = [s for s in catalog.subscriptions.values() if s.object_id == object_id]
    return sorted(subscriptions, key=lambda s: fold(s.name))


def with_plain_views(catalog: Catalog, item: Item) -> list[Item]:
    """An object, and the plain views that its query is expanded from."""

    def views_in(item: Item) -> list[Item]:
        reads = [catalog.items[r.object_id] for r in item.reads]
        return [read for read in reads if isinstance(read, View)]

    return _reached([item], views_in)


def tasks_and_views(catalog: Iterable[Item]) -> list[Maintained]:
    """The tasks and materialized views whose entries can be read, in order of name."""
    return sorted((i for i in catalog if isinstance(i, Maintained)), key=lambda i: i.name.key)


def owner_of_quarantine(catalog: Catalog, item: Item) -> Item | None:
    """The task or view whose quarantine an object is; None for any other object."""
    return next((i for i in catalog if i.quarantine == item.id), None)


def quarantine_of(catalog: Catalog, view: MaterializedView) -> MaterializedView | None:
    """The view of the rows that a view leaves out; None without one."""
    quarantine = catalog.items.get(view.quarantine or "")
    return quarantine if isinstance(quarantine, MaterializedView) else None


def parts_of(catalog: Catalog, task: Item) -> list[Item]:
    """The objects dropped and restored with a task or view: its outputs, and its quarantine."""
    quarantine = [] if task.quarantine is None else [catalog.items[task.quarantine]]
    return [*outputs_of(catalog, task), *quarantine]


def written_by(catalog: Catalog, task: Item) -> list[Item]:
    """The outputs that a task writes, the leading one first."""
    own = [] if task.outputs else [task]
    return [*own, *parts_of(catalog, task)]


def writer_of(catalog: Catalog, item: Item) -> Item:
    """The task of an output or the owner of a quarantine; any other object itself."""
    if isinstance(item, TaskOutput):
        return catalog.items[item.owner]
    return owner_of_quarantine(catalog, item) or item


def written_under(catalog: Catalog, task: Item) -> dict[str, Item]:
    """The object whose name a quarantine uses for an output's rows, by the output's id.

    Outputs of a replacement use the names of the task that they replace.
    """
    of = catalog.items.get(task.replaces or "", task)
    pairs = zip(outputs_or_itself(catalog, task), outputs_or_itself(catalog, of), strict=True)
    return {output.id: read_item for output, read_item in pairs}


def quarantine_copied(catalog: Catalog, task: Item) -> Item | None:
    """The quarantine whose rows a task copies at a T; None at any other T.

    It copies at the T at which a replacement begins, and at the T at which ``task``, as of that T,
    gets the rows of its replacement.
    """
    if not task.definition.copies_rows:
        return None
    for reading in task.reads:
        read = catalog.items[reading.object_id]
        owner = owner_of_quarantine(catalog, read)
        if owner is not None and (owner.replaces == task.id or owner.id == task.replaces):
            return read
    return None


def items_as_of(catalog: Catalog, task: Item, number: int) -> list[Item]:
    """A task with one of its definitions, and its outputs with that definition's columns."""
    then = task.at_revision(number)
    revision = next((r for r in task.revisions if r.number == then.revision), None)
    outputs = outputs_of(catalog, task)
    if revision is None or not revision.columns or not outputs:
        return [then, *outputs]
    pairs = zip(outputs, revision.columns, strict=True)
    return [then, *(replace(output, columns=columns) for output, columns in pairs)]


def replacement_of(catalog: Catalog, object_id: str) -> Item | None:
    """The replacement of a view or a task; None without one."""
    return next((i for i in catalog if i.replaces == object_id), None)


def stored_reads(catalog: Catalog, item: Item, *others: str) -> list[Item]:
    """The stored objects that a definition, and ``others``, read through plain views."""

    def is_stored(read: Item) -> bool:
        return read.location is not None and not read.problem

    def below(read: Item) -> list[Item]:
        reads = [] if is_stored(read) else read.reads
        return [catalog.items[r.object_id] for r in reads]

    first = [catalog.items[i] for i in (*(r.object_id for r in item.reads), *others)]
    return [i for i in _reached(first, below) if is_stored(i) and i.id != item.id]


def check_no_cycle(
    catalog: Catalog,
    item: Item,
    reads: Iterable[Reading],
    span: Span | None,
    detail: str = "The new query reads it, directly or through other views.",
) -> None:
    """Raise RECURSIVE_DEFINITION if one of the reads is the object, or reads it."""
    below = closure(catalog, (r.object_id for r in reads))
    if any(i.id == item.id for i in below):
        raise error("RECURSIVE_DEFINITION", span=span, name=str(item.name), detail=detail)


Key = TypeVar("Key")


def behind_needs(keys: Iterable[Key], needs: Callable[[Key], Iterable[Key]]) -> list[Key]:
    """Some keys and all that they need, each once and after its needs.

    A key in a cycle comes after the rest of its needs. Chains may have any length.

    >>> behind_needs("ab", {"a": "cb", "b": "c", "c": "c"}.get)
    ['c', 'b', 'a']
    """
    visited_keys: set[Key] = set()
    order: list[Key] = []

    def meet(key: Key) -> tuple[Key, Iterator[Key]]:
        visited_keys.add(key)
        return key, iter(needs(key))

    for first in keys:
        open_ones = [] if first in visited_keys else [meet(first)]
        while open_ones:
            key, rest = open_ones[-1]
            other = next((o for o in rest if o not in visited_keys), None)
            if other is None:
                order.append(key)
                open_ones.pop()
            else:
                open_ones.append(meet(other))
    return order
