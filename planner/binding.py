"""Binding: every name of a statement becomes an object, a column and a type.

Pure but for one question, which types a query gives: only Spark's analysis knows, and it is asked
through the :class:`Analyst` protocol. Definitions that are stored are bound again with the
objects they were bound to when they were made (``Item.reads``), whatever is called so now.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item, ObjectKind, Reading
from ctsql.catalog.names import Name, did_you_mean, fold, quote
from ctsql.catalog.refreshes import RefreshPart
from ctsql.catalog.schemas import Column, check_unique
from ctsql.catalog.spans import Source, Span
from ctsql.planner.assertions import not_null_columns, refuse_nondeterministic
from ctsql.planner.nodes import (
    Delete,
    Get,
    Insert,
    Node,
    Query,
    Role,
    TaskWrite,
    Transaction,
    ViewReference,
    ViewWrite,
)
from ctsql.planner.rules import transform
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.statements import (
    BodyStatement,
    ColumnDef,
    CreateContinualTask,
    CreateMaterializedView,
    CreateView,
    InsertStatement,
    RelationRef,
    Select,
    SqlText,
)

COLUMN_PREFIX = "__ct_"
NAME_FORBIDDEN = " ,;{}()\n\t="
"""Characters that Parquet allows in no column name."""


class Analyst(Protocol):
    """What Spark's analyser says; raises errors of ours with spans into the user's text."""

    def columns(self, query: Query) -> tuple[Column, ...]:
        """Names and types of a query's result."""

    def is_deterministic(self, query: Query) -> bool:
        """Does a query give the same result on the same data, as far as Spark knows?"""

    def check_predicate(self, delete: Delete, columns: Sequence[Column]) -> None:
        """The predicate of a DELETE over a table with these columns must be a condition."""

    def set_own(self, object_id: str, columns: Sequence[Column]) -> None:
        """What the output being defined looks like, for a body that reads it."""

    def assignable(self, given: str, declared: str) -> bool:
        """May a value of a type be stored in a column of another (ANSI store assignment)?"""


Resolve = Callable[[RelationRef], Item]


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound definition: its plan, its columns, and what it reads."""

    plan: Node
    columns: tuple[Column, ...]
    reads: tuple[Reading, ...]


def qualify(ref: RelationRef, search_schema: str) -> Name:
    """The name a reference means, given the schema for unqualified names."""
    if len(ref.parts) == 1:
        return Name(search_schema, ref.parts[0])
    return Name(ref.parts[0], ref.parts[1])


class Binder:
    """Binds one statement.

    Args:
        catalog: the objects there are. search_schema: where unqualified names are looked up.
        reads: for a stored definition, what its names meant when it was made.
        analyst: None for a stored definition, which was checked when it was made.
        columns_of: an object's columns now; a foreign writer may have added some to a table.
    """

    def __init__(
        self,
        catalog: Catalog,
        search_schema: str,
        analyst: Analyst | None,
        *,
        reads: Sequence[Reading] = (),
        columns_of: Callable[[Item], tuple[Column, ...]] = lambda item: item.columns,
    ) -> None:
        self.catalog = catalog
        self.search_schema = search_schema
        self.analyst = analyst
        self.columns_of = columns_of
        self.own: Item | None = None  # the output being defined,
        self.own_name: Name | None = None  # and what its definition calls it
        self._stored = {r.name: r for r in reads}
        self.reads: dict[str, Reading] = {}

    # ---- relations

    def resolve(self, ref: RelationRef) -> Item:
        """The object a reference means."""
        name = qualify(ref, self.search_schema)
        stored = self._stored.get(name)
        if stored is not None:
            return self.catalog.items[stored.object_id]
        return self.catalog.get(name, span=ref.span)

    def relation(self, ref: RelationRef, roles: dict[str, Role]) -> Node:
        """The node of a reference; ``roles`` gives the roles of the input and the output."""
        name = qualify(ref, self.search_schema)
        if self.own is not None and name == self.own_name and name not in self._stored:
            if Role.SELF not in roles.values():
                raise error(
                    "RECURSIVE_DEFINITION",
                    span=ref.span,
                    name=str(name),
                    detail="A view's query cannot read the view itself.",
                )
            columns = tuple(c.name for c in self.own.columns)
            return Get(object_id=self.own.id, name=self.own.name, columns=columns, role=Role.SELF)
        item = self.resolve(ref)
        stored = self._stored.get(name)
        columns = stored.columns if stored else tuple(c.name for c in self.columns_of(item))
        self.reads[item.id] = Reading(name=name, object_id=item.id, columns=columns)
        if item.kind is ObjectKind.VIEW:
            return self.view(item)
        role = roles.get(item.id, Role.REFERENCE)
        return Get(object_id=item.id, name=item.name, columns=columns, role=role)

    def view(self, item: Item) -> ViewReference:
        """A plain view, with its own query bound in its own terms."""
        statement = parse(definition_span(item))
        if not isinstance(statement, CreateView):
            raise error(
                "STORED_DATA_INVALID",
                what=f'the definition of view "{item.name}"',
                detail="It is not a CREATE VIEW statement.",
                hint="Drop the view and create it again.",
            )
        below = Binder(self.catalog, item.search_schema, None, reads=item.reads)
        query = below.query(statement.query)
        columns = tuple(c.name for c in item.columns)
        return ViewReference(object_id=item.id, name=item.name, columns=columns, query=query)

    def query(self, sql: SqlText, roles: dict[str, Role] | None = None) -> Query:
        """A query with its relations and the types of its result."""
        nodes = tuple(self.relation(ref, roles or {}) for ref in sql.relations)
        query = Query(sql=sql, relations=nodes)
        if self.analyst is None:
            return query
        return replace(query, columns=self.analyst.columns(query))

    # ---- definitions

    def bind_select(self, statement: Select) -> Query:
        """A query at the top level; Spark checks its columns when it is lowered."""
        trusting = Binder(self.catalog, self.search_schema, None, columns_of=self.columns_of)
        query: Node = transform(trusting.query(statement.query))
        assert isinstance(query, Query)  # the rules keep the root's kind
        return query

    def bind_view(self, statement: CreateView) -> Bound:
        """CREATE VIEW."""
        query = self.query(statement.query)
        columns = _named(query, statement.columns, statement.query.span)
        return Bound(query, columns, tuple(self.reads.values()))

    def bind_materialized_view(self, statement: CreateMaterializedView, own: Item) -> Bound:
        """CREATE MATERIALIZED VIEW; ``own`` is the item as far as it is known."""
        self.own, self.own_name = own, qualify(statement.target, self.search_schema)
        query = self.query(statement.query)
        columns = own.columns
        if self.analyst is not None:
            refuse_nondeterministic(
                query, "materialized view", self.analyst.is_deterministic, clocks=True
            )
            columns = _named(query, statement.columns, statement.query.span)
            _check_storable(columns, statement.query.span)
        not_null = not_null_columns(statement, columns)
        columns = tuple(replace(c, nullable=False) if c.name in not_null else c for c in columns)
        stored = Get(
            object_id=own.id,
            name=own.name,
            columns=tuple(c.name for c in columns),
            role=Role.REFERENCE,
        )
        plan = ViewWrite(
            object_id=own.id,
            name=own.name,
            columns=columns,
            desired=query,
            stored=stored,
            refresh=refresh_parts(statement),
            not_null=not_null,
        )
        return Bound(transform(plan), columns, tuple(self.reads.values()))

    def bind_task(self, statement: CreateContinualTask, own: Item) -> Bound:
        """CREATE CONTINUAL TASK; ``own`` is the item as far as it is known."""
        self.own_name = qualify(statement.target, self.search_schema)
        source = self.task_input(statement, own)
        self.own = own
        roles = {source.id: Role.INPUT, own.id: Role.SELF}
        if self.analyst is not None:
            columns = tuple(_declared(c) for c in statement.columns)
            check_unique(columns, [c.span for c in statement.columns])
            columns = columns or self._inferred(statement, roles)
            _check_storable(columns, statement.span)
            self.own = own = replace(own, columns=columns)
            self.analyst.set_own(own.id, columns)
        columns = own.columns
        statements = tuple(self._body(s, roles) for s in statement.body)
        inputs = tuple(
            {
                n: None
                for n in (self.relation(statement.input, roles),)
                if isinstance(n, Get) and n.role is Role.INPUT
            }
        )
        plan = TaskWrite(
            object_id=own.id,
            name=own.name,
            columns=columns,
            inputs=inputs,
            times=None,
            transaction=Transaction(statements=statements),
            snapshot=_snapshot(statement),
            skip_errors=any(o.name == "ON ERROR" and o.value == "skip" for o in statement.options),
        )
        if self.analyst is not None:
            refuse_nondeterministic(
                plan, "continual task", self.analyst.is_deterministic, clocks=False
            )
        return Bound(transform(plan), columns, tuple(self.reads.values()))

    def task_input(self, statement: CreateContinualTask, own: Item) -> Item:
        """The object a task follows."""
        ref = statement.input
        name = qualify(ref, self.search_schema)
        if name == self.own_name and name not in self._stored:
            raise error("TASK_INPUT_IS_OUTPUT", span=ref.span, name=str(own.name))
        source = self.resolve(ref)
        if source.kind is ObjectKind.VIEW:
            raise error("TASK_INPUT_NOT_DURABLE", span=ref.span, name=str(source.name))
        return source

    def _inferred(
        self, statement: CreateContinualTask, roles: dict[str, Role]
    ) -> tuple[Column, ...]:
        """Without a column list: names and types of the first INSERT's query."""
        first = next((s for s in statement.body if isinstance(s, InsertStatement)), None)
        if first is None:
            raise error(
                "INVALID_STATEMENT",
                span=statement.target.span,
                message="a task without an INSERT needs a column list",
                detail="Its columns cannot be told from a DELETE.",
                hint=f"Write them after the name: {statement.target.parts[-1]} (k INT, ...).",
            )
        if any(qualify(r, self.search_schema) == self.own_name for r in first.query.relations):
            raise error(
                "INVALID_STATEMENT",
                span=first.query.span,
                message="a task whose first INSERT reads the task itself needs a column list",
                detail="Its columns are what that INSERT would give.",
                hint=f"Write them after the name: {statement.target.parts[-1]} (k INT, ...).",
            )
        return check_unique(self.query(first.query, roles).columns or (), [first.query.span])

    def _body(self, statement: BodyStatement, roles: dict[str, Role]) -> Insert | Delete:
        own = self.own
        assert own is not None  # bind_task set it
        target = qualify(statement.target, self.search_schema)
        if target != self.own_name:
            raise error(
                "TASK_WRITES_FOREIGN_TABLE",
                span=statement.target.span,
                task=str(own.name),
                name=str(target),
            )
        if isinstance(statement, InsertStatement):
            return self._insert(statement, own, roles)
        ref = statement.target
        alias = statement.alias or ref.parts[-1]
        where = None
        if statement.where is not None:
            nodes = tuple(self.relation(r, roles) for r in statement.where.relations)
            where = Query(sql=statement.where, relations=nodes, columns=())
        of = Get(
            object_id=own.id,
            name=own.name,
            columns=tuple(c.name for c in own.columns),
            role=Role.SELF,
        )
        delete = Delete(of=of, alias=quote(alias), where=where)
        if self.analyst is not None:
            self.analyst.check_predicate(delete, own.columns)
        return delete

    def _insert(self, statement: InsertStatement, own: Item, roles: dict[str, Role]) -> Insert:
        query = self.query(statement.query, roles)
        given = query.columns or ()
        by_key = {fold(c.name): c for c in own.columns}
        into: list[Column] = []
        for wanted in statement.columns:
            found = by_key.get(fold(wanted.name))
            if found is None:
                raise error(
                    "UNKNOWN_COLUMN",
                    span=wanted.span,
                    column=wanted.name,
                    detail=f'"{own.name}" has the columns '
                    f"{', '.join(c.name for c in own.columns)}.",
                    hint=did_you_mean(wanted.name, [c.name for c in own.columns]),
                )
            if found in into:
                raise error("DUPLICATE_COLUMN", span=wanted.span, column=wanted.name)
            into.append(found)
        into = into or list(own.columns)
        names = tuple(c.name for c in into)
        if self.analyst is None:
            return Insert(query=query, into=names, target=own.columns)
        if len(into) != len(given):
            raise error(
                "COLUMN_COUNT_MISMATCH",
                span=statement.query.span,
                message=f"the query gives {len(given)} column(s), {len(into)} are to be filled",
                detail=f"To be filled: {', '.join(c.name for c in into)}. "
                f"Given: {', '.join(c.name for c in given)}.",
                hint="",
            )
        for column, value in zip(into, given, strict=True):
            if not self.analyst.assignable(value.type, column.type):
                raise error(
                    "TYPE_MISMATCH",
                    span=statement.query.span,
                    message=f'column "{column.name}" is of type {column.type}, '
                    f"but the query gives {value.type}",
                    detail="",
                    hint=f"Write CAST({quote(value.name)} AS {column.type}) if that is meant.",
                )
        return Insert(query=query, into=names, target=own.columns)


def definition_span(item: Item) -> Span:
    """A stored definition as text to parse; errors name the object."""
    return Source(item.definition, f"definition of {item.name}").whole()


def bind_stored(item: Item, catalog: Catalog) -> Bound:
    """Bind the definition of an object of the catalog again."""
    binder = Binder(catalog, item.search_schema, None, reads=item.reads)
    statement = parse(definition_span(item))
    match statement:
        case CreateContinualTask():
            return binder.bind_task(statement, item)
        case CreateMaterializedView():
            return binder.bind_materialized_view(statement, item)
        case CreateView():
            query = binder.query(statement.query)
            return Bound(query, item.columns, item.reads)
        case _:
            raise error(
                "STORED_DATA_INVALID",
                what=f'the definition of {item.kind.value} "{item.name}"',
                detail="It is not the statement that makes such an object.",
                hint="Drop the object and create it again.",
            )


def _named(query: Query, declared: Sequence[ColumnDef], span: Span) -> tuple[Column, ...]:
    """The query's columns under the names of a column list, if there is one."""
    columns = query.columns or ()
    if declared:
        if len(declared) != len(columns):
            raise error(
                "COLUMN_COUNT_MISMATCH",
                span=span,
                message=f"the query gives {len(columns)} column(s), "
                f"the column list has {len(declared)}",
                detail=f"Given: {', '.join(c.name for c in columns)}.",
                hint="",
            )
        columns = tuple(
            replace(c, name=d.name, comment=d.comment)
            for c, d in zip(columns, declared, strict=True)
        )
    return check_unique(columns, [d.span for d in declared] or [span])


def _declared(column: ColumnDef) -> Column:
    assert column.type is not None  # the header grammar asks for one
    return Column(column.name, column.type, column.nullable, column.comment)


def refresh_parts(statement: CreateMaterializedView) -> tuple[RefreshPart, ...] | None:
    """The parts of a view's refresh schedule; None when it is refreshed on commit."""
    values = [o.value for o in statement.options if o.name == "REFRESH"]
    return tuple(v for v in values if isinstance(v, RefreshPart)) or None


def _snapshot(statement: CreateContinualTask) -> bool:
    return all(bool(o.value) for o in statement.options if o.name == "SNAPSHOT")


def _check_storable(columns: Sequence[Column], span: Span) -> None:
    for column in columns:
        if fold(column.name).startswith(COLUMN_PREFIX):
            raise error(
                "INVALID_NAME",
                span=span,
                name=column.name,
                detail=f"Names that begin with {COLUMN_PREFIX} are kept for ctsql.",
            )
        if any(character in NAME_FORBIDDEN for character in column.name):
            raise error(
                "INVALID_NAME",
                span=span,
                name=column.name,
                detail="A stored column's name may have no spaces and none of ,;{}()=. "
                "Give it a name in the query: ... AS name.",
            )
        if column.type == "void":
            raise error(
                "INVALID_COLUMN_TYPE",
                span=span,
                type="void",
                hint=f'Column "{column.name}" is always NULL; write CAST(NULL AS <type>).',
            )
        if column.type.startswith("interval"):
            raise error(
                "INVALID_COLUMN_TYPE",
                span=span,
                type=column.type,
                hint=f'Column "{column.name}" cannot be stored as an interval; store a number of '
                "seconds or days.",
            )
