"""Plans a folder of SQL: the change of each object, and the readers that forbid it.

Nothing is written, and no row is read.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import fingerprint_of, owner_of_quarantine, writer_of
from ctsql.catalog.errors import CtsqlError, Declined, capitalised
from ctsql.catalog.items import (
    Item,
    Maintained,
    MaterializedView,
    ObjectKind,
    Table,
    Task,
    View,
    in_use,
)
from ctsql.catalog.names import DEFAULT_SCHEMA, Name
from ctsql.planner.binding.binder import BoundDefinition
from ctsql.planner.binding.task import bind_stored
from ctsql.planner.bodies.reads import snapshot_inputs
from ctsql.planner.definition_parts import Part
from ctsql.planner.folder import FileDefinition, Folder
from ctsql.planner.nodes import ViewWrite
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.tokens.tokenizer import words_of
from ctsql.runtime.engine import Engine
from ctsql.runtime.pipelines.binding import REFUSALS, BoundObject, FolderBinder
from ctsql.runtime.pipelines.overlay import PlannedNames
from ctsql.runtime.pipelines.plan import (
    Effect,
    FolderPlan,
    PlannedChange,
    PlannedStatus,
    PlanRefusal,
    digest,
    warehouse_digest,
)
from ctsql.runtime.statements.definitions.create import check_columns_unread
from ctsql.runtime.statements.definitions.dropped import readers_of_dropped
from ctsql.runtime.statements.tables.columns_read import is_behind
from ctsql.runtime.tasks.progress import check_not_suspended
from ctsql.runtime.views.change_plans import check_followed, prepared_for, sentence_of_code
from ctsql.runtime.views.refresh_policy import RECOMPUTE_REASONS, Policy

CHECKED_BY_SPARK_MAX = 10
"""With more new tasks and views, Spark does not check the plans of views' queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFolder:
    """A plan with the bound definitions that it was made of."""

    plan: FolderPlan
    stored_catalog: Catalog  # the catalog on which it was planned
    # of the folder, in order of what they read, without refused ones.
    objects: tuple[BoundObject, ...]
    # stored objects outside the folder that read a changed plain view.
    followers: tuple[Item, ...]
    items_to_drop: tuple[Item, ...]  # dropped objects
    schemas: tuple[str, ...]  # those that are made


def plan_folder(engine: Engine, folder: Folder, *, prune: bool = False) -> PlannedFolder:
    """Compare a folder with the warehouse.

    Args:
        prune: whether objects that are not in it are dropped.
    """
    return _Planning(engine, folder, prune=prune).run()


@dataclass
class _Planning:
    """A plan while it is computed."""

    engine: Engine
    folder: Folder
    prune: bool
    # of schemas, by their names, and then of objects.
    changes: dict[Name | str, PlannedChange] = field(default_factory=dict)
    objects: list[BoundObject] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.binder = FolderBinder(self.engine)
        self.overlay = self.binder.overlay
        self.stored_catalog = self.overlay.stored_catalog

    def run(self) -> PlannedFolder:
        schemas = [
            s.name for s in self.folder.schemas if s.name.lower() not in self.stored_catalog.schemas
        ]
        for schema in schemas:
            self.overlay.catalog = self.overlay.catalog.with_schema(schema)
            self.changes[schema] = PlannedChange(
                name=schema, keyword="SCHEMA", status=PlannedStatus.NEW, effect=Effect.SCHEMA
            )
        refused_names = set[Name]()
        for definition in self.folder.definitions:
            change = self.changes[definition.name] = self._one(definition, refused_names)
            if change.status is PlannedStatus.REFUSED:
                refused_names.update(definition.names)
        items_to_drop = self._others()
        followers = self._followers({i.id for i in items_to_drop})
        self._check_readers(items_to_drop)
        self._add_notices(items_to_drop)
        self._describe()
        plan = FolderPlan(
            changes=tuple(self.changes.values()),
            warehouse=warehouse_digest(self.stored_catalog),
            folder=folder_digest(self.folder),
        )
        return PlannedFolder(
            plan=plan,
            stored_catalog=self.stored_catalog,
            objects=tuple(self.objects),
            followers=tuple(followers),
            items_to_drop=tuple(items_to_drop),
            schemas=tuple(schemas),
        )

    def _one(self, definition: FileDefinition, refused_names: set[Name]) -> PlannedChange:
        # Its name may differ in case.
        old = self.stored_catalog.find(definition.name)
        name = str(definition.name if old is None else old.name)
        change = PlannedChange(
            name=name, keyword=definition.keyword, status=PlannedStatus.UNCHANGED
        )
        below = [str(name) for name in definition.reads if name in refused_names]
        if below:
            message = f"it reads {', '.join(below)}, which is refused"
            refusal = PlanRefusal(condition="PLAN_REFUSED", message=message)
            return replace(change, status=PlannedStatus.REFUSED, refusal=refusal)
        try:
            bound = self.binder.bind(definition)
        except REFUSALS as problem:
            files = [
                span.source for span in (definition.span, *(c.span for c in definition.comments))
            ]
            if problem.span is None or problem.span.source not in files:
                problem.span = definition.span  # not a place in the text that was derived from it
            return change.refused(problem)
        self.objects.append(bound)
        if bound.old is None:
            return replace(change, status=PlannedStatus.NEW, effect=self._effect_of_new(bound))
        if not bound.parts:
            return change
        change = replace(
            change, status=PlannedStatus.CHANGED, parts=tuple(part.value for part in bound.parts)
        )
        table_change = bound.table_change
        if table_change is None:
            return replace(change, effect=effect_of_change(definition.kind, bound.parts))
        alterations = tuple(one.span.text for one in table_change.alterations)
        return replace(change, effect=Effect.ALTERED, alterations=alterations)

    def _effect_of_new(self, bound: BoundObject) -> Effect:
        match bound.definition.statement:
            case st.CreateTable(location=str()):
                return Effect.ATTACHED
            case st.CreateTable(query=None):
                return Effect.CREATED_EMPTY
            case st.CreateTable():
                return Effect.CREATED_FILLED
            case st.CreateView():
                return Effect.DEFINED
            case st.CreateContinualTask() as statement:
                plan = bound.plans[0].task
                begins = Effect.BUILT if snapshot_inputs(plan) else Effect.BEGINS_EMPTY
                return Effect.BEGINS_FILLED if statement.backfill else begins
            case _:
                return Effect.BUILT

    # ---- what else is concerned

    def _followers(self, dropped_ids: Collection[str]) -> list[Maintained]:
        """Unchanged stored views and tasks that read a changed plain view."""
        stored, catalog = self.stored_catalog, self.overlay.catalog
        others, followers = {i.id for o in self.objects for i in o.redefined} | {*dropped_ids}, []
        for item in stored:
            if not isinstance(item, Maintained) or item.id in others or item.problem:
                continue
            if fingerprint_of(stored, item) == fingerprint_of(catalog, item):
                continue
            followers.append(item)
            is_view, parts = isinstance(item, MaterializedView), (Part.BELOW.value,)
            effect = Effect.DIFFERENCE if is_view else Effect.NEXT_T
            self._change(item, status=PlannedStatus.CHANGED, parts=parts, effect=effect)
            try:
                check_not_suspended(self.engine.warehouse, item)  # it is advanced to now
                if is_view:
                    planned = PlannedNames(self.overlay, DEFAULT_SCHEMA).warehouse()
                    check_not_suspended(planned, item)
                    check_followed(planned, bind_stored(item, catalog).view)
            except REFUSALS as problem:
                self._refuse(item.name, problem)
        return followers

    def _change(self, item: Item, **fields: object) -> None:
        """Record the action for a stored object, in the folder or not."""
        change = self.changes.get(item.name) or PlannedChange(
            name=str(item.name), keyword=_keyword(item), status=PlannedStatus.KEPT
        )
        if change.status is not PlannedStatus.REFUSED:
            self.changes[item.name] = replace(change, **fields)  # type: ignore[arg-type]

    def _others(self) -> list[Item]:
        """Record the objects that are not in the folder; returns those to drop."""
        mine = {name for definition in self.folder.definitions for name in definition.names}
        others = [i for i in self.stored_catalog if not {i.name, self._maker(i).name} & mine]
        items_to_drop = [i for i in others if self.prune and not i.problem]
        # The quarantines of views that have none by their new definitions.
        lost = (o.lost_quarantine for o in self.objects)
        aside = [self.stored_catalog.items[i] for i in lost if i is not None]
        gone = {"status": PlannedStatus.GONE, "effect": Effect.DROPPED, "parts": ()}
        for item in sorted(others, key=lambda i: i.name.key):
            if self._maker(item) is item and item in items_to_drop:
                self._change(item, **gone)
            elif self._maker(item) is item and item.name not in self.changes:
                self._change(item)
        for item in aside:
            self._change(item, **gone)
        return items_to_drop + aside

    def _maker(self, item: Item) -> Item:
        """The stored object whose definition creates an object; for a part, its owner."""
        stored = self.stored_catalog
        reads = (stored.items[r.object_id] for r in item.reads)
        task = next((i for i in reads if item.flow and i.flow and isinstance(i, Task)), None)
        return task or owner_of_quarantine(stored, item) or writer_of(stored, item)

    def _check_readers(self, items_to_drop: Sequence[Item]) -> None:
        """Refuse changes of columns that unchanged readers read, and drops of what is read."""
        dropped_ids = {i.id for i in items_to_drop}
        # A redefined reader was bound to the new columns, but missed Ts run by its old definition.
        redefined = [self.stored_catalog.items[i.id] for o in self.objects for i in o.redefined]
        behind_ids = {i.id for i in redefined if is_behind(self.engine, i)}
        without = dropped_ids | {i.id for i in redefined} - behind_ids
        bound_ids = {i.id for o in self.objects for i in o.items} - behind_ids
        stored = self.stored_catalog
        for bound in self.objects:
            for item in bound.items:
                before, definition = stored.items.get(item.id), bound.definition
                if before is None or isinstance(before, Table):
                    continue
                try:
                    ids = without | bound_ids if isinstance(item, View) else without
                    check_columns_unread(self.engine, stored, before, item, definition.span, ids)
                except REFUSALS as refusal:
                    self._refuse(definition.name, refusal)
        redefined_ids = {i.id for i in redefined} - dropped_ids
        for item in items_to_drop:
            # The definition that a task had runs up to the T at which it is replaced.
            tasks = [r for r in stored.readers(item.id) if isinstance(r, Task)]
            former = [f"{r.kind.value} {r.name}" for r in tasks if r.id in redefined_ids]
            readers = readers_of_dropped(self.overlay.catalog, [item], dropped_ids)
            if readers := [*readers, *(r for r in former if r not in readers)]:
                detail = f"It is read by {', '.join(readers)}."
                problem = in_use(item, detail, keyword=_keyword(item))
                if readers == former:
                    problem.detail = f"{detail[:-1]}, until that has another definition."
                    problem.hint = "Apply the folder first without dropping it."
                name = item.name if item.name in self.changes else self._maker(item).name
                self._refuse(name, problem)

    def _add_notices(self, items_to_drop: Sequence[Item]) -> None:
        """Add the effects of altered tables on unchanged readers."""
        others = [i for o in self.objects for i in o.redefined] + list(items_to_drop)
        names = {str(i.name) for i in others}
        for bound_object in self.objects:
            change, name = bound_object.table_change, bound_object.definition.name
            if change is not None:
                notices = change.notices + tuple(
                    capitalised(f"{e.kind} {e.name}: {e.detail} {e.action}".strip())
                    for e in change.effects
                    if e.name not in names
                )
                self.changes[name] = replace(self.changes[name], notices=notices)

    def _refuse(self, name: Name, problem: CtsqlError) -> None:
        self.changes[name] = self.changes[name].refused(problem)

    def _describe(self) -> None:
        """Add readers, and whether views follow changes."""
        asks = sum(len(bound.plans) for bound in self.objects) <= CHECKED_BY_SPARK_MAX
        for bound in self.objects:
            name = bound.definition.name
            view = next((p for p in bound.plans if isinstance(p.plan, ViewWrite)), None)
            if view is not None and self.changes[name].status is not PlannedStatus.REFUSED:
                why = self._why_recomputed(view, asks=asks)
                self.changes[name] = replace(self.changes[name], incremental=not why, reason=why)
        catalog = self.overlay.catalog
        for key, change in self.changes.items():
            item = catalog.find(key) if isinstance(key, Name) else None
            if item and change.status not in (PlannedStatus.UNCHANGED, PlannedStatus.KEPT):
                readers = tuple(str(r.name) for r in catalog.readers(item.id))
                self.changes[key] = replace(change, readers=readers)

    def _why_recomputed(self, plan: BoundDefinition, *, asks: bool) -> str:
        """Why a view will not follow the changes of its tables; empty if it will.

        Without ``asks`` the planner decides without Spark.
        """
        if Policy(plan.view.policy) is Policy.FULL:
            return f"POLICY_FULL: {RECOMPUTE_REASONS['POLICY_FULL']}"
        query = prepared_for(PlannedNames(self.overlay, DEFAULT_SCHEMA).warehouse(), plan.view)
        is_planned = not isinstance(query.plan_or_reason, Declined)
        refusal = query.refusal() if asks or not is_planned else None
        if refusal is None:
            return ""
        place = query.place(refusal)
        where = "" if place is None else f", at {place.place()}"
        return f"{refusal.reason}: {sentence_of_code(refusal.reason)}{where}"


def effect_of_change(kind: ObjectKind, parts: Iterable[Part]) -> Effect:
    """The effect of a change of some parts of an object.

    >>> effect_of_change(ObjectKind.CONTINUAL_TASK, [Part.BODY]).name
    'NEXT_T'
    >>> effect_of_change(ObjectKind.MATERIALIZED_VIEW, [Part.QUERY, Part.COLUMNS]).name
    'REBUILT'
    >>> effect_of_change(ObjectKind.MATERIALIZED_VIEW, [Part.QUERY]).name
    'DIFFERENCE'
    """
    changed_parts = set(parts)
    if changed_parts == {Part.COMMENT}:
        return Effect.NOTED
    if kind is ObjectKind.CONTINUAL_TASK:
        return Effect.NEXT_T
    if kind is ObjectKind.VIEW:
        return Effect.FOLLOWS
    return Effect.REBUILT if Part.COLUMNS in changed_parts else Effect.DIFFERENCE


def _keyword(item: Item) -> str:
    return "FLOW" if item.flow and isinstance(item, Task) else item.kind.keyword


def folder_digest(folder: Folder) -> str:
    """A short text that changes with a folder's definitions, not with its files."""
    parts = [
        (d.name.key, d.schema, words_of(d.statement.span), [words_of(c.span) for c in d.comments])
        for d in folder.definitions
    ]
    return digest([*sorted(parts), sorted(s.name.lower() for s in folder.schemas)])
