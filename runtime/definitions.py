"""Making, changing and dropping objects.

Order of a creation: check and bind; make the table in a folder nobody knows; write the first
contents into it; commit the catalog. Until that commit the object does not exist, so a creation
that fails or is killed leaves no object (a kill may leave a folder that nobody reads).
Order of a drop: commit the catalog, then delete the folders.
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item, ObjectKind
from ctsql.catalog.names import DEFAULT_SCHEMA, Name, fold, quote
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Span
from ctsql.planner.binding import Binder, Bound, qualify
from ctsql.planner.lowering import Context, lower_query, lower_transaction, lower_view
from ctsql.planner.nodes import Node, Query, TaskWrite, ViewWrite
from ctsql.planner.rules import transform
from ctsql.planner.syntax.statements import (
    CommentOn,
    CreateContinualTask,
    CreateMaterializedView,
    CreateSchema,
    CreateTable,
    CreateView,
    DropObject,
    Explain,
    RefreshView,
    RelationRef,
    RenameObject,
    Select,
)
from ctsql.runtime import faults
from ctsql.runtime.analysis import SparkAnalyst
from ctsql.runtime.engine import Engine
from ctsql.runtime.source_writes import run_on_table
from ctsql.runtime.sources import ExplainedSources
from ctsql.runtime.spark_errors import converted

Creation = CreateContinualTask | CreateMaterializedView


class Definitions:
    """The statements that change the catalog.

    Args:
        search_schema: where unqualified names are looked up and made.
    """

    def __init__(self, engine: Engine, search_schema: str) -> None:
        self.engine = engine
        self.search_schema = search_schema

    def binder(self) -> Binder:
        """A binder on the newest catalog."""
        catalog = self.engine.refresh_catalog()
        analyst = SparkAnalyst(self.engine.session, catalog)
        return Binder(catalog, self.search_schema, analyst)

    # ---- create

    def create_table(self, statement: CreateTable) -> str:
        """CREATE TABLE, with columns, AS SELECT, or attached; gives the status line."""
        name = self._free(statement.target, ObjectKind.TABLE, quiet=statement.if_not_exists)
        if name is None:
            return "CREATE TABLE (exists already)"
        item = self._new(name, ObjectKind.TABLE, statement.span, statement.comment)
        if statement.location is not None:
            item = self._attached(item, statement)
            self._register(item)
        else:
            assert item.location is not None  # a table has a folder
            with self._undone_on_failure(item):
                run_on_table(
                    self.engine,
                    statement.text,
                    statement.target,
                    item.location,
                    self.search_schema,
                )
                faults.point("catalog_table_made")
                item = replace(item, columns=self._stored_columns(item))
                self._register(item)
        self.engine.mint()
        return "CREATE TABLE"

    def _attached(self, item: Item, statement: CreateTable) -> Item:
        gateway = self.engine.gateway
        location = gateway.qualified(statement.location or "")
        if not gateway.exists(location):
            raise error(
                "NOT_A_DELTA_TABLE",
                span=statement.location_span,
                location=statement.location,
                detail="The folder has no _delta_log.",
                hint="Give the folder of an existing Delta table, or write a column list "
                "instead of LOCATION to make a new one.",
            )
        owner = next((i for i in self.engine.catalog if i.location == location), None)
        if owner is not None:
            raise error(
                "OBJECT_EXISTS",
                span=statement.location_span,
                kind=owner.kind.value,
                name=str(owner.name),
                hint=f"It is the table at that location; read it as {owner.name}.",
            )
        item = replace(item, location=location, managed=False)
        return replace(item, columns=self._stored_columns(item))

    def _stored_columns(self, item: Item) -> tuple[Column, ...]:
        frame = self.engine.objects.table(item).frame_of(())
        comments = {f.name: f.metadata.get("comment") for f in frame.schema}
        return tuple(
            Column(f.name, f.dataType.simpleString(), f.nullable, comments[f.name])
            for f in frame.schema
        )

    def create_view(self, statement: CreateView) -> str:
        """CREATE [OR REPLACE] VIEW."""
        old = self._replaced(statement.target, ObjectKind.VIEW, statement.or_replace)
        name = old.name if old else self._free(
            statement.target, ObjectKind.VIEW, quiet=statement.if_not_exists
        )
        if name is None:
            return "CREATE VIEW (exists already)"
        bound = self.binder().bind_view(statement)
        item = self._new(name, ObjectKind.VIEW, statement.span, statement.comment)
        item = replace(item, columns=bound.columns, reads=bound.reads)
        if old is not None:
            item = replace(item, id=old.id)
            self._check_replacement(old, item, statement.target.span)
            self.engine.catalog_store.change(lambda c: c.with_item(item))
            self.engine.refresh_catalog()
        else:
            self._register(item)
        return "CREATE VIEW"

    def _replaced(self, ref: RelationRef, kind: ObjectKind, or_replace: bool) -> Item | None:
        """The object that OR REPLACE replaces, if there is one."""
        found = self.engine.refresh_catalog().find(qualify(ref, self.search_schema))
        if not or_replace or found is None:
            return None
        if found.kind is not kind:
            raise error(
                "WRONG_OBJECT_KIND",
                span=ref.span,
                name=str(found.name),
                found=found.kind.value,
                wanted=kind.value,
                hint=f"Drop it first: DROP {found.kind.keyword} {found.name}",
            )
        return found

    def _check_replacement(self, old: Item, new: Item, span: Span) -> None:
        catalog = self.engine.catalog
        if any(i.id == old.id for i in catalog.closure([r.object_id for r in new.reads])):
            raise error(
                "RECURSIVE_DEFINITION",
                span=span,
                name=str(old.name),
                detail="The new query reads it, directly or through other views.",
            )
        if catalog.readers(old.id) and _signature(old) != _signature(new):
            names = ", ".join(str(i.name) for i in catalog.readers(old.id))
            raise error(
                "DEPENDENT_OBJECTS",
                span=span,
                kind=old.kind.value,
                name=str(old.name),
                keyword=old.kind.keyword,
                dependants=f"The new columns differ, and it is read by {names}.",
            )

    def create_materialized_view(self, statement: CreateMaterializedView) -> str:
        """CREATE [OR REPLACE] MATERIALIZED VIEW; its first contents are written at once."""
        kind = ObjectKind.MATERIALIZED_VIEW
        old = self._replaced(statement.target, kind, statement.or_replace)
        if old is not None:
            return self._replace_materialized_view(old, statement)
        name = self._free(statement.target, kind, quiet=statement.if_not_exists)
        if name is None:
            return "CREATE MATERIALIZED VIEW (exists already)"
        item = self._new(name, kind, statement.span, statement.comment)
        bound = self.binder().bind_materialized_view(statement, item)
        self._create_output(item, bound)
        return "CREATE MATERIALIZED VIEW"

    def _replace_materialized_view(
        self, old: Item, statement: CreateMaterializedView
    ) -> str:
        """The same table goes on under another query: the next T writes the difference."""
        bound = self.binder().bind_materialized_view(statement, old)
        item = replace(
            old,
            definition=statement.span.text,
            search_schema=self.search_schema,
            reads=bound.reads,
            columns=bound.columns,
            comment=statement.comment,
        )
        self._check_replacement(old, item, statement.target.span)
        if _signature(old) != _signature(item):
            raise error(
                "NOT_SUPPORTED_YET",
                span=statement.target.span,
                what="CREATE OR REPLACE MATERIALIZED VIEW with other columns",
                hint=f"Type: DROP MATERIALIZED VIEW {old.name}, then create it.",
            )
        self.engine.catalog_store.change(lambda c: c.with_item(item))
        self.engine.refresh_catalog()
        self.engine.refresh_view(item, full=True)
        return "CREATE MATERIALIZED VIEW"

    def create_task(self, statement: CreateContinualTask) -> str:
        """CREATE CONTINUAL TASK; with SNAPSHOT its first run happens at once."""
        kind = ObjectKind.CONTINUAL_TASK
        name = self._free(statement.target, kind, quiet=statement.if_not_exists)
        if name is None:
            return "CREATE CONTINUAL TASK (exists already)"
        item = self._new(name, kind, statement.span, None)
        bound = self.binder().bind_task(statement, item)
        self._create_output(item, bound)
        return "CREATE CONTINUAL TASK"

    def _create_output(self, item: Item, bound: Bound) -> None:
        """Make the table, bring it to now, and only then let the object exist."""
        engine = self.engine
        now = engine.mint()
        engine.advance([engine.objects.item(r.object_id) for r in bound.reads], now)
        item = replace(item, columns=bound.columns, reads=bound.reads, created=now)
        with self._undone_on_failure(item):
            with converted():
                engine.session.sql(_create_table_text(item))
            faults.point("catalog_table_made")
            engine.objects.use(engine.catalog.with_item(item))
            engine.advance([item], now)
            self._register(item)

    # ---- change and drop

    def drop(self, statement: DropObject) -> str:
        """DROP <kind>; with CASCADE everything that reads it too."""
        keyword = statement.kind.keyword
        if statement.kind is ObjectKind.SCHEMA:
            return self._drop_schema(statement)
        catalog = self.engine.refresh_catalog()
        name = qualify(statement.target, self.search_schema)
        if statement.if_exists and catalog.find(name) is None:
            return f"DROP {keyword} (did not exist)"
        item = self._of_kind(statement.target, statement.kind)
        dropped: list[Item] = []

        def without(current: Catalog) -> Catalog:
            readers = current.all_readers(item.id)
            if readers and not statement.cascade:
                raise error(
                    "DEPENDENT_OBJECTS",
                    span=statement.target.span,
                    kind=item.kind.value,
                    name=str(item.name),
                    keyword=keyword,
                    dependants="It is read by "
                    + ", ".join(f"{i.kind.value} {i.name}" for i in current.readers(item.id))
                    + ".",
                )
            dropped[:] = [item, *readers]
            return current.without(i.id for i in dropped)

        self.engine.catalog_store.change(without)
        self._delete_folders(dropped)
        return f"DROP {keyword}"

    def _drop_schema(self, statement: DropObject) -> str:
        schema = statement.target.parts[-1]
        catalog = self.engine.refresh_catalog()
        if fold(schema) not in catalog.schemas:
            if statement.if_exists:
                return "DROP SCHEMA (did not exist)"
            raise error("UNKNOWN_SCHEMA", span=statement.target.span, name=schema, hint="")
        if fold(schema) == DEFAULT_SCHEMA:
            raise error(
                "NOT_SUPPORTED",
                span=statement.target.span,
                what='dropping the schema "default"',
                why="Unqualified names are looked up there.",
                hint="",
            )
        dropped: list[Item] = []

        def without(current: Catalog) -> Catalog:
            inside = [i for i in current if fold(i.name.schema) == fold(schema)]
            if inside and not statement.cascade:
                listed = ", ".join(f"{i.kind.value} {i.name}" for i in inside)
                raise error(
                    "SCHEMA_NOT_EMPTY",
                    span=statement.target.span,
                    name=schema,
                    objects=f"It holds {listed}.",
                )
            outside = [r for i in inside for r in current.all_readers(i.id)]
            dropped[:] = list({i.id: i for i in [*inside, *outside]}.values())
            return current.without(i.id for i in dropped).without_schema(schema)

        self.engine.catalog_store.change(without)
        self._delete_folders(dropped)
        return "DROP SCHEMA"

    def _delete_folders(self, dropped: Sequence[Item]) -> None:
        self.engine.refresh_catalog()
        for item in dropped:
            if item.location is not None:
                self.engine.gateway.forget(item.location)
                if item.managed:
                    self.engine.gateway.delete_tree(item.location)

    def rename(self, statement: RenameObject) -> str:
        """ALTER <kind> name RENAME TO new."""
        item = self._of_kind(statement.target, statement.kind)
        new = statement.new
        name = Name(new.parts[0] if len(new.parts) == 2 else item.name.schema, new.parts[-1])

        def renamed(current: Catalog) -> Catalog:
            _check_free(current, name, new.span, quiet=False)
            return current.renamed(current.items[item.id], name)

        self.check_schema(name.schema, new.span)
        self.engine.catalog_store.change(renamed)
        self.engine.refresh_catalog()
        return f"ALTER {statement.kind.keyword}"

    def comment(self, statement: CommentOn) -> str:
        """COMMENT ON <kind> name or COLUMN name.column IS text or NULL."""
        if statement.kind is None:
            item = self.engine.refresh_catalog().get(
                qualify(statement.target, self.search_schema), span=statement.target.span
            )
        else:
            item = self._of_kind(statement.target, statement.kind)
        changed = replace(item, comment=statement.comment)
        if statement.column is not None:
            wanted = fold(statement.column)
            if all(fold(c.name) != wanted for c in item.columns):
                raise error(
                    "UNKNOWN_COLUMN",
                    span=statement.target.span,
                    column=statement.column,
                    detail=f"Columns here: {', '.join(c.name for c in item.columns)}.",
                    hint="",
                )
            columns = tuple(
                replace(c, comment=statement.comment) if fold(c.name) == wanted else c
                for c in item.columns
            )
            changed = replace(item, columns=columns)
        self.engine.catalog_store.change(lambda c: c.with_item(changed))
        self.engine.refresh_catalog()
        return "COMMENT"

    def create_schema(self, statement: CreateSchema) -> str:
        """CREATE SCHEMA."""

        def with_schema(current: Catalog) -> Catalog:
            if fold(statement.name) in current.schemas:
                if statement.if_not_exists:
                    return current
                raise error(
                    "OBJECT_EXISTS",
                    span=statement.name_span,
                    kind="schema",
                    name=statement.name,
                    hint="",
                )
            return current.with_schema(statement.name)

        self.engine.catalog_store.change(with_schema)
        self.engine.refresh_catalog()
        return "CREATE SCHEMA"

    def refresh(self, statement: RefreshView) -> str:
        """REFRESH MATERIALIZED VIEW name [FULL]."""
        item = self._of_kind(statement.target, ObjectKind.MATERIALIZED_VIEW)
        self.engine.refresh_view(item, full=statement.full)
        return "REFRESH MATERIALIZED VIEW"

    # ---- explain

    def plan_of(self, statement: Explain) -> Node:
        """The plan of a statement, or of a stored object: the very value that is run."""
        if statement.target is not None and statement.kind is not None:
            return self.engine.objects.bound(self._of_kind(statement.target, statement.kind)).plan
        inner = statement.statement
        if isinstance(inner, Select):
            return self.binder().bind_select(inner)
        if isinstance(inner, CreateView):
            return transform(self.binder().bind_view(inner).plan)
        kinds = {
            CreateMaterializedView: ObjectKind.MATERIALIZED_VIEW,
            CreateContinualTask: ObjectKind.CONTINUAL_TASK,
        }
        if isinstance(inner, CreateMaterializedView | CreateContinualTask):
            name = qualify(inner.target, self.search_schema)
            item = self._new(name, kinds[type(inner)], inner.span, None)
            if isinstance(inner, CreateContinualTask):
                return self.binder().bind_task(inner, item).plan
            return self.binder().bind_materialized_view(inner, item).plan
        raise error(
            "NOT_SUPPORTED",
            span=statement.span,
            what="EXPLAIN of this statement",
            why="Only queries, views, materialized views and continual tasks have a plan.",
            hint="Type: EXPLAIN SELECT ..., or EXPLAIN CONTINUAL TASK name",
        )

    def physical(self, plan: Node) -> str:
        """Spark's plan for what a plan computes as of now; nothing is run."""
        now = self.engine.mint()
        context = Context(self.engine.session, ExplainedSources(self.engine.objects), now, now)
        with converted():
            match plan:
                case Query():
                    frames = [lower_query(plan, context)]
                case ViewWrite():
                    frames = [lower_view(plan, context)]
                case TaskWrite():
                    proposal = lower_transaction(plan.transaction, context)
                    frames = [f for f in (proposal.victims, proposal.inserts) if f is not None]
                case _:
                    raise TypeError(f"{type(plan).__name__} is no root of a plan")
            return "\n".join(f._jdf.queryExecution().toString() for f in frames)

    # ---- names

    def _of_kind(self, ref: RelationRef, kind: ObjectKind) -> Item:
        """The object of a name, which must be of a kind."""
        catalog = self.engine.refresh_catalog()
        item = catalog.get(
            qualify(ref, self.search_schema), span=ref.span, kind=kind.value
        )
        if item.kind is not kind:
            raise error(
                "WRONG_OBJECT_KIND",
                span=ref.span,
                name=str(item.name),
                found=item.kind.value,
                wanted=kind.value,
                hint=f"Write {item.kind.keyword} instead of {kind.keyword}.",
            )
        return item

    def _free(self, ref: RelationRef, kind: ObjectKind, *, quiet: bool) -> Name | None:
        """The name for a new object; None when it is taken and that is fine (IF NOT EXISTS)."""
        name = qualify(ref, self.search_schema)
        catalog = self.engine.refresh_catalog()
        self.check_schema(name.schema, ref.span)
        found = catalog.find(name)
        if found is not None and quiet and found.kind is kind:
            return None
        _check_free(catalog, name, ref.span, quiet=quiet)
        return name

    def check_schema(self, schema: str, span: Span) -> None:
        """A schema must be there."""
        if fold(schema) not in self.engine.catalog.schemas:
            raise error(
                "UNKNOWN_SCHEMA",
                span=span,
                name=schema,
                hint=f"Type: CREATE SCHEMA {quote(schema)}",
            )

    def _new(self, name: Name, kind: ObjectKind, span: Span, comment: str | None) -> Item:
        object_id = uuid.uuid4().hex
        location = f"{self.engine.warehouse}/{_folder(name.schema)}/{_folder(name.name)}"
        return Item(
            id=object_id,
            kind=kind,
            name=name,
            columns=(),
            definition=span.text,
            search_schema=self.search_schema,
            location=None if kind is ObjectKind.VIEW else f"{location}-{object_id[:8]}",
            comment=comment,
        )

    def _register(self, item: Item) -> None:
        def with_item(current: Catalog) -> Catalog:
            _check_free(current, item.name, None, quiet=False)
            gone = [r for r in item.reads if r.object_id not in current.items]
            if gone:
                raise error(
                    "UNKNOWN_RELATION",
                    kind="relation",
                    name=str(gone[0].name),
                    hint="It was dropped while this object was being created.",
                )
            return current.with_item(item)

        self.engine.catalog_store.change(with_item)
        self.engine.refresh_catalog()

    def _undone_on_failure(self, item: Item) -> "_Undone":
        return _Undone(self.engine, item)


class _Undone:
    """Deletes a new object's folder when its creation fails."""

    def __init__(self, engine: Engine, item: Item) -> None:
        self.engine = engine
        self.item = item

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or self.item.location is None:
            return
        self.engine.refresh_catalog()
        if self.item.id not in self.engine.catalog.items:
            self.engine.gateway.forget(self.item.location)
            self.engine.gateway.delete_tree(self.item.location)


def _folder(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", part)


def _signature(item: Item) -> list[tuple[str, str]]:
    return [(fold(c.name), c.type) for c in item.columns]


def _check_free(catalog: Catalog, name: Name, span: Span | None, *, quiet: bool) -> None:
    found = catalog.find(name)
    if found is not None:
        hint = f"Drop it first (DROP {found.kind.keyword} {found.name}), or choose another name."
        if quiet:
            hint = "IF NOT EXISTS skips only an object of the same kind."
        raise error(
            "OBJECT_EXISTS", span=span, kind=found.kind.value, name=str(found.name), hint=hint
        )


def _create_table_text(item: Item) -> str:
    """The output's table. Its name for Spark is its folder."""
    # What a view's query says of NOT NULL may change with its inputs; a task's columns are declared.
    keep_not_null = item.kind is ObjectKind.CONTINUAL_TASK
    columns = [replace(c, nullable=c.nullable or not keep_not_null).ddl() for c in item.columns]
    return f"CREATE TABLE delta.`{item.location}` ({', '.join(columns)}) USING delta"
