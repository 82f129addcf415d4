"""Another definition of a task, from a T on.

CREATE OR REPLACE, ALTER CONTINUAL TASK, APPLY REPLACEMENT, REPLAY and a folder all prepare a
:class:`TaskChange`. The old definition advances the task to now; if it failed at some T, the new
one starts at that T. New columns are added to the tables before the cutover.

If a replacement has built the rows, the cutover has two definitions:

    at its T                  DELETE FROM task; INSERT INTO task SELECT ... FROM replacement
    from the next T on        the body of the replacement

Every process that runs the task at that T writes the same difference. A task that failed before
that T skips all Ts up to it (:class:`ctsql.runtime.tasks.sink.TaskSink`). The quarantine of the
replacement is copied at the same T (:func:`ctsql.runtime.tasks.proposals.taken_over`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.cutovers import Cutover, together
from ctsql.catalog.dependencies import (
    beside as goes_with,
    check_no_cycle,
    outputs_of,
    replacement_of,
    writer_of,
)
from ctsql.catalog.errors import DataError
from ctsql.catalog.items import Definition, Item, Reading, Task, TaskOutput
from ctsql.catalog.schemas import Schema
from ctsql.catalog.spans import Span
from ctsql.planner.binding.binder import BoundDefinition
from ctsql.planner.binding.task import bind_task
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.definitions.cutover import (
    PreparedChange,
    as_prepared,
    beginning,
    nothing,
)
from ctsql.runtime.statements.definitions.dropped import dropped
from ctsql.runtime.statements.definitions.output_tables import make_table
from ctsql.runtime.statements.inspect.show import current_definition
from ctsql.runtime.statements.objects.failed_task import retry_failed
from ctsql.runtime.statements.objects.name_resolution import (
    OnNames,
    new_quarantine,
)
from ctsql.runtime.tasks.progress import complete_through, failure_of
from ctsql.runtime.tasks.sink import TaskSink
from ctsql.runtime.warehouse.output_columns import ensure_columns
from ctsql.runtime.warehouse.times.timeline import TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChange:
    """A prepared change of a task's definition.

    Attributes:
        task: before the change. text, reads, columns: of the new definition; columns of each
            output.
        quarantine: the new one, whose table exists; None without a new one.
        copy: the definition that copies rows built by a replacement; None to keep the task's rows.
        failed_at: the T at which the task had failed; None for none.
    """

    task: Task
    text: str
    reads: tuple[Reading, ...]
    columns: tuple[Schema, ...]
    quarantine: Item | None
    copy: Definition | None
    failed_at: int | None
    span: Span

    def on_top(self, current: Catalog) -> Cutover:
        """The changes of a catalog.

        Raises:
            ALTERED_MEANWHILE, UNKNOWN_RELATION: another process has changed or dropped the task.
                OBJECT_EXISTS: the name of the quarantine is taken.
        """
        now = as_prepared(current, self.task)
        outputs = outputs_of(current, now) or [now]
        earlier, before = now.revisions, tuple(o.columns for o in outputs)
        if before != self.columns:
            earlier = tuple(replace(r, columns=r.columns or before) for r in earlier)
        newest = now.definition.followed_by(self.text, self.reads)
        if self.copy is not None:
            earlier = (*earlier, replace(self.copy, number=newest.number))
            newest = replace(newest, number=newest.number + 1)
        later = replace(now, definition=newest, earlier=earlier)
        if self.quarantine is not None:
            later = replace(later, quarantine=self.quarantine.id)
        pairs = zip(outputs, self.columns, strict=True)
        written = [replace(output, columns=schema) for output, schema in pairs]
        if not now.outputs:
            later, written = replace(later, columns=self.columns[0]), []
        changed = Cutover(items=(later, *written))
        return together([changed, beginning(current, self.quarantine, self.span)])

    def part(
        self,
        make: Callable[[Catalog], Cutover] | None = None,
        complete: Callable[[], None] = nothing,
    ) -> PreparedChange:
        """This change as a part of a cutover; ``make`` adds checks to :meth:`on_top`."""
        return PreparedChange(
            make=make or self.on_top,
            new=() if self.quarantine is None else (self.quarantine,),
            # With a copy the task is taken past the Ts from which it has failed on.
            failed_at={} if self.copy else {self.task.id: self.failed_at},
            complete=complete,
        )


class Redefinition(OnNames):
    """The base of the statements that give a task another definition."""

    def definition(self, ref: st.RelationRef) -> tuple[Task, st.CreateContinualTask]:
        """The task, and its newest definition with current names."""
        item = self.names.of_kind(ref, Task)
        self.engine.timeline.refresh()
        self.engine.refresh_catalog()
        item = still_there(self.engine.relations.catalog, item)
        return item, definition_statement(self.engine, item)

    def other_definition(
        self,
        item: Task,
        text: str,
        *,
        body: tuple[st.BodyStatement, ...] | None = None,
        columns: tuple[Schema, ...] = (),
    ) -> PreparedChange:
        """Prepare another definition.

        Args:
            body: the body in the user's own statement, for the places of errors. columns: of each
                output; empty if unchanged.
        """
        span = parse_as(st.CreateContinualTask, text, f"definition of {item.name}").target.span
        later, quarantine = self.redefined(item, text, span, body=body, columns=columns)
        reads = later.definition.reads
        change = self.prepare(item, text, reads, span, columns=columns, quarantine=quarantine)
        return change.part(
            complete=lambda: self.complete(self.engine.relations.item(item.id), change.failed_at)
        )

    def redefined(
        self,
        item: Task,
        text: str,
        span: Span,
        *,
        body: tuple[st.BodyStatement, ...] | None = None,
        columns: tuple[Schema, ...] = (),
    ) -> tuple[Task, TaskOutput | None]:
        """A task by another definition, and the quarantine that it gets; None if it gets none."""
        statement = parse_as(st.CreateContinualTask, text, f"definition of {item.name}")
        bound = self.bind(item, replace(statement, body=body) if body else statement, columns)
        self.check_cycle(item, bound, span)
        item = replace(item, definition=item.definition.followed_by(text, bound.reads))
        if not bound.task.has_quarantine or item.quarantine is not None:
            return item, None
        away = new_quarantine(self.names, item, span)
        return replace(item, quarantine=away.id), away

    def prepare(
        self,
        item: Task,
        text: str,
        reads: tuple[Reading, ...],
        span: Span,
        *,
        columns: tuple[Schema, ...] = (),
        quarantine: Item | None = None,
        copy: Definition | None = None,
    ) -> TaskChange:
        """Prepare a bound definition: the old one advances the task to now.

        Args:
            columns: of each output; empty if unchanged. quarantine, copy: see :class:`TaskChange`;
                the quarantine has no table yet.
        """
        failed_at = self.advance_to_now(item)
        if quarantine is not None:
            begun = replace(quarantine, created_at=self.engine.timeline.now)
            quarantine = make_table(self.engine, begun)
        outputs = self.outputs(item)
        columns = columns or tuple(o.columns for o in outputs)
        for output, schema in zip(outputs, columns, strict=True):
            if schema != output.columns:
                ensure_columns(self.engine.warehouse, output, schema)
        return TaskChange(
            task=item,
            text=text,
            reads=reads,
            columns=columns,
            quarantine=quarantine,
            copy=copy,
            failed_at=failed_at,
            span=span,
        )

    def outputs(self, item: Item) -> list[Item]:
        """The objects that hold a task's rows, in order."""
        return outputs_of(self.engine.catalog, item) or [item]

    def bind(
        self, item: Item, statement: st.CreateContinualTask, columns: tuple[Schema, ...] = ()
    ) -> BoundDefinition:
        """Bind a new definition of a task in the schema of its creation.

        ``columns``: of each output; empty for the present ones.
        """
        binder = self.names.in_schema(item.search_schema).binder()
        outputs = self.outputs(item)
        if columns:
            pairs = zip(outputs, columns, strict=True)
            outputs = [replace(output, columns=schema) for output, schema in pairs]
        own = item if item.outputs else outputs[0]
        return bind_task(binder, statement, own, outputs if item.outputs else [])

    def check_cycle(self, item: Item, bound: BoundDefinition, span: Span) -> None:
        """Raise RECURSIVE_DEFINITION if the new body reads something that reads the task."""
        for reading in bound.reads:
            detail = f'The new body reads "{reading.name}", which reads the task.'
            check_no_cycle(self.names.catalog(), item, [reading], span, detail)

    def advance_to_now(self, item: Item) -> int | None:
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

    def settle(self, item: Item) -> None:
        """Complete a cutover of the task after a process was killed."""
        self.complete(item, self.advance_to_now(item))

    def complete(self, item: Item, failed_at: int | None) -> None:
        """Run a task on from the T at which it failed, if its new definition is in force there."""
        engine = self.engine
        starts = {start for start, _ in engine.timeline.task(item.id).revisions}
        if failed_at in starts and not engine.relations.is_suspended(item):
            retry_failed(engine, item)
        self.forget(engine.relations.item(item.id))

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
            if not isinstance(now, Task):
                return current
            revisions = [r for r in now.earlier if r.number >= min(numbers)]
            later = replace(now, earlier=tuple(revisions))
            catalog, read = current.with_items([later]), {r.object_id for r in later.reads}
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
