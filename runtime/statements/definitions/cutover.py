"""A cutover: several objects get new definitions at one T, or none of them does.

Each statement that changes definitions makes :class:`Redefinition` values. :func:`cut_over` takes
any number of them:

    prepare    advance objects to now by their old definitions; create tables of new objects and
               add columns at the end. It may take long, and no reader sees it
    commit     three commits: the catalog stores the cutover, which no reader sees; the timeline
               binds it to a T, which decides; the catalog gets the new definitions
    complete   views get the rows that differ; failed tasks run again from the failed T

A crash before the timeline's commit leaves files that MAINTAIN removes. After it, the next process
that reads the objects completes them. A cutover is valid only on the catalog it was prepared on: if
another process changes the catalog first, it is prepared again, and raises if it no longer fits
(:mod:`ctsql.runtime.warehouse.stores.catalog_store` has the protocol of readers).

Source: docs/decisions/0107-definitions-at-one-t.md.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.cutovers import Cutover
from ctsql.catalog.dependencies import (
    closure,
    outputs_or_itself,
    parts_of,
    replacement_of,
    writer_of,
)
from ctsql.catalog.errors import CatalogError, DataError, error
from ctsql.catalog.items import (
    Definition,
    Item,
    Maintained,
    MaterializedView,
    Reading,
    Record,
    Table,
    Task,
    TaskOutput,
    View,
    altered_meanwhile,
    was_dropped,
)
from ctsql.catalog.schemas import keeps_columns, same_columns
from ctsql.catalog.spans import Span
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.write_handle import NO_UPPER
from ctsql.runtime.statements.definitions.dropped import check_unread, dropped
from ctsql.runtime.statements.definitions.output_tables import make_table, undo_on_failure
from ctsql.runtime.statements.definitions.view_change import (
    check_takes_columns,
    redefined_view,
    refresh_of,
)
from ctsql.runtime.statements.objects.failed_task import retry_failed
from ctsql.runtime.statements.objects.name_resolution import check_free
from ctsql.runtime.statements.objects.refresh_view import (
    FAILED,
    advance_by_old_definition,
    check_not_finished,
    end_if_followed,
    refresh_view,
)
from ctsql.runtime.statements.tables.columns_read import readers_of
from ctsql.runtime.tasks.progress import complete_through, failure_of, mended_from
from ctsql.runtime.tasks.sink import TaskSink
from ctsql.runtime.warehouse.output_columns import ensure_columns
from ctsql.runtime.warehouse.replaced_views import is_redefined
from ctsql.runtime.warehouse.times.timeline import TaskState

TRIES_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Redefinition:
    """The definitions of objects from one T on.

    Attributes:
        bound_on: the catalog on which they were bound. changes: pairs of a stored object and the
            same object with its new definition, columns and comments. new: objects that are created
            at the T; those with a T of creation have tables already. drop: dropped objects.
        copy: the definition by which the task first gets the rows of its replacement.
        check: raises where a newer catalog forbids it. make_table: makes the table of a new object.
    """

    bound_on: Catalog
    changes: tuple[tuple[Item, Item], ...] = ()
    new: tuple[Item, ...] = ()
    drop: tuple[Item, ...] = ()
    schemas: tuple[str, ...] = ()
    copy: Definition | None = None
    check: Callable[[Catalog], None] = lambda _: None
    make_table: Callable[[Engine, Item], Item] = make_table
    span: Span | None = None

    @property
    def items(self) -> tuple[Item, ...]:
        """All objects with their new definitions."""
        return (*(after for _, after in self.changes), *self.new)

    @property
    def changed_ids(self) -> set[str]:
        """The ids of objects that are redefined or new."""
        new = self.new if self.changes else ()
        redefined = (after for before, after in self.changes if _is_redefined(before, after))
        return {i.id for i in (*redefined, *new)}

    @property
    def is_paced(self) -> bool:
        """Whether refresh times count from the cutover: other ones, or those of a new quarantine.

        A view and its quarantine have the same refresh times.
        """
        times = [(refresh_of(before), refresh_of(after)) for before, after in self._views()]
        has_new = any(isinstance(item, MaterializedView) for item in self.new)
        return any(before != after or (has_new and after is not None) for before, after in times)

    def _views(self) -> list[tuple[Item, Item]]:
        """The materialized views that get another definition, before and after."""
        views = (pair for pair in self.changes if isinstance(pair[1], MaterializedView))
        return [pair for pair in views if _is_redefined(*pair)]

    @property
    def begun_ids(self) -> set[str]:
        """The ids of objects that get the T as their T of creation."""
        has_time = Maintained | TaskOutput
        new = {i.id for i in self.new if isinstance(i, has_time) and not i.created_at}
        return new | {after.id for _, after in self._views()} if self.is_paced else new

    def on_top(self, engine: Engine, current: Catalog) -> list[Item]:
        """The changed and new objects on top of a catalog, once it is prepared.

        Raises:
            ALTERED_MEANWHILE, UNKNOWN_RELATION: another process has changed or dropped an object.
                OBJECT_EXISTS: the name of a new one is taken. VIEW_FINISHED: a view has no more
                refreshes. And what the check of the redefinition raises.
        """
        changes = [(as_prepared(current, before), after) for before, after in self.changes]
        self.check(current)
        for item in self.new:
            check_free(current, item.name, self.span, quiet=False)
        return [*(self._later(engine, current, now, after) for now, after in changes), *self.new]

    def _later(self, engine: Engine, current: Catalog, now: Item, after: Item) -> Item:
        """A changed object on top of the newest catalog."""
        definition = replace(now.definition, flow=after.flow)
        later = replace(now, columns=after.columns, comment=after.comment, definition=definition)
        if not _is_redefined(now, after):
            return later
        if isinstance(now, MaterializedView) and isinstance(after, MaterializedView):
            check_not_finished(engine, now)
            return redefined_view(now, after, is_paced=self.is_paced)
        if not isinstance(later, Task):
            return replace(later, definition=after.definition)
        outputs, new = outputs_or_itself(current, now), {i.id: i for i in self.items}
        before = tuple(o.columns for o in outputs)
        columns = tuple(new.get(o.id, o).columns for o in outputs)
        earlier = now.revisions
        if not all(map(same_columns, before, columns)):
            earlier = tuple(replace(r, columns=r.columns or before) for r in earlier)
        number = now.revision + 1
        if self.copy is not None:
            earlier, number = (*earlier, replace(self.copy, number=number)), number + 1
        definition = replace(after.definition, number=number)
        return replace(later, definition=definition, earlier=earlier, quarantine=after.quarantine)


def _is_redefined(before: Item, after: Item) -> bool:
    """Whether the definition changes, and not only comments or an output's columns."""
    return before.revision != after.revision


def cut_over(engine: Engine, *wanted: Redefinition) -> None:
    """Bring redefinitions into force at one T, and complete them.

    Raises:
        With nothing in force: the error of one that does not fit, or DEFINITIONS_CHANGED if other
            processes were first each time. With them in force: the errors of completing.
    """
    complete(engine, bring_into_force(engine, *wanted))


def bring_into_force(engine: Engine, *wanted: Redefinition) -> set[str]:
    """Bring redefinitions into force at one T; returns the ids of the objects to complete."""
    current, made = engine.refresh_catalog(), list[Item]()
    for one in wanted:
        for before, _ in one.changes:
            as_prepared(current, before)
        one.check(current)
    with undo_on_failure(engine, made):
        ids = _commit(engine, [_prepare(engine, one, made) for one in wanted])
    for item in (item for one in wanted for item in one.drop):
        if item.location is not None:
            engine.gateway.forget(item.location)
    return ids


def _prepare(engine: Engine, wanted: Redefinition, made: list[Item]) -> Redefinition:
    """Advance changed objects, and create the tables of new ones, which are added to ``made``."""
    for before, after in wanted.changes:
        _prepare_change(engine, before, after)
    new = []
    for item in wanted.new:
        if not item.created_at and item.location is not None:
            made.append(item)
            item = wanted.make_table(engine, item)
        new.append(item)
    return replace(wanted, new=tuple(new))


def _prepare_change(engine: Engine, before: Item, after: Item) -> None:
    is_redefined = _is_redefined(before, after)
    if isinstance(after, Task) and is_redefined:
        advance_to_now(engine, before)
    if isinstance(after, Task | TaskOutput):
        if not same_columns(before.columns, after.columns):
            ensure_columns(engine.warehouse, before, after.columns)
    elif isinstance(after, MaterializedView) and is_redefined:
        end_if_followed(engine, before)
        check_takes_columns(engine.warehouse, before, after.columns)
    elif isinstance(after, View) and is_redefined:
        for reader in readers_of(engine.catalog, before):
            end_if_followed(engine, reader)


def _commit(engine: Engine, prepared: Sequence[Redefinition]) -> set[str]:
    new = [item for one in prepared for item in one.new]

    def make(catalog: Catalog) -> Cutover:
        items = [item for one in prepared for item in one.on_top(engine, catalog)]
        drop = [still_there(catalog, item) for one in prepared for item in one.drop]
        there = catalog.with_items(new)
        for one in prepared:
            for item in one.items:
                check_reads(one.bound_on, there, item.definition.reads)
        check_unread(catalog.with_items(items), drop, prepared[0].span)
        return Cutover(
            items=tuple(items),
            new_ids=frozenset(id for one in prepared for id in one.begun_ids),
            drop=dropped(catalog, drop) if drop else None,
            schemas=tuple(schema for one in prepared for schema in one.schemas),
        )

    tables = [item for item in new if isinstance(item, Table)]
    changed_ids = {id for one in prepared for id in one.changed_ids}
    for _ in range(TRIES_MAX):
        cutover, catalog = engine.catalog_store.add_cutover(make)
        engine.refresh_catalog()  # a table that was created meanwhile gets Ts too
        if cutover.is_no_change(catalog):
            return changed_ids
        faults.point("cutover_stored")
        sources = engine.relations.sources()
        sources |= {i.id: (i.name.qualified(), engine.relations.table(i)) for i in tables}
        before = catalog.items
        tasks = {
            item.id: partial(_put_in_force, engine, before.get(item.id), item)
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
        engine.change_catalog(lambda catalog: catalog)  # which writes by the definition in force
        return changed_ids
    raise error("DEFINITIONS_CHANGED")


def as_prepared(current: Catalog, item: Record) -> Record:
    """An object of the newest catalog, which must be unchanged since its change was prepared.

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


def check_reads(bound_on: Catalog, current: Catalog, reads: Iterable[Reading]) -> None:
    """Check that a new definition reads the objects that it was bound to.

    Args:
        bound_on: the catalog on which it was bound. current: the newest.

    Raises:
        UNKNOWN_RELATION: one was dropped. ALTERED_MEANWHILE: a view among them has other columns.
    """
    for reading in reads:
        before, now = (c.items.get(reading.object_id) for c in (bound_on, current))
        if now is None:
            raise was_dropped(reading.name, "meanwhile")
        is_view = isinstance(now, View | MaterializedView)
        if before and is_view and not keeps_columns(before.columns, now.columns):
            raise altered_meanwhile(now)


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
    engine: Engine, before: Item | None, after: Item, state: TaskState, now: int
) -> TaskState:
    begin = now if before is None else mended_from(engine.warehouse, after, state, now)
    return replace(state, revisions=(*state.revisions, *new_starts(before, after, begin, now)))


def advance_to_now(engine: Engine, task: Item) -> None:
    """Run a task's old definition up to now, or up to the T at which it fails.

    A suspended task runs its remaining Ts later, each by the definition in force at it.
    """
    if not engine.relations.is_suspended(task):
        advance_by_old_definition(engine, task, FAILED)
    else:
        engine.mint()


def complete(engine: Engine, changed_ids: Collection[str], others: Iterable[str] = ()) -> None:
    """Write first contents and differences of objects, in order of what they read.

    Args:
        others: the ids of unchanged objects that a killed process may have left incomplete.

    Raises:
        The first error of an object that cannot be computed, after all others are written.
    """
    ids, problems = {*changed_ids, *others}, list[DataError]()
    catalog = engine.refresh_catalog()
    for item in closure(catalog, (i for i in ids if i in catalog.items)):
        if item.id in ids and isinstance(item, Maintained):
            try:
                _complete(engine, item, is_changed=item.id in changed_ids)
            except DataError as problem:
                problems.append(problem)
            if isinstance(item, Task) and item.earlier:
                forget_definitions(engine, item)
    if problems:
        raise problems[0]


def _complete(engine: Engine, item: Maintained, *, is_changed: bool) -> None:
    if engine.relations.is_suspended(item):
        return
    is_unwritten = engine.relations.output(item).fetch_recent_upper() == NO_UPPER
    if isinstance(item, Task):
        failure = failure_of(engine.warehouse, item)
        starts = {start for start, _ in engine.timeline.task(item.id).revisions}
        if failure is not None and failure.time in starts:
            retry_failed(engine, item)  # it had failed before the change
        elif is_unwritten or is_changed:
            engine.advance([item], engine.mint_for([item]))
    elif is_changed or is_redefined(engine.warehouse, item):
        refresh_view(engine, item, full=True, replaced=True)
    elif is_unwritten:
        engine.advance([item], engine.mint_for([item]))


def settle(engine: Engine, task: Task) -> None:
    """Complete a cutover of a task after a process was killed."""
    try:
        complete(engine, [task.id])
    except DataError as problem:
        if problem.condition not in FAILED:  # the next change of it may repair it
            raise


def forget_definitions(engine: Engine, item: Item) -> None:
    """Drop definitions of a task that no later T runs, and its applied replacement."""
    engine.timeline.refresh()
    engine.refresh_catalog()  # after the timeline, whose definitions the catalog then has
    if item.id not in engine.catalog.items:
        return
    item = engine.relations.item(item.id)
    TaskSink(engine.warehouse, item).settle(complete_through(engine.warehouse, [item]))
    stored_until = engine.versions.stored_upper(item) - 1
    spans = engine.timeline.task(item.id).spans(
        stored_until, max(stored_until + 1, engine.timeline.now)
    )
    oldest = min(number for _, _, number in spans)

    def prune(current: Catalog) -> Catalog:
        now = current.items.get(item.id)
        if not isinstance(now, Task):
            return current
        later = replace(now, earlier=tuple(r for r in now.earlier if r.number >= oldest))
        catalog, read = current.with_items([later]), {r.object_id for r in later.reads}
        ids = [r.object_id for r in now.reads if r.object_id not in read]
        there = [i for i in map(current.items.get, ids) if i is not None]
        replacement = replacement_of(current, item.id)
        if replacement is None or replacement not in [writer_of(current, i) for i in there]:
            return catalog
        return catalog.with_dropped(
            dropped(current, [replacement, *parts_of(current, replacement)])
        )

    engine.change_catalog(prune)
