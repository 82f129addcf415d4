"""Puts another definition of a task in force, from a T on.

The timeline binds the T from which a definition is in force, so all replicas run the same one at
every T. Order of a change: bring the task up to now under the old definition; add the new one to
the catalog; bind it to a new T. A crash before the last step changes nothing: a definition without
a T never runs.

If the old definition has failed at some T, the new one is in force from that T on.

[numbers-in-order] a definition is bound only while none with a greater number is. So who forgets
    definitions that no T runs with any more leaves those that may still come into force.

It may add columns at the end of the outputs: then the tables get them before the T is bound
(:mod:`ctsql.runtime.warehouse.output_columns`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from ctsql.catalog.errors import DataError, error
from ctsql.catalog.items import (
    Catalog,
    Item,
    ObjectKind,
    Revision,
    beside as goes_with,
    check_no_cycle,
    items_as_of,
    replacement_of,
    writer_of,
    written_by,
)
from ctsql.catalog.schemas import Schema
from ctsql.catalog.spans import Span
from ctsql.catalog.times import TIME_MAX
from ctsql.planner.binding import BoundDefinition, bind_task
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.write_handle import disturbance_error
from ctsql.runtime.statements.dropped import dropped
from ctsql.runtime.statements.failed_task import retry_failed
from ctsql.runtime.statements.name_resolution import Namespace, OnNames, check_free, new_quarantine
from ctsql.runtime.statements.output_tables import make_table
from ctsql.runtime.statements.show import current_definition
from ctsql.runtime.tasks.progress import complete_through, failure_of, mended_from
from ctsql.runtime.tasks.sink import TaskSink
from ctsql.runtime.warehouse.output_columns import ensure_columns
from ctsql.runtime.warehouse.timeline import TaskState

TRIES_MAX = 20


class _NumberPassed(Exception):
    """A definition that was added later is in force already, and older ones may be forgotten."""


def check_newer(state: TaskState, number: int) -> None:
    """See that a definition is newer than those that were in force [numbers-in-order].

    Raises _NumberPassed: it is to be added again.
    """
    if any(number < bound for _, bound in state.revisions):
        raise _NumberPassed


class Redefinition(OnNames):
    """The base of the statements that give a task another definition."""

    def definition(self, ref: st.RelationRef) -> tuple[Item, st.CreateContinualTask]:
        """The task, and its newest definition with current names."""
        item = self.names.of_kind(ref, ObjectKind.CONTINUAL_TASK)
        self.engine.timeline.refresh()
        self.engine.refresh_catalog()
        item = self.engine.relations.item(item.id)
        return item, definition_statement(self.engine, item)

    def redefine(
        self,
        item: Item,
        text: str,
        *,
        body: tuple[st.BodyStatement, ...] | None = None,
        columns: tuple[Schema, ...] = (),
    ) -> None:
        """Put another definition in force from the next T on.

        Args:
            body: the body in the user's own statement, so that errors point there.
            columns: of each output by it; empty where they stay as they are.

        Raises:
            ALTERED_MEANWHILE: one with other columns has come into force.
        """
        engine = self.engine
        outputs = self.outputs(item)
        columns = columns or tuple(o.columns for o in outputs)
        statement = parse_as(st.CreateContinualTask, text, f"definition of {item.name}")
        with_body = replace(statement, body=body) if body else statement
        bound = self.bind(item, with_body, columns)
        self.check_cycle(item, bound, statement.target.span)
        revision = Revision(number=0, definition=text, reads=bound.reads)
        failed_at = self.bring_up(item)
        if bound.task.has_quarantine:
            self.add_quarantine(item, statement.target.span)
        for _ in range(TRIES_MAX):
            number = self._add(item, revision, columns)
            self._ensure_columns(outputs, columns)

            def put_in_force(state: TaskState, now: int, number: int = number) -> TaskState:
                self._check_only_added(item, state, columns)
                check_newer(state, number)
                begin = mended_from(engine.warehouse, item, failed_at, state, now)
                return replace(state, revisions=(*state.revisions, (begin, number)))

            with suppress(_NumberPassed):
                bind_task_state(engine, item, put_in_force)
                break
        else:
            raise disturbance_error(f"{TRIES_MAX} tries to change the definition of a task")
        engine.refresh_catalog()
        item = engine.relations.item(item.id)
        if failed_at is not None and not engine.relations.is_suspended(item):
            retry_failed(engine, item)
        self.forget(item)

    def outputs(self, item: Item) -> list[Item]:
        """The objects that hold a task's rows, in order."""
        return self.engine.catalog.outputs_of(item) or [item]

    def bind(
        self, item: Item, statement: st.CreateContinualTask, columns: tuple[Schema, ...] = ()
    ) -> BoundDefinition:
        """Bind a new definition of a task, its names as where the task was made.

        Args:
            columns: of each output; empty for those that they have.
        """
        binder = Namespace(self.engine, item.search_schema).binder()
        outputs = self.outputs(item)
        if columns:
            pairs = zip(outputs, columns, strict=True)
            outputs = [replace(output, columns=schema) for output, schema in pairs]
        own = item if item.outputs else outputs[0]
        return bind_task(binder, statement, own, outputs if item.outputs else [])

    def _check_only_added(self, item: Item, state: TaskState, columns: tuple[Schema, ...]) -> None:
        """Raise if another definition has come into force, with columns that are not among these.

        The catalog is read again where it does not have that definition yet.
        """
        number = state.revision_at(TIME_MAX)
        newest = self.engine.catalog_store.load()
        if item.id not in newest.items:
            return  # it was dropped, and nothing of it runs
        then, *outputs = items_as_of(newest, newest.items[item.id], number)
        for output, schema in zip(outputs or [then], columns, strict=True):
            if schema[: len(output.columns)] != output.columns:
                detail = f"It writes {shape_of(output)} now."
                raise error(
                    "ALTERED_MEANWHILE", kind=item.kind.value, name=str(item.name), detail=detail
                )

    def check_cycle(self, item: Item, bound: BoundDefinition, span: Span) -> None:
        """Raise RECURSIVE_DEFINITION if the new body reads something that reads the task."""
        for reading in bound.reads:
            detail = f'The new body reads "{reading.name}", which reads the task.'
            check_no_cycle(self.engine.catalog, item, [reading], span, detail)

    def bring_up(self, item: Item) -> int | None:
        """Run the old definition up to now; returns the T at which it failed, if any."""
        engine = self.engine
        now = engine.mint()
        if not engine.relations.is_suspended(item):
            try:
                engine.advance([item], now)
            except DataError as problem:
                if problem.condition not in ("TASK_FAILED", "VIEW_FAILED"):
                    raise
                # The remaining Ts run later, each under the definition in force at it.
        failure = failure_of(engine.warehouse, item)
        return None if failure is None else failure.time

    def add_quarantine(self, item: Item, span: Span) -> None:
        """Make the task's quarantine, unless there is one."""
        if item.quarantine is not None:
            return
        engine = self.engine
        engine.mint()
        quarantine = new_quarantine(self.names, item, span)
        quarantine = make_table(engine, replace(quarantine, created_at=engine.timeline.now))

        def add(current: Catalog) -> Catalog:
            now = current.items.get(item.id)
            if now is None or now.quarantine is not None:
                return current  # dropped, or another process made one
            check_free(current, quarantine.name, span, quiet=False)
            return current.with_items([replace(now, quarantine=quarantine.id), quarantine])

        engine.catalog_store.change(add)
        if quarantine.id not in engine.refresh_catalog().items and quarantine.location is not None:
            engine.gateway.forget(quarantine.location)
            engine.gateway.delete_tree(quarantine.location)

    def _add(self, item: Item, revision: Revision, columns: tuple[Schema, ...]) -> int:
        """Add a definition to the catalog; returns its number.

        Nobody sees it, or its columns, before it is in force.
        """
        number = 0

        def add_revision(current: Catalog) -> Catalog:
            nonlocal number
            now = current.items.get(item.id)
            if now is None:
                current.get(item.name, kind="continual task")
            assert now is not None  # or get() has raised
            number = now.revision + 1
            outputs = current.outputs_of(now) or [now]
            old_revisions, old_columns = now.revisions, tuple(o.columns for o in outputs)
            if old_columns != columns:
                old_revisions = tuple(
                    replace(r, columns=r.columns or old_columns) for r in old_revisions
                )
            pairs = zip(outputs, columns, strict=True)
            catalog = current.with_items(replace(o, columns=schema) for o, schema in pairs)
            own = catalog.items[item.id]
            return catalog.with_item(
                own.with_revisions(replace(revision, number=number), old_revisions)
            )

        self.engine.change_catalog(add_revision)
        return number

    def _ensure_columns(self, outputs: Sequence[Item], columns: tuple[Schema, ...]) -> None:
        """Give tables of outputs the columns that come with a definition."""
        for output, schema in zip(outputs, columns, strict=True):
            if schema != output.columns:
                ensure_columns(self.engine.warehouse, output, schema)

    def settle(self, item: Item) -> None:
        """Do what is left to do where a process died that had put a definition in force."""
        engine, failed_at = self.engine, self.bring_up(item)
        if failed_at is not None and not engine.relations.is_suspended(item):
            self._pass_to_swap(engine.relations.item(item.id), failed_at)
            if failed_at in {start for start, _ in engine.timeline.task(item.id).revisions}:
                retry_failed(engine, engine.relations.item(item.id))
        self.forget(engine.relations.item(item.id))

    def _pass_to_swap(self, item: Item, failed_at: int) -> None:
        """Let a task that stands before its swap be idle until then, as that replaces all rows."""
        catalog = self.engine.catalog
        beside = replacement_of(catalog, item.id)
        holds = {o.id for o in written_by(catalog, beside)} if beside else set()
        reads = {r.number: {read.object_id for read in r.reads} for r in item.earlier if r.once}
        swap = next((n for n, ids in reads.items() if ids & holds), None)
        if swap is None:
            return
        idle = swap - 1  # made with it

        def pass_over(state: TaskState, _now: int) -> TaskState:
            later = tuple((t, n) for t, n in state.revisions if t > failed_at)
            if state.revision_at(failed_at) == idle or swap not in {n for _, n in later}:
                return state
            return replace(state, revisions=(*state.revisions, (failed_at, idle), *later))

        bind_task_state(self.engine, item, pass_over)
        self.engine.refresh_catalog()

    def forget(self, item: Item) -> None:
        """Drop the definitions that no later T runs with."""
        engine = self.engine
        engine.timeline.refresh()
        engine.refresh_catalog()  # after it: what it says to be in force is in the catalog then
        if item.id not in engine.catalog.items:
            return
        item = engine.relations.item(item.id)
        through = complete_through(engine.warehouse, [item])
        TaskSink(engine.warehouse, item).settle(through)
        stored_until = engine.versions.stored_upper(item) - 1
        spans = engine.timeline.task(item.id).spans(
            stored_until, max(stored_until + 1, engine.timeline.now)
        )
        numbers = {number for _, _, number in spans}

        def prune(current: Catalog) -> Catalog:
            now = current.items.get(item.id)
            if now is None:
                return current
            *earlier, newest = now.revisions
            revisions = [r for r in earlier if r.number >= min(numbers)]
            later = now.with_revisions(newest, revisions)
            catalog, read = current.with_item(later), {r.object_id for r in later.reads}
            ids = [r.object_id for r in now.reads if r.object_id not in read]
            # A replacement that was applied goes with the definition that reads it.
            there = [i for i in map(current.items.get, ids) if i is not None]
            beside = replacement_of(current, item.id)
            if beside is None or beside not in [writer_of(current, i) for i in there]:
                return catalog
            items = [beside, *goes_with(current, beside)]
            return catalog.with_dropped(dropped(current, items))

        engine.change_catalog(prune)


def shape_of(output: Item) -> str:
    """An output with its columns, for messages."""
    return f"{output.name} ({', '.join(c.ddl() for c in output.columns)})"


def definition_statement(engine: Engine, item: Item) -> st.CreateContinualTask:
    """The definition of a task that is in force, with current names."""
    text = current_definition(engine, engine.relations.current(item))
    return parse_as(st.CreateContinualTask, text, f"definition of {item.name}")


def column_list(item: Item, old: st.CreateContinualTask) -> Sequence[st.Edit]:
    """The edit that fixes columns which were inferred from the first INSERT."""
    if old.columns or old.outputs:
        return ()
    columns = ", ".join(c.ddl() for c in item.columns)
    if old.columns_span is not None:  # a list of constraints alone
        place = old.span.source.at(old.columns_span.start + 1)
        return (st.Edit(span=place, text=f"{columns}, "),)
    return (st.Edit(span=old.target.span.behind, text=f" ({columns})"),)


def bind_task_state(
    engine: Engine, item: Item, change: Callable[[TaskState, int], TaskState]
) -> int:
    """Bind a change of a task's state to a new T; returns it."""
    return engine.timeline.mint(
        engine.relations.sources(), tasks={item.id: change}, tick_ms=engine.tick_ms
    )
