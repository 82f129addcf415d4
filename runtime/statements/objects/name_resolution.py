"""Resolves names of objects in statements, and checks names for new objects."""

import uuid

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import owner_of_quarantine
from ctsql.catalog.errors import error, not_supported
from ctsql.catalog.items import (
    Definition,
    Item,
    ObjectKind,
    Reading,
    Record,
    Storage,
    Task,
    TaskOutput,
    View,
)
from ctsql.catalog.names import (
    Name,
    check_new_name,
    fold,
    folder_part,
    quarantine_name,
    quote,
)
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Span
from ctsql.catalog.system_tables import is_system, made_in_system
from ctsql.planner.binding.analyst import Analyst
from ctsql.planner.binding.binder import Binder, qualify
from ctsql.planner.syntax.ast import CreateContinualTask, RelationRef
from ctsql.runtime.engine import Engine
from ctsql.runtime.tasks.tallies import QUARANTINE_COLUMNS
from ctsql.runtime.warehouse.warehouse import Warehouse


class Namespace:
    """The catalog, with the schema of unqualified names. ``bound_by``: the newest binder's."""

    def __init__(self, engine: Engine, search_schema: str) -> None:
        self.engine = engine
        self.search_schema = search_schema
        self.bound_by: Catalog | None = None

    def catalog(self) -> Catalog:
        """The newest catalog."""
        return self.engine.refresh_catalog()

    def warehouse(self) -> Warehouse:
        """The warehouse, for the planners of views."""
        return self.engine.warehouse

    def in_schema(self, schema: str) -> "Namespace":
        """The same with another schema of unqualified names."""
        return Namespace(self.engine, schema)

    def columns_now(self, item: Item) -> tuple[Column, ...]:
        """The current columns of an object, even if another writer changed its table."""
        return self.engine.relations.columns_now(item)

    def analyst(self, catalog: Catalog) -> Analyst:
        """The engine's analyser over the objects of a catalog."""
        return self.engine.queries.analyst(
            lambda object_id: self.columns_now(catalog.items[object_id])
        )

    def binder(self) -> Binder:
        """A binder on the newest catalog."""
        catalog = self.bound_by = self.catalog()
        return Binder(
            catalog,
            self.search_schema,
            self.analyst(catalog),
            columns_of=self.columns_now,
            external_kind=self.engine.external.kind,
        )

    def columns_of(self, ref: RelationRef) -> tuple[Column, ...]:
        """The current columns of a relation; none if there is no such object."""
        item = self.engine.catalog.find(qualify(ref, self.search_schema))
        return () if item is None else self.columns_now(item)

    def of_kind(self, ref: RelationRef, record: type[Record], *, only: str | None = None) -> Record:
        """The object with a name; raises WRONG_OBJECT_KIND if it is of another kind.

        ``only`` is the hint if the statement takes no other kind.
        """
        catalog, kind = self.engine.refresh_catalog(), record.kind
        item = catalog.get(qualify(ref, self.search_schema), span=ref.span, kind=kind.value)
        if not isinstance(item, record):
            hint = only or f"Write {item.kind.keyword} instead of {kind.keyword}."
            if record is Task and isinstance(item, TaskOutput):
                hint = f"It is written by continual task {catalog.items[item.owner].name}: name it."
            raise item.wrong_kind(kind.value, hint, ref.span)
        return item

    def free(self, ref: RelationRef, kind: ObjectKind, *, quiet: bool) -> Name | None:
        """The name of a new object; None if it exists and ``quiet`` (IF NOT EXISTS) is set."""
        name = qualify(ref, self.search_schema)
        catalog = self.engine.refresh_catalog()
        check_schema(catalog, name.schema, ref.span)
        item = catalog.find(name)
        if item is not None and quiet and item.kind is kind:
            return None
        check_free(catalog, name, ref.span, quiet=quiet)
        return name

    def new(self, record: type[Record], name: Name, span: Span, comment: str | None) -> Record:
        """A new object of a kind with a new id, part of its folder's name; raises INVALID_NAME."""
        check_new_name(name.name, span)
        object_id = uuid.uuid4().hex
        location = f"{self.engine.location}/{folder_part(name.schema)}/{folder_part(name.name)}"
        text = "" if record is TaskOutput else span.text
        return record(
            id=object_id,
            name=name,
            comment=comment,
            definition=Definition(text=text, search_schema=self.search_schema),
            storage=None if record is View else Storage(location=f"{location}-{object_id[:8]}"),
        )

    def new_outputs(self, statement: CreateContinualTask) -> list[TaskOutput]:
        """New items for the OUTPUTS (...) of a task, in order; none without them."""
        return [
            self.new(TaskOutput, qualify(ref, self.search_schema), ref.span, None)
            for ref in (output.target for output in statement.outputs)
        ]


def check_no_quarantine(catalog: Catalog, item: Item, span: Span) -> None:
    """Raise NOT_SUPPORTED for a quarantine, which only its owner changes."""
    owner = owner_of_quarantine(catalog, item)
    if owner is not None:
        what = "changing or dropping a quarantine by itself"
        why = f'"{item.name}" belongs to {owner.kind.value} "{owner.name}".'
        hint = (
            f"Type: ALTER {owner.kind.keyword} {owner.name} DROP CONSTRAINT ..., or DROP "
            f"{owner.kind.keyword} {owner.name}"
        )
        raise not_supported(span, what, why=why, hint=hint)


def new_quarantine(names: Namespace, task: Item, span: Span) -> TaskOutput:
    """A new item for the quarantine of a task, named after it; raises OBJECT_EXISTS."""
    name = quarantine_name(task.name)
    check_free(names.engine.refresh_catalog(), name, span, quiet=False)
    quarantine = names.new(TaskOutput, name, span, None)
    columns = tuple(Column(column, kind) for column, kind in QUARANTINE_COLUMNS)
    owner = Reading(name=task.name, object_id=task.id, columns=())
    return quarantine.bound(columns, (owner,))


_REPLACEABLE = (ObjectKind.VIEW, ObjectKind.MATERIALIZED_VIEW, ObjectKind.CONTINUAL_TASK)


class OnNames:
    """The base of classes that run statements."""

    def __init__(self, names: Namespace) -> None:
        self.names = names
        self.engine = names.engine


def check_schema(catalog: Catalog, schema: str, span: Span) -> None:
    """Raise UNKNOWN_SCHEMA unless a schema exists, or SYSTEM_SCHEMA for that one."""
    if is_system(schema) and fold(schema) not in catalog.schemas:
        raise made_in_system(span)
    if fold(schema) not in catalog.schemas:
        hint = f"Type: CREATE SCHEMA {quote(schema)}"
        raise error("UNKNOWN_SCHEMA", span=span, name=schema, hint=hint)


def check_free(catalog: Catalog, name: Name, span: Span | None, *, quiet: bool) -> None:
    """Raise OBJECT_EXISTS if a name is taken."""
    item = catalog.find(name)
    if item is not None:
        hint = "Choose another name. "
        if item.kind in _REPLACEABLE:
            hint += f"CREATE OR REPLACE {item.kind.keyword} gives it another definition."
        else:
            hint += f"To delete its rows: {drop_text(catalog, item)}"
        if quiet:
            hint = "IF NOT EXISTS skips only an object of the same kind."
        raise error(
            "OBJECT_EXISTS", span=span, kind=item.kind.value, name=str(item.name), hint=hint
        )


def drop_text(catalog: Catalog, item: Item) -> str:
    """The statement that drops an object; for an output, the one that drops its task."""
    target = catalog.items[item.owner] if isinstance(item, TaskOutput) else item
    keyword = ObjectKind.TABLE.keyword if target.problem else target.kind.keyword
    return f"DROP {keyword} {target.name}"
