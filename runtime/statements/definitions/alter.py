"""Changes and drops objects.

DROP keeps the dropped objects (:mod:`ctsql.runtime.statements.definitions.dropped`); with PURGE it
commits the catalog, then deletes the folders. ALTER MATERIALIZED VIEW ... SET, RESET, ADD and DROP
CONSTRAINT is CREATE OR REPLACE with the stored query and other options or constraints.
"""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.dependencies import flow_targets, going_with
from ctsql.catalog.errors import error, not_supported
from ctsql.catalog.items import (
    RECORDS,
    Item,
    MaterializedView,
    ObjectKind,
    Table,
    Task,
    TaskOutput,
    in_use,
)
from ctsql.catalog.names import DEFAULT_SCHEMA, Name, check_new_name, fold, quarantine_name
from ctsql.catalog.schemas import commented, get
from ctsql.planner.binding.binder import qualify
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.runtime.statements.definitions.alter_task import changed_constraints
from ctsql.runtime.statements.definitions.create import Creation
from ctsql.runtime.statements.definitions.cutover import cut_over
from ctsql.runtime.statements.definitions.dropped import (
    delete_folders,
    dropped,
    readers_of_dropped,
)
from ctsql.runtime.statements.definitions.view_change import view_text
from ctsql.runtime.statements.inspect.show import view_definition
from ctsql.runtime.statements.objects.failed_task import retry_failed, skip_failed
from ctsql.runtime.statements.objects.name_resolution import (
    Namespace,
    OnNames,
    check_free,
    check_no_quarantine,
    check_schema,
)
from ctsql.runtime.statements.objects.refresh_view import refresh_view


class Alteration(OnNames):
    """DROP, RENAME, COMMENT and REFRESH; each method returns the status line."""

    def drop(self, statement: st.DropObject) -> str:
        """DROP <kind>; with CASCADE everything that reads it too."""
        keyword = statement.keyword
        if statement.kind is ObjectKind.SCHEMA:
            return self._drop_schema(statement)
        catalog = self.engine.refresh_catalog()
        item = catalog.find(qualify(statement.target, self.names.search_schema))
        if statement.if_exists and item is None:
            return f"DROP {keyword} (did not exist)"
        if item is not None:
            check_no_quarantine(catalog, item, statement.target.span)
        if item is None or not item.problem:
            item = self.names.of_kind(statement.target, RECORDS[statement.kind])
        if isinstance(item, TaskOutput):
            task = self.engine.catalog.items[item.owner]
            what = "dropping one output of a task"
            why = (
                f'"{item.name}" is written by continual task "{task.name}", at the same T as '
                "its other outputs."
            )
            hint = f"Drop all of it: DROP CONTINUAL TASK {task.name}"
            raise not_supported(statement.target.span, what, why=why, hint=hint)
        if statement.flow and not item.flow:
            hint = f"Type: DROP CONTINUAL TASK {item.name}"
            raise item.wrong_kind("flow", hint, statement.target.span)
        going: list[Item] = []
        targets: list[Item] = []

        def remove(current: Catalog) -> Catalog:
            going.clear()
            if statement.if_exists and item.id not in current.items:
                return current  # another process has dropped it meanwhile
            still_there(current, item)
            targets[:] = [item, *(flow_targets(current, item) if statement.flow else [])]
            readers = readers_of_dropped(current, targets)
            if readers and not statement.cascade:
                detail, place = f"It is read by {', '.join(readers)}.", statement.target.span
                raise in_use(item, detail, place, kind=keyword.lower(), keyword=keyword)
            going[:] = going_with(current, [item.id])
            return _without(current, going, statement)

        self.engine.change_catalog(remove)
        if not going:
            return f"DROP {keyword} (did not exist)"
        self._let_go(going, statement)
        others = [f"{i.kind.value} {i.name}" for i in going if i not in targets]
        return f"DROP {keyword} (with {', '.join(others)})" if others else f"DROP {keyword}"

    def _drop_schema(self, statement: st.DropObject) -> str:
        schema = statement.target.parts[-1]
        if fold(schema) == DEFAULT_SCHEMA:
            what = 'dropping the schema "default"'
            why = "Unqualified names are looked up there."
            raise not_supported(statement.target.span, what, why=why)
        going: list[Item] = []
        is_there = False

        def remove(current: Catalog) -> Catalog:
            nonlocal is_there
            going.clear()
            is_there = fold(schema) in current.schemas
            if not is_there and statement.if_exists:
                return current
            if not is_there:
                raise error("UNKNOWN_SCHEMA", span=statement.target.span, name=schema)
            inside = [i for i in current if fold(i.name.schema) == fold(schema)]
            if inside and not statement.cascade:
                objects = ", ".join(f"{i.kind.value} {i.name}" for i in inside)
                raise error(
                    "DEPENDENT_OBJECTS",
                    span=statement.target.span,
                    kind="schema",
                    name=schema,
                    keyword="SCHEMA",
                    dependants=f"It holds {objects}.",
                )
            going[:] = going_with(current, (i.id for i in inside))
            return _without(current, going, statement, current.schemas[fold(schema)])

        self.engine.change_catalog(remove)
        self._let_go(going, statement)
        return "DROP SCHEMA" if is_there else "DROP SCHEMA (did not exist)"

    def _let_go(self, items: Sequence[Item], statement: st.DropObject) -> None:
        """Delete the folders of objects that cannot be restored, and the caches of dropped ones."""
        delete_folders(self.engine, [i for i in items if statement.purge or i.problem])
        for item in items:
            if item.location is not None:
                self.engine.gateway.forget(item.location)

    def rename(self, statement: st.RenameObject) -> str:
        """ALTER <kind> name RENAME TO new."""
        item = self.names.of_kind(statement.target, RECORDS[statement.kind])
        new = statement.new
        name = Name(new.parts[0] if len(new.parts) == 2 else item.name.schema, new.parts[-1])

        def rename(current: Catalog) -> Catalog:
            now = still_there(current, item)
            if now.name != name:  # else only the case of its name changes
                check_free(current, name, new.span, quiet=False)
            catalog = current.with_items([replace(now, name=name)])
            return _with_quarantine_renamed(catalog, now)

        check_new_name(name.name, new.span)
        check_schema(self.engine.catalog, name.schema, new.span)
        self.engine.change_catalog(rename)
        return f"ALTER {statement.kind.keyword}"

    def resume(self, statement: st.ControlTask) -> str:
        """ALTER CONTINUAL TASK name RETRY or SKIP."""
        item = self.names.of_kind(statement.target, Task)
        if statement.verb == "SKIP":
            return f"ALTER CONTINUAL TASK (skipped T = {skip_failed(self.engine, item)})"
        retry_failed(self.engine, item)
        return "ALTER CONTINUAL TASK"

    def comment(self, statement: st.CommentOn) -> str:
        """COMMENT ON <kind> name or COLUMN name.column IS text or NULL."""
        if statement.kind is None:
            item = self.engine.refresh_catalog().get(
                qualify(statement.target, self.names.search_schema), span=statement.target.span
            )
        else:
            item = self.names.of_kind(statement.target, RECORDS[statement.kind])

        def comment_on(current: Catalog) -> Catalog:
            now = still_there(current, item)
            if isinstance(now, Table) and statement.column is not None:
                # Not earlier, because ALTER TABLE may run first.
                there = self.engine.relations.columns_now(now)
                now = replace(now, columns=commented(now.columns, there))
            return current.with_items([with_comment(now, statement)])

        self.engine.change_catalog(comment_on)
        return "COMMENT"

    def refresh(self, statement: st.RefreshView) -> str:
        """REFRESH MATERIALIZED VIEW name [FULL]."""
        only = "Only a materialized view is refreshed; a task runs when its input changes."
        item = self.names.of_kind(statement.target, MaterializedView, only=only)
        refresh_view(self.engine, item, full=statement.full)
        return "REFRESH MATERIALIZED VIEW"


def with_comment(item: Item, statement: st.CommentOn) -> Item:
    """An object with another comment on itself or on a column; raises UNKNOWN_COLUMN."""
    if statement.column is None:
        return replace(item, comment=statement.comment)
    place = statement.target.span
    column = get(item.columns, statement.column, span=place)
    later = replace(column, comment=statement.comment)
    return replace(item, columns=tuple(later if c is column else c for c in item.columns))


def _with_quarantine_renamed(catalog: Catalog, before: Item) -> Catalog:
    """The catalog with an object renamed, and its quarantine with it."""
    quarantine = catalog.items.get(before.quarantine or "")
    name = quarantine_name(catalog.items[before.id].name)
    if quarantine is None or quarantine.name != quarantine_name(before.name) or catalog.find(name):
        return catalog
    return catalog.with_items([replace(quarantine, name=name)])


def _without(
    current: Catalog, items: Sequence[Item], statement: st.DropObject, schema: str = ""
) -> Catalog:
    """The catalog without dropped objects; unless PURGE is given, its drops have them."""
    drop = dropped(current, items, schema)
    catalog = current.with_dropped(drop).without(i.id for i in items)
    is_kept = (drop.items or schema) and not statement.purge
    return catalog if is_kept else catalog.purged([drop.id])


_VIEW_ALTERED = "ALTER MATERIALIZED VIEW"


def set_view_options(names: Namespace, statement: st.SetOptions) -> str:
    """Change options; raises as CREATE OR REPLACE MATERIALIZED VIEW does."""
    item, old = _view_and_definition(names, statement.target)
    option_names = {o.name for o in statement.options} | set(statement.reset)
    options = [o for o in old.options if o.name not in option_names] + [*statement.options]
    before, after = (
        sorted((o.name, repr(o.value)) for o in some) for some in (old.options, options)
    )
    if before != after:
        _redefine_view(names, item, view_text(old, options))
    return _VIEW_ALTERED


def change_view_constraints(names: Namespace, statement: st.ChangeConstraints) -> str:
    """ADD a constraint or DROP CONSTRAINT; the view's rows are compared with the new contents.

    Raises UNKNOWN_CONSTRAINT, INVALID_STATEMENT and the errors of CREATE OR REPLACE.
    """
    item, old = _view_and_definition(names, statement.target)
    constraints = changed_constraints(item, old.constraints, statement)
    if constraints is not None:
        _redefine_view(names, item, view_text(replace(old, constraints=constraints), old.options))
    return _VIEW_ALTERED


def _view_and_definition(
    names: Namespace, target: st.RelationRef
) -> tuple[MaterializedView, st.CreateMaterializedView]:
    item = names.of_kind(target, MaterializedView)
    return item, view_definition(names.engine, item)


def _redefine_view(names: Namespace, item: MaterializedView, text: str) -> None:
    there = Namespace(names.engine, item.search_schema)
    definition = parse_as(st.CreateMaterializedView, text, f"definition of {item.name}")
    creation = Creation(there, item.flow)
    creation.check_goes_on(item, definition)
    cut_over(names.engine, creation.redefined(item, definition))
