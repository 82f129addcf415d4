"""Binds the definitions of a folder against a warehouse, one on top of the other.

Each is bound like its statement and compared with the stored definition. A definition with the same
text is not bound again, unless an object that it reads has other columns. Another text may have the
same meaning: then Spark's plans of both queries are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.dependencies import (
    check_no_cycle,
    flow_targets,
    outputs_or_itself,
    parts_of,
    with_plain_views,
)
from ctsql.catalog.errors import CatalogError, NotSupported, StatementError, not_supported
from ctsql.catalog.items import Item, MaterializedView, Reading, Table, Task, View, made_by_flow
from ctsql.catalog.names import Name, fold
from ctsql.catalog.schemas import Schema, commented, lacking, same_columns
from ctsql.catalog.spans import Source, Span
from ctsql.planner.binding.binder import BoundDefinition, qualify
from ctsql.planner.binding.checks import check_listed, check_table_columns
from ctsql.planner.definition_parts import Part, Words
from ctsql.planner.folder import Defining, FileDefinition, define
from ctsql.planner.nodes import Query
from ctsql.planner.syntax import ast as st, parse, parse_as, splice
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.table_metadata import is_on
from ctsql.runtime.pipelines.overlay import Overlay, PlannedNames
from ctsql.runtime.pipelines.table_changes import TableChange, declared_columns, table_change
from ctsql.runtime.statements.definitions.alter import with_comment
from ctsql.runtime.statements.definitions.alter_task import check_same_shape, replacing
from ctsql.runtime.statements.definitions.create import (
    Creation,
    complete_outputs,
    task_that_follows,
)
from ctsql.runtime.statements.definitions.first_rows import with_first_rows
from ctsql.runtime.statements.definitions.flows import compile_texts
from ctsql.runtime.statements.definitions.task_change import column_list, definition_statement
from ctsql.runtime.statements.objects.name_resolution import check_free, check_schema, drop_text
from ctsql.runtime.statements.tables.altered_columns import WIDENING
from ctsql.runtime.tasks.progress import check_not_suspended
from ctsql.runtime.views.change_plans import same_rows

REFUSALS = (StatementError, CatalogError, NotSupported)
"""Errors of an object that cannot become what the folder says. Any other error ends the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundObject:
    """A bound definition of a folder."""

    definition: FileDefinition
    old: Item | None  # the stored object
    parts: tuple[Part, ...] = ()  # the parts that differ; none for a new object
    # the object as it would be, its outputs and quarantine behind it; of a flow, its task and view.
    items: tuple[Item, ...]
    redefined: tuple[Item, ...] = ()  # those that are stored and get another definition
    plans: tuple[BoundDefinition, ...] = ()  # of new or redefined tasks and views
    table_change: TableChange | None = None  # the ALTER TABLEs of a stored table

    @property
    def lost_quarantine(self) -> str | None:
        """The id of the quarantine that the stored object loses; None for none."""
        old = self.old
        return None if old is None or self.items[0].quarantine else old.quarantine


@dataclass(frozen=True, slots=True)
class _Bound:
    """Objects by a definition, and the parts of it that differ."""

    items: Sequence[Item]
    parts: Sequence[Part] = ()
    plans: tuple[BoundDefinition, ...] = ()


class FolderBinder:
    """Binds the definitions, in order of what they read.

    Args:
        by_meaning: whether a query counts as unchanged if its text differs and Spark's plan does
            not.
    """

    def __init__(self, engine: Engine, *, by_meaning: bool = True) -> None:
        catalog = engine.refresh_catalog()
        engine.timeline.refresh()  # for the definitions of tasks that are in force
        self.engine, self.by_meaning = engine, by_meaning
        self.stored_catalog = catalog
        self.overlay = Overlay(engine, catalog, catalog)
        self.reshaped_ids: set[str] = set()  # plain views with unchanged text over altered tables

    def bind(self, definition: FileDefinition) -> BoundObject:
        """Bind one definition on top of the earlier ones, and add it to them.

        Raises:
            StatementError, CatalogError, NotSupported: it cannot become what the folder says.
        """
        stored, change = self.stored_catalog, None
        old = stored.find(definition.name)
        if old is None:
            for name in definition.names:
                check_schema(self.overlay.catalog, name.schema, definition.span)
                check_free(self.overlay.catalog, name, definition.span, quiet=False)
            bound = self._bind(definition, None, ())
        else:
            self._check_kind(definition, old.check(definition.span))
            parts = self.parts(definition, old)
            bound = _Bound([old, *flow_targets(stored, old)])
            if isinstance(old, Table) and isinstance(definition.statement, st.CreateTable):
                change = self._altered_table(definition, definition.statement, old, parts)
                if change is not None:
                    bound = _Bound([replace(old, columns=change.columns)], change.parts)
            elif parts or self._is_over_others(old):
                try:
                    bound = self._bind(definition, old, parts)
                except StatementError as problem:
                    if not parts:
                        hint = "What it reads has other columns now: change its text in the "
                        problem.hint = problem.hint or f"{hint}folder, or restore the columns."
                    raise
        warehouse = PlannedNames(self.overlay, definition.schema).warehouse()
        for read_id in (read.object_id for plan in bound.plans for read in plan.reads):
            if read_id in self.overlay.catalog.items:  # else it is its own
                check_not_suspended(warehouse, self.overlay.catalog.items[read_id])
        items, has_other_comments = list[Item](), False
        catalog = self.overlay.catalog.with_items(bound.items)
        parts_of_it = parts_of(catalog, bound.items[0])  # some of them unchanged
        for item in {i.id: i for i in (*bound.items, *parts_of_it)}.values():
            there = stored.items.get(item.id)
            if there is not None:  # comments are not a part of a definition
                columns = commented(there.columns, item.columns)
                item = replace(item, columns=columns, comment=there.comment)
            items.append(with_comments(item, definition))
            has_other_comments |= there is not None and items[-1] != item
        self.overlay.add(items)
        return BoundObject(
            definition=definition,
            old=old,
            parts=(*bound.parts, *([Part.COMMENT] if has_other_comments else [])),
            items=tuple(items),
            redefined=tuple(
                i
                for i in items
                if i.id in stored.items and i.revision != stored.items[i.id].revision
            ),
            plans=bound.plans,
            table_change=change,
        )

    def _check_kind(self, definition: FileDefinition, old: Item) -> None:
        is_flow = isinstance(definition.statement, st.CreateFlow)
        if old.kind is not definition.kind or (is_flow and not old.flow):
            hint = f"Drop it first: {drop_text(self.stored_catalog, old)}"
            raise old.wrong_kind(definition.keyword.lower(), hint, definition.span)

    # ---- by kind

    def _bind(
        self, definition: FileDefinition, old: Item | None, parts: tuple[Part, ...]
    ) -> _Bound:
        """The objects of a definition that replaces a stored one whose ``parts`` differ."""
        names, flow = PlannedNames(self.overlay, definition.schema), "" if old is None else old.flow
        if parts and flow and not isinstance(definition.statement, st.CreateFlow):
            what = f"another {definition.kind.value} in the place of a flow's"
            why = f'"{definition.name}" is a part of a flow.'
            hint = "Change the flow instead: CREATE OR REPLACE FLOW ..."
            raise not_supported(definition.span, what, why=why, hint=hint)
        match definition.statement:
            case st.CreateTable() as statement:
                return _Bound([self._table(names, definition.name, statement)])
            case st.CreateView() as statement:
                assert old is None or isinstance(old, View)  # its kind was checked
                item, plan = Creation(names).view(statement, definition.name, old)
                if old is None:
                    return _Bound([item])
                if not parts and not self._has_lost_columns(item):
                    self.reshaped_ids.add(old.id)
                parts = self._parts_of_view(old, item, plan.query, parts, definition.span)
                reader = task_that_follows(self.engine, old) if parts else None
                if reader is not None:
                    what = "replacing a view that is the input of a continual task"
                    why = f'"{reader.name}" holds rows that it computed from the changes of this '
                    hint = "Create a view under another name, and a task on it."
                    raise not_supported(definition.span, what, why=f"{why}query.", hint=hint)
                return _Bound([item if parts else old], parts)
            case st.CreateMaterializedView() as statement:
                assert old is None or isinstance(old, MaterializedView)  # its kind was checked
                return self._materialized_view(definition, statement, old, parts, flow)
            case st.CreateContinualTask() as statement:
                assert old is None or isinstance(old, Task)  # its kind was checked
                return self._task(definition, statement, old, parts, flow)
            case st.CreateFlow() as statement:
                assert old is None or isinstance(old, Task)  # its kind was checked
                return self._flow(definition, statement, old, parts)

    def _table(self, names: PlannedNames, name: Name, statement: st.CreateTable) -> Table:
        item = names.new(Table, name, statement.span, statement.comment)
        if statement.location is not None:
            return Creation(names).attach(item, statement)
        check_listed(statement.columns)
        columns = declared_columns(statement.columns)
        if statement.query is not None:
            binder = names.binder()
            columns = binder.query(statement.query).columns or ()
            for read in binder.reads.values():
                if read.object_id not in self.stored_catalog.items:
                    what = "a table that is filled from a new object"
                    why = f'"{read.name}" holds no rows before the folder is applied.'
                    hint = "Apply the folder without this table first."
                    raise not_supported(statement.query.span, what, why=why, hint=hint)
        check_table_columns(columns, statement.span)
        return replace(item, columns=columns)

    def _materialized_view(
        self,
        definition: FileDefinition,
        statement: st.CreateMaterializedView,
        old: MaterializedView | None,
        parts: tuple[Part, ...],
        flow: str,
    ) -> _Bound:
        creation = Creation(PlannedNames(self.overlay, definition.schema), flow)
        item, away, plan = creation.materialized_view(statement, definition.name, old)
        if old is not None:
            parts = self._parts_of_view(old, item, plan.view.desired, parts, definition.span)
            if not parts:
                return _Bound([old])
            creation.check_goes_on(old, statement)
        return _Bound([item, *([away] if away else [])], parts, (plan,))

    def _parts_of_view(
        self,
        old: Item,
        item: Item,
        query: Query,
        parts: tuple[Part, ...],
        span: Span,
    ) -> tuple[Part, ...]:
        """The parts of a view that differ, comparing its columns and the meaning of its query."""
        check_no_cycle(self.overlay.catalog, old, item.reads, span)
        is_same = Part.QUERY not in parts or (self.by_meaning and self._same(old, query))
        found = [] if is_same else [Part.QUERY]
        if not same_columns(old.columns, item.columns):
            found.append(Part.COLUMNS)
        found += [p for p in (Part.OPTIONS, Part.CONSTRAINTS) if p in parts]
        # A plain view with the same columns is unchanged, whatever it reads.
        if isinstance(old, MaterializedView) and self._has_lost_columns(item):
            found.append(Part.BELOW)
        return tuple(found)

    def _task(
        self,
        definition: FileDefinition,
        statement: st.CreateContinualTask,
        old: Task | None,
        parts: tuple[Part, ...],
        flow: str,
    ) -> _Bound:
        names = PlannedNames(self.overlay, definition.schema)
        if old is None:
            item, made, plan, first = Creation(names, flow).new_task(definition.name, statement)
            item = item.bound(item.columns, plan.reads)
            if first is not None:
                item = with_first_rows(item, first)
            return _Bound([item, *complete_outputs(made, item, plan)], plans=(plan,))
        columns = check_same_shape(names, old, definition_statement(self.engine, old), statement)
        parts = tuple(p for p in parts if p is not Part.COLUMNS)  # existing ones are kept
        if columns != tuple(o.columns for o in outputs_or_itself(self.stored_catalog, old)):
            parts = (*parts, Part.COLUMNS)
        if self._has_lost_columns(self.engine.relations.current(old)):
            parts = (*parts, Part.BELOW)
        return _Bound(replacing(names, old, statement, columns).items if parts else [old], parts)

    def _flow(
        self,
        definition: FileDefinition,
        statement: st.CreateFlow,
        old: Task | None,
        parts: tuple[Part, ...],
    ) -> _Bound:
        """The task and the view of a flow."""
        names, span = PlannedNames(self.overlay, definition.schema), statement.span
        flow = span.source.text[statement.name.span.stop : span.stop].strip()
        target = qualify(statement.target, definition.schema)
        views = [] if old is None else flow_targets(self.stored_catalog, old)
        if old is not None and [v.name for v in views] != [target]:
            now = views[0].name if views else target
            what = "another target for an existing flow"
            why = f'It writes "{now}".'
            hint = f"Type: ALTER MATERIALIZED VIEW {now} RENAME TO ..., or make a flow under "
            hint += "another name."
            raise not_supported(statement.target.span, what, why=why, hint=hint)
        texts = compile_texts(names, statement)
        task = parse_as(st.CreateContinualTask, texts.task, "the task of the flow")
        view = parse_as(st.CreateMaterializedView, texts.view, "the target of the flow")
        one = self._task(define(task, definition.schema), task, old, (Part.BODY,), flow)
        self.overlay.add(one.items)
        other = self._materialized_view(
            define(view, definition.schema), view, views[0] if views else None, (Part.QUERY,), flow
        )
        items = [made_by_flow(item, flow) for item in (*one.items, *other.items)]
        changed_parts = () if old is None else parts or (Part.BELOW,)
        return _Bound(items, changed_parts, (*one.plans, *other.plans))

    # ---- comparison with what is stored

    def parts(self, definition: FileDefinition, old: Item) -> tuple[Part, ...]:
        """The parts of a stored definition whose text differs."""
        current = self.engine.relations.current(old)
        catalog = self.stored_catalog
        text = current.definition.text
        if isinstance(definition.statement, st.CreateFlow):
            text = f"CREATE FLOW {current.name.qualified()} {current.flow}"
        if not text:
            return ()  # an attached table
        before = parse(Source(text, f"definition of {current.name}").whole())
        assert isinstance(before, Defining)  # it is a definition
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

        statement = _with_columns(current, definition.statement)
        one = Words(current.search_schema, object_of).parts(_with_columns(current, before))
        other = Words(definition.schema, means).parts(statement)
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
        why = ""
        if statement.location is not None:
            if self.engine.gateway.qualify(statement.location) == old.location:
                return None
            why = f"It is at {old.location}."
        elif Part.LAYOUT in parts:
            why = "They are set when it is created."
        if why:
            what = "another LOCATION, layout or source for an existing table"
            hint = "Keep it, or create a table under another name. To drop this one: "
            hint += f"DROP TABLE {old.name}"
            raise not_supported(statement.target.span, what, why=why, hint=hint)
        names = PlannedNames(self.overlay, definition.schema)
        change = table_change(names, statement, old)  # its query has run
        if change is not None:
            self.overlay.altered_columns[old.id] = change.columns
        return change

    def _is_over_others(self, old: Item) -> bool:
        """Whether an unchanged text must be bound again: an object that it reads has other columns.

        Not a view after its last refresh, and no plain view that is a task's input.
        """
        current = self.engine.relations.current(old)
        if self._has_lost_columns(current):
            return True
        if isinstance(old, Task) or not any(map(self._is_other, current.reads)):
            return False
        if isinstance(old, View):
            return task_that_follows(self.engine, old) is None
        return not self.engine.schedules.is_closed(old)

    def _has_lost_columns(self, item: Item) -> bool:
        """Whether a view that is read, also through plain views, lost or retyped a column."""
        stored, now = self.stored_catalog.items, self.overlay.catalog.items
        queries = with_plain_views(self.overlay.catalog, item)
        return any(
            isinstance(now[i], View | MaterializedView)
            and lacking(stored[i].columns, now[i].columns)
            for i in (r.object_id for query in queries for r in query.reads)
            if i in stored and i not in self.reshaped_ids
        )

    def _is_other(self, read: Reading) -> bool:
        """Whether an object's loaded columns differ from those that a definition was bound to."""
        item = self.overlay.catalog.items[read.object_id]
        before, now = self.stored_catalog.items[item.id], self.overlay.columns_now(item)
        if not same_columns(before.columns, now):
            return True
        if isinstance(item, Table):
            metadata = self.engine.relations.table(item).metadata
            if metadata.maps_columns or is_on(metadata.configuration, WIDENING):
                return True  # ALTER TABLE may have renamed or retyped columns since
        return {fold(c.name) for c in now} != {fold(c) for c in read.columns}

    def _same(self, old: Item, query: Query) -> bool:
        """Whether Spark's plans say that the stored query returns the same rows.

        False if it reads a column that its table has lost.
        """
        bound = self.engine.relations.bound(old)
        before = bound.query if isinstance(old, View) else bound.view.desired
        overlay = self.overlay

        def columns_of(object_id: str) -> Schema:
            return overlay.columns_now(overlay.catalog.items[object_id])

        try:
            return same_rows(self.engine.session, before, query, columns_of)
        except StatementError:  # the new query has been analysed, so the old one fails
            return False


def _with_columns(item: Item, statement: Defining) -> Defining:
    """A definition; that of a task with its inferred columns written out."""
    edits = column_list(item, statement) if isinstance(statement, st.CreateContinualTask) else ()
    if not edits:
        return statement
    text = splice(statement.span, edits).text
    return parse_as(st.CreateContinualTask, text, f"definition of {item.name}")


def _own(definition: FileDefinition) -> dict[Name, str]:
    """Placeholders for the objects that a definition creates, in compared texts."""
    return {name: f"own {n}" for n, name in enumerate(definition.names)}


def with_comments(item: Item, definition: FileDefinition) -> Item:
    """An object with the comments of the folder; its other comments are kept."""
    statement = definition.statement
    if item.name == definition.name and not isinstance(statement, st.CreateFlow):
        comments = {fold(c.name): c.comment for c in statement.columns if c.comment}
        item = replace(
            item,
            comment=item.comment if statement.comment is None else statement.comment,
            columns=tuple(
                replace(c, comment=comments.get(fold(c.name), c.comment)) for c in item.columns
            ),
        )
    for comment in definition.comments:
        if qualify(comment.target, definition.schema) == item.name:
            if comment.kind not in (None, item.kind):
                hint = f"Write {item.kind.keyword} instead of {comment.kind.keyword}."
                raise item.wrong_kind(comment.kind.value, hint, comment.target.span)
            item = with_comment(item, comment)
    return item
