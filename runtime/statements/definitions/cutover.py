"""A cutover: several objects get other definitions at one T, or none of them does.

    prepare    make tables of new objects and add columns at the end; advance objects to now by
               their old definitions. It may take long, and no reader sees it
    commit     the catalog stores the cutover, which no reader sees; the timeline binds it to a T,
               which decides; the catalog gets its changes. One commit each
    complete   views get the rows that differ; tasks run on from where they failed

A crash before the timeline's commit leaves files that MAINTAIN removes. After it, the next process
that reads the objects completes them. A cutover is valid only on the catalog it was made on: if
another process changes that first, it is made again, and raises if it no longer fits
(:mod:`ctsql.runtime.warehouse.stores.catalog_store` has the protocol of readers).

Source: docs/decisions/0107-definitions-at-one-t.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.cutovers import Cutover, together
from ctsql.catalog.errors import CatalogError, error
from ctsql.catalog.items import (
    Item,
    MaterializedView,
    Reading,
    Record,
    Table,
    Task,
    View,
    altered_meanwhile,
    was_dropped,
)
from ctsql.catalog.schemas import keeps_columns
from ctsql.catalog.spans import Span
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.statements.definitions.output_tables import undo_on_failure
from ctsql.runtime.statements.objects.name_resolution import check_free
from ctsql.runtime.tasks.progress import mended_from
from ctsql.runtime.warehouse.times.timeline import TaskState

TRIES_MAX = 20


def nothing() -> None:
    """There is nothing to complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedChange:
    """A part of a cutover, as it was prepared."""

    # what changes on top of a catalog; it is called again where another process changed the catalog
    # meanwhile, and raises where it no longer fits.
    make: Callable[[Catalog], Cutover]
    new: tuple[Item, ...] = ()  # objects whose tables were made; they go if the cutover fails
    # by the id of a task, the T at which it failed; its new definition replaces the failed one.
    failed_at: Mapping[str, int | None] = field(default_factory=dict)
    # writes what differs, or runs what waited for the new definition.
    complete: Callable[[], None] = nothing


def cut_over(engine: Engine, *changes: PreparedChange) -> None:
    """Bring changes into force at one T, and complete them.

    Raises:
        With nothing in force: the error of a change that no longer fits, or DEFINITIONS_CHANGED if
            other processes were first each time. With the changes in force: the errors of
            completing.
    """
    bring_into_force(engine, *changes)
    for change in changes:
        change.complete()


def bring_into_force(engine: Engine, *changes: PreparedChange) -> None:
    """Bring changes into force at one T; the caller completes them."""
    with undo_on_failure(engine, [item for change in changes for item in change.new]):
        _commit(engine, changes)


def _commit(engine: Engine, changes: Sequence[PreparedChange]) -> None:
    def make(catalog: Catalog) -> Cutover:
        return together(change.make(catalog) for change in changes)

    tables = [i for change in changes for i in change.new if isinstance(i, Table)]
    failed_at = {task: at for change in changes for task, at in change.failed_at.items()}
    for _ in range(TRIES_MAX):
        cutover, catalog = engine.catalog_store.add_cutover(make)
        engine.refresh_catalog()  # a table that was made meanwhile gets its Ts, too
        if cutover.is_no_change(catalog):
            return
        faults.point("cutover_stored")
        sources = engine.relations.sources()
        sources |= {i.id: (i.name.qualified(), engine.relations.table(i)) for i in tables}
        before = catalog.items
        tasks = {
            item.id: partial(_put_in_force, engine, before.get(item.id), item, failed_at)
            for item in cutover.items
            if isinstance(item, Task) and new_starts(before.get(item.id), item, 0, 0)
        }
        try:
            engine.timeline.mint(sources, tasks=tasks, cutover=cutover.id, tick_ms=engine.tick_ms)
        except CatalogError as problem:
            if problem.condition != "DEFINITIONS_CHANGED":
                raise
            continue
        faults.point("cutover_bound")
        engine.change_catalog(lambda catalog: catalog)  # which writes what is in force
        return
    raise error("DEFINITIONS_CHANGED")


def as_prepared(current: Catalog, item: Record) -> Record:
    """An object by the newest catalog, if it is unchanged since its change was prepared.

    Raises:
        UNKNOWN_RELATION: it was dropped. ALTERED_MEANWHILE: it has another definition, name or
            comment.
    """
    now = still_there(current, item)
    if (now.name, now.revision, now.comment, now.columns) != (
        (item.name, item.revision, item.comment, item.columns)
    ):
        raise altered_meanwhile(now)
    return now


def check_reads(bound_by: Catalog, current: Catalog, reads: Iterable[Reading]) -> None:
    """Check that a new definition reads the objects that it was bound to.

    Args:
        bound_by: the catalog by which it was bound. current: the newest.

    Raises:
        UNKNOWN_RELATION: one was dropped. ALTERED_MEANWHILE: a view among them has other columns.
    """
    for reading in reads:
        before, now = (c.items.get(reading.object_id) for c in (bound_by, current))
        if now is None:
            raise was_dropped(reading.name, "meanwhile")
        is_view = isinstance(now, View | MaterializedView)
        if before and is_view and not keeps_columns(before.columns, now.columns):
            raise altered_meanwhile(now)


def beginning(current: Catalog, item: Item | None, span: Span | None) -> Cutover:
    """The part of a cutover that creates an object at its T; none for None.

    Raises OBJECT_EXISTS if another object has the name.
    """
    if item is None:
        return Cutover()
    check_free(current, item.name, span, quiet=False)
    return Cutover(items=(item,), new_ids=frozenset({item.id}))


def new_starts(
    before: Item | None, after: Item, begin: int, now: int
) -> tuple[tuple[int, int], ...]:
    """The T from which each new definition of a task is in force, for a cutover at T = ``now``.

    A definition that copies rows (:attr:`ctsql.catalog.items.Definition.copies_rows`) is in force
    at that T alone, the one after it from the next T on. The first one of a new task needs no T.

    Args:
        before: the task by the catalog; None for a new one. begin: the T from which a definition
            replaces a failed one; else ``now``.
    """
    starts, time = [], begin
    for revision in after.revisions:
        if before is None or revision.number > before.revision:
            time = now if revision.copies_rows else time
            starts.append((time, revision.number))
            time += revision.copies_rows
    return tuple(starts if before else starts[1:])


def _put_in_force(
    engine: Engine,
    before: Item | None,
    after: Item,
    failed_at: Mapping[str, int | None],
    state: TaskState,
    now: int,
) -> TaskState:
    begin = mended_from(engine.warehouse, after, failed_at.get(after.id), state, now)
    return replace(state, revisions=(*state.revisions, *new_starts(before, after, begin, now)))
