"""Binding of the statements of a task's body that write one output."""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog import schemas
from ctsql.catalog.errors import error, not_supported
from ctsql.catalog.items import Item, TaskOutput
from ctsql.catalog.names import fold, quote
from ctsql.catalog.schemas import Column, check_unique
from ctsql.catalog.spans import Span
from ctsql.planner import nodes as lp
from ctsql.planner.binding.binder import Binder, Role
from ctsql.planner.binding.checks import not_assignable, refuse_nondeterministic
from ctsql.planner.binding.constraints import bind_constraint, check_key
from ctsql.planner.syntax import ast as st


class BodyBinder:
    """Binds statements that write ``own``, of the column list ``column_defs``, with these roles."""

    def __init__(
        self, binder: Binder, own: Item, roles: dict[str, Role], column_defs: Sequence[st.ColumnDef]
    ) -> None:
        self.binder = binder
        self.analyst = binder.analyst
        self.own = own
        self.roles = roles
        self.self_node = lp.SelfReference(
            object_id=own.id, name=own.name, columns=tuple(c.name for c in own.columns)
        )
        self.names = binder.names((), ())
        self.defaults = {fold(c.name): c.default for c in column_defs if c.default is not None}
        if self.analyst is not None:
            self._check_defaults(column_defs)

    def bind(self, statement: st.BodyStatement) -> lp.Insert | lp.Delete | lp.Update | lp.Merge:
        """Bind one statement, with what Spark's analysis finds.

        Raises UNKNOWN_COLUMN, DUPLICATE_COLUMN, COLUMN_COUNT_MISMATCH, TYPE_MISMATCH.
        """
        texts = st.texts_of(statement)
        refs = [ref for text in texts for ref in text.relations]
        relations = [(ref, self.binder.relation(ref, self.roles)) for ref in refs]
        target = {statement.target: self.self_node.columns}
        self.names = self.binder.names(texts, relations, target)
        match statement:
            case st.InsertStatement():
                return self._insert(statement)
            case st.ChangeStatement():
                return self._change(statement)
            case st.MergeStatement():
                return self._merge(statement)

    def bind_constraint(self, constraint: st.ConstraintDef) -> lp.Constraint:
        """Bind a constraint of the output's rows; raises UNKNOWN_COLUMN, and what Spark says."""
        bound = bind_constraint(constraint, self.own, self.analyst)
        check_key(constraint, [self._column(name, constraint.span) for name in bound.key])
        return bound

    def _piece(self, sql: st.SqlText) -> lp.Query:
        """A predicate or a value: a query without its own columns."""
        nodes = tuple(self.binder.relation(r, self.roles) for r in sql.relations)
        return lp.Query(sql=self.names.applied(sql), relations=nodes, columns=())

    def _condition(self, sql: st.SqlText | None) -> lp.Query | None:
        return None if sql is None else self._piece(sql)

    def _column(self, name: str, span: Span) -> Column:
        heading = f'"{self.own.name}" has the columns'
        return schemas.get(self.own.columns, name, span=span, heading=heading)

    def _default(self, column: Column) -> lp.Query | None:
        sql = self.defaults.get(fold(column.name))
        return None if sql is None else self._piece(sql)

    def _assign(self, assignment: st.Assignment, target: st.RelationRef) -> lp.Assign:
        schema = assignment.qualifier[:-1]
        if schema and schema != self.names.key(target)[:-1]:
            text = assignment.span.text
            detail = "A statement sets columns of the table that it writes."
            hint = f"Type {quote(assignment.column)} alone."
            raise error(
                "UNKNOWN_COLUMN", span=assignment.span, column=text, detail=detail, hint=hint
            )
        column = self._column(assignment.column, assignment.span)
        value = assignment.value
        query = self._default(column) if value is None else self._piece(value)
        return lp.Assign(column=column.name, value=query)

    def _check_type(self, column: Column, value_type: str, span: Span, text: str) -> None:
        assert self.analyst is not None  # only new definitions are checked
        if not self.analyst.assignable(value_type, column.type):
            raise not_assignable(column, f"the query gives {value_type}", span, text)

    def _check_defaults(self, column_defs: Sequence[st.ColumnDef]) -> None:
        """A default is a value of its column's type that needs nothing else."""
        columns = [c for c in column_defs if c.default is not None]
        if not columns:
            return
        values = [self._piece(c.default) for c in columns if c.default is not None]
        assert self.analyst is not None  # the caller looked
        for value in values:
            refuse_nondeterministic(value, "continual task", self.analyst.is_deterministic)
        types = self.analyst.value_types(values)
        for column, value_type in zip(columns, types, strict=True):
            assert column.default is not None  # as filtered
            span = column.default.span
            self._check_type(self._column(column.name, column.span), value_type, span, span.text)

    def _insert(self, statement: st.InsertStatement) -> lp.Insert:
        into: list[Column] = []
        for name in statement.columns:
            column = self._column(name.name, name.span)
            if column in into:
                raise error("DUPLICATE_COLUMN", span=name.span, column=name.name)
            into.append(column)
        query = self.binder.query(
            self._with_defaults(statement, into or self.own.columns), self.roles
        )
        if statement.by_name:
            into = [self._column(c.name, statement.query.span) for c in query.columns or ()]
            check_unique(into, [statement.query.span])
        else:
            into = into or list(self.own.columns)
        insert = lp.Insert(
            object_id=self.own.id,
            name=self.own.name if isinstance(self.own, TaskOutput) else None,
            query=query,
            into=None if statement.by_name else tuple(c.name for c in into),
            target=self.own.columns,
            defaults=tuple(
                lp.Assign(column=c.name, value=value)
                for c in self.own.columns
                if c not in into and (value := self._default(c)) is not None
            ),
        )
        if self.analyst is None:
            return insert
        query_columns = query.columns or ()
        if len(into) != len(query_columns):
            raise error(
                "COLUMN_COUNT_MISMATCH",
                span=statement.query.span,
                message=f"the query gives {len(query_columns)} column(s), "
                f"{len(into)} are to be filled",
                detail=f"To be filled: {', '.join(c.name for c in into)}. "
                f"Given: {', '.join(c.name for c in query_columns)}.",
            )
        for column, source in zip(into, query_columns, strict=True):
            text = source.name if quote(source.name) == source.name else "..."
            self._check_type(column, source.type, statement.query.span, text)
        return insert

    def _with_defaults(self, statement: st.InsertStatement, into: Sequence[Column]) -> st.SqlText:
        """The query with each DEFAULT of its VALUES replaced by the column's."""
        edits = []
        for place, span in statement.defaults:
            sql = self.defaults.get(fold(into[place].name)) if place < len(into) else None
            if sql is not None and sql.clocks:
                hint = "Leave the column out of the INSERT's column list."
                raise not_supported(span, "DEFAULT that reads the clock, in VALUES,", hint=hint)
            edits.append(st.Edit(span=span, text="NULL" if sql is None else f"({sql.span.text})"))
        query = statement.query
        return replace(query, edits=(*query.edits, *edits)) if edits else query

    def _change(self, statement: st.ChangeStatement) -> lp.Delete | lp.Update:
        alias = quote(statement.alias or self.names.alias(statement.target))
        where, ctes = self._condition(statement.where), self._condition(statement.ctes)
        if not statement.assignments:
            delete = lp.Delete(of=self.self_node, alias=alias, where=where, ctes=ctes)
            if self.analyst is not None:
                self.analyst.check_predicate(delete, self.own.columns)
            return delete
        update = lp.Update(
            of=self.self_node,
            alias=alias,
            assignments=tuple(self._assign(a, statement.target) for a in statement.assignments),
            where=where,
            target=self.own.columns,
            ctes=ctes,
        )
        if self.analyst is not None:
            (types,) = self.analyst.assigned_types(update, self.own.columns)
            self._check_assigned(update.assignments, types, statement.span)
        return update

    def _merge(self, statement: st.MergeStatement) -> lp.Merge:
        source_alias = statement.source_alias
        if statement.source_ref is not None:
            source_alias = quote(self.names.alias(statement.source_ref))
        merge = lp.Merge(
            of=self.self_node,
            alias=quote(statement.alias or self.names.alias(statement.target)),
            source=self.binder.query(statement.source, self.roles),
            source_alias=source_alias,
            on=self._piece(statement.on),
            clauses=tuple(
                self._clause(c, source_alias, statement.target) for c in statement.clauses
            ),
            target=self.own.columns,
        )
        if self.analyst is not None:
            clause_types = self.analyst.assigned_types(merge, self.own.columns)
            for clause, types, when_clause in zip(
                merge.clauses, clause_types, statement.clauses, strict=True
            ):
                self._check_assigned(clause.assignments, types, when_clause.span)
        return merge

    def _clause(
        self, clause: st.WhenClause, source_alias: str, target: st.RelationRef
    ) -> lp.MergeClause:
        if clause.star is None:
            assignments = tuple(self._assign(a, target) for a in clause.assignments)
        else:
            assignments = tuple(
                lp.Assign(column=c.name, value=_of_source(source_alias, c, clause.star))
                for c in self.own.columns
            )
        if clause.action.name == "INSERT":
            names = {a.column for a in assignments}
            rest = [c for c in self.own.columns if c.name not in names]
            assignments += tuple(lp.Assign(column=c.name, value=self._default(c)) for c in rest)
        return lp.MergeClause(
            when=clause.when,
            action=clause.action,
            condition=self._condition(clause.condition),
            assignments=assignments,
        )

    def _check_assigned(
        self, assignments: Sequence[lp.Assign], types: Sequence[str], place: Span
    ) -> None:
        for assign, value_type in zip(assignments, types, strict=True):
            span = assign.value.sql.span if assign.value is not None else place
            self._check_type(self._column(assign.column, span), value_type, span, span.text)


def _of_source(alias: str, column: Column, star: Span) -> lp.Query:
    """The value that ``*`` gives a column: the source's column of that name."""
    edit = st.Edit(span=star, text=f"{alias}.{quote(column.name)}")
    return lp.Query(sql=st.SqlText(span=star, edits=(edit,)), relations=(), columns=())
