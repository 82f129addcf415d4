"""Applies a folder of SQL: all its definitions come into force at one T, or none.

    alter:    change columns and constraints of tables, one table after the other
    prepare:  create folders of new tables and outputs, which no object owns yet; advance changed
              outputs to now
    decide:   :mod:`ctsql.runtime.statements.definitions.cutover`
    write:    first contents of new outputs, and the rows of changed views that differ

[timeline-decides] the commit of the timeline decides: readers at an earlier T see the old
    definitions, readers at or after it the new ones.
[on-planned-definitions] if the definitions are not those that it was planned on, an apply raises.
[same-end-after-kill] after a kill, applying the folder again has the same result. Before the
    decision only unused folders and alterations exist; after it any reader advances the outputs.
[alterations-one-by-one] an alteration is one commit of its table. A later plan compares with the
    altered tables, so it has only the alterations that are missing.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import error
from ctsql.catalog.items import Item, Table
from ctsql.planner.folder import Folder
from ctsql.planner.syntax import ast as st
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.pipelines.binding import BoundObject
from ctsql.runtime.pipelines.plan import FolderPlan, check_still
from ctsql.runtime.pipelines.planning import PlannedFolder, plan_folder, warehouse_digest
from ctsql.runtime.pipelines.table_changes import alter_tables
from ctsql.runtime.statements.definitions.create import Creation, keeps_vectors
from ctsql.runtime.statements.definitions.cutover import Redefinition, bring_into_force, complete
from ctsql.runtime.statements.definitions.output_tables import make_table
from ctsql.runtime.statements.objects.name_resolution import Namespace


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
    check_not_refused(plan)
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
    expected = alter_tables(engine, changes, warehouse_digest, planned_folder.plan.warehouse)
    faults.point("tables_altered")
    again = plan_folder(engine, folder, prune=prune)
    is_left = any(o.table_change is not None for o in again.objects)
    if is_left or again.plan.refused_changes or again.plan.warehouse != expected:
        raise error("DEFINITIONS_CHANGED")
    return again


def check_not_refused(plan: FolderPlan) -> None:
    """Raise PLAN_REFUSED if an object cannot become what the folder says."""
    if plan.refused_changes:
        detail = (
            f"{c.keyword.lower()} {c.name}: {c.refusal.message}"
            for c in plan.refused_changes
            if c.refusal is not None
        )
        raise error("PLAN_REFUSED", count=len(plan.refused_changes), detail=". ".join(detail) + ".")


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
