"""The CREATE statements.

A creation checks and binds, creates the table in a new folder, writes its first contents, and
commits the catalog. Before that commit the object does not exist: a kill leaves at most an unused
folder.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from ctsql.catalog import times
from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.dependencies import all_readers, check_no_cycle, quarantine_of
from ctsql.catalog.errors import DataError, bad_option, error, not_supported
from ctsql.catalog.items import (
    Definition,
    Item,
    MaterializedView,
    ObjectKind,
    Reading,
    Record,
    Storage,
    Table,
    Task,
    TaskOutput,
    View,
    altered_meanwhile,
    columns_in_use,
    made_by_flow,
)
from ctsql.catalog.names import Name, fold, quote
from ctsql.catalog.refreshes import At, RefreshPart
from ctsql.catalog.schemas import (
    commented,
    find,
    lacking,
    same_columns,
)
from ctsql.catalog.spans import Span
from ctsql.catalog.system_tables import is_system, made_in_system
from ctsql.planner.binding.binder import BoundDefinition, qualify
from ctsql.planner.binding.checks import (
    check_listed,
    check_table_columns,
)
from ctsql.planner.binding.task import bind_task
from ctsql.planner.nodes import descend
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.planner.syntax.statements.options import (
    LOCATION,
    STORAGE_OPTIONS,
    VECTORS,
    fixed_options,
)
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock, fault_points as faults
from ctsql.runtime.log.failures import FOR_ROWS_AT_FAULT, is_failure_of
from ctsql.runtime.spark.failures.errors import conflict_errors, translate_spark_errors
from ctsql.runtime.statements.definitions.cutover import Redefinition, check_reads
from ctsql.runtime.statements.definitions.first_rows import backfill_of, fill, source_of
from ctsql.runtime.statements.definitions.output_tables import (
    make_table,
    undo_on_failure,
)
from ctsql.runtime.statements.definitions.view_change import with_quarantine
from ctsql.runtime.statements.dml.dml import run_on_table, target_table
from ctsql.runtime.statements.dml.stored_rules import stored_constraints
from ctsql.runtime.statements.objects.name_resolution import (
    Namespace,
    OnNames,
    check_free,
    check_no_quarantine,
    check_schema,
    drop_text,
    new_quarantine,
)
from ctsql.runtime.statements.objects.refresh_view import (
    check_not_finished,
    expect_follower,
)
from ctsql.runtime.statements.tables.alter_table import COMMITTED_MEANWHILE, store_constraints
from ctsql.runtime.statements.tables.columns_read import readers_of_changed
from ctsql.runtime.tasks.progress import check_not_suspended
from ctsql.runtime.views.change_plans import check_followed
from ctsql.runtime.warehouse.relations import columns_of
from ctsql.runtime.warehouse.stores.location import check_outside, is_within
from ctsql.runtime.warehouse.table_checks import identify
from ctsql.runtime.warehouse.times.multi_table_commit import alone

_Output = st.CreateContinualTask | st.CreateMaterializedView


class Creation(OnNames):
    """The CREATE statements; each method returns the status line.

    Args:
        flow: for a flow's objects, their part in it, see :class:`Item`.
    """

    def __init__(self, names: Namespace, flow: str = "") -> None:
        super().__init__(names)
        self.flow = flow

    def create_schema(self, statement: st.CreateSchema) -> str:
        """CREATE SCHEMA."""

        def add_schema(current: Catalog) -> Catalog:
            if fold(statement.name) in current.schemas:
                if statement.if_not_exists:
                    return current
                raise error(
                    "OBJECT_EXISTS", span=statement.name_span, kind="schema", name=statement.name
                )
            if is_system(statement.name):
                raise made_in_system(statement.name_span)
            return current.with_schema(statement.name)

        self.engine.change_catalog(add_schema)
        return "CREATE SCHEMA"

    def create_table(self, statement: st.CreateTable) -> str:
        """CREATE TABLE, with columns, [OR REPLACE] AS SELECT, or attached."""
        if statement.or_replace:
            wanted = qualify(statement.target, self.names.search_schema)
            old = self.names.catalog().find(wanted)
            if isinstance(old, Table):
                return self._replace_table(old, statement)
            if old is not None:
                hint = f"Drop it first: {drop_text(self.engine.catalog, old)}"
                raise old.wrong_kind(ObjectKind.TABLE.value, hint, statement.target.span)
        name = self.names.free(statement.target, ObjectKind.TABLE, quiet=statement.if_not_exists)
        if name is None:
            return "CREATE TABLE (exists already)"
        item = self.names.new(Table, name, statement.span, statement.comment)
        if statement.location is not None:
            item = self.attach(item, statement)
            span = statement.location_span
            self.register(item, check=lambda current, new: check_place_free(current, new, span))
        else:
            check_listed(statement.columns)
            with undo_on_failure(self.engine, [item]):
                self.register(self.make_table(item, statement))
        self.engine.mint()
        return "CREATE TABLE"

    def make_table(self, item: Table, statement: st.CreateTable) -> Table:
        """Make a new table in its folder, which the caller deletes if that fails."""
        assert item.location is not None  # a table has a folder
        run_on_table(
            self.engine,
            statement.text,
            statement.target,
            item.location,
            self.names.search_schema,
            run=self.engine.session.sql,
        )
        store_constraints(self.engine, item.location, statement.constraints)
        item = self.as_stored(item)
        faults.point("catalog_table_made")
        check_table_columns(item.columns, statement.span)
        return item

    def _replace_table(self, old: Table, statement: st.CreateTable) -> str:
        """Replace rows, columns and partitions in one commit of the table, which keeps its id.

        Raises:
            COLUMNS_IN_USE: an object reads a column that is dropped or gets another type.
                NOT_SUPPORTED: the table has constraints, or CLUSTER BY, which the commit would
                lose. ALTERED_MEANWHILE: another process has committed to it.
        """
        engine, query, span = self.engine, statement.query, statement.target.span
        assert query is not None  # it has been parsed so
        target_table(engine, statement.target, self.names.search_schema)
        constraint = next(stored_constraints(engine.relations.table(old).configuration()), None)
        if constraint is not None:
            hint = f"Type first: ALTER TABLE {old.name} DROP CONSTRAINT {quote(constraint.name)}"
            raise not_supported(span, "replacing a table that has constraints", hint=hint)
        before = engine.relations.columns_now(old)
        rows = engine.advance_and_read(
            self.names.binder().bind_select(st.Select(span=query.span, query=query))
        )
        columns = columns_of(rows.schema)
        check_table_columns(columns, query.span)
        there, new = replace(old, columns=before), replace(old, columns=columns)
        check_columns_unread(engine, engine.catalog, there, new, span)
        if engine.relations.table(old).has_feature("clustering"):
            hint = f"To replace its rows alone: BEGIN; DELETE FROM {old.name}; INSERT ...; COMMIT"
            raise not_supported(span, "replacing a table that has CLUSTER BY", hint=hint)

        def note(current: Catalog) -> Catalog:
            item = replace(
                self.as_stored(still_there(current, old)),
                definition=Definition(
                    text=statement.span.text, search_schema=self.names.search_schema
                ),
                comment=statement.comment,
            )
            return current.with_items([item])

        with alone(engine.timeline, old, engine.mint) as location, engine.leaving_intents():
            if engine.relations.columns_now(old) != before:
                raise altered_meanwhile(old, COMMITTED_MEANWHILE)
            try:
                with translate_spark_errors():
                    writer = rows.write.format("delta").mode("overwrite")
                    writer = writer.partitionBy(*statement.partitions)
                    writer.option("overwriteSchema", "true").save(location)
            except conflict_errors() as problem:
                raise altered_meanwhile(old, COMMITTED_MEANWHILE) from problem
            faults.point("source_committed")
            engine.change_catalog(note)
        engine.mint()
        return "CREATE TABLE (replaced)"

    def attach(self, item: Table, statement: st.CreateTable) -> Table:
        """The item of an existing table, at LOCATION."""
        gateway = self.engine.gateway
        location = gateway.qualify(statement.location or "")
        item = replace(item, storage=Storage(location=location, managed=False))
        check_place_free(self.names.catalog(), item, statement.location_span)
        span = statement.location_span
        check_outside(location, self.engine.location, LOCATION, span, is_folder=True, is_new=False)
        if not gateway.exists(location):
            raise error(
                "NOT_A_DELTA_TABLE",
                span=statement.location_span,
                location=statement.location,
                detail="The folder has no _delta_log.",
                hint="Give the folder of an existing Delta table, or write a column list "
                "instead of LOCATION to make a new one.",
            )
        return self.as_stored(item)

    def as_stored(self, item: Table) -> Table:
        """Add the columns and the id of the stored table."""
        relations = self.engine.relations
        return replace(identify(relations, item), columns=relations.stored_columns(item))

    def create(self, statement: st.CreateView | _Output) -> str:
        """CREATE a view or a task of a free name; its first contents are written at once."""
        names = self.names
        name = qualify(statement.target, names.search_schema)
        check_schema(names.catalog(), name.schema, statement.target.span)
        done = f"CREATE {statement.kind.keyword}"
        if isinstance(statement, st.CreateView):
            self.register(self.view(statement, name, None)[0])
            return done
        item: Item
        parts: Sequence[Item]
        if isinstance(statement, st.CreateMaterializedView):
            item, away, bound = self.materialized_view(statement, name, None)
            parts, first = [away] if away else [], None
        else:
            for output in statement.outputs:
                names.free(output.target, ObjectKind.TASK_OUTPUT, quiet=False)
            item, parts, bound, first = self.new_task(name, statement)
        vectors = keeps_vectors(statement)
        with self.built(item, bound, parts, has_vectors=vectors, first=first) as items:
            self.register(*items)
        return done

    def view(
        self, statement: st.CreateView, name: Name, old: View | None
    ) -> tuple[View, BoundDefinition]:
        """The plain view that a statement defines, replacing ``old``, and its plan."""
        bound = self.names.binder().bind_view(statement)
        item = self.names.new(View, name, statement.span, statement.comment)
        if old is not None:
            definition = replace(item.definition, number=old.revision + 1)
            item = replace(item, id=old.id, name=old.name, definition=definition)
        return item.bound(bound.columns, bound.reads), bound

    def materialized_view(
        self, statement: st.CreateMaterializedView, name: Name, old: MaterializedView | None
    ) -> tuple[MaterializedView, MaterializedView | None, BoundDefinition]:
        """The view that a statement defines, replacing ``old``; its quarantine; its plan."""
        engine, names = self.engine, self.names
        if old is None:
            check_refresh_times(statement, clock.now_ms())
            item = names.new(MaterializedView, name, statement.span, statement.comment)
            item = self._placed(item, statement)
        else:
            check_no_quarantine(engine.catalog, old, statement.target.span)
            self._check_same_storage(old, statement)
            typed = replace(
                old.definition.followed_by(statement.span.text, ()),
                search_schema=names.search_schema,
                flow=self.flow,
            )
            item = replace(old, definition=typed, comment=statement.comment)
        bound = names.binder().bind_materialized_view(statement, item)
        check_followed(names.warehouse(), bound.view)
        return *with_quarantine(names, item.bound(bound.columns, bound.reads), statement), bound

    def redefined(
        self, old: MaterializedView, statement: st.CreateMaterializedView
    ) -> Redefinition:
        """The redefinition of a view and its quarantine; comments stay.

        The cutover raises RECURSIVE_DEFINITION or COLUMNS_IN_USE if a view cannot be replaced.
        """
        later, away, _ = self.materialized_view(statement, old.name, old)
        later = replace(later, columns=commented(old.columns, later.columns), comment=old.comment)
        before, span = quarantine_of(self.engine.catalog, old), statement.target.span
        pairs = [(old, later), *([(before, away)] if before and away else [])]

        return Redefinition(
            bound_on=self.names.bound_by or self.engine.catalog,
            changes=tuple(pairs),
            new=(away,) if away and not before else (),
            drop=(before,) if before and not away else (),
            check=partial(check_replaced, self.engine, pairs, span),
            span=span,
        )

    def check_goes_on(self, old: MaterializedView, statement: st.CreateMaterializedView) -> None:
        """Raise if a view is finished, or would be finished by its new definition."""
        check_refresh_times(statement, clock.now_ms())
        check_not_finished(self.engine, old)
        check_not_suspended(self.engine.warehouse, old)

    def _check_same_storage(self, old: Item, statement: st.CreateMaterializedView) -> None:
        """Raise NOT_SUPPORTED if a statement changes how a view's table is stored."""
        definition = parse_as(st.CreateMaterializedView, old.definition.text, str(old.name))
        if fixed_options(definition.options) != fixed_options(statement.options):
            what = f"another {' or '.join(STORAGE_OPTIONS)} for an existing view"
            why = "They are set when it is created."
            hint = f"Drop it first: {drop_text(self.engine.catalog, old)}"
            raise not_supported(statement.target.span, what, why=why, hint=hint)

    def _storage_of(self, statement: _Output) -> Storage | None:
        """The folder of LOCATION, which must be empty; None for one that ctsql names."""
        option = next((o for o in statement.options if o.name == LOCATION), None)
        if option is None:
            return None
        if isinstance(statement, st.CreateContinualTask) and statement.outputs:
            detail = "Each output has its own folder."
            value = "a folder for several outputs"
            raise bad_option(option.span, LOCATION, detail, value=value)
        location = self.engine.gateway.qualify(str(option.value)).rstrip("/")
        check_outside(location, self.engine.location, LOCATION, option.value_span, is_folder=True)
        owner = next((i for i in self.names.catalog() if i.location == location), None)
        if owner is not None or self.engine.gateway.entries(location) != []:
            detail, hint = "An output begins in an empty folder.", ""
            if owner is not None:
                detail = f"It is the folder of {owner.kind.value} {owner.name}."
            for drop, item in self.engine.catalog.all_dropped():
                if item.location == location:
                    detail = f"It holds {item.kind.value} {item.name}, which was dropped."
                    hint = f"To delete its rows: {drop.undrop_text(item)}; "
                    hint += f"DROP {item.kind.keyword} {item.name} PURGE"
            path = str(option.value)
            raise error("FILE_EXISTS", span=option.value_span, path=path, detail=detail, hint=hint)
        return Storage(location=location)

    def _placed(self, item: Record, statement: _Output) -> Record:
        """A new object with the folder of its LOCATION, and its flow."""
        storage = self._storage_of(statement) or item.storage
        return made_by_flow(replace(item, storage=storage), self.flow)

    def new_task(
        self, name: Name, statement: st.CreateContinualTask
    ) -> tuple[Task, list[TaskOutput], BoundDefinition, Definition | None]:
        """The task that a statement defines, its outputs and quarantine, and its bound definition.

        The last value copies its first rows; None without BACKFILL FROM.
        """
        item = self.names.new(Task, name, statement.span, statement.comment)
        parts = self.names.new_outputs(statement)
        item = self._placed(item, statement)
        if parts:
            item = replace(item, storage=None, outputs=tuple(o.id for o in parts))
        bound = bind_task(self.names.binder(), statement, item, parts)
        if bound.task.has_quarantine:
            quarantine = new_quarantine(self.names, item, statement.target.span)
            item = replace(item, quarantine=quarantine.id)
            parts = [*parts, quarantine]
        item = replace(item, columns=bound.columns)
        first = backfill_of(self.names, statement, item)
        if statement.backfill is not None:
            item = replace(item, backfill=source_of(self.names, statement.backfill).id)
        return item, parts, bound, first

    @contextmanager
    def built(
        self,
        item: Item,
        bound: BoundDefinition,
        parts: Sequence[Item] = (),
        *,
        has_vectors: bool,
        first: Definition | None = None,
        since: int | None = None,
    ) -> Iterator[list[Item]]:
        """Within the block an object's tables exist and are advanced to now; no catalog has it.

        Yields what to register. If the block raises, unregistered tables are deleted.

        Args:
            parts: what is made with it: the outputs of a task, a quarantine, the view of a flow.
            first: the definition that copies a task's first rows. since: the T at which it begins;
                None for the newest.
        """
        engine = self.engine
        reads = [engine.relations.item(r.object_id) for r in bound.reads]
        first_reads = () if first is None else first.reads
        sources = [*reads, *(engine.relations.item(r.object_id) for r in first_reads)]
        engine.mint()
        for read in reads:
            check_not_suspended(engine.warehouse, read)
        if isinstance(item, Task):
            expect_follower(engine, reads)
        has_refreshes = getattr(bound.plan, "refresh", None) is not None
        # If another process advanced an unfollowed view past `now`, its contents at `now` are not
        # stored: take the next T.
        while True:
            now = engine.mint_fresh() if has_refreshes else engine.mint_for(sources)
            engine.advance(reads, now)
            uppers = [engine.versions.stored_upper(r) for r in reads if r.is_output]
            if all(upper <= now + 1 or upper == times.CLOSED for upper in uppers):
                break
        begin = now if since is None else since
        item = replace(item.bound(bound.columns, bound.reads), created_at=begin)
        items = [item, *complete_outputs(parts, item, bound)]
        with undo_on_failure(engine, items):
            items = [
                i if i.location is None else make_table(engine, i, has_vectors=has_vectors)
                for i in items
            ]
            try:
                fill(engine, items, first, now)
            except DataError as problem:
                if is_failure_of(problem, item):
                    problem.detail = "It was not created: it failed on existing rows of its inputs."
                    problem.hint = (
                        f"Give it a body that can compute them, {FOR_ROWS_AT_FAULT}. To begin with "
                        "rows that are inserted from now on: WITH (SNAPSHOT = false)"
                    )
                raise
            yield items

    def register(
        self, *items: Item, check: Callable[[Catalog, Item], None] = lambda *_: None
    ) -> None:
        """Commit objects to the catalog, all at once; they may read each other."""

        def add_items(current: Catalog) -> Catalog:
            catalog = current.with_items(items)
            for item in items:
                check_free(current, item.name, None, quiet=False)
                check(current, item)
                check_reads(self.names.bound_by or catalog, catalog, item.reads)
            return catalog

        self.engine.change_catalog(add_items)


def check_place_free(catalog: Catalog, table: Item, span: Span | None) -> None:
    """Refuse to attach a table inside the folder of an object, or around one.

    Only tables that others made may be within each other: MAINTAIN removes no file of theirs.

    Raises:
        OBJECT_EXISTS: an object has its rows there. NOT_SUPPORTED: a dropped object has, or an
            object is within.
    """
    place = table.location or ""
    for owner in catalog:
        at = owner.location
        if at is None or owner.id == table.id:
            continue
        is_in, is_around = is_within(place, at), is_within(at, place)
        if (is_in and is_around) or (is_in and owner.managed):
            hint = f"It is the table at that location; read it as {owner.name}."
            kind, name = owner.kind.value, str(owner.name)
            raise error("OBJECT_EXISTS", span=span, kind=kind, name=name, hint=hint)
        if is_around and owner.managed:
            why = f"{place} holds {owner.kind.value} {owner.name}."
            raise not_supported(span, "LOCATION around an object", why=why)
    for drop, gone in catalog.all_dropped():
        if gone.managed and gone.location is not None and is_within(place, gone.location):
            why = f"{place} holds {gone.kind.value} {gone.name}, which was dropped."
            hint = f"Type: {drop.undrop_text(gone)}"
            raise not_supported(span, "LOCATION of a dropped object", why=why, hint=hint)


def task_that_follows(engine: Engine, view: Item) -> Item | None:
    """The task that has a plain view as its input, if one has."""
    for reader in all_readers(engine.catalog, view.id):
        if isinstance(reader, Task):
            views = engine.relations.bound(reader).task.input_views
            if any(getattr(n, "object_id", None) == view.id for v in views for n in descend(v)):
                return reader
    return None


def complete_outputs(parts: Sequence[Item], task: Item, bound: BoundDefinition) -> list[Item]:
    """Complete what is made with an object, after that was bound; views are bound already."""
    owner = Reading(name=task.name, object_id=task.id, columns=())
    complete = []
    for part in parts:
        if not isinstance(part, MaterializedView):
            columns = {o.object_id: o.columns for o in bound.task.outputs}
            part = part.bound(columns.get(part.id, part.columns), (owner,))
        complete.append(replace(part, created_at=task.created_at))
    return complete


def check_replaced(
    engine: Engine, pairs: Sequence[tuple[Item, Item]], span: Span, current: Catalog
) -> None:
    """Raise if objects cannot be replaced in a catalog; ``pairs``: each before and after.

    Raises:
        RECURSIVE_DEFINITION: a view's query reads what reads the view. COLUMNS_IN_USE: a reader
            reads a column that would be gone.
    """
    for old, item in pairs:
        if isinstance(item, View | MaterializedView):
            check_no_cycle(current, old, item.reads, span)
        check_columns_unread(engine, current, old, item, span)


def check_columns_unread(
    engine: Engine,
    catalog: Catalog,
    old: Item,
    new: Item,
    span: Span,
    without: Collection[str] = (),
) -> None:
    """Raise COLUMNS_IN_USE if the new view lacks a column that a reader reads.

    ``without`` are the ids of readers that are redefined or dropped with it.
    """
    if same_columns(old.columns, new.columns):
        return
    readers = readers_of_changed(engine, catalog, old, new.columns)
    readers = [r for r in readers if r.id not in without]
    if readers:
        losses = [
            c
            for c in lacking(old.columns, new.columns)
            if readers_of_changed(engine, catalog, old, tuple(o for o in old.columns if o is not c))
        ]
        reader_names = ", ".join(str(i.name) for i in readers)
        hint = "Keep the columns, or create one under another name and change its readers one "
        hint += "by one."
        current = engine.relations.current
        late = next((i for i in readers if i.revision != current(i).revision), None)
        if late is not None:
            hint = f'"{late.name}" is suspended, and must first run the Ts that it has missed. '
            hint += f"Type: ALTER CONTINUAL TASK {late.name} RESUME"
        then = [(c, find(new.columns, c.name)) for c in losses]
        gone = [f"Column {c.name} would be dropped." for c, now in then if now is None]
        gone += [f"Column {c.name} would no longer be {c.type.upper()}." for c, now in then if now]
        detail = f"{' '.join(gone)} Its readers: {reader_names}."
        raise columns_in_use(old, detail, span, hint)


def check_refresh_times(statement: st.CreateMaterializedView, now_ms: int) -> None:
    """Raise INVALID_OPTION for a single refresh AT a past time: the view would always be empty."""
    parts = [(o, o.value) for o in statement.options if isinstance(o.value, RefreshPart)]
    if any(not isinstance(part, At) or part.time is None for _, part in parts):
        return
    for option, part in parts:
        if isinstance(part, At) and part.time is not None and part.time < now_ms:
            detail = f"It is {times.to_iso(now_ms)} now, so there would be no such refresh."
            hint, value = "Add REFRESH AT CREATION, or give a later time.", "a time that has passed"
            raise bad_option(option.value_span, "REFRESH AT", detail, value=value, hint=hint)


def keeps_vectors(statement: _Output) -> bool:
    """Whether a definition has not turned deletion vectors off."""
    return all(o.value is True for o in statement.options if o.name == VECTORS)
