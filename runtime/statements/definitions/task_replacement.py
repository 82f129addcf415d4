"""Replacements of continual tasks, and REPLAY CONTINUAL TASK, which makes and applies one at once.

A replacement is a separate task with the columns of the replaced task. It begins with the inputs'
rows (SNAPSHOT), or with the rows that the task held before a T, and runs its body for every T since
(FROM). Applying it gives the task the replacement's rows and definition (:mod:`.task_change`).

[nothing-before-swap] nothing changes before the swap's commit. The replacement of a REPLAY is in no
    catalog: a kill leaves a folder, which MAINTAIN removes.
[kept-until-written] after the swap the task reads the replacement as of its T, so it is kept until
    the task has written it. One commit of the catalog then removes it with the definition of the
    swap; after a kill MAINTAIN or the next change of the task does so.
[has-T-of-swap] the replacement reaches the T of the swap before the task, which reads it, runs
    there.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ctsql.catalog import times
from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import (
    all_readers,
    check_no_cycle,
    closure,
    outputs_of,
    outputs_or_itself,
    parts_of,
    stored_reads,
    written_by,
)
from ctsql.catalog.errors import DataError, bad_option, error, not_supported, out_of_range
from ctsql.catalog.items import (
    Definition,
    Item,
    MaterializedView,
    ObjectKind,
    Task,
    TaskOutput,
)
from ctsql.catalog.names import Name, fold, quote
from ctsql.catalog.spans import Span
from ctsql.planner.binding.binder import BoundDefinition, qualify
from ctsql.planner.binding.task import bind_task
from ctsql.planner.bodies.reads import snapshot_inputs
from ctsql.planner.syntax import ast as st, parse_as, splice
from ctsql.planner.syntax.statements.options import COALESCE, STORAGE_OPTIONS
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.failures import is_failure_of
from ctsql.runtime.maintenance.vacuum import check_history
from ctsql.runtime.statements.definitions.alter_task import merged_options, options_edit
from ctsql.runtime.statements.definitions.create import Creation, complete_outputs, keeps_vectors
from ctsql.runtime.statements.definitions.cutover import (
    Redefinition,
    advance_to_now,
    as_prepared,
    check_reads,
    cut_over,
    settle,
)
from ctsql.runtime.statements.definitions.dropped import check_unread
from ctsql.runtime.statements.definitions.first_rows import copy_of, followed_by, shape_text
from ctsql.runtime.statements.definitions.task_change import (
    column_list,
    definition_statement,
    redefinition,
    task_and_definition,
)
from ctsql.runtime.statements.definitions.view_replacement import (
    check_alone,
    check_replaceable,
    check_same_columns,
    to_apply,
)
from ctsql.runtime.statements.objects.name_resolution import OnNames, check_free, new_quarantine
from ctsql.runtime.tasks.progress import check_not_suspended, failure_of
from ctsql.runtime.warehouse.times.refresh_times import Schedule

_KIND = ObjectKind.CONTINUAL_TASK
_BEGINS = ("SNAPSHOT", *STORAGE_OPTIONS)
"""Options that a replaced task keeps: how it began, and where its rows are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A replacement before its creation: the task, its outputs, quarantine and definition."""

    items: list[Item]
    bound: BoundDefinition


class TaskReplacement(OnNames):
    """Builds, applies and replays; each method returns the status line."""

    def create(self, statement: st.CreateContinualTask) -> str:
        """CREATE REPLACEMENT CONTINUAL TASK name FOR task: built at once.

        Raises:
            REPLACEMENT_COLUMNS_DIFFER, REPLACEMENT_EXISTS. RECURSIVE_DEFINITION: the body reads an
                object that reads the task. HISTORY_LOST: changes to run again were removed.
        """
        assert statement.replaces is not None  # else it is no replacement
        name = self.names.free(statement.target, _KIND, quiet=statement.if_not_exists)
        if name is None:
            return "CREATE REPLACEMENT CONTINUAL TASK (exists already)"
        task, old = self._replaceable(statement.replaces)
        draft = self._replacement(task, old, name, statement)
        with self._built(task, draft, statement, old) as items:
            Creation(self.names).register(*items, check=check_alone)
        return "CREATE REPLACEMENT CONTINUAL TASK"

    def bound(self, statement: st.CreateContinualTask, name: Name) -> BoundDefinition:
        """A replacement as it would be, for EXPLAIN."""
        assert statement.replaces is not None  # else it is no replacement
        task, old = task_and_definition(self.names, statement.replaces)
        return self._replacement(task, old, name, statement).bound

    def apply(self, statement: st.ApplyReplacement) -> str:
        """ALTER CONTINUAL TASK name APPLY REPLACEMENT replacement.

        Raises:
            REPLACEMENT_OF_ANOTHER: not a replacement of this task. DEPENDENT_OBJECTS: an object
                follows it. TASK_FAILED, TASK_SUSPENDED: it does not advance; nothing changes.
        """
        _, old = self._settle(statement.target)
        task, replacement = to_apply(self.names, statement, Task)
        items = [replacement, *parts_of(self.engine.catalog, replacement)]
        self._swap(task, old, items, statement.replacement.span)
        return "ALTER CONTINUAL TASK"

    def replay(self, statement: st.ReplayTask) -> str:
        """REPLAY CONTINUAL TASK name FROM t: rows as if the body had been in force since t.

        Raises:
            AS_OF_OUT_OF_RANGE: t is in the future. HISTORY_LOST: changes to run again were removed.
                REPLACEMENT_EXISTS: the task has a replacement.
        """
        task, old = self._replaceable(statement.target)
        text = statement.body_span.text if statement.body_span else old.body_span.text
        edits = [*column_list(task, old), st.Edit(span=old.body_span, text=text)]
        definition = _parse(splice(old.span, edits).text, task.name)
        name = Name(task.name.schema, f"{task.name.name}_replay_{uuid.uuid4().hex[:8]}")
        draft = self._bound(task, old, definition, name, statement)
        with self._built(task, draft, statement, old) as items:
            self._swap(task, old, items, statement.target.span)
        return "REPLAY CONTINUAL TASK"

    # ---- checks

    def _settle(self, ref: st.RelationRef) -> tuple[Task, st.CreateContinualTask]:
        """A task and its definition, after completing an APPLY that was killed."""
        task, old = task_and_definition(self.names, ref)
        if task.earlier:
            settle(self.engine, task)
            return task_and_definition(self.names, ref)
        return task, old

    def _replaceable(self, ref: st.RelationRef) -> tuple[Task, st.CreateContinualTask]:
        """A task that can be replaced, and its definition."""
        task, old = self._settle(ref)
        span = ref.span
        check_replaceable(self.engine.catalog, task, span)
        if fold(self.names.search_schema) != fold(task.search_schema):
            what = f'a replacement for "{task.name}"'
            why = f'Its names are looked up in "{task.search_schema}".'
            hint = f"Type first: USE {quote(task.search_schema)}"
            raise not_supported(span, what, why=why, hint=hint)
        check_not_suspended(self.engine.warehouse, task)
        return task, old

    # ---- texts

    def _replacement(
        self,
        task: Task,
        old: st.CreateContinualTask,
        name: Name,
        statement: st.CreateContinualTask,
    ) -> _Draft:
        definition = statement if statement.inputs else self._complete(task, old, statement)
        return self._bound(task, old, definition, name, statement)

    def _complete(
        self, task: Task, old: st.CreateContinualTask, statement: st.CreateContinualTask
    ) -> st.CreateContinualTask:
        """The task's definition with columns, body and options of the statement."""
        columns, list_span = column_list(task, old), statement.columns_span
        if list_span is not None:
            place, blank = old.columns_span, ""
            if place is None:
                place, blank = old.target.span.behind, " "
            columns = [st.Edit(span=place, text=blank + list_span.text)]
        edits = [
            *columns,
            options_edit(old, merged_options(old, statement.options)),
            st.Edit(span=old.body_span, text=statement.body_span.text),
        ]
        return _parse(splice(old.span, edits).text, task.name)

    def _bound(
        self,
        task: Task,
        old: st.CreateContinualTask,
        definition: st.CreateContinualTask,
        name: Name,
        statement: st.CreateContinualTask | st.ReplayTask,
    ) -> _Draft:
        """A replacement by its statement, whose body names the task.

        Raises:
            REPLACEMENT_COLUMNS_DIFFER, NOT_SUPPORTED: its columns or outputs are not the task's.
                INVALID_OPTION: it has an option that the task keeps.
        """
        options = statement.options if isinstance(statement, st.CreateContinualTask) else ()
        for option in options:
            if option.name in _BEGINS:
                detail = "The task keeps its own."
                raise bad_option(option.span, option.name, detail, hint="Leave it out.")
        place = statement.target.span
        item = self.names.new(Task, name, statement.span, None)
        outputs = self._outputs(task, definition, name, place)
        if outputs:
            item = replace(item, storage=None, outputs=tuple(o.id for o in outputs))
        kept_options = [o for o in definition.options if o.name not in _BEGINS]
        if all(o.name != COALESCE for o in kept_options):
            kept_options += [o for o in old.options if o.name == COALESCE]
        begin = f"FROM {statement.begin.span.text}" if statement.begin is not None else "SNAPSHOT"
        head = f"CREATE REPLACEMENT CONTINUAL TASK {_name(item, task)} FOR {_name(task, task)}"
        theirs = outputs_or_itself(self.engine.catalog, task)
        text = _with_head(definition, f"{head} {begin}", kept_options, theirs)
        item = replace(item, definition=replace(item.definition, text=text), replaces=task.id)
        parsed = _parse(text, name)
        parsed = replace(parsed, body=statement.body or parsed.body)  # errors show the user's text
        bound = bind_task(self.names.binder(), parsed, item, outputs)
        item = item.bound(bound.columns, bound.reads)
        if bound.task.has_quarantine or task.quarantine is not None:
            outputs.append(new_quarantine(self.names, item, place))
            item = replace(item, quarantine=outputs[-1].id)
        items = [item, *complete_outputs(outputs, item, bound)]
        _check_fits(self.engine.catalog, items, task, place)
        if bound.task.coalesce != self.engine.relations.bound(task).task.coalesce:
            span = next((o.span for o in options if o.name == COALESCE), place)
            detail = "The task keeps its own."
            raise bad_option(span, COALESCE, detail, hint="Leave it out.")
        return _Draft(items=items, bound=bound)

    def _outputs(
        self, task: Task, definition: st.CreateContinualTask, name: Name, span: Span
    ) -> list[TaskOutput]:
        """New items for the outputs of a replacement; none if it is its own output.

        Their names are those of the task's outputs behind the replacement's.
        """
        targets = [qualify(o.target, self.names.search_schema) for o in definition.outputs]
        old_names = [o.name for o in outputs_of(self.engine.catalog, task)]
        if targets != old_names and (targets or definition.columns_span is not None):
            why = f'"{task.name}" writes {", ".join(map(str, old_names or [task.name]))}.'
            hint = "Give it the same outputs, in the same order."
            raise not_supported(span, "a replacement with other outputs", why=why, hint=hint)
        items = []
        for output in old_names:
            new_name = Name(name.schema, f"{name.name}_{output.name}")
            check_free(self.engine.catalog, new_name, span, quiet=False)
            items.append(self.names.new(TaskOutput, new_name, span, None))
        return items

    # ---- building

    def _beginning(
        self, task: Task, draft: _Draft, statement: st.CreateContinualTask | st.ReplayTask
    ) -> tuple[int | None, Definition | None]:
        """The T at which a replacement begins, and the definition that copies its first rows.

        None: at the newest T, with its own body over what the inputs hold. Raises
        AS_OF_OUT_OF_RANGE, TASK_FAILED, HISTORY_LOST.
        """
        begin, engine, item = statement.begin, self.engine, draft.items[0]
        if begin is None:
            return self._snapshot(task, draft, statement.target.span), None
        advance_to_now(engine, task)
        start, now = times.parse_time(begin.value, span=begin.span), engine.timeline.now
        if start > now:
            hint = "Give a T in the past. For later changes: "
            hint += f"ALTER CONTINUAL TASK {task.name} AS (...)"
            raise out_of_range(task.name, start, f"The newest T is {now}.", hint, begin.span)
        since = max(start - 1, task.created_at)
        failure = failure_of(engine.warehouse, task)
        if failure is not None and failure.time <= since:
            raise failure.task_error(engine.relations.in_force(task, failure.time)[0])
        self._check_followed(task, item, since, begin.span)
        takes_in = task.backfill is None and bool(
            snapshot_inputs(engine.relations.bound(task).task)
        )
        is_whole = start <= task.created_at and takes_in
        reads = stored_reads(engine.catalog, item)
        outputs = written_by(engine.catalog, task)
        check_history(engine, reads if is_whole else [*outputs, *reads], since)
        if is_whole:
            return since, None
        return since, copy_of(
            item,
            outputs_among(draft.items),
            outputs_or_itself(engine.catalog, task),
            followed_by(self.names, _parse(item.definition.text, item.name)),
            quarantine=engine.catalog.items.get(task.quarantine or ""),
        )

    def _snapshot(self, task: Task, draft: _Draft, span: Span) -> int | None:
        """The T at which a replacement with SNAPSHOT begins; None for the newest.

        With COALESCE it is the end of the last interval: later changes wait for the end of the next
        one, as for the task.
        """
        every = draft.bound.task.coalesce
        if every is None:
            return None
        engine, item = self.engine, draft.items[0]
        engine.mint()
        since = Schedule.of([every], task.created_at).last_at_or_before(engine.timeline.now)
        assert since is not None  # the first one is its creation
        self._check_followed(task, item, since, span)
        check_history(engine, stored_reads(engine.catalog, item), since)
        return since

    def _check_followed(self, task: Task, item: Item, since: int, span: Span) -> None:
        """Refuse a view as an input unless every T after ``since`` is stored."""
        read_ids = {r.object_id for r in task.reads}
        for read in closure(self.engine.catalog, (r.object_id for r in item.reads)):
            if isinstance(read, MaterializedView) and read.id not in read_ids:
                is_input = read in self.engine.relations.followed(item)
                if is_input and not self._was_followed(read, max(since, read.created_at)):
                    why = f'Nothing followed "{read.name}", so not every T since then is stored.'
                    raise not_supported(
                        span, "FROM with this input", why=why, hint="Type: SNAPSHOT"
                    )

    def _was_followed(self, view: Item, since: int) -> bool:
        """Whether a task or named reader has followed a view since a T, also through views."""
        readers = all_readers(self.engine.catalog, view.id)
        if any(isinstance(r, Task) and r.created_at <= since for r in readers):
            return True
        ids = {view.id, *(r.id for r in readers)}
        subscriptions = self.engine.catalog.subscriptions.values()
        return any(s.object_id in ids and s.start <= since and not s.problem for s in subscriptions)

    @contextmanager
    def _built(
        self,
        task: Task,
        draft: _Draft,
        statement: st.CreateContinualTask | st.ReplayTask,
        old: st.CreateContinualTask,
    ) -> Iterator[list[Item]]:
        """Within the block a replacement is advanced to now, and no catalog has it.

        Raises REPLAY_FAILED if its body fails at some T.
        """
        item, *others = draft.items
        since, first = self._beginning(task, draft, statement)
        building = Creation(self.names).built(
            item, draft.bound, others, has_vectors=keeps_vectors(old), first=first, since=since
        )
        with ExitStack() as stack:
            try:
                items = stack.enter_context(building)
            except DataError as problem:
                if not is_failure_of(problem, item):
                    raise
                time, reason = int(str(problem.given["time"])), str(problem.given["reason"])
                detail = f"That T is {times.to_iso(time)}."
                raise error("REPLAY_FAILED", time=time, reason=reason, detail=detail) from problem
            yield items

    # ---- the swap

    def _swap(
        self, task: Task, old: st.CreateContinualTask, items: Sequence[Item], span: Span
    ) -> None:
        """Give a task the rows and the definition of its replacement (the first item)."""
        current = _current(self.engine, items[0])
        options = [*current.options, *(o for o in old.options if o.name in _BEGINS)]
        head = f"CREATE CONTINUAL TASK {_name(task, task)}"
        text = _with_head(current, head, options, outputs_or_itself(self.engine.catalog, task))
        change = replace(redefinition(self.names, task, text), span=span)
        follows = followed_by(self.names.in_schema(task.search_schema), _parse(text, task.name))
        change = with_rows_of(self.engine, change, items, follows)
        advance_replacement(self.engine, items)
        cut_over(self.engine, change)


def with_rows_of(
    engine: Engine, change: Redefinition, items: Sequence[Item], follows: Item
) -> Redefinition:
    """The redefinition of a task that also gets the rows of its replacement.

    Args:
        items: the replacement and its auxiliary objects, which stay in the catalog until the task
            has their rows.
        follows: the first of the task's inputs.

    Raises when it is checked:
        DEPENDENT_OBJECTS: an object reads the replacement. REPLACEMENT_EXISTS: another one was
        created meanwhile. And the errors of its creation.
    """
    (_, task), span, replacement = change.changes[0], change.span, items[0]
    there = engine.refresh_catalog()  # without the objects that are being built
    is_stored = replacement.id in there.items
    copy = copy_of(
        task,
        outputs_or_itself(there, task),
        outputs_among(items),
        follows,
        clears=True,
        quarantine=next((i for i in items if i.id == replacement.quarantine), None),
    )

    def check(current: Catalog) -> None:
        _check_fits(current, items, task, span)
        if is_stored:
            check_unread(current, [as_prepared(current, replacement)], span)
        else:
            check_alone(current, replacement)

    new = (*change.new, *(() if is_stored else items))
    return replace(change, new=new, copy=copy, check=check)


def outputs_among(items: Sequence[Item]) -> list[Item]:
    """The objects among a replacement and its auxiliary objects that hold its rows."""
    return [i for i in items if i.id in items[0].outputs] or [items[0]]


def advance_replacement(engine: Engine, items: Sequence[Item]) -> None:
    """Run a replacement (the first item) up to now; UNKNOWN_RELATION if it was dropped."""
    replacement, there = items[0], engine.refresh_catalog().items
    now = engine.mint_for([there[r.object_id] for r in replacement.reads if r.object_id in there])
    others = (r for r in replacement.reads if r.object_id != replacement.id)
    check_reads(engine.catalog, engine.catalog, others)
    if replacement.id not in there:
        engine.relations.add(items)
    engine.advance([replacement], now)


def _check_fits(catalog: Catalog, items: Sequence[Item], task: Item, span: Span | None) -> None:
    """Raise if a task cannot get the definition of a replacement (the first item)."""
    outputs = outputs_or_itself(catalog, task)
    for item, output in zip(outputs_among(items), outputs, strict=True):
        check_same_columns(item, output, span)
    others = [r for r in items[0].reads if r.object_id != items[0].id]
    detail = "The body of its replacement reads an object that reads the task."
    check_no_cycle(catalog, task, others, span, detail)


def _parse(text: str, name: Name) -> st.CreateContinualTask:
    return parse_as(st.CreateContinualTask, text, f"definition of {name}")


def _current(engine: Engine, replacement: Item) -> st.CreateContinualTask:
    """The definition of a replacement with current names, registered or not."""
    if replacement.id in engine.catalog.items:
        return definition_statement(engine, replacement)
    return _parse(replacement.definition.text, replacement.name)


def _name(item: Item, task: Task) -> str:
    """An object's name, qualified unless it is in the task's schema."""
    is_near = fold(item.name.schema) == fold(task.search_schema)
    return quote(item.name.name) if is_near else item.name.qualified()


def _with_head(
    definition: st.CreateContinualTask,
    head: str,
    options: Sequence[st.Option],
    outputs: Sequence[Item],
) -> str:
    """A definition under another head, with these options, and without BACKFILL FROM.

    Args:
        outputs: the objects whose columns it gets if it lists none: the task, or its outputs.
    """
    source, clause = definition.span.source, definition.beginning_span
    stop, edits = definition.target.span.stop, list[st.Edit]()
    if clause is not None and definition.replaces is not None:
        stop = clause.stop
    elif clause is not None:
        edits.append(st.Edit(span=clause, text=""))
    if definition.columns_span is None:
        head += f" {shape_text(outputs)}"
    else:
        edits += column_list(outputs[0], definition)
    edits.append(st.Edit(span=Span(source, definition.span.start, stop), text=head))
    if definition.options_span is not None or options:
        edits.append(options_edit(definition, list(options)))
    return splice(definition.span, edits).text
