"""Binding of relations, queries and views."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import writer_of
from ctsql.catalog.errors import CtsqlError, error, invalid
from ctsql.catalog.items import Item, Reading, View
from ctsql.catalog.names import Name, backtick_all, check_new_name, fold, quote
from ctsql.catalog.refreshes import RefreshPart
from ctsql.catalog.reserved_columns import DIFF
from ctsql.catalog.schemas import Column, without_limits
from ctsql.catalog.spans import Source, Span
from ctsql.catalog.system_tables import find_system_table
from ctsql.planner import nodes as lp
from ctsql.planner.binding import checks
from ctsql.planner.binding.analyst import Analyst
from ctsql.planner.binding.constraints import bind_constraint, check_key, without_broken
from ctsql.planner.binding.definitions import definition_of, is_no_definition, reading_definition
from ctsql.planner.bodies.row_local import takes_rows_one_by_one
from ctsql.planner.syntax import ast as st, parse
from ctsql.planner.syntax.statements.options import POLICY
from ctsql.planner.syntax.tokens.name_scopes import QualifiedNames

DIFF_NAME = "diff"  # the name of the last column of ``changes(t)``

NO_TARGETS: Mapping[st.RelationRef, Sequence[str] | None] = {}

Leaf = lp.InputNode | lp.NormalReference | lp.SelfReference
Role = type[Leaf]
"""What an object's name stands for in a plan."""
_CHANGE_ROLES: dict[st.ChangeKind, Role] = {
    st.ChangeKind.INSERTS: lp.InsertsInput,
    st.ChangeKind.DELETES: lp.DeletesInput,
    st.ChangeKind.CHANGES: lp.ChangesInput,
}


@dataclass(frozen=True, slots=True)
class BoundDefinition:
    """A bound definition: its plan, its columns, and what it reads."""

    plan: lp.Query | lp.TaskWrite | lp.ViewWrite
    columns: tuple[Column, ...]
    reads: tuple[Reading, ...]

    @property
    def task(self) -> lp.TaskWrite:
        """The plan of a continual task."""
        assert isinstance(self.plan, lp.TaskWrite)
        return self.plan

    @property
    def view(self) -> lp.ViewWrite:
        """The plan of a materialized view."""
        assert isinstance(self.plan, lp.ViewWrite)
        return self.plan

    @property
    def query(self) -> lp.Query:
        """The plan of a plain view: its query."""
        assert isinstance(self.plan, lp.Query)
        return self.plan


class Binder:
    """Binds one statement.

    Args:
        search_schema: the schema of unqualified names.
        reads: for a stored definition, the objects that its names meant at its creation.
        analyst: None for a stored definition, which was checked at its creation.
        columns_of: an object's current columns; a foreign writer may have added some to a table.
        external_kind: what a name means outside of the catalog, for example a temporary view.
        runs_once: whether the statement is no definition, so it may read files and temporary
            relations.
    """

    def __init__(
        self,
        catalog: Catalog,
        search_schema: str,
        analyst: Analyst | None,
        *,
        reads: Sequence[Reading] = (),
        columns_of: Callable[[Item], tuple[Column, ...]] = lambda item: item.columns,
        external_kind: Callable[[tuple[str, ...]], str | None] = lambda _: None,
        runs_once: bool = False,
    ) -> None:
        self.catalog = catalog
        self.search_schema = search_schema
        self.analyst = analyst
        self.columns_of = columns_of
        self.external_kind = external_kind
        self.runs_once = runs_once
        self.own: dict[Name, Item] = {}  # the outputs being defined, by name in the definition
        self.inputs: dict[str, st.TaskInput] = {}  # of a task, by the id of the source
        self.with_snapshot = False  # on its first run a task reads the contents of its inputs
        self._stored_reads = {r.name: r for r in reads}
        self.reads: dict[str, Reading] = {}

    # ---- relations

    def resolve(self, ref: st.RelationRef) -> Item:
        """The object that a reference means."""
        name = qualify(ref, self.search_schema)
        read = self._stored_reads.get(name)
        if read is not None:
            return self.catalog.items[read.object_id].check()
        item = self.catalog.get(name, span=ref.span)
        checks.check_holds_rows(self.catalog, item, ref.span)
        if self.analyst is not None and not self.runs_once:
            replaces = writer_of(self.catalog, item).replaces
            if replaces is not None:
                of = str(self.catalog.items[replaces].name)
                raise error("REPLACEMENT_NOT_READ", span=ref.span, name=str(item.name), of=of)
        return item

    def _source_called(self, ref: st.RelationRef) -> st.RelationRef | None:
        """The source of an input, by the alias that the body uses."""
        if len(ref.parts) > 1 or ref.file is not None:
            return None
        alias = fold(ref.parts[0])
        return next(
            (i.ref for i in self.inputs.values() if i.alias and fold(i.alias) == alias), None
        )

    def own_of(self, ref: st.RelationRef) -> Item | None:
        """The output being defined that a reference means; None when it means another object."""
        name = qualify(ref, self.search_schema)
        return None if name in self._stored_reads else self.own.get(name)

    def relation(self, ref: st.RelationRef, roles: dict[str, Role]) -> lp.Node:
        """The node of a reference; ``roles`` gives the roles of the inputs and the output."""
        source = self._source_called(ref) or ref
        name = qualify(source, self.search_schema)
        in_body = lp.SelfReference in roles.values()
        if ref.change is not None and not in_body:
            message = f"{ref.change.value}(...) is allowed only in the body of a task"
            detail = "Only a body has changes; elsewhere a relation has contents."
            hint = f"Type {ref.name_span.text} to read what it holds."
            raise invalid(ref.span, message, detail, hint)
        own = self.own_of(source)
        if own is not None:
            if not in_body:
                detail = "A view's query cannot read the view itself."
                raise error("RECURSIVE_DEFINITION", span=ref.span, name=str(name), detail=detail)
            if ref.change in _CHANGE_ROLES:
                raise _no_change_of(ref, "is the output")
            columns = tuple(c.name for c in own.columns)
            return lp.SelfReference(object_id=own.id, name=own.name, columns=columns)
        if ref.file is not None or self._is_external(source, name):
            return self._external(ref, name, "the body of a task" if in_body else "a view")
        item = self.resolve(source)
        columns = self._column_names(item, name)
        role = roles.get(item.id, lp.NormalReference)
        if ref.change is st.ChangeKind.CONTENTS:
            role = lp.NormalReference
        elif ref.change is not None:
            if role is not lp.InsertsInput:
                raise _no_change_of(ref, "is not an input of the task")
            role = _CHANGE_ROLES[ref.change]
        self.reads[item.id] = Reading(name=name, object_id=item.id, columns=columns)
        if role is lp.NormalReference and item.id in self.inputs:
            return self.rows_of(item, name, role)
        if isinstance(item, View) and role is lp.NormalReference:
            return self._as_known(self.view(item, {} if in_body else roles), columns)
        if role is lp.ChangesInput:
            columns = (*columns, _diff_of(ref, columns))
        return self._leaf(item, columns, role)

    def _leaf(self, item: Item, columns: tuple[str, ...], role: Role) -> Leaf:
        node = role(object_id=item.id, name=item.name, columns=columns)
        if self.with_snapshot and isinstance(node, lp.InsertsInput | lp.ChangesInput):
            return replace(node, with_snapshot=True)
        return node

    def _column_names(self, item: Item, name: Name) -> tuple[str, ...]:
        read = self._stored_reads.get(name)
        return read.columns if read else tuple(c.name for c in self.columns_of(item))

    def rows_of(self, item: Item, name: Name, role: Role) -> Leaf | lp.ViewReference:
        """The rows of a task's input that the body sees in a role, through its view or WHERE."""
        columns = self._column_names(item, name)
        if self.analyst is not None:  # SELECT * of the present columns; the body names its own
            there = {fold(c.name) for c in self.columns_of(item)}
            columns = tuple(c for c in columns if fold(c) in there)
        self.reads[item.id] = Reading(name=name, object_id=item.id, columns=columns)
        rows: Leaf | lp.ViewReference
        if isinstance(item, View):
            rows = self.view(item, {self.followed_item(item).id: role})
        else:
            rows = self._leaf(item, columns, role)
        text = self.inputs[item.id].rows
        if text is None:
            return rows
        query = self._resolved(lp.Query(sql=text, relations=(rows,)))
        if self.analyst is not None:
            query = replace(query, columns=self.analyst.columns(query))
        return lp.ViewReference(object_id=item.id, name=item.name, columns=columns, query=query)

    def followed_item(self, item: Item, span: Span | None = None) -> Item:
        """The object that a task follows; raises NOT_DURABLE for a view that combines rows."""
        while isinstance(item, View):
            with reading_definition(item):
                query = _query_of(item)
            if not takes_rows_one_by_one(query):
                what, where = f'view "{item.name}"', "as the input of a continual task"
                detail = "Only a view that filters and projects one relation can be followed."
                hint = "Type: CREATE MATERIALIZED VIEW ... AS the view's query, and use that."
                raise error(
                    "NOT_DURABLE", span=span, what=what, where=where, detail=detail, hint=hint
                )
            below = Binder(self.catalog, item.search_schema, None, reads=item.reads)
            item = below.resolve(query.relations[0])
        return item

    def _is_external(self, ref: st.RelationRef, name: Name) -> bool:
        """Whether a name means a relation of this process; objects of the warehouse come first."""
        if (
            ref.change is not None
            or name in self._stored_reads
            or self.catalog.find(name) is not None
        ):
            return False
        return find_system_table(name) is not None or self.external_kind(ref.parts) is not None

    def _external(self, ref: st.RelationRef, name: Name, where: str) -> lp.External:
        """A file, a temporary view, a variable or a system table; NOT_DURABLE in a definition."""
        system = None if ref.file is not None else find_system_table(name)
        if self.runs_once:
            return lp.External(ref=ref, system=None if system is None else system.name)
        text = ref.span.text
        if ref.file is not None:
            detail = "A file has no log of changes, and may be replaced at any time."
        elif system is not None:
            detail = "The rows of a system table depend on when it is read, and have no T."
        else:
            kind = self.external_kind(ref.parts)
            detail = f"A {kind} exists in this process only; other processes run definitions too."
        hint = f"Make a table of it and read that: CREATE TABLE t AS SELECT * FROM {text}"
        place = f"in {where}"
        raise error("NOT_DURABLE", span=ref.span, what=text, where=place, detail=detail, hint=hint)

    def view(self, item: Item, roles: dict[str, Role]) -> lp.ViewReference:
        """A plain view, with its query bound by the names of its own definition."""
        below = Binder(self.catalog, item.search_schema, None, reads=item.reads)
        below.with_snapshot = self.with_snapshot
        with reading_definition(item):
            query = below.query(_query_of(item), roles)
        columns = tuple(c.name for c in item.columns)
        return lp.ViewReference(object_id=item.id, name=item.name, columns=columns, query=query)

    def _as_known(self, rows: lp.ViewReference, columns: Sequence[str]) -> lp.ViewReference:
        """A plain view with the columns stored in a definition, if the view's columns changed.

        If a stored column was removed, it gets all present columns.
        """
        there = [fold(c) for c in rows.columns]
        if [fold(c) for c in columns] == there or not {*map(fold, columns)} <= {*there}:
            return rows
        text = f"SELECT {', '.join(backtick_all(columns))} FROM {rows.name.qualified()}"
        select = parse(Source(text, f"columns of {rows.name}").whole())
        assert isinstance(select, st.Select)  # as it is written above
        query = lp.Query(sql=select.query, relations=(rows,))
        if self.analyst is not None:
            query = replace(query, columns=self.analyst.columns(query))
        return replace(rows, columns=tuple(columns), query=query)

    def query(self, sql: st.SqlText, roles: dict[str, Role] | None = None) -> lp.Query:
        """A query with its relations and the types of its result."""
        query = self.piece(sql, roles)
        if self.analyst is None:
            return query
        return replace(query, columns=self.analyst.columns(query))

    def piece(self, sql: st.SqlText, roles: dict[str, Role] | None = None) -> lp.Query:
        """A query with its relations; raises AMBIGUOUS_COLUMN."""
        nodes = tuple(self.relation(ref, roles or {}) for ref in sql.relations)
        return self._resolved(lp.Query(sql=sql, relations=nodes))

    def _resolved(self, query: lp.Query) -> lp.Query:
        names = self.names([query.sql], zip(query.sql.relations, query.relations, strict=True))
        return replace(query, sql=names.applied(query.sql))

    def names(
        self,
        texts: Iterable[st.SqlText],
        relations: Iterable[tuple[st.RelationRef, lp.Node]],
        targets: Mapping[st.RelationRef, Sequence[str] | None] = NO_TARGETS,
    ) -> QualifiedNames:
        """The meaning of the qualified names in pieces that read these relations.

        ``targets``: the written relations, with their columns; None if these are unknown.
        """
        columns = {ref: n.columns for ref, n in relations if isinstance(n, lp.RelationLeaf)}
        return QualifiedNames(texts, self.search_schema, {**targets, **columns}.get)

    # ---- definitions

    def bind_select(self, statement: st.Select) -> lp.Query:
        """A query at the top level; Spark checks its columns when it is lowered."""
        trusting = Binder(
            self.catalog,
            self.search_schema,
            None,
            columns_of=self.columns_of,
            external_kind=self.external_kind,
            runs_once=True,
        )
        return trusting.query(statement.query)

    def bind_view(self, statement: st.CreateView) -> BoundDefinition:
        """CREATE VIEW."""
        for function in statement.query.nondeterministic:
            checks.refuse_schema_call(function, "view")
        query = self.query(statement.query)
        creates = f"CREATE VIEW {statement.target.span.text}"
        columns = checks.named_columns(query, statement.columns, statement.query.span, creates)
        for unnamed in (c for c in columns if not c.name):
            check_new_name(unnamed.name, statement.query.span)
        return BoundDefinition(query, columns, tuple(self.reads.values()))

    def bind_materialized_view(
        self, statement: st.CreateMaterializedView, own: Item
    ) -> BoundDefinition:
        """CREATE MATERIALIZED VIEW; ``own`` is the item, perhaps without columns."""
        self.own = {qualify(statement.target, self.search_schema): own}
        query = self.query(statement.query)
        columns = own.columns
        if self.analyst is not None:
            checks.refuse_nondeterministic(
                query, "materialized view", self.analyst.is_deterministic
            )
            query = replace(query, columns=checks.name_unnamed(query.columns or (), query.sql))
            creates = f"CREATE MATERIALIZED VIEW {statement.target.span.text}"
            columns = checks.named_columns(query, statement.columns, statement.query.span, creates)
            columns = tuple(replace(c, type=without_limits(c.type)) for c in columns)
            checks.check_storable(
                columns, statement.query.span, "" if statement.columns else creates
            )
        constraints = tuple(
            bind_constraint(constraint, replace(own, columns=columns), self.analyst)
            for constraint in statement.constraints
        )
        if self.analyst is not None:
            for definition, constraint in zip(statement.constraints, constraints, strict=True):
                check_key(definition, [c for c in columns if c.name in constraint.key])
                checks.refuse_nondeterministic(
                    constraint, "materialized view", self.analyst.is_deterministic
                )
        names = tuple(c.name for c in columns)
        sql = without_broken(statement, names)
        policies = (str(o.value) for o in statement.options if o.name == POLICY)
        query = replace(self.piece(sql), columns=query.columns)
        plan = lp.ViewWrite(
            object_id=own.id,
            name=own.name,
            columns=columns,
            desired=query,
            stored=lp.NormalReference(object_id=own.id, name=own.name, columns=names),
            refresh=refresh_parts(statement),
            constraints=constraints,
            policy=next(policies, lp.POLICY_AUTO),
        )
        return BoundDefinition(plan, columns, tuple(self.reads.values()))


def _query_of(view: Item) -> st.SqlText:
    statement = definition_of(view)
    if not isinstance(statement, st.CreateView):
        raise is_no_definition(view)
    return statement.query


def qualify(ref: st.RelationRef, search_schema: str) -> Name:
    """The qualified name of a reference, given the schema of unqualified names."""
    return Name(*ref.parts) if len(ref.parts) > 1 else Name(search_schema, ref.parts[0])


def _diff_of(ref: st.RelationRef, columns: Sequence[str]) -> str:
    """The name of the last column of ``changes(t)``; raises INVALID_STATEMENT if it is taken."""
    names = [fold(column) for column in columns]
    if DIFF_NAME not in names:
        return DIFF_NAME
    if ref.names_columns:
        return DIFF
    free = "copies"
    while free in names:
        free += "_"
    column_list = ", ".join(quote(column) for column in (*columns, free))
    table = ref.name_span.text
    raise invalid(
        ref.span,
        f'changes({table}) would have two columns called "{DIFF_NAME}"',
        f'{table} already has a column "{DIFF_NAME}". The last one is the number of copies that '
        "were inserted or deleted.",
        f"Name them all: changes({table}) AS {quote(ref.parts[-1])}({column_list})",
    )


def _no_change_of(ref: st.RelationRef, why: str) -> CtsqlError:
    assert ref.change is not None  # the caller looked
    table = ref.name_span.text
    message = f"{ref.change.value}({table}): {table} {why}"
    detail = "Only inputs, the relations after ON INPUT, have changes at T."
    return invalid(ref.span, message, detail, f"Type {table} to read what it holds.")


def refresh_parts(statement: st.CreateMaterializedView) -> tuple[RefreshPart, ...] | None:
    """The parts of a view's refresh schedule; None when it is refreshed on commit."""
    values = [o.value for o in statement.options if o.name == "REFRESH"]
    return tuple(v for v in values if isinstance(v, RefreshPart)) or None
