"""Binds the definitions of a folder against a warehouse, one on top of the other.

Each is compared with the stored definition. An equal text is not bound; Spark's plans show whether
another text means the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.dependencies import check_no_cycle, flow_targets, outputs_of
from ctsql.catalog.errors import (
    CatalogError,
    CtsqlError,
    NotSupported,
    StatementError,
    error,
    not_supported,
)
from ctsql.catalog.items import (
    Item,
    MaterializedView,
    Reading,
    Table,
    Task,
    View,
    made_by_flow,
)
from ctsql.catalog.names import Name, fold, quote
from ctsql.catalog.schemas import Column, keeps_columns, lacking, same_columns
from ctsql.catalog.spans import Source
from ctsql.planner.binding.binder import BoundDefinition, qualify
from ctsql.planner.binding.checks import check_listed, check_table_columns
from ctsql.planner.binding.task import bind_task
from ctsql.planner.definition_parts import Part, Words
from ctsql.planner.folder import Defining, FileDefinition, define
from ctsql.planner.nodes import Query
from ctsql.planner.syntax import ast as st, parse, parse_as
from ctsql.planner.syntax.statements.alters import FIXED_OPTIONS
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.pipelines.overlay import Overlay, PlannedNames
from ctsql.runtime.pipelines.table_changes import TableChange, declared_columns, table_change
from ctsql.runtime.statements.definitions.alter_task import (
    TaskAlteration,
    check_same_shape,
    with_columns,
)
from ctsql.runtime.statements.definitions.create import (
    Creation,
    check_refresh_times,
    complete_outputs,
    task_that_follows,
)
from ctsql.runtime.statements.definitions.create_flow import (
    clauses_of,
    compile_texts,
    other_target,
    read_flow_texts,
)
from ctsql.runtime.statements.definitions.first_rows import with_first_rows
from ctsql.runtime.statements.definitions.task_change import definition_statement
from ctsql.runtime.statements.definitions.view_change import quarantine_by, with_quarantine
from ctsql.runtime.statements.objects.name_resolution import check_free, drop_text, new_quarantine
from ctsql.runtime.statements.objects.refresh_view import check_not_finished
from ctsql.runtime.tasks.progress import check_not_suspended
from ctsql.runtime.views.change_plans import check_followed, same_rows

REFUSALS = (StatementError, CatalogError, NotSupported)
"""What says that an object cannot become what the folder says; any other error ends the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundObject:
    """A definition of a folder, bound."""

    definition: FileDefinition
    old: Item | None  # what is there now
    parts: tuple[Part, ...]  # what of it differs; of a new object none
    # the object as it would be, a task's outputs behind it; of a flow task and view.
    items: tuple[Item, ...]
    plans: dict[str, BoundDefinition]  # of what is new or redefined and is run, by the item's id
    table_change: TableChange | None = None  # what ALTER TABLE makes of a table that is there

    @property
    def redefined_items(self) -> list[Item]:
        """Those of the objects that are there and get another definition."""
        if self.old is None:
            return []
        is_other = bool({*self.parts} - {Part.COMMENT})
        return [i for i in self.items if i.id in self.plans or (isinstance(i, View) and is_other)]


class FolderBinder:
    """Binds the definitions, in order of what they read."""

    def __init__(self, engine: Engine) -> None:
        catalog = engine.refresh_catalog()
        engine.timeline.refresh()  # for the definitions of tasks that are in force
        self.engine = engine
        self.overlay = Overlay(engine, catalog, catalog)
        self.touched_ids: set[str] = set()  # what has other columns, or is another plain view
        self.reshaped_ids: set[str] = set()  # of these what has the same words and other columns

    def bind(self, definition: FileDefinition) -> BoundObject:
        """Bind one definition on top of those before it, and add it to them.

        Raises:
            StatementError, CatalogError, NotSupported: the object cannot become what the folder
                says.
        """
        catalog = self.overlay.stored_catalog
        old = catalog.find(definition.name)
        if old is None:
            bound = self._new(definition)
        else:
            self._check_kind(definition, old.check(definition.span))
            bound = self._changed_object(definition, old)
        self.overlay.add(bound.items)
        return bound

    def _check_kind(self, definition: FileDefinition, old: Item) -> None:
        is_flow = isinstance(definition.statement, st.CreateFlow)
        if old.kind is not definition.kind or (is_flow and not old.flow):
            hint = f"Drop it first: {drop_text(self.overlay.stored_catalog, old)}"
            raise old.wrong_kind(definition.keyword.lower(), hint, definition.span)

    def _names(self, definition: FileDefinition) -> PlannedNames:
        return self.overlay.names(definition.schema)

    # ---- new objects

    def _new(self, definition: FileDefinition) -> BoundObject:
        names = self._names(definition)
        for name in definition.names:
            check_schema_there(self.overlay, name, definition)
            check_free(self.overlay.catalog, name, definition.span, quiet=False)
        statement = definition.statement
        match statement:
            case st.CreateTable():
                return self._new_object(definition, [self._table(definition, statement)])
            case st.CreateView():
                item = names.new(View, definition.name, statement.span, statement.comment)
                bound = names.binder().bind_view(statement)
                return self._new_object(definition, [item.bound(bound.columns, bound.reads)], {})
            case st.CreateMaterializedView():
                view, plan = self._view(definition, statement, None)
                view, *beside = with_quarantine(names, view, statement)
                return self._new_object(definition, [view, *beside], {view.id: plan})
            case st.CreateContinualTask():
                items, plan = self._task(definition, statement)
                return self._new_object(definition, items, {items[0].id: plan})
            case st.CreateFlow():
                return self._flow(definition, statement)

    def _new_object(
        self,
        definition: FileDefinition,
        items: Sequence[Item],
        plans: dict[str, BoundDefinition] | None = None,
    ) -> BoundObject:
        new_items = tuple(with_comments(item, definition) for item in items)
        return BoundObject(
            definition=definition, old=None, parts=(), items=new_items, plans=plans or {}
        )

    def _table(self, definition: FileDefinition, statement: st.CreateTable) -> Item:
        names = self._names(definition)
        item = names.new(Table, definition.name, statement.span, statement.comment)
        if statement.location is not None:
            return Creation(names).attach(item, statement)
        check_listed(statement.columns)
        columns = declared_columns(statement.columns)
        if statement.query is not None:
            binder = names.binder()
            columns = binder.query(statement.query).columns or ()
            for read in binder.reads.values():
                if read.object_id not in self.overlay.stored_catalog.items:
                    what = "a table that is filled from an object that is new, too"
                    why = f'"{read.name}" holds no rows before the folder is applied.'
                    hint = "Apply the folder without this table first."
                    raise not_supported(statement.query.span, what, why=why, hint=hint)
        check_table_columns(columns, statement.span)
        return replace(item, columns=columns)

    def _view(
        self,
        definition: FileDefinition,
        statement: st.CreateMaterializedView,
        old: MaterializedView | None,
    ) -> tuple[MaterializedView, BoundDefinition]:
        names = self._names(definition)
        check_refresh_times(statement, clock.now_ms())
        name = qualify(statement.target, definition.schema)
        item = old or names.new(MaterializedView, name, statement.span, statement.comment)
        if old is None:
            item = replace(item, storage=Creation(names).storage_of(statement) or item.storage)
        bound = names.binder().bind_materialized_view(statement, item)
        check_followed(self.overlay.warehouse(), bound.view)
        for read in bound.reads:
            self._check_runs(read.object_id)
        return item.bound(bound.columns, bound.reads), bound

    def _check_runs(self, object_id: str) -> None:
        item = self.overlay.stored_catalog.items.get(object_id)
        if item is not None:
            check_not_suspended(self.engine.warehouse, item)

    def _task(
        self, definition: FileDefinition, statement: st.CreateContinualTask
    ) -> tuple[list[Item], BoundDefinition]:
        creation = Creation(self._names(definition))
        name = qualify(statement.target, definition.schema)
        item, beside, bound, first = creation.new_task(name, statement)
        for read in bound.reads:
            self._check_runs(read.object_id)
        item = item.bound(item.columns, bound.reads)
        if first is not None:
            item = with_first_rows(item, first)
        return [item, *complete_outputs(beside, item, bound)], bound

    def _flow(self, definition: FileDefinition, statement: st.CreateFlow) -> BoundObject:
        names = self._names(definition)
        task, view = read_flow_texts(compile_texts(names, statement))
        items, task_plan = self._task(define(task, definition.schema), task)
        items = [made_by_flow(item, clauses_of(statement)) for item in items]
        self.overlay.add(items)
        target, view_plan = self._view(define(view, definition.schema), view, None)
        target = made_by_flow(target, clauses_of(statement))
        plans = {items[0].id: task_plan, target.id: view_plan}
        return self._new_object(definition, [*items, target], plans)

    # ---- objects that are there

    def _changed_object(self, definition: FileDefinition, old: Item) -> BoundObject:
        parts = self._parts(definition, old)
        is_other = bool(parts) or self._reads_touched(old) or self._sees_others(definition, old)
        if parts and old.flow and not isinstance(definition.statement, st.CreateFlow):
            what = f"another {definition.kind.value} in the place of a flow's"
            why = f'"{old.name}" is a part of a flow.'
            hint = "Write the flow into the folder: CREATE FLOW ..."
            raise not_supported(definition.span, what, why=why, hint=hint)
        catalog, plans = self.overlay.stored_catalog, dict[str, BoundDefinition]()
        items: tuple[Item, ...] = (old, *flow_targets(catalog, old))
        change: TableChange | None = None
        match definition.statement:
            case st.CreateTable() as statement:
                assert isinstance(old, Table)  # its kind is that of the definition
                change, parts = self._altered_table(definition, statement, old, parts), ()
                if change is not None:
                    items, parts = (replace(old, columns=change.columns),), change.parts
            case st.CreateView() as statement if is_other:
                item, parts = self._other_view(definition, statement, old, parts)
                items = (item,)
            case st.CreateMaterializedView() as statement if is_other:
                assert isinstance(old, MaterializedView)  # its kind is that of the definition
                view, plan, parts = self._other_materialized(definition, statement, old, parts)
                items, plans = (view,), {}
                if plan is not None:
                    items, plans = self._with_quarantine(definition, statement, view, plan)
            case st.CreateContinualTask() as statement if is_other:
                assert isinstance(old, Task)  # its kind is that of the definition
                task, plan, parts = self._other_task(definition, statement, old, parts)
                items, plans = (task,), {task.id: plan} if plan else {}
                if plan is not None and plan.task.has_quarantine and task.quarantine is None:
                    away = new_quarantine(self._names(definition), task, statement.target.span)
                    items = (replace(task, quarantine=away.id), away)
            case st.CreateFlow() as statement if parts:
                assert isinstance(old, Task)  # its kind is that of the definition
                items, plans = self._other_flow(definition, statement, old)
        before = (*items, *outputs_of(catalog, old))
        items_after = tuple(with_comments(i, definition) for i in before)
        if items_after != before:
            parts = (*parts, Part.COMMENT)
        return BoundObject(
            definition=definition,
            old=old,
            parts=tuple(dict.fromkeys(parts)),
            items=items_after,
            plans=plans,
            table_change=change,
        )

    def _with_quarantine(
        self,
        definition: FileDefinition,
        statement: st.CreateMaterializedView,
        item: MaterializedView,
        plan: BoundDefinition,
    ) -> tuple[tuple[Item, ...], dict[str, BoundDefinition]]:
        """A changed view with the quarantine that it has then, if any; and what is redefined."""
        quarantine = quarantine_by(self._names(definition), item, statement)
        if quarantine is None:
            return (replace(item, quarantine=None),), {item.id: plan}
        away, bound = quarantine
        if item.quarantine is None:
            return (replace(item, quarantine=away.id), away), {item.id: plan}
        away = replace(away, definition=replace(away.definition, number=away.revision + 1))
        return (item, away), {item.id: plan, away.id: bound}

    def _other_flow(
        self, definition: FileDefinition, statement: st.CreateFlow, old: Task
    ) -> tuple[tuple[Item, ...], dict[str, BoundDefinition]]:
        """The task and the view of a flow by other clauses."""
        target = qualify(statement.target, definition.schema)
        views = flow_targets(self.overlay.stored_catalog, old)
        if not views or views[0].name != target:
            raise other_target(statement, views[0].name if views else target)
        task, view = read_flow_texts(compile_texts(self._names(definition), statement))
        flow, alone = clauses_of(statement), define(task, definition.schema)
        item, plan, _ = self._other_task(alone, task, old, (Part.BODY,))
        item = made_by_flow(item, flow)
        self.overlay.add([item])
        alone = define(view, definition.schema)
        view_item, query, _ = self._other_materialized(alone, view, views[0], (Part.QUERY,))
        plans = {i: p for i, p in ((item.id, plan), (view_item.id, query)) if p is not None}
        return (item, made_by_flow(view_item, flow)), plans

    def _parts(self, definition: FileDefinition, old: Item) -> tuple[Part, ...]:
        """The parts whose words differ."""
        current = self.engine.relations.current(old)
        catalog = self.overlay.stored_catalog
        before = old_statement(current, as_flow=isinstance(definition.statement, st.CreateFlow))
        if before is None:
            return () if isinstance(definition.statement, st.CreateTable) else (Part.QUERY,)
        then = {r.name: r.object_id for r in current.reads}
        own = _own(define(before, current.search_schema))

        def object_of(name: Name) -> str:
            item = catalog.find(name)
            object_id = then.get(name) or (item.id if item else None)
            return own.get(name) or object_id or name.qualified()

        now = _own(definition)

        def means(name: Name) -> str:
            item = self.overlay.catalog.find(name)
            return now.get(name) or (item.id if item else name.qualified())

        one = Words(current.search_schema, object_of).parts(before)
        other = Words(definition.schema, means).parts(definition.statement)
        return tuple(part for part, words in other.items() if one.get(part) != words)

    def _altered_table(
        self,
        definition: FileDefinition,
        statement: st.CreateTable,
        old: Table,
        parts: tuple[Part, ...],
    ) -> TableChange | None:
        """A table after ALTER TABLE; None if it is unchanged.

        Raises NOT_SUPPORTED if it would have to be another table, and the errors of the comparison.
        """
        if statement.location is not None:
            same = self.engine.gateway.qualify(statement.location) == old.location
            if not same:
                raise _other_table(statement, old, "another LOCATION", f"It is at {old.location}.")
            return None
        if Part.LAYOUT in parts:
            raise _other_table(
                statement, old, "another layout or source", "Both hold from its creation on."
            )
        change = table_change(self._names(definition), statement, old)  # its query has run
        if change is not None:
            self.overlay.altered_columns[old.id] = change.columns
        return change

    def _sees_others(self, definition: FileDefinition, old: Item) -> bool:
        """Would the same text give a view other columns now, because a table below has others?

        If it cannot be bound over these, the stored definition is kept.
        """
        statement = definition.statement
        if not isinstance(statement, st.CreateView | st.CreateMaterializedView):
            return False
        if not any(self._is_other_than_bound(r) for r in old.reads):
            return False
        if _stays_as_it_is(self.engine, old):
            return False
        binder = self._names(definition).binder()
        try:
            if isinstance(statement, st.CreateView):
                columns = binder.bind_view(statement).columns
            else:
                columns = binder.bind_materialized_view(statement, old).columns
        except REFUSALS:
            if any(r.object_id in self.overlay.altered_columns for r in old.reads):
                raise
            return False
        return not same_columns(old.columns, columns)

    def _is_other_than_bound(self, read: Reading) -> bool:
        item = self.overlay.catalog.items.get(read.object_id)
        if not isinstance(item, Table):
            return False
        if item.id in self.overlay.altered_columns:
            return True
        now = self.overlay.columns_now(item)
        is_retyped = any("TYPE" in text.upper().split() for text in item.alterations)
        # Another writer's changes are noted only with the next of ctsql's own.
        is_retyped = is_retyped or bool(lacking(now, item.columns))
        return is_retyped or {fold(c.name) for c in now} != {fold(c) for c in read.columns}

    def _other_view(
        self,
        definition: FileDefinition,
        statement: st.CreateView,
        old: Item,
        parts: tuple[Part, ...],
    ) -> tuple[Item, tuple[Part, ...]]:
        bound = self._names(definition).binder().bind_view(statement)
        changed_parts = [] if same_columns(old.columns, bound.columns) else [Part.COLUMNS]
        # Other columns below change no plain view.
        if any(isinstance(i, View) for i in self._changed_below(bound.reads)):
            changed_parts.append(Part.BELOW)
        if Part.QUERY in parts and (changed_parts or not self._same(old, bound.query)):
            changed_parts.insert(0, Part.QUERY)
        if not changed_parts:
            return old, ()
        if changed_parts == [Part.COLUMNS] and Part.QUERY not in parts:
            self.reshaped_ids.add(old.id)
        item = replace(
            old,
            definition=replace(
                old.definition,
                text=statement.span.text,
                search_schema=definition.schema,
                reads=bound.reads,
            ),
            columns=bound.columns,
        )
        creation = Creation(self._names(definition))
        check_no_cycle(self.overlay.catalog, old, item.reads, definition.span)
        creation.check_no_input(old, definition.span)
        self.touched_ids.add(old.id)
        return item, tuple(changed_parts)

    def _other_materialized(
        self,
        definition: FileDefinition,
        statement: st.CreateMaterializedView,
        old: MaterializedView,
        parts: tuple[Part, ...],
    ) -> tuple[MaterializedView, BoundDefinition | None, tuple[Part, ...]]:
        names = self._names(definition)
        check_not_finished(self.engine, old)
        Creation(names).check_same_storage(old, statement)
        check_not_suspended(self.engine.warehouse, old)
        item, bound = self._view(definition, statement, old)
        is_same = same_columns(old.columns, bound.columns)
        changed_parts: list[Part] = [Part.OPTIONS] if Part.OPTIONS in parts else []
        if not is_same:
            keeps = keeps_columns(old.columns, bound.columns)
            changed_parts.append(Part.MORE_COLUMNS if keeps else Part.COLUMNS)
            self.touched_ids.add(old.id)
        if Part.QUERY in parts and not self._same(old, bound.view.desired):
            changed_parts.insert(0, Part.QUERY)
        if Part.CONSTRAINTS in parts:
            changed_parts.append(Part.CONSTRAINTS)
        if self._changed_below(bound.reads):
            changed_parts.append(Part.BELOW)
        if not changed_parts:
            return old, None, ()
        if changed_parts == [Part.MORE_COLUMNS] and Part.QUERY not in parts:
            self.reshaped_ids.add(old.id)
        item = replace(
            item,
            definition=replace(
                item.definition,
                text=statement.span.text,
                search_schema=definition.schema,
                number=old.revision + 1,
            ),
        )
        check_no_cycle(self.overlay.catalog, old, item.reads, definition.span)
        return item, bound, tuple(changed_parts)

    def _other_task(
        self,
        definition: FileDefinition,
        statement: st.CreateContinualTask,
        old: Task,
        parts: tuple[Part, ...],
    ) -> tuple[Task, BoundDefinition | None, tuple[Part, ...]]:
        names = self._names(definition)
        before = definition_statement(self.engine, old)
        if Part.OPTIONS in parts:
            _check_options(before, statement)
        outputs = outputs_of(self.overlay.stored_catalog, old)
        columns = check_same_shape(names, old, before, statement)
        if columns != tuple(o.columns for o in outputs or [old]):
            what = "more columns for a task that is there, together with other changes"
            why = "Its table gets them before the definition is in force."
            hint = "Type its statement first: CREATE OR REPLACE CONTINUAL TASK ..."
            raise not_supported(definition.span, what, why=why, hint=hint)
        parts = tuple(p for p in parts if p is not Part.COLUMNS)  # they are the same
        if self._changed_below(self.engine.relations.current(old).reads):
            parts = (*parts, Part.BELOW)
        if not parts:
            return old, None, ()
        text = with_columns(old, statement)
        again = parse_as(st.CreateContinualTask, text, f"definition of {old.name}")
        bound = bind_task(names.binder(), replace(again, body=statement.body), old, outputs)
        TaskAlteration(names).check_cycle(old, bound, definition.span)
        item = replace(old, definition=replace(old.definition, text=text, reads=bound.reads))
        return item, bound, parts

    def _reads_touched(self, old: Item) -> bool:
        return any(
            r.object_id in self.touched_ids for r in self.engine.relations.current(old).reads
        )

    def _changed_below(self, reads: Iterable[Reading]) -> list[Item]:
        """What of it is another one; more columns of the same make no row another."""
        others = self.touched_ids - self.reshaped_ids
        return [self.overlay.catalog.items[r.object_id] for r in reads if r.object_id in others]

    def _same(self, old: Item, query: Query) -> bool:
        """Whether the stored query returns the same rows, by Spark's plans of both.

        It does not if it reads a column that its table has lost.
        """
        plan = self.engine.relations.bound(old).plan
        before = plan if isinstance(plan, Query) else self.engine.relations.bound(old).view.desired
        overlay = self.overlay

        def columns_of(object_id: str) -> Sequence[Column]:
            return overlay.columns_now(overlay.catalog.items[object_id])

        try:
            return same_rows(self.engine.session, before, query, columns_of)
        except StatementError:  # the new query has been analysed, so it is the old one's
            return False


def _stays_as_it_is(engine: Engine, view: Item) -> bool:
    """Whether a view is not bound again by the same words: it is finished, or a task's input."""
    if isinstance(view, View):
        return task_that_follows(engine, view) is not None
    return engine.schedules.is_closed(view)


def check_schema_there(overlay: Overlay, name: Name, definition: FileDefinition) -> None:
    """Raise UNKNOWN_SCHEMA unless the schema is there or would be."""
    if fold(name.schema) not in overlay.catalog.schemas:
        hint = f"Add to the folder: CREATE SCHEMA {quote(name.schema)}"
        raise error("UNKNOWN_SCHEMA", span=definition.span, name=name.schema, hint=hint)


def old_statement(item: Item, *, as_flow: bool) -> Defining | None:
    """The statement that made an object; of a flow its own. None for an attached table."""
    text = f"CREATE FLOW {item.name.qualified()} {item.flow}" if as_flow else item.definition.text
    if not text:
        return None
    statement = parse(Source(text, f"definition of {item.name}").whole())
    assert isinstance(statement, Defining)  # it is a definition
    return statement


def _own(definition: FileDefinition) -> dict[Name, str]:
    """What stands for the objects that a definition makes, in texts that are compared."""
    return {name: f"own {n}" for n, name in enumerate(definition.names)}


def with_comments(item: Item, definition: FileDefinition) -> Item:
    """An object with the comments that the folder gives; others stay."""
    comment, columns = None, dict[str, str | None]()
    if item.name == definition.name and not isinstance(definition.statement, st.CreateFlow):
        comment = definition.statement.comment
        columns = {fold(c.name): c.comment for c in definition.statement.columns if c.comment}
    for comment_statement in definition.comments:
        if qualify(comment_statement.target, definition.schema) != item.name:
            continue
        if comment_statement.column is None:
            comment = comment_statement.comment
        else:
            columns[fold(comment_statement.column)] = comment_statement.comment
            if all(fold(c.name) != fold(comment_statement.column) for c in item.columns):
                detail = f"Columns here: {', '.join(c.name for c in item.columns)}."
                raise error(
                    "UNKNOWN_COLUMN",
                    span=comment_statement.target.span,
                    column=comment_statement.column,
                    detail=detail,
                )
    return replace(
        item,
        comment=item.comment if comment is None else comment,
        columns=tuple(
            replace(c, comment=columns.get(fold(c.name), c.comment)) for c in item.columns
        ),
    )


def _other_table(statement: st.CreateTable, old: Item, what: str, why: str) -> CtsqlError:
    what = f"{what} for a table that is there"
    hint = "Leave it as it is, or make a table under another name. To drop this one: "
    return not_supported(statement.target.span, what, why=why, hint=f"{hint}DROP TABLE {old.name}")


def _check_options(old: st.CreateContinualTask, new: st.CreateContinualTask) -> None:
    before = {o.name: o.value for o in old.options}
    after = {o.name: o for o in new.options}
    for name in FIXED_OPTIONS:
        value = after[name].value if name in after else None
        if value != before.get(name):
            what = f"another {name} for a continual task that is there"
            why = "It holds from the creation on, and the task has begun."
            hint = "Leave it as it is, or make a task under another name."
            raise not_supported(
                after[name].span if name in after else new.target.span, what, why=why, hint=hint
            )
