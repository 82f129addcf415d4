"""Plans a folder of SQL: the change of each object, and the readers that forbid it.

Nothing is written, and no row is read.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import (
    fingerprint_of,
    owner_of_quarantine,
    subscribers,
    writer_of,
)
from ctsql.catalog.errors import CtsqlError, capitalised
from ctsql.catalog.items import (
    Item,
    Maintained,
    MaterializedView,
    ObjectKind,
    Table,
    Task,
    TaskOutput,
    View,
    columns_in_use,
    in_use,
)
from ctsql.catalog.names import Name, fold
from ctsql.catalog.schemas import keeps_columns, same_columns
from ctsql.planner.binding.binder import BoundDefinition
from ctsql.planner.bodies.reads import snapshot_inputs
from ctsql.planner.definition_parts import Part
from ctsql.planner.folder import FileDefinition, Folder
from ctsql.planner.nodes import ViewWrite
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.tokens.tokenizer import words_of
from ctsql.runtime.engine import Engine
from ctsql.runtime.pipelines.binding import REFUSALS, BoundObject, FolderBinder
from ctsql.runtime.pipelines.plan import (
    Effect,
    FolderPlan,
    PlannedChange,
    PlannedStatus,
    PlanRefusal,
)
from ctsql.runtime.statements.tables.columns_read import is_behind, readers_of_changed
from ctsql.runtime.views.change_plans import prepared_for, sentence_of_code
from ctsql.runtime.views.refresh_policy import RECOMPUTE_REASONS, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFolder:
    """A plan with the bound definitions that it was made of."""

    plan: FolderPlan
    # of the folder, in order of what they read; those refused are not among them.
    objects: tuple[BoundObject, ...]
    # stored objects that are not in it and that a changed plain view changes.
    followers: tuple[Item, ...]
    items_to_drop: tuple[Item, ...]  # what is dropped
    schemas: tuple[str, ...]  # those that are made


def plan_folder(engine: Engine, folder: Folder, *, prune: bool = False) -> PlannedFolder:
    """Compare a folder with the warehouse.

    Args:
        prune: whether objects that are not in it are dropped.
    """
    return _Planning(engine, folder, prune=prune).run()


@dataclass
class _Planning:
    """One plan in the making."""

    engine: Engine
    folder: Folder
    prune: bool
    changes: list[PlannedChange] = field(default_factory=list)  # schemas, then objects
    # of the object of a name the index of its change.
    places: dict[Name, int] = field(default_factory=dict)
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
            self.changes.append(
                PlannedChange(
                    name=schema, keyword="SCHEMA", status=PlannedStatus.NEW, effect=Effect.SCHEMA
                )
            )
        refused_definitions: dict[Name, FileDefinition] = {}
        for definition in self.folder.definitions:
            change = self._one(definition, refused_definitions)
            if change.status is PlannedStatus.REFUSED:
                refused_definitions.update(dict.fromkeys(definition.names, definition))
            self._add(definition.name, change)
        followers = self._followers()
        items_to_drop = self._others()
        self._check_readers(items_to_drop)
        self._add_notices(items_to_drop)
        self._describe()
        plan = FolderPlan(
            changes=tuple(self.changes),
            warehouse=warehouse_digest(self.stored_catalog),
            folder=folder_digest(self.folder),
        )
        return PlannedFolder(
            plan=plan,
            objects=tuple(self.objects),
            followers=tuple(followers),
            items_to_drop=tuple(items_to_drop),
            schemas=tuple(schemas),
        )

    def _one(
        self, definition: FileDefinition, refused_definitions: dict[Name, FileDefinition]
    ) -> PlannedChange:
        # The letters of its name may be other ones, large or small.
        old = self.stored_catalog.find(definition.name)
        name = str(definition.name if old is None else old.name)
        change = PlannedChange(
            name=name, keyword=definition.keyword, status=PlannedStatus.UNCHANGED
        )
        below = [str(name) for name in definition.reads if name in refused_definitions]
        if below:
            message = f"it reads {', '.join(below)}, which is refused"
            refusal = PlanRefusal(condition="PLAN_REFUSED", message=message)
            return replace(change, status=PlannedStatus.REFUSED, refusal=refusal)
        try:
            bound = self.binder.bind(definition)
        except REFUSALS as problem:
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
                plan = bound.plans[bound.items[0].id].task
                begins = Effect.BUILT if snapshot_inputs(plan) else Effect.BEGINS_EMPTY
                return Effect.BEGINS_FILLED if statement.backfill else begins
            case _:
                return Effect.BUILT

    # ---- what else is concerned

    def _followers(self) -> list[Maintained]:
        """Stored views and tasks that are as they were, over a plain view that is not."""
        changed_ids = {i.id for o in self.objects if o.old is not None and o.parts for i in o.items}
        followers = []
        for item in self.stored_catalog:
            if not isinstance(item, Maintained) or item.id in changed_ids or item.problem:
                continue
            if fingerprint_of(self.stored_catalog, item) == fingerprint_of(
                self.overlay.catalog, item
            ):
                continue
            followers.append(item)
            is_view = isinstance(item, MaterializedView)
            self._change(
                item,
                status=PlannedStatus.CHANGED,
                parts=(Part.BELOW.value,),
                effect=Effect.DIFFERENCE if is_view else Effect.NEXT_T,
            )
        return followers

    def _add(self, name: Name, change: PlannedChange) -> None:
        self.places[name] = len(self.changes)
        self.changes.append(change)

    def _change(self, item: Item, **fields: object) -> None:
        """Note the action for a stored object, in the folder or not."""
        place = self.places.get(item.name)
        change = PlannedChange(
            name=str(item.name), keyword=_keyword(item), status=PlannedStatus.KEPT
        )
        if place is None:
            self._add(item.name, replace(change, **fields))  # type: ignore[arg-type]
        elif self.changes[place].status is not PlannedStatus.REFUSED:
            self.changes[place] = replace(self.changes[place], **fields)  # type: ignore[arg-type]

    def _others(self) -> list[Item]:
        """Objects that are not in the folder; those that are to be dropped are returned."""
        mine = {name for definition in self.folder.definitions for name in definition.names}
        others = [
            i for i in self.stored_catalog if i.name not in mine and not self._is_owned(i, mine)
        ]
        names = set(self.places)
        items_to_drop = [i for i in others if self.prune and not i.problem]
        aside = [
            away
            for bound_object in self.objects
            if (away := self._lost_quarantine(bound_object)) is not None
        ]
        others, items_to_drop = [*others, *aside], [*items_to_drop, *aside]
        for item in sorted(others, key=lambda i: i.name.key):
            is_part = isinstance(item, TaskOutput) or (item.flow and not isinstance(item, Task))
            if is_part or (item.name in names and not self.prune):
                continue
            status = PlannedStatus.GONE if item in items_to_drop else PlannedStatus.KEPT
            effect = Effect.DROPPED if item in items_to_drop else Effect.NONE
            self._change(item, status=status, effect=effect, parts=())
        return items_to_drop

    def _lost_quarantine(self, bound_object: BoundObject) -> Item | None:
        """The quarantine of a view that has none by its new definition."""
        if (
            bound_object.old is None
            or not bound_object.parts
            or bound_object.items[0].quarantine is not None
        ):
            return None
        return self.stored_catalog.items.get(bound_object.old.quarantine or "")

    def _is_owned(self, item: Item, mine: set[Name]) -> bool:
        """Whether it belongs to a task or view of the folder: its quarantine, or an output."""
        owner = owner_of_quarantine(self.stored_catalog, item)
        if isinstance(item, TaskOutput):
            owner = self.stored_catalog.items[item.owner]
        return owner is not None and owner.name in mine

    def _check_readers(self, items_to_drop: Sequence[Item]) -> None:
        """Refuse changes of columns under readers that keep what they read, and drops under any."""
        catalog, dropped_ids = self.overlay.catalog, {i.id for i in items_to_drop}
        bound_ids = {i.id for o in self.objects for i in o.items}
        redefined_ids = {i.id for o in self.objects for i in o.redefined_items}
        for bound_object in self.objects:
            for item in bound_object.redefined_items:
                before = self.stored_catalog.items[item.id]
                if same_columns(before.columns, item.columns) or self._only_grows(before, item):
                    continue
                if isinstance(item, MaterializedView):
                    # Who is defined anew was bound to the new columns, but for the Ts it missed.
                    readers = [
                        r
                        for r in readers_of_changed(
                            self.engine, self.stored_catalog, before, item.columns
                        )
                        if r.id not in redefined_ids or is_behind(self.engine, r)
                    ]
                else:
                    readers = [
                        r for r in catalog.readers(item.id) if r.id in self.stored_catalog.items
                    ]
                    readers = [r for r in readers if r.id not in bound_ids]
                readers = [r for r in readers if r.id not in dropped_ids]
                if readers:
                    self._refuse_columns(bound_object, item, readers)
        for item in items_to_drop:
            readers = [r for r in catalog.readers(item.id) if r.id not in dropped_ids]
            followers = [
                f"subscription '{s.name}'" for s in subscribers(self.stored_catalog, item.id)
            ]
            if readers or followers:
                reader_names = [f"{r.kind.value} {r.name}" for r in readers] + followers
                detail = f"It is read by {', '.join(reader_names)}."
                problem = in_use(item, detail, keyword=_keyword(item))
                self._refuse(self._told_of_by(item), problem)

    def _add_notices(self, items_to_drop: Sequence[Item]) -> None:
        """Say what the alterations of tables change for readers that stay as they are."""
        others = [i for o in self.objects for i in o.redefined_items] + list(items_to_drop)
        names = {str(i.name) for i in others}
        for bound_object in self.objects:
            change, place = bound_object.table_change, self.places[bound_object.definition.name]
            if change is not None:
                notices = change.notices + tuple(
                    capitalised(f"{e.kind} {e.name}: {e.detail} {e.action}".strip())
                    for e in change.effects
                    if e.name not in names
                )
                self.changes[place] = replace(self.changes[place], notices=notices)

    def _told_of_by(self, item: Item) -> Name:
        """The object whose change reports a dropped one: a part of it has no change itself."""
        if item.name in self.places:
            return item.name
        reads = (self.stored_catalog.items[r.object_id] for r in item.reads)
        task = next((i for i in reads if item.flow and i.flow and isinstance(i, Task)), None)
        return (task or writer_of(self.stored_catalog, item)).name

    def _only_grows(self, before: Item, item: Item) -> bool:
        """Has a plain view only more columns at its end, which no reader from before sees?"""
        is_reshaped = isinstance(item, View) and item.id in self.binder.reshaped_ids
        return is_reshaped and keeps_columns(before.columns, item.columns)

    def _refuse_columns(
        self, bound_object: BoundObject, item: Item, readers: Sequence[Item]
    ) -> None:
        names = [
            f"{r.kind.value} {r.name}{_lost_columns(self.stored_catalog.items[r.id], item)}"
            for r in readers
        ]
        detail = f"The new columns differ, and what changes is read by {', '.join(names)}."
        problem = columns_in_use(item, detail, bound_object.definition.span)
        self._refuse(bound_object.definition.name, problem)

    def _refuse(self, name: Name, problem: CtsqlError) -> None:
        place = self.places[name]
        self.changes[place] = self.changes[place].refused(problem)

    def _describe(self) -> None:
        """Add readers, and how views are followed."""
        by_name = {o.definition.name: o for o in self.objects}
        for name, place in self.places.items():
            change, bound_object = self.changes[place], by_name.get(name)
            item = bound_object.items[0] if bound_object else self.stored_catalog.find(name)
            if item is None or change.status in (PlannedStatus.UNCHANGED, PlannedStatus.KEPT):
                continue
            readers = tuple(str(r.name) for r in self.overlay.catalog.readers(item.id))
            change = replace(change, readers=readers)
            plans = [] if bound_object is None else bound_object.plans.values()
            view = next((p for p in plans if isinstance(p.plan, ViewWrite)), None)
            if view is not None and change.status is not PlannedStatus.REFUSED:
                why = self._why_recomputed(view)
                change = replace(change, incremental=not why, reason=why)
            self.changes[place] = change

    def _why_recomputed(self, plan: BoundDefinition) -> str:
        """Why a view will not follow its tables by their changes; nothing where it will."""
        if Policy(plan.view.policy) is Policy.FULL:
            return f"POLICY_FULL: {RECOMPUTE_REASONS['POLICY_FULL']}"
        query = prepared_for(self.overlay.warehouse(), plan.view)
        refusal = query.refusal()
        if refusal is None:
            return ""
        place = query.place(refusal)
        where = "" if place is None else f", at {place.place()}"
        return f"{refusal.reason}: {sentence_of_code(refusal.reason)}{where}"


def _lost_columns(reader: Item, item: Item) -> str:
    """Which of the columns that a reader was bound to are no longer there, as text."""
    names = {fold(c.name) for c in item.columns}
    mine = (r for r in reader.reads if r.object_id == item.id)
    columns = [c for r in mine for c in r.columns if fold(c) not in names]
    return f" (was bound to {', '.join(columns)})" if columns else ""


def effect_of_change(kind: ObjectKind, parts: Iterable[Part]) -> Effect:
    """The effect of a change of some parts of an object.

    >>> effect_of_change(ObjectKind.CONTINUAL_TASK, [Part.BODY]).name
    'NEXT_T'
    >>> effect_of_change(ObjectKind.MATERIALIZED_VIEW, [Part.QUERY, Part.COLUMNS]).name
    'ANEW'
    >>> effect_of_change(ObjectKind.MATERIALIZED_VIEW, [Part.QUERY, Part.MORE_COLUMNS]).name
    'DIFFERENCE'
    """
    changed_parts = set(parts)
    if changed_parts == {Part.COMMENT}:
        return Effect.NOTED
    if kind is ObjectKind.CONTINUAL_TASK:
        return Effect.NEXT_T
    if kind is ObjectKind.VIEW:
        return Effect.FOLLOWS
    return Effect.ANEW if Part.COLUMNS in changed_parts else Effect.DIFFERENCE


def _keyword(item: Item) -> str:
    return "FLOW" if item.flow and isinstance(item, Task) else item.kind.keyword


def warehouse_digest(catalog: Catalog) -> str:
    """A short text that changes with any definition of a warehouse."""
    parts = sorted(
        (
            i.id,
            i.kind.value,
            i.name.key,
            i.definition.text,
            i.search_schema,
            i.comment,
            i.flow,
            i.revision,
            i.alterations if isinstance(i, Table) else (),
        )
        for i in catalog
    )
    return _digest([*parts, sorted(catalog.schemas)])


def folder_digest(folder: Folder) -> str:
    """A short text that changes with what a folder says, whatever its files are."""
    parts = [
        (d.name.key, d.schema, words_of(d.statement.span), [words_of(c.span) for c in d.comments])
        for d in folder.definitions
    ]
    return _digest([*sorted(parts), sorted(s.name.lower() for s in folder.schemas)])


def _digest(values: Sequence[object]) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
