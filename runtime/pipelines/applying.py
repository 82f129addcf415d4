"""Applies a folder of SQL: all its definitions come into force at one T, or none.

    alter:    tables that have other columns or constraints, one after the other
    prepare:  folders of new tables and outputs, which no object owns yet; changed outputs are
              advanced to now
    decide:   :mod:`ctsql.runtime.statements.definitions.cutover`
    write:    first contents of new outputs, the rows that differ of changed views

[timeline-decides] the commit of the timeline decides: readers at an earlier T see the old
    definitions, readers at or after it the new ones.
[on-planned-definitions] an apply takes place on the very definitions that it was planned on, or
    raises.
[same-end-after-kill] after a kill, applying the folder again has the same result. Before the
    decision only unused folders and alterations exist; after it any reader advances the outputs.
[alterations-one-by-one] an alteration is one commit of its table. Alterations that are left follow
    from the tables: the plan made after them equals the plan without them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.cutovers import Cutover, together
from ctsql.catalog.dependencies import closure, subscribers
from ctsql.catalog.errors import CtsqlError, DataError, error
from ctsql.catalog.items import (
    Item,
    Maintained,
    MaterializedView,
    Table,
    Task,
    View,
    in_use,
    made_by_flow,
)
from ctsql.catalog.names import fold
from ctsql.planner.folder import Folder
from ctsql.planner.syntax import ast as st
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.write_handle import NO_UPPER
from ctsql.runtime.pipelines.binding import BoundObject
from ctsql.runtime.pipelines.plan import FolderPlan, PlannedStatus, check_still, moved_between
from ctsql.runtime.pipelines.planning import PlannedFolder, plan_folder, warehouse_digest
from ctsql.runtime.pipelines.table_changes import alter_tables
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.statements.definitions.alter_task import TaskAlteration
from ctsql.runtime.statements.definitions.create import Creation, keeps_vectors
from ctsql.runtime.statements.definitions.cutover import (
    PreparedChange,
    as_prepared,
    bring_into_force,
)
from ctsql.runtime.statements.definitions.dropped import dropped
from ctsql.runtime.statements.definitions.output_tables import create_table_text, undo_on_failure
from ctsql.runtime.statements.definitions.view_change import prepare_view
from ctsql.runtime.statements.dml.dml import run_on_table
from ctsql.runtime.statements.objects.failed_task import retry_failed
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.statements.objects.refresh_view import (
    advance_by_old_definition,
    end_if_followed,
    refresh_view,
)
from ctsql.runtime.statements.tables.alter_table import store_constraints
from ctsql.runtime.tasks.progress import failure_of
from ctsql.runtime.warehouse.replaced_views import is_redefined
from ctsql.runtime.warehouse.table_checks import identify


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
        Without a change, except alterations of tables made before another process was noticed:
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
    check_not_refused(plan)
    if saved_plan is not None:
        check_still(saved_plan, plan)
    planned_folder = _alter_tables(engine, folder, planned_folder, prune=prune)
    if _has_definitions(planned_folder):
        Application(engine, planned_folder).run()
    _advance_objects(engine, planned_folder)
    new_items = (i for o in planned_folder.objects for i in o.items if o.old is None)
    for task in (i for i in new_items if isinstance(i, Task) and i.earlier):
        TaskAlteration(Namespace(engine, task.search_schema)).forget(task)
    return plan


def _alter_tables(
    engine: Engine, folder: Folder, planned_folder: PlannedFolder, *, prune: bool
) -> PlannedFolder:
    """Make the alterations that precede the definitions; returns the remaining ones.

    Raises DEFINITIONS_CHANGED if they are not the planned ones.
    """
    changes = [o.table_change for o in planned_folder.objects if o.table_change is not None]
    if not changes:
        return planned_folder
    alter_tables(engine, changes, warehouse_digest, planned_folder.plan.warehouse)
    faults.point("tables_altered")
    again = plan_folder(engine, folder, prune=prune)
    tables = {str(c.table.name) for c in changes}
    names = moved_between(planned_folder.plan.to_json(), again.plan.to_json())
    is_left = any(o.table_change is not None for o in again.objects)
    if is_left or again.plan.refused_changes or set(names) - tables:
        raise error("DEFINITIONS_CHANGED")
    return again


def _has_definitions(planned_folder: PlannedFolder) -> bool:
    """Is there anything to do but to alter tables?"""
    rest = planned_folder.items_to_drop or planned_folder.schemas or planned_folder.followers
    return bool(rest) or any(o.old is None or o.parts for o in planned_folder.objects)


def check_not_refused(plan: FolderPlan) -> None:
    """Raise PLAN_REFUSED where an object cannot become what the folder says."""
    if plan.refused_changes:
        detail = (
            f"{c.keyword.lower()} {c.name}: {c.refusal.message}"
            for c in plan.refused_changes
            if c.refusal is not None
        )
        raise error("PLAN_REFUSED", count=len(plan.refused_changes), detail=". ".join(detail) + ".")


@dataclass
class Application:
    """An apply of a planned folder that has more to do than to alter tables."""

    engine: Engine
    planned_folder: PlannedFolder

    def run(self) -> None:
        """Prepare all definitions, and bring them into force."""
        engine, folder = self.engine, self.planned_folder
        changed_objects = [o for o in folder.objects if o.old is not None and o.parts]
        new_objects = [o for o in folder.objects if o.old is None]
        to_undo = [item for bound in new_objects for item in bound.items]
        with undo_on_failure(engine, to_undo):
            changes = self.prepared(changed_objects, to_undo)
            new_items = [item for bound in new_objects for item in self._make(bound)]
            faults.point("catalog_table_made")
        bring_into_force(
            engine,
            PreparedChange(
                make=partial(self.cutover, changes, changed_objects, new_items),
                new=(*new_items, *(item for change in changes for item in change.new)),
                failed_at={k: at for change in changes for k, at in change.failed_at.items()},
            ),
        )
        for item in folder.items_to_drop:
            if item.location is not None:
                engine.gateway.forget(item.location)
        for item in (i for bound in changed_objects for i in bound.redefined_items):
            if isinstance(item, Task):
                task = engine.relations.item(item.id)
                TaskAlteration(Namespace(engine, task.search_schema)).forget(task)

    # ---- preparing

    def prepared(
        self, changed_objects: Sequence[BoundObject], to_undo: list[Item]
    ) -> list[PreparedChange]:
        """Prepare other definitions, after the old ones advanced all changed objects to now.

        Objects outside the folder over a changed plain view are advanced as well. ``to_undo`` gets
        the quarantines whose tables are created.
        """
        engine, changes = self.engine, list[PreparedChange]()
        for follower in self.planned_folder.followers:
            end_if_followed(engine, self._still_there(follower))
        views = []
        for bound in changed_objects:
            for item in bound.redefined_items:
                old, away = self._still_there(item), self._quarantine(bound, item)
                if isinstance(old, Task):
                    change = self._task_change(bound, old, item, away)
                    to_undo += change.new
                    changes.append(change)
                elif isinstance(old, View):
                    changes.append(PreparedChange(make=partial(_other_view, old, item)))
                elif isinstance(old, MaterializedView) and isinstance(item, MaterializedView):
                    advance_by_old_definition(engine, old)
                    if old.id not in {
                        o.quarantine for o in bound.items if isinstance(o, Maintained)
                    }:
                        views.append((bound, old, item, away))
        for bound, old, item, away in views:
            assert away is None or isinstance(away, MaterializedView)  # so it is of a view
            change = prepare_view(engine, old, item, away, bound.definition.span).part()
            to_undo += change.new
            changes.append(change)
        return changes

    def _task_change(
        self, bound: BoundObject, old: Task, item: Item, away: Item | None
    ) -> PreparedChange:
        alteration = TaskAlteration(Namespace(self.engine, old.search_schema))
        return alteration.prepare(
            old,
            item.definition.text,
            item.definition.reads,
            bound.definition.span,
            quarantine=None if old.quarantine else away,
        ).part()

    def _quarantine(self, bound: BoundObject, item: Item) -> Item | None:
        """The quarantine that an object has then; None for none."""
        return next((i for i in bound.items if i.id == item.quarantine), None)

    def _still_there(self, item: Item) -> Item:
        """A changed object as it is now; raises DEFINITIONS_CHANGED if it was dropped."""
        there = self.engine.catalog.items.get(item.id)
        if there is None:
            raise error("DEFINITIONS_CHANGED")
        return there

    def _make(self, bound: BoundObject) -> Sequence[Item]:
        """Make the tables of a new object, each in its own folder."""
        statement = bound.definition.statement
        if isinstance(statement, st.CreateTable):
            return self._make_table(bound, statement)
        vectors = isinstance(statement, st.CreateFlow | st.CreateView) or keeps_vectors(statement)
        return self._make_outputs(bound.items, has_vectors=vectors)

    def _make_outputs(self, items: Iterable[Item], *, has_vectors: bool) -> list[Item]:
        """Make the tables of new outputs, or of the quarantines that changed objects get."""
        engine, new_items = self.engine, []
        for item in items:
            if item.location is not None:
                with translate_spark_errors():
                    engine.session.sql(create_table_text(item, has_vectors=has_vectors))
            new_items.append(identify(engine.relations, item))
        return new_items

    def _make_table(self, bound: BoundObject, statement: st.CreateTable) -> list[Item]:
        (item,), engine = bound.items, self.engine
        assert isinstance(item, Table)  # so it was bound
        creation = Creation(Namespace(engine, bound.definition.schema))
        if statement.location is not None:
            return [item]  # it is there
        assert item.location is not None  # a table has a folder
        run_on_table(
            engine,
            statement.text,
            statement.target,
            item.location,
            bound.definition.schema,
            run=engine.session.sql,
        )
        store_constraints(engine, item.location, statement.constraints)
        return [creation.as_stored(item)]

    def cutover(
        self,
        changes: Sequence[PreparedChange],
        changed_objects: Sequence[BoundObject],
        new_items: Sequence[Item],
        current: Catalog,
    ) -> Cutover:
        """All that changes, on top of a catalog; raises DEFINITIONS_CHANGED on any other."""
        if warehouse_digest(current) != self.planned_folder.plan.warehouse:
            raise error("DEFINITIONS_CHANGED")
        changed = together(change.make(current) for change in changes)
        later = {i.id: i for i in changed.items}
        for item in (i for bound in changed_objects for i in bound.items):
            later[item.id] = described(later.get(item.id) or current.items[item.id], item)
        going = () if changed.drop is None else changed.drop.items
        dropped_items = [
            current.items[i.id] for i in self.planned_folder.items_to_drop if i not in going
        ]
        _check_not_followed(current, dropped_items)
        begun_ids = {i.id for i in new_items if not isinstance(i, Table | View)}
        rest = Cutover(
            items=tuple(new_items),
            new_ids=frozenset(begun_ids),
            drop=dropped(current, dropped_items) if dropped_items else None,
            schemas=self.planned_folder.schemas,
        )
        return together([rest, replace(changed, items=tuple(later.values()))])


def _other_view(old: Item, item: Item, current: Catalog) -> Cutover:
    """A plain view with another query."""
    now = as_prepared(current, old)
    definition = replace(item.definition, number=now.revision + 1)
    return Cutover(items=(replace(now, definition=definition, columns=item.columns),))


def _check_not_followed(current: Catalog, items: Iterable[Item]) -> None:
    """Raise DEPENDENT_OBJECTS where a subscription was made, since the plan, for what is to go."""
    for item in items:
        for subscription in subscribers(current, item.id):
            raise in_use(item, f"Subscription '{subscription.name}' follows it.")


def described(item: Item, by: Item) -> Item:
    """An object with the comments, and the flow, that another record of it has."""
    comments = {fold(c.name): c.comment for c in by.columns}
    columns = (replace(c, comment=comments.get(fold(c.name), c.comment)) for c in item.columns)
    return made_by_flow(replace(item, columns=tuple(columns), comment=by.comment), by.flow)


def _advance_objects(engine: Engine, planned_folder: PlannedFolder) -> None:
    """Write first contents and differences, including those left by a killed apply.

    Raises the first error, after everything that can be written is.
    """
    ids = {i.id for o in planned_folder.objects for i in o.items}
    ids |= {i.id for i in planned_folder.followers}
    changed_names = {
        c.name for c in planned_folder.plan.changes if c.status is PlannedStatus.CHANGED
    }
    problems: list[CtsqlError] = []
    for item in closure(engine.refresh_catalog(), (i for i in ids if i in engine.catalog.items)):
        if item.id not in ids or not isinstance(item, Maintained):
            continue
        try:
            _advance_one(engine, item, is_changed=str(item.name) in changed_names)
        except DataError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


def _advance_one(engine: Engine, item: Item, *, is_changed: bool) -> None:
    if engine.relations.is_suspended(item):
        return
    if isinstance(item, Task):
        failure = failure_of(engine.warehouse, item)
        starts = [start for start, _ in engine.timeline.task(item.id).revisions[-1:]]
        if failure is not None and failure.time in starts:
            retry_failed(engine, item)  # it was changed because it had failed
            return
    unwritten = engine.relations.output(item).fetch_recent_upper() == NO_UPPER
    if unwritten or (is_changed and isinstance(item, Task)):
        engine.advance([item], engine.mint_for([item]))
    elif isinstance(item, MaterializedView) and is_redefined(engine.warehouse, item):
        refresh_view(engine, item, full=True, replaced=True)
