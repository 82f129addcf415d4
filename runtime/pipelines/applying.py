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

from collections.abc import Mapping, Sequence
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
from ctsql.catalog.schemas import commented
from ctsql.planner.folder import Folder
from ctsql.planner.syntax import ast as st
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.write_handle import NO_UPPER
from ctsql.runtime.pipelines.binding import BoundObject
from ctsql.runtime.pipelines.plan import FolderPlan, PlannedStatus, check_still
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
from ctsql.runtime.statements.objects.failed_task import retry_failed
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.statements.objects.refresh_view import end_if_followed, refresh_view
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
    expected = alter_tables(engine, changes, warehouse_digest, planned_folder.plan.warehouse)
    faults.point("tables_altered")
    again = plan_folder(engine, folder, prune=prune)
    is_left = any(o.table_change is not None for o in again.objects)
    if is_left or again.plan.refused_changes or again.plan.warehouse != expected:
        raise error("DEFINITIONS_CHANGED")
    return again


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
    """An apply of a planned folder whose tables are altered."""

    engine: Engine
    planned_folder: PlannedFolder

    @property
    def changing_ids(self) -> frozenset[str]:
        """The ids of the stored objects that get another definition, or are dropped."""
        folder = self.planned_folder
        redefined = (i for bound in folder.objects for i in bound.redefined)
        return frozenset(i.id for i in (*redefined, *folder.items_to_drop))

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
        for item in (i for bound in changed_objects for i in bound.redefined):
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
        for bound in changed_objects:
            for item in bound.redefined:
                change = self._prepare(bound, item)
                to_undo += change.new
                changes.append(change)
        return changes

    def _prepare(self, bound: BoundObject, item: Item) -> PreparedChange:
        """Prepare another definition of an object."""
        engine, old, span = self.engine, self._still_there(item), bound.definition.span
        away = next((i for i in bound.items if i.id == item.quarantine), None)
        if isinstance(old, Task):
            alteration = TaskAlteration(Namespace(engine, old.search_schema))
            away, now = None if old.quarantine else away, item.definition
            return alteration.prepare(old, now.text, now.reads, span, quarantine=away).part()
        if isinstance(old, MaterializedView) and isinstance(item, MaterializedView):
            assert away is None or isinstance(away, MaterializedView)  # so it is of a view
            change = prepare_view(engine, old, item, away, span)
            return replace(change, changing_ids=self.changing_ids).part()

        def make(current: Catalog) -> Cutover:
            as_prepared(current, old)
            return Cutover(items=(item,))

        return PreparedChange(make=make)

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
            (item,) = bound.items
            assert isinstance(item, Table)  # so it was bound
            creation = Creation(Namespace(self.engine, bound.definition.schema))
            return [item if statement.location else creation.make_table(item, statement)]
        vectors = isinstance(statement, st.CreateFlow | st.CreateView) or keeps_vectors(statement)
        for item in bound.items:
            if item.location is not None:
                with translate_spark_errors():
                    self.engine.session.sql(create_table_text(item, has_vectors=vectors))
        return [identify(self.engine.relations, item) for item in bound.items]

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
        for item in (i for bound in changed_objects for i in bound.items if i.id in current.items):
            now = later.get(item.id) or current.items[item.id]
            columns = commented(item.columns, now.columns)
            now = replace(now, columns=columns, comment=item.comment)
            later[item.id] = made_by_flow(now, item.flow)
        going = () if changed.drop is None else changed.drop.items
        dropped_items = [
            current.items[i.id] for i in self.planned_folder.items_to_drop if i not in going
        ]
        # The plan has checked their readers; a subscription may be newer.
        for item in dropped_items:
            for subscription in subscribers(current, item.id):
                raise in_use(item, f"It is read by subscription '{subscription.name}'.")
        begun_ids = {i.id for i in new_items if not isinstance(i, Table | View)}
        rest = Cutover(
            items=tuple(new_items),
            new_ids=frozenset(begun_ids),
            drop=dropped(current, dropped_items) if dropped_items else None,
            schemas=self.planned_folder.schemas,
        )
        return together([rest, replace(changed, items=tuple(later.values()))])


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
