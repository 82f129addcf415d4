"""ALTER CONTINUAL TASK: another body, other options, SUSPEND and RESUME.

The timeline binds the T from which a definition is in force, so all replicas run the same one at
every T. Order of a change: bring the task up to now under the old definition; add the new one to
the catalog; bind it to a new T. A crash before the last step changes nothing: a definition without
a T never runs.

If the old definition has failed at some T, the new one is in force from that T on.

CREATE OR REPLACE may add columns at the end of the outputs: then the tables get them before the T
is bound (:mod:`ctsql.runtime.warehouse.output_columns`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import types as T

from ctsql.catalog.errors import CtsqlError, DataError, error
from ctsql.catalog.items import Catalog, Item, ObjectKind, Revision, items_as_of
from ctsql.catalog.names import fold, quote
from ctsql.catalog.schemas import Column, Schema, same_columns
from ctsql.catalog.spans import Source, Span
from ctsql.catalog.times import TIME_MAX
from ctsql.planner.binding import Bound, bind_task, qualify
from ctsql.planner.lowering.type_names import type_name
from ctsql.planner.syntax import ast as st, parse, splice
from ctsql.planner.syntax.statements.options import STORAGE_OPTIONS, storage_options
from ctsql.planner.syntax.tokens.tokenizer import words_of
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.failed_task import retry_failed
from ctsql.runtime.statements.name_resolution import Namespace, OnNames
from ctsql.runtime.statements.show import current_definition
from ctsql.runtime.tasks.progress import complete_through, failure_of
from ctsql.runtime.tasks.sink import TaskSink
from ctsql.runtime.warehouse.output_columns import check_takes, ensure_columns
from ctsql.runtime.warehouse.timeline import TaskState

DONE = "ALTER CONTINUAL TASK"
_ELSEWHERE = "Make a task under another name, let its readers read that one, then drop this one."


class TaskAlteration(OnNames):
    """ALTER CONTINUAL TASK ... AS, SET, RESET, SUSPEND, RESUME; each returns the status line."""

    def switch(self, statement: st.SwitchTask) -> str:
        """SUSPEND or RESUME, unless the task is in that state already."""
        item = self._item(statement.target)
        self.engine.mint()
        if self.engine.relations.is_suspended(item) == statement.suspend:
            return f"{DONE} (was {'suspended' if statement.suspend else 'running'} already)"
        bind_task_state(
            self.engine,
            item,
            lambda state, now: replace(state, suspended=now if statement.suspend else None),
        )
        return DONE

    def replace_body(self, statement: st.ReplaceBody) -> str:
        """AS ( statements ): the new body runs from the next T on."""
        item, old = self._definition(statement.target)
        edits = [
            *_column_list(item, old),
            st.Edit(span=old.body_span, text=statement.body_span.text),
        ]
        return self._redefine(item, splice(old.span, edits).text, statement.body)

    def replace_definition(self, statement: st.CreateContinualTask) -> bool:
        """CREATE OR REPLACE of a task that is there; False when the statement says the same.

        Raises:
            NOT_SUPPORTED: it has other inputs or outputs, columns that are not those which are
                there with others behind them, or its names are looked up in another schema;
                nothing is changed.
        """
        item, old = self._definition(statement.target)
        self._check_same_shape(item, old, statement)
        columns = self._check_columns(item, statement)
        grown = item if item.outputs else replace(item, columns=columns[0])
        if _words(grown, statement) == _words(item, old):
            return False
        text = splice(statement.span, _column_list(grown, statement)).text
        self._redefine(item, text, statement.body, columns)
        return True

    def says_the_same(self, statement: st.CreateContinualTask) -> bool:
        """Whether a statement has the words of the definition that is there."""
        item, old = self._definition(statement.target)
        return _words(item, statement) == _words(item, old)

    def set_options(self, statement: st.SetOptions) -> str:
        """SET (option = value, ...), or RESET (option, ...)."""
        item, old = self._definition(statement.target)
        kept = {o.name: o for o in old.options if o.name not in statement.reset}
        kept.update((o.name, o) for o in statement.options)
        edits = [*_column_list(item, old), _options_edit(old, list(kept.values()))]
        return self._redefine(item, splice(old.span, edits).text, None)

    # ---- definitions

    def _item(self, ref: st.RelationRef) -> Item:
        return self.names.of_kind(ref, ObjectKind.CONTINUAL_TASK)

    def _definition(self, ref: st.RelationRef) -> tuple[Item, st.CreateContinualTask]:
        """The task, and its newest definition with current names."""
        item = self._item(ref)
        self.engine.timeline.refresh()
        self.engine.refresh_catalog()
        item = self.engine.relations.item(item.id)
        text = current_definition(self.engine, self.engine.relations.current(item))
        return item, _parse(text, item)

    def _redefine(
        self,
        item: Item,
        text: str,
        body: tuple[st.BodyStatement, ...] | None,
        columns: tuple[Schema, ...] = (),
    ) -> str:
        """Put another definition in force from the next T on.

        Args:
            body: its body in the user's own statement, so that errors point there.
            columns: of each output by it; empty where they stay as they are.
        """
        engine = self.engine
        statement = _parse(text, item)
        outputs = self._outputs(item)
        columns = columns or tuple(o.columns for o in outputs)
        bound = self._bind(item, replace(statement, body=body) if body else statement, columns)
        self._check_cycle(item, bound, statement.target.span)
        failed_at = self._bring_up(item)
        number = self._add(item, text, bound, columns)
        for output, wanted in zip(outputs, columns, strict=True):
            if wanted != output.columns:
                ensure_columns(engine.warehouse, output, wanted)

        def put_in_force(state: TaskState, now: int) -> TaskState:
            self._check_only_added(item, state, columns)
            start = now if failed_at is None else failed_at
            return replace(state, revisions=(*state.revisions, (start, number)))

        bind_task_state(engine, item, put_in_force)
        engine.refresh_catalog()
        item = engine.relations.item(item.id)
        if failed_at is not None and not engine.relations.is_suspended(item):
            retry_failed(engine, item)
        self._forget(item)
        return DONE

    def _bind(
        self, item: Item, statement: st.CreateContinualTask, columns: tuple[Schema, ...]
    ) -> Bound:
        binder = Namespace(self.engine, item.search_schema).binder()
        pairs = zip(self._outputs(item), columns, strict=True)
        grown = [replace(output, columns=wanted) for output, wanted in pairs]
        own = item if item.outputs else grown[0]
        return bind_task(binder, statement, own, grown if item.outputs else [])

    def _check_only_added(self, item: Item, state: TaskState, columns: tuple[Schema, ...]) -> None:
        """Raise if another definition has come into force, with columns that are not among these.

        The catalog is read again where it does not have that definition yet.
        """
        number = state.revision_at(TIME_MAX)
        newest = self.engine.catalog_store.load()
        if item.id not in newest.items:
            return  # it was dropped, and nothing of it runs
        then, *outputs = items_as_of(newest, newest.items[item.id], number)
        for output, wanted in zip(outputs or [then], columns, strict=True):
            if wanted[: len(output.columns)] != output.columns:
                raise error(
                    "ALTERED_MEANWHILE",
                    kind=item.kind.value,
                    name=str(item.name),
                    detail=f"It writes {_shape(output)} now.",
                )

    def _check_same_shape(
        self, item: Item, old: st.CreateContinualTask, new: st.CreateContinualTask
    ) -> None:
        if fold(self.names.search_schema) != fold(item.search_schema):
            raise _cannot_replace(
                new.target.span,
                "replacing a task from another schema than the one it was made in",
                f'Names of continual task "{item.name}" are looked up in "{item.search_schema}".',
                f"Type first: USE {quote(item.search_schema)}",
            )
        if storage_options(new.options) != storage_options(old.options):
            raise _cannot_replace(
                new.target.span,
                f"another {' or '.join(STORAGE_OPTIONS)} for a continual task that is there",
                "They hold from its creation on.",
                "Leave them as they are, or make a task under another name.",
            )
        catalog, schema = self.engine.catalog, item.search_schema

        def ids(statement: st.CreateContinualTask) -> list[str]:
            names = (qualify(i.ref, schema) for i in statement.inputs)
            return sorted(found.id for n in names if (found := catalog.find(n)) is not None)

        if ids(new) != ids(old):
            raise _cannot_replace(
                new.inputs[0].ref.span,
                "another input for a continual task that is there",
                f'What "{item.name}" holds came from '
                f"{', '.join(i.ref.span.text for i in old.inputs)}.",
                _ELSEWHERE,
            )
        made = [qualify(o.target, schema) for o in new.outputs]
        if made != [o.name for o in catalog.outputs_of(item)]:
            raise _cannot_replace(
                new.target.span,
                "other outputs for a continual task that is there",
                f"It writes {', '.join(_shape(o) for o in self._outputs(item))}.",
                _ELSEWHERE,
            )

    def _outputs(self, item: Item) -> list[Item]:
        """The objects that hold a task's rows, in order."""
        return self.engine.catalog.outputs_of(item) or [item]

    def _check_columns(self, item: Item, new: st.CreateContinualTask) -> tuple[Schema, ...]:
        """The columns of each output by a new definition, which may add some at the end."""
        stored = self._outputs(item)
        fresh = [replace(o, columns=()) for o in stored if item.outputs]
        binder = Namespace(self.engine, item.search_schema).binder()
        made = bind_task(binder, new, replace(item, columns=()), fresh).task
        found = []
        for output, written in zip(stored, made.written, strict=True):
            kept, added = (
                written.columns[: len(output.columns)],
                written.columns[len(output.columns) :],
            )
            if not same_columns(_spelled(output.columns), _spelled(kept)):
                raise _cannot_replace(
                    new.target.span,
                    "other columns for a continual task that is there",
                    f"It writes {_shape(output)}. Columns may be added at the end.",
                    _ELSEWHERE,
                )
            refused = next((c for c in added if not c.nullable), None)
            if refused is not None:
                raise _cannot_replace(
                    new.target.span,
                    f'a NOT NULL column "{refused.name}" for a continual task that is there',
                    f'Rows that "{output.name}" holds have NULL in it.',
                    "Leave out NOT NULL, or make a task under another name.",
                )
            columns = (*output.columns, *added)
            if added:
                check_takes(self.engine.warehouse, output, columns)
            found.append(columns)
        return tuple(found)

    def _check_cycle(self, item: Item, bound: Bound, span: Span) -> None:
        """Raise RECURSIVE_DEFINITION if the new body reads something that reads the task."""
        for reading in bound.reads:
            below = self.engine.catalog.closure([reading.object_id])
            if any(i.id == item.id for i in below):
                raise error(
                    "RECURSIVE_DEFINITION",
                    span=span,
                    name=str(item.name),
                    detail=f'The new body reads "{reading.name}", which reads the task.',
                )

    def _bring_up(self, item: Item) -> int | None:
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

    def _add(self, item: Item, text: str, bound: Bound, columns: tuple[Schema, ...]) -> int:
        """Add the definition to the catalog, where nobody sees it yet; returns its number."""
        added = 0

        def add_revision(current: Catalog) -> Catalog:
            nonlocal added
            now = current.items.get(item.id)
            if now is None:
                current.get(item.name, kind="continual task")
            assert now is not None  # or get() has raised
            added = now.revision + 1
            newest = Revision(number=added, definition=text, reads=bound.reads)
            outputs = current.outputs_of(now) or [now]
            before = tuple(o.columns for o in outputs)
            earlier = now.revisions
            if before != columns:
                earlier = tuple(replace(r, columns=r.columns or before) for r in earlier)
            pairs = zip(outputs, columns, strict=True)
            grown = current.with_items(replace(o, columns=wanted) for o, wanted in pairs)
            return grown.with_item(grown.items[item.id].with_revisions(newest, earlier))

        self.engine.catalog_store.change(add_revision)
        self.engine.refresh_catalog()
        return added

    def _forget(self, item: Item) -> None:
        """Drop the definitions that no later T runs with."""
        engine = self.engine
        engine.timeline.refresh()
        through = complete_through(engine.warehouse, [item])
        TaskSink(engine.warehouse, item).settle(through)
        stored = engine.versions.stored_upper(item) - 1
        spans = engine.timeline.task(item.id).spans(stored, max(stored + 1, engine.timeline.now))
        needed = {number for _, _, number in spans}

        def prune(current: Catalog) -> Catalog:
            now = current.items.get(item.id)
            if now is None:
                return current
            *earlier, newest = now.revisions
            kept = [r for r in earlier if r.number >= min(needed)]
            return current.with_item(now.with_revisions(newest, kept))

        engine.catalog_store.change(prune)
        engine.refresh_catalog()


def _words(item: Item, statement: st.CreateContinualTask) -> list[str]:
    """The tokens of a definition behind the task's name, with its columns, in any case."""
    start = statement.target.span.stop
    columns = [e.text for e in _column_list(item, statement)]
    texts = [Source(text, "columns").whole() for text in columns]
    texts.append(Span(statement.span.source, start, statement.span.stop))
    return [word for text in texts for word in words_of(text)]


def _spelled(columns: Sequence[Column]) -> list[Column]:
    """Columns with their types in Spark's spelling."""
    return [replace(c, type=type_name(T.DataType.fromDDL(c.type))) for c in columns]


def _shape(output: Item) -> str:
    return f"{output.name} ({', '.join(c.ddl() for c in output.columns)})"


def _cannot_replace(span: Span, what: str, why: str, hint: str) -> CtsqlError:
    return error("NOT_SUPPORTED", span=span, what=what, why=why, hint=hint)


def _parse(text: str, item: Item) -> st.CreateContinualTask:
    statement = parse(Source(text, f"definition of {item.name}").whole())
    assert isinstance(statement, st.CreateContinualTask)  # the definition of a task
    return statement


def _column_list(item: Item, old: st.CreateContinualTask) -> Sequence[st.Edit]:
    """The edit that fixes columns which were inferred from the first INSERT."""
    if old.columns or old.outputs:
        return ()
    place = Span(old.span.source, old.target.span.stop, old.target.span.stop)
    return (st.Edit(span=place, text=f" ({', '.join(c.ddl() for c in item.columns)})"),)


def _options_edit(old: st.CreateContinualTask, options: list[st.Option]) -> st.Edit:
    text = f"WITH ({', '.join(o.span.text for o in options)})" if options else ""
    if old.options_span is not None:
        return st.Edit(span=old.options_span, text=text)
    start = old.as_span.start
    return st.Edit(span=Span(old.span.source, start, start), text=f"{text} " if text else "")


def bind_task_state(
    engine: Engine, item: Item, change: Callable[[TaskState, int], TaskState]
) -> int:
    """Bind a change of a task's state to a new T; returns it."""
    return engine.timeline.mint(
        engine.relations.sources(), task=(item.id, change), tick_ms=engine.tick_ms
    )
