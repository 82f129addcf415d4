"""Replacements of continual tasks, and REPLAY CONTINUAL TASK, which makes and applies one at once.

A replacement is a task of its own beside the task that it is for. It has the same columns and
begins with what the inputs hold (SNAPSHOT), or with what the task held before a T, from which on
its body is run for every T that there was (FROM). Applying it binds two definitions of the task in
one commit of the timeline (:mod:`ctsql.runtime.statements.task_swap`).

R1: before that commit nothing is changed, and of REPLAY no catalog knows the replacement: a process
    that dies leaves a folder, which MAINTAIN removes.
R2: from it on the task reads the replacement as of the swap, so that is kept until the task has
    written it. Then it goes with the definition of the swap, in one commit of the catalog; where
    the process dies before that, MAINTAIN or the next change of the task does it.
R3: the replacement holds the T of the swap before the task runs it, as the task reads it.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ctsql.catalog import times
from ctsql.catalog.errors import DataError, bad_option, error, not_supported
from ctsql.catalog.items import Item, ObjectKind, Revision, replacement_of, stored_reads
from ctsql.catalog.names import Name, fold, quote
from ctsql.catalog.spans import Span
from ctsql.planner.binding import Bound, bind_task, qualify
from ctsql.planner.due_times import snapshot_inputs
from ctsql.planner.syntax import ast as st, parse_as, splice
from ctsql.planner.syntax.statements.options import STORAGE_OPTIONS
from ctsql.runtime.log.failures import is_failure_of
from ctsql.runtime.maintenance.history import check_history
from ctsql.runtime.statements.alter_task import merged_options, options_edit
from ctsql.runtime.statements.create import Creation, keeps_vectors
from ctsql.runtime.statements.first_rows import copy_of, followed_by
from ctsql.runtime.statements.redefinition import Redefinition, column_list, definition_statement
from ctsql.runtime.statements.replacement import exists_already, of_another
from ctsql.runtime.statements.show import rename_edits
from ctsql.runtime.statements.task_swap import Swap, bring_beside_up, check_alone, check_fits
from ctsql.runtime.tasks.progress import check_not_suspended, failure_of

_KIND = ObjectKind.CONTINUAL_TASK
_BEGINS = ("SNAPSHOT", *STORAGE_OPTIONS)
"""Options that a task keeps, whatever replaces it: how it began, and where its rows are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beginning:
    """What a replacement begins with.

    Attributes:
        since: the T at which it begins; None for the newest. first: the definition by which it
            then holds its first rows; None where its own body takes in what the inputs hold.
    """

    since: int | None = None
    first: Revision | None = None


class TaskReplacement(Redefinition):
    """Builds, applies and replays; each method returns the status line."""

    def create(self, statement: st.CreateContinualTask) -> str:
        """CREATE REPLACEMENT CONTINUAL TASK name FOR task: built at once.

        Raises:
            REPLACEMENT_COLUMNS_DIFFER, REPLACEMENT_EXISTS: what is in the way.
            RECURSIVE_DEFINITION: the body reads what reads the task. HISTORY_LOST: what is to be
                run again cannot be read any more.
        """
        assert statement.replaces is not None  # else it is no replacement
        name = self.names.free(statement.target, _KIND, quiet=statement.if_not_exists)
        if name is None:
            return "CREATE REPLACEMENT CONTINUAL TASK (exists already)"
        task, old = self._replaceable(statement.replaces)
        item, bound = self._replacement(task, old, name, statement)
        begins = self._beginning(task, item, statement.begin)
        with self._built(item, bound, begins, old) as made:
            Creation(self.names).register(*made, check=check_alone)
        return "CREATE REPLACEMENT CONTINUAL TASK"

    def bound(self, statement: st.CreateContinualTask, name: Name) -> Bound:
        """A replacement as it would be, for EXPLAIN."""
        assert statement.replaces is not None  # else it is no replacement
        task, old = self.definition(statement.replaces)
        return self._replacement(task, old, name, statement)[1]

    def apply(self, statement: st.ApplyReplacement) -> str:
        """ALTER CONTINUAL TASK name APPLY REPLACEMENT replacement.

        Raises:
            REPLACEMENT_OF_ANOTHER: it is none, or is for another task. DEPENDENT_OBJECTS: somebody
                follows it. TASK_FAILED, TASK_SUSPENDED: it stands still; nothing changes.
        """
        place = statement.replacement.span
        task, old = self._settled(statement.target)
        beside = self.names.of_kind(statement.replacement, _KIND)
        if beside.replaces != task.id:
            raise of_another(self.engine.catalog, beside, task, place)
        check_not_suspended(self.engine.warehouse, beside)
        check_not_suspended(self.engine.warehouse, task)
        self._swap(task, old, beside, place)
        return "ALTER CONTINUAL TASK"

    def replay(self, statement: st.ReplayTask) -> str:
        """REPLAY CONTINUAL TASK name FROM t: as if the body had been in force from t on.

        Raises:
            AS_OF_OUT_OF_RANGE: t is still to come. HISTORY_LOST: what is to be run again cannot be
                read any more. REPLACEMENT_EXISTS: the task has a replacement.
        """
        task, old = self._replaceable(statement.target)
        text = statement.body_span.text if statement.body_span else old.body_span.text
        edits = [*column_list(task, old), st.Edit(span=old.body_span, text=text)]
        written = _parsed(splice(old.span, edits).text, task.name)
        name = Name(task.name.schema, f"{task.name.name}_replay_{uuid.uuid4().hex[:8]}")
        item, bound = self._bound(task, old, written, name, statement)
        begins = self._beginning(task, item, statement.begin)
        with self._built(item, bound, begins, old) as made:
            self._swap(task, old, made[0], statement.target.span)
        return "REPLAY CONTINUAL TASK"

    # ---- checks

    def _settled(self, ref: st.RelationRef) -> tuple[Item, st.CreateContinualTask]:
        """A task and its definition, after what an APPLY that was killed may have left (R2)."""
        task, old = self.definition(ref)
        if task.earlier:
            self.settle(task)
            return self.definition(ref)
        return task, old

    def _replaceable(self, ref: st.RelationRef) -> tuple[Item, st.CreateContinualTask]:
        """A task that can be replaced, and its definition."""
        task, old = self._settled(ref)
        span = ref.span
        there = replacement_of(self.engine.catalog, task.id)
        if there is not None:
            raise exists_already(task, there, span)
        why = ""
        if task.replaces is not None:
            why = "It is a replacement itself."
        elif task.flows or task.flow:
            why = "It is made of flows, and each has taken in what was there at a T of its own."
        elif task.outputs:
            why = "It has several outputs."
        elif task.quarantine is not None:
            why = "It has a quarantine, whose rows came from the runs that there were."
        elif fold(self.names.search_schema) != fold(task.search_schema):
            why = f'Its names are looked up in "{task.search_schema}".'
        if why:
            hint = "Make a task under another name, and let its readers read that one."
            if "looked up" in why:
                hint = f"Type first: USE {quote(task.search_schema)}"
            what = f'a replacement for "{task.name}"'
            raise not_supported(span, what, why=why, hint=hint)
        check_not_suspended(self.engine.warehouse, task)
        return task, old

    # ---- texts

    def _replacement(
        self,
        task: Item,
        old: st.CreateContinualTask,
        name: Name,
        statement: st.CreateContinualTask,
    ) -> tuple[Item, Bound]:
        written = statement if statement.inputs else self._completed(task, old, statement)
        return self._bound(task, old, written, name, statement)

    def _completed(
        self, task: Item, old: st.CreateContinualTask, statement: st.CreateContinualTask
    ) -> st.CreateContinualTask:
        """The task's definition with the body and the options of a replacement."""
        edits = [
            *column_list(task, old),
            options_edit(old, merged_options(old, statement.options)),
            st.Edit(span=old.body_span, text=statement.body_span.text),
        ]
        return _parsed(splice(old.span, edits).text, task.name)

    def _bound(
        self,
        task: Item,
        old: st.CreateContinualTask,
        written: st.CreateContinualTask,
        name: Name,
        statement: st.CreateContinualTask | st.ReplayTask,
    ) -> tuple[Item, Bound]:
        """A replacement by what is written of it, whose body names it or the task."""
        given = statement.options if isinstance(statement, st.CreateContinualTask) else ()
        for option in given:
            if option.name in _BEGINS:
                detail = "The task keeps what it says of that."
                raise bad_option(option.span, option.name, detail, hint="Leave it out.")
        item = self.names.new(name, _KIND, statement.span, None)
        kept = [o for o in written.options if o.name not in _BEGINS]
        clause = "SNAPSHOT"
        if statement.begin is not None:
            clause = f"FROM {statement.begin.span.text}"
        head = f"CREATE REPLACEMENT CONTINUAL TASK {_name(item, task)} FOR {_name(task, task)} "
        text = _renamed(written, head + clause, kept, task, item)
        item = replace(item, definition=text, replaces=task.id)
        bound = bind_task(self.names.binder(), _parsed(text, name), item, [])
        item = replace(item, columns=bound.columns, reads=bound.reads)
        check_fits(self.engine.catalog, item, task, statement.target.span)
        if bound.task.coalesce is not None:
            why = "It takes in changes at times that count from its creation."
            hint = "Make a task under another name, and let its readers read that one."
            place = statement.target.span
            what = "a replacement of a task with COALESCE"
            raise not_supported(place, what, why=why, hint=hint)
        if bound.task.has_quarantine:
            why = "Their rows would go into a quarantine of the replacement's own."
            place = statement.target.span
            hint = "Take another ON ERROR, or ON VIOLATION."
            what = "a replacement with a quarantine"
            raise not_supported(place, what, why=why, hint=hint)
        return item, bound

    def _applied_text(self, task: Item, old: st.CreateContinualTask, beside: Item) -> str:
        """The definition that a task gets from its replacement."""
        made = _current(self, beside)
        options = [*made.options, *(o for o in old.options if o.name in _BEGINS)]
        return _renamed(made, f"CREATE CONTINUAL TASK {_name(task, task)}", options, beside, task)

    # ---- building

    def _beginning(self, task: Item, item: Item, begin: st.Instant | None) -> _Beginning:
        """What a replacement begins with; raises AS_OF_OUT_OF_RANGE, TASK_FAILED, HISTORY_LOST."""
        if begin is None:
            return _Beginning()
        engine = self.engine
        self.bring_up(task)
        start, now = times.parse_time(begin.value, span=begin.span), engine.timeline.now
        if start > now:
            raise error(
                "AS_OF_OUT_OF_RANGE",
                span=begin.span,
                time=start,
                relation=str(task.name),
                detail=f"The newest T is {now}.",
                hint="Begin with a T that there was. For what comes: "
                f"ALTER CONTINUAL TASK {task.name} AS (...)",
            )
        since = max(start - 1, task.created)
        failure = failure_of(engine.warehouse, task)
        if failure is not None and failure.time <= since:
            raise failure.task_error(engine.relations.in_force(task, failure.time)[0])
        self._check_followed(task, item, begin.span)
        takes_in = task.backfill is None and bool(
            snapshot_inputs(engine.relations.bound(task).task)
        )
        is_whole = start <= task.created and takes_in
        reads = stored_reads(engine.catalog, item)
        check_history(engine, reads if is_whole else [task, *reads], since)
        if is_whole:
            return _Beginning(since=since)
        follows = followed_by(self.names, _parsed(item.definition, item.name))
        return _Beginning(since=since, first=copy_of(item, item.columns, follows, task))

    def _check_followed(self, task: Item, item: Item, span: Span) -> None:
        """Refuse a view as an input that the task does not follow: not every T of it is stored."""
        known = {r.object_id for r in task.reads}
        for read in self.engine.catalog.closure(r.object_id for r in item.reads):
            if read.kind is ObjectKind.MATERIALIZED_VIEW and read.id not in known:
                is_input = read in self.engine.relations.followed(item)
                if is_input and not self.engine.relations.is_followed(read):
                    why = f'Not every T of "{read.name}" is stored, as nothing has followed it.'
                    raise not_supported(
                        span, "FROM with this input", why=why, hint="Type: SNAPSHOT"
                    )

    @contextmanager
    def _built(
        self, item: Item, bound: Bound, begins: _Beginning, old: st.CreateContinualTask
    ) -> Iterator[list[Item]]:
        """Inside, a replacement holds all up to now, and no catalog knows it.

        Raises REPLAY_FAILED where its body cannot be computed at some T.
        """
        building = Creation(self.names).built(
            item, bound, has_vectors=keeps_vectors(old), first=begins.first, since=begins.since
        )
        with ExitStack() as stack:
            try:
                made = stack.enter_context(building)
            except DataError as problem:
                if not is_failure_of(problem, item):
                    raise
                time, reason = int(str(problem.given["time"])), str(problem.given["reason"])
                detail = f"That T is {times.to_iso(time)}."
                raise error("REPLAY_FAILED", time=time, reason=reason, detail=detail) from problem
            yield made

    # ---- the swap

    def _swap(self, task: Item, old: st.CreateContinualTask, beside: Item, span: Span) -> None:
        """Give a task what its replacement holds, and its definition, from one T on."""
        engine = self.engine
        is_known = beside.id in engine.refresh_catalog().items
        self.bring_up(task)
        text = self._applied_text(task, old, beside)
        made = _parsed(text, task.name)
        bound = self.bind(task, made)
        follows = followed_by(self.names.in_schema(task.search_schema), made)
        bring_beside_up(engine, beside, is_known=is_known)
        swap = Swap(
            task=task,
            beside=beside,
            is_known=is_known,
            text=text,
            reads=bound.reads,
            follows=follows,
            span=span,
        )
        swap.bring_into_force(engine)
        self.settle(engine.relations.item(task.id))


def _parsed(text: str, name: Name) -> st.CreateContinualTask:
    return parse_as(st.CreateContinualTask, text, f"definition of {name}")


def _current(statements: Redefinition, beside: Item) -> st.CreateContinualTask:
    """The definition of a replacement with current names, be it registered or not."""
    if beside.id in statements.engine.catalog.items:
        return definition_statement(statements.engine, beside)
    return _parsed(beside.definition, beside.name)


def _name(item: Item, task: Item) -> str:
    """A name as a definition in the task's schema writes it."""
    is_near = fold(item.name.schema) == fold(task.search_schema)
    return quote(item.name.name) if is_near else item.name.qualified()


def _renamed(
    made: st.CreateContinualTask, head: str, options: Sequence[st.Option], was: Item, item: Item
) -> str:
    """A definition under another head, whose body writes another item.

    Args:
        was: the item by whose name the body calls what it writes.
    """
    clause = made.beginning_span
    in_head = clause is not None and made.replaces is not None
    stop = clause.stop if in_head and clause is not None else made.target.span.stop
    source = made.span.source
    columns = "" if made.columns_span is not None else f" ({_listed(was)})"
    edits = [st.Edit(span=Span(source, made.span.start, stop), text=head + columns)]
    if clause is not None and not in_head:
        edits.append(st.Edit(span=clause, text=""))
    if made.columns_span is not None:
        edits += column_list(was, made)
    if made.options_span is not None or options:
        edits.append(options_edit(made, list(options)))
    meaning = {qualify(made.target, was.search_schema): item, was.name: item, item.name: item}
    texts = [text for part in made.body for text in st.texts_of(part)]
    refs = [*(p.target for p in made.body), *(r for t in texts for r in t.relations)]
    edits += [e for ref in refs for e in rename_edits(ref, was.search_schema, meaning, made.span)]
    return splice(made.span, edits).text


def _listed(item: Item) -> str:
    return ", ".join(c.ddl() for c in item.columns)
