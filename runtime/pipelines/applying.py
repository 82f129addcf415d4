"""Applies a folder of SQL: all its definitions come into force at one T, or none.

    alter:    tables that have other columns or constraints, one after the other
    prepare:  folders of new tables and outputs, which no object owns yet; changed outputs are
              advanced to now
    decide:   :mod:`ctsql.runtime.statements.definitions.cutover`
    drop:     columns of tables that go
    write:    new outputs get their first contents, changed views what differs

[timeline-decides] the commit of the timeline decides. Before it every reader sees the old
    definitions, after it every reader that knows the T sees the new ones
    (:mod:`ctsql.runtime.warehouse.stores.catalog_store`).
[on-planned-definitions] it takes place on top of the very definitions that were planned on. Who
    comes second finds other ones and is told.
[same-end-after-kill] a process that is killed leaves a warehouse in which the same folder comes to
    the same end: before the decision nothing has happened but unused folders and alterations of
    tables; after it the outputs are advanced by any reader, and by the next apply.
[alterations-one-by-one] an alteration is one commit of its table, and what is left of them follows
    from what the tables are: so a new plan is made after them, which equals the plan without them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.cutovers import Cutover, together
from ctsql.catalog.dependencies import closure, subscribers
from ctsql.catalog.errors import CtsqlError, DataError, error
from ctsql.catalog.items import (
    Item,
    Maintained,
    MaterializedView,
    ObjectKind,
    Table,
    Task,
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
from ctsql.runtime.pipelines.table_changes import OF_TABLES, Altering, drops_constraint
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.statements.definitions.alter_task import TaskAlteration
from ctsql.runtime.statements.definitions.create import Creation, keeps_vectors
from ctsql.runtime.statements.definitions.cutover import PreparedChange, cut_over
from ctsql.runtime.statements.definitions.dropped import dropped
from ctsql.runtime.statements.definitions.output_tables import create_table_text, undo_on_failure
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
from ctsql.runtime.warehouse.replaced_views import (
    History,
    counts_anew,
    cutover_of_views,
    give_columns,
    is_redefined,
    refresh_of,
)
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
        saved_plan: the one that it is to be, from
            :func:`ctsql.runtime.pipelines.plan.read_plan`.

    Raises:
        PLAN_REFUSED: an object cannot become what the folder says. PLAN_UNUSABLE: it is not the
            saved plan. DEFINITIONS_CHANGED: another process was first. CONSTRAINT_VIOLATED,
            DATA_ERROR: rows of a table break a constraint that it gets. DEPENDENT_OBJECTS: a
            subscription was made for what is to be dropped. In these cases nothing is changed, but
            for alterations of tables before another process was noticed.
            COLUMNS_IN_USE: another process has begun to read a column that goes; the definitions
            are in force. VIEW_FAILED, TASK_FAILED: so are they, and one of them cannot be computed
            on the data.
    """
    engine.mint()
    planned_folder = plan_folder(engine, folder, prune=prune)
    plan = planned_folder.plan
    check_not_refused(plan)
    if saved_plan is not None:
        check_still(saved_plan, plan)
    planned_folder = _alter_first(engine, folder, planned_folder, prune=prune)
    if _has_definitions(planned_folder):
        _Application(engine, planned_folder).run()
    _alter_last(engine, planned_folder)
    _advance_objects(engine, planned_folder)
    new_items = (i for o in planned_folder.objects for i in o.items if o.old is None)
    for task in (i for i in new_items if isinstance(i, Task) and i.earlier):
        TaskAlteration(Namespace(engine, task.search_schema)).forget(task)
    return plan


def _alter_first(
    engine: Engine, folder: Folder, planned_folder: PlannedFolder, *, prune: bool
) -> PlannedFolder:
    """Make the alterations that come before the definitions; gives what is left to do.

    Raises DEFINITIONS_CHANGED where that is not what was planned.
    """
    changes = [c for o in planned_folder.objects if (c := o.table_change) is not None and c.first]
    if not changes:
        return planned_folder
    altering = Altering(engine, warehouse_digest, planned_folder.plan.warehouse)
    altering.try_all(changes)
    for change in changes:
        altering.make(change, filter(drops_constraint, change.first))
    for change in changes:
        altering.make(change, (one for one in change.first if not drops_constraint(one)))
    faults.point("tables_altered")
    again = plan_folder(engine, folder, prune=prune)
    tables = {str(c.table.name) for c in changes}
    names = moved_between(planned_folder.plan.to_json(), again.plan.to_json())
    is_left = any(o.table_change is not None and o.table_change.first for o in again.objects)
    if is_left or again.plan.refused_changes or set(names) - tables:
        raise error("DEFINITIONS_CHANGED")
    return again


def _alter_last(engine: Engine, planned_folder: PlannedFolder) -> None:
    """Drop the columns that go."""
    expected = warehouse_digest(engine.refresh_catalog())
    altering = Altering(engine, warehouse_digest, expected)
    for bound_object in planned_folder.objects:
        if bound_object.table_change is not None:
            altering.make(bound_object.table_change, bound_object.table_change.last)


def _has_definitions(planned_folder: PlannedFolder) -> bool:
    """Is there anything to do but to alter tables?"""
    rest = planned_folder.items_to_drop or planned_folder.schemas or planned_folder.followers
    return bool(rest) or any(
        o.old is None or set(o.parts) - (set(OF_TABLES) if o.table_change is not None else set())
        for o in planned_folder.objects
    )


def check_not_refused(plan: FolderPlan) -> None:
    """Raise PLAN_REFUSED where an object cannot become what the folder says."""
    if plan.refused_changes:
        detail = (
            f"{c.keyword.lower()} {c.name}: {c.refusal.message if c.refusal else c.note}"
            for c in plan.refused_changes
        )
        raise error("PLAN_REFUSED", count=len(plan.refused_changes), detail=". ".join(detail) + ".")


@dataclass
class _Application:
    engine: Engine
    planned_folder: PlannedFolder

    def run(self) -> None:
        new = [o for o in self.planned_folder.objects if o.old is None]
        changed_objects = [o for o in self.planned_folder.objects if o.old is not None and o.parts]
        engine = self.engine
        failure_times = self._end_before(changed_objects)
        histories, paced_ids = self._give_columns(changed_objects)
        beside = [
            i for bound in changed_objects for i in bound.items if i.id not in engine.catalog.items
        ]
        new_items = [*(item for bound in new for item in bound.items), *beside]
        with undo_on_failure(engine, new_items):
            new_items = [item for bound in new for item in self._make(bound)]
            new_items += self._make_outputs(beside, has_vectors=True)
            faults.point("catalog_table_made")
        change = PreparedChange(
            make=partial(self._cutover, new_items, changed_objects, histories, paced_ids),
            new=tuple(new_items),
            failed_at=failure_times,
        )
        cut_over(engine, change)
        for item in self.planned_folder.items_to_drop:
            if item.location is not None:
                engine.gateway.forget(item.location)
        for item in (
            i for bound in changed_objects for i in bound.redefined_items if isinstance(i, Task)
        ):
            task = engine.relations.item(item.id)
            TaskAlteration(Namespace(engine, task.search_schema)).forget(task)

    # ---- preparing

    def _end_before(self, changed_objects: Iterable[BoundObject]) -> dict[str, int | None]:
        """Run changed tasks up to now by their old definitions; when they failed, by id.

        What is not in the folder, over a plain view that changes, is advanced as well.
        """
        failure_times = {}
        for follower in self.planned_folder.followers:
            end_if_followed(self.engine, self._still_there(follower))
        for item in (i for bound in changed_objects for i in bound.redefined_items):
            old = self._still_there(item)
            if isinstance(item, Task):
                alteration = TaskAlteration(Namespace(self.engine, old.search_schema))
                failure_times[item.id] = alteration.advance_to_now(old)
            elif isinstance(item, MaterializedView):
                advance_by_old_definition(self.engine, old)
        return failure_times

    def _still_there(self, item: Item) -> Item:
        """A changed object as it is now; raises DEFINITIONS_CHANGED if it was dropped."""
        there = self.engine.catalog.items.get(item.id)
        if there is None:
            raise error("DEFINITIONS_CHANGED")
        return there

    def _give_columns(
        self, changed_objects: Iterable[BoundObject]
    ) -> tuple[dict[str, History], set[str]]:
        """Give the tables of changed views columns at their end.

        Returns:
            The outcome for the earlier rows of each; and the views whose refresh times count from
            the new T.

        Raises:
            The error of columns that a table cannot have.
        """
        histories, paced_ids = dict[str, History](), set[str]()
        for bound in changed_objects:
            views = [i for i in bound.redefined_items if isinstance(i, MaterializedView)]
            for item in views:
                old = self._still_there(item)
                is_read = bool(self.engine.catalog.readers(item.id))
                histories[item.id] = give_columns(
                    self.engine.warehouse, old, item.columns, is_read=is_read
                )
            own = [histories[i.id] for i in views]
            if any(i.id not in self.engine.catalog.items for i in bound.items):
                own.append(History.CUT)  # of a quarantine that it gets
            for item in views:
                if counts_anew(refresh_of(self._still_there(item)), refresh_of(item), own):
                    paced_ids.add(item.id)
        return histories, paced_ids

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

    def _cutover(
        self,
        new_items: Sequence[Item],
        changed_objects: Sequence[BoundObject],
        histories: Mapping[str, History],
        paced_ids: Collection[str],
        current: Catalog,
    ) -> Cutover:
        """All that changes, on top of a catalog; raises DEFINITIONS_CHANGED on any other."""
        if warehouse_digest(current) != self.planned_folder.plan.warehouse:
            raise error("DEFINITIONS_CHANGED")
        new_ids = {i.id for i in new_items}
        later = [item for bound in changed_objects for item in with_changes(current, bound)]
        views = [
            (still_there(current, i), i, histories[i.id])
            for i in later
            if i.id in histories and isinstance(i, MaterializedView)
        ]
        others = [i for i in later if i.id not in histories and i.id not in new_ids]
        begun_ids = {i.id for i in new_items if i.kind not in (ObjectKind.TABLE, ObjectKind.VIEW)}
        dropped_items = [current.items[i.id] for i in self.planned_folder.items_to_drop]
        _check_not_followed(current, dropped_items)
        rest = Cutover(
            items=(*new_items, *others),
            new_ids=frozenset(begun_ids),
            drop=dropped(current, dropped_items) if dropped_items else None,
            schemas=self.planned_folder.schemas,
        )
        return together([rest, cutover_of_views(views, paced_ids)])


def _check_not_followed(current: Catalog, items: Iterable[Item]) -> None:
    """Raise DEPENDENT_OBJECTS where a subscription was made, since the plan, for what is to go."""
    for item in items:
        for subscription in subscribers(current, item.id):
            raise in_use(item, f"Subscription '{subscription.name}' follows it.")


def with_changes(current: Catalog, bound: BoundObject) -> list[Item]:
    """Changed objects as they will be, on top of what the newest catalog says of them."""
    items, redefined_ids = [], {i.id for i in bound.redefined_items}
    for item in bound.items:
        now = current.items.get(item.id)
        if now is None:  # the quarantine that it gets
            items.append(item)
            continue
        columns = item.columns
        if isinstance(now, Table):  # only ALTER TABLE changes them
            comments = {fold(c.name): c.comment for c in item.columns}
            columns = tuple(
                replace(c, comment=comments.get(fold(c.name), c.comment)) for c in now.columns
            )
        later = made_by_flow(replace(now, columns=columns, comment=item.comment), item.flow)
        if isinstance(later, Maintained):
            later = replace(later, quarantine=item.quarantine)
        if item.id in redefined_ids and isinstance(later, Task):
            text, reads = item.definition.text, item.definition.reads
            newest = later.definition.followed_by(text, reads)
            later = replace(later, definition=newest, earlier=now.revisions)
        elif item.id in redefined_ids:
            later = replace(later, definition=item.definition)
        items.append(later)
    return items


def _advance_objects(engine: Engine, planned_folder: PlannedFolder) -> None:
    """Write first contents and what differs, also what an apply that was killed has left.

    Raises:
        The first error, after all that can be written is.
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
