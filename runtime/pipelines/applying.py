"""Applies a folder of SQL: all its definitions come into force at one T, or none.

    alter:    change columns and constraints of tables, one table after the other
    prepare:  create folders of new tables and outputs, which no object owns yet; advance changed
              outputs to now
    decide:   :mod:`ctsql.runtime.statements.definitions.cutover`
    write:    first contents of new outputs, and the rows of changed views that differ

CREATE OR REPLACE of a view, a task or a flow, and CREATE FLOW, apply a folder of one definition.
There another text is another definition, even if it gives the same rows.

[timeline-decides] the commit of the timeline decides: readers at an earlier T see the old
    definitions, readers at or after it the new ones.
[on-planned-definitions] if the definitions are not those that it was planned on, an apply raises.
[same-end-after-kill] after a kill, applying the folder again has the same result. Before the
    decision only unused folders and alterations exist; after it any reader advances the outputs.
[alterations-one-by-one] an alteration is one commit of its table. A later plan compares with the
    altered tables, so it has only the alterations that are missing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import all_readers
from ctsql.catalog.errors import error
from ctsql.catalog.items import Item, MaterializedView, Table, View
from ctsql.planner.binding.task import bind_stored
from ctsql.planner.folder import FileDefinition, Folder, define
from ctsql.planner.syntax import ast as st
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.pipelines.binding import BoundObject, FolderBinder
from ctsql.runtime.pipelines.plan import FolderPlan, check_still, warehouse_digest
from ctsql.runtime.pipelines.planning import PlannedFolder, plan_folder
from ctsql.runtime.pipelines.table_changes import alter_tables
from ctsql.runtime.statements.definitions.create import Creation, check_replaced, keeps_vectors
from ctsql.runtime.statements.definitions.cutover import (
    Redefinition,
    bring_into_force,
    complete,
    cut_over,
)
from ctsql.runtime.statements.definitions.output_tables import make_table
from ctsql.runtime.statements.objects.name_resolution import Namespace, check_free
from ctsql.runtime.views.change_plans import check_followed


def apply_folder(
    engine: Engine,
    folder: Folder,
    *,
    prune: bool = False,
    saved_plan: Mapping[str, Any] | None = None,
) -> FolderPlan:
    """Make the definitions of a warehouse those of a folder; returns what was done.

    Args:
        prune: drop the objects that are not in the folder.
        saved_plan: the plan that it must equal (:func:`ctsql.runtime.pipelines.plan.read_plan`).

    Raises:
        Before the definitions change (but tables may be altered if another process interferes):
            PLAN_REFUSED: an object cannot become what the folder says. PLAN_UNUSABLE: it is not the
            saved plan. DEFINITIONS_CHANGED: another process was first. CONSTRAINT_VIOLATED,
            DATA_ERROR: rows of a table break its new constraint. DEPENDENT_OBJECTS: a dropped
            object has a new subscription.
        With the definitions in force: VIEW_FAILED, TASK_FAILED: an object cannot be computed on
            the data.
    """
    engine.mint()
    planned_folder = plan_folder(engine, folder, prune=prune)
    plan = planned_folder.plan
    if plan.refused_changes:
        detail = (
            f"{c.keyword.lower()} {c.name}: {c.refusal.message}"
            for c in plan.refused_changes
            if c.refusal is not None
        )
        raise error("PLAN_REFUSED", count=len(plan.refused_changes), detail=". ".join(detail) + ".")
    if saved_plan is not None:
        check_still(saved_plan, plan)
    planned_folder = _alter_tables(engine, folder, planned_folder, prune=prune)
    changed_ids = bring_into_force(engine, *redefinitions(planned_folder))
    items = (i for o in planned_folder.objects for i in o.items)
    complete(engine, changed_ids, {i.id for i in (*items, *planned_folder.followers)})
    return plan


def _alter_tables(
    engine: Engine, folder: Folder, planned_folder: PlannedFolder, *, prune: bool
) -> PlannedFolder:
    """Alter tables before the definitions change; returns the remaining alterations.

    Raises DEFINITIONS_CHANGED if they are not the planned ones.
    """
    changes = [o.table_change for o in planned_folder.objects if o.table_change is not None]
    if not changes:
        return planned_folder
    expected = alter_tables(engine, changes, planned_folder.plan.warehouse)
    faults.point("tables_altered")
    again = plan_folder(engine, folder, prune=prune)
    is_left = any(o.table_change is not None for o in again.objects)
    if is_left or again.plan.refused_changes or again.plan.warehouse != expected:
        raise error("DEFINITIONS_CHANGED")
    return again


def redefinitions(planned_folder: PlannedFolder) -> Iterator[Redefinition]:
    """The new, changed and dropped objects; valid on the planned definitions only."""
    digest, stored = planned_folder.plan.warehouse, planned_folder.stored_catalog

    def check(current: Catalog) -> None:
        if warehouse_digest(current) != digest:
            raise error("DEFINITIONS_CHANGED")

    yield Redefinition(
        bound_on=stored,
        drop=planned_folder.items_to_drop,
        schemas=planned_folder.schemas,
        check=check,
    )
    for bound in planned_folder.objects:
        if bound.old is None or bound.parts:
            yield redefinition_of(bound, stored)


def redefinition_of(bound: BoundObject, stored: Catalog) -> Redefinition:
    """The objects of one definition, changed or new; ``stored``: what it was bound on."""
    return Redefinition(
        bound_on=stored,
        changes=tuple((stored.items[i.id], i) for i in bound.items if i.id in stored.items),
        new=tuple(i for i in bound.items if i.id not in stored.items),
        make_table=_maker(bound),
        span=bound.definition.span,
    )


def _maker(bound: BoundObject) -> Callable[[Engine, Item], Item]:
    """A function that creates the table of a new object in its folder."""
    statement = bound.definition.statement
    if not isinstance(statement, st.CreateTable):
        vectors = isinstance(statement, st.CreateFlow | st.CreateView) or keeps_vectors(statement)
        return partial(make_table, has_vectors=vectors)

    def make(engine: Engine, item: Item) -> Item:
        assert isinstance(item, Table)  # so it was bound
        creation = Creation(Namespace(engine, bound.definition.schema))
        return item if statement.location else creation.make_table(item, statement)

    return make


def create_or_replace(
    names: Namespace,
    statement: st.CreateView | st.CreateMaterializedView | st.CreateContinualTask | st.CreateFlow,
) -> str:
    """Run CREATE [OR REPLACE] of a view, a task or a flow; returns the status line.

    Raises:
        OBJECT_EXISTS, WRONG_OBJECT_KIND: the object may not be replaced. NOT_SUPPORTED: it cannot
            get this definition. COLUMNS_IN_USE: an object reads a column that would be dropped.
        RECURSIVE_DEFINITION: the new query reads a view that reads this one. And the errors of
            binding and of :func:`ctsql.runtime.statements.definitions.cutover.cut_over`.
    """
    definition = define(statement, names.search_schema)
    binder = FolderBinder(names.engine, by_meaning=False)
    old = binder.stored_catalog.find(definition.name)
    if old is not None:
        return _change(names, binder, definition, old)
    if not isinstance(statement, st.CreateFlow):
        return Creation(names).create(statement)
    creation, bound = Creation(names), binder.bind(definition)
    task, *others = bound.items
    # The catalog gets both objects at once.
    with creation.built(task, bound.plans[0], others, has_vectors=True) as items:
        names.bound_by = binder.stored_catalog
        creation.register(*items)
    return "CREATE FLOW"


def _change(names: Namespace, binder: FolderBinder, definition: FileDefinition, old: Item) -> str:
    """Run CREATE for a stored object; returns the status line."""
    statement, done = definition.statement, f"CREATE {definition.keyword}"
    stored = binder.stored_catalog
    if not statement.or_replace:
        is_flow = isinstance(statement, st.CreateFlow)
        is_such = old.kind is definition.kind and (bool(old.flow) or not is_flow)
        if not (statement.if_not_exists and is_such):
            check_free(stored, definition.name, definition.span, quiet=statement.if_not_exists)
        other = ", otherwise defined" if binder.parts(definition, old) else ""
        return f"{done} (exists already{other})"
    bound = binder.bind(definition)
    if not bound.parts:
        return f"{done} (unchanged)"
    engine, then = names.engine, stored.with_items(bound.items)
    change = redefinition_of(bound, stored)
    for before, _ in change.changes:
        if isinstance(before, View):
            for reader in all_readers(stored, before.id):
                if isinstance(reader, MaterializedView):
                    check_followed(engine.warehouse, bind_stored(reader, then).view)
    lost = bound.lost_quarantine
    drop = () if lost is None else (stored.items[lost],)
    check = partial(check_replaced, engine, change.changes, definition.span)
    cut_over(engine, replace(change, drop=drop, check=check))
    return f"{done} (replaced)"
