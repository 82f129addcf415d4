"""ALTER TABLE: columns and constraints of tables.

Spark's ALTER TABLE changes them, under the table's commit lock. A change that would break a reader
is refused first. Constraints are stored as in Delta's protocol, so every writer enforces them.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import Table, altered_meanwhile
from ctsql.catalog.names import backtick, fold, quote, table_at
from ctsql.catalog.schemas import Schema, commented, same_columns
from ctsql.planner.binding.constraints import check_text
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.constraints import with_names
from ctsql.runtime.delta.clones import Clone
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.spark.failures.errors import conflict_errors, translate_spark_errors
from ctsql.runtime.statements.dml.dml import target_table
from ctsql.runtime.statements.dml.stored_rules import (
    StoredConstraint,
    stored_constraints,
    unknown_constraint,
)
from ctsql.runtime.statements.objects.name_resolution import Namespace, OnNames
from ctsql.runtime.statements.tables.altered_columns import (
    DEFAULTS,
    FEATURE,
    WITHOUT_ZONE,
    Feature,
    altered_columns,
    delta_text,
    features,
    not_null_schema,
)
from ctsql.runtime.statements.tables.effects_on_readers import check_readers
from ctsql.runtime.warehouse.times.multi_table_commit import alone

_DONE = "ALTER TABLE"
COMMITTED_MEANWHILE = "A writer of its folder committed at the same time."


def store_constraints(
    engine: Engine, location: str, definitions: Iterable[st.ConstraintDef]
) -> None:
    """Add constraints to the table of a folder; raises DATA_ERROR if a stored row breaks one."""
    for one in definitions:
        text = f"ADD CONSTRAINT {backtick(one.name)} CHECK ({check_text(one)})"
        with translate_spark_errors():
            engine.session.sql(f"ALTER TABLE {table_at(location)} {text}")


def change_table_constraints(names: Namespace, statement: st.ChangeConstraints) -> str:
    """ALTER TABLE ... ADD CONSTRAINT and DROP CONSTRAINT; returns the status line.

    Raises:
        UNKNOWN_CONSTRAINT: there is none to drop. INVALID_STATEMENT: the name is taken.
            DATA_ERROR: a stored row breaks it. ALTERED_MEANWHILE: another writer was first.
    """
    engine = names.engine
    item = target_table(engine, statement.target, names.search_schema)
    there = list(stored_constraints(engine.relations.table(item).configuration()))
    if statement.new_constraint is not None:
        definition = _with_name(statement.new_constraint, [s.name for s in there])
        change = partial(store_constraints, engine, definitions=[definition])
    else:
        folded_name = fold(statement.dropped_name)
        constraint = next((s for s in there if fold(s.name) == folded_name), None)
        if constraint is None:
            if statement.if_exists:
                return f"{_DONE} (unchanged)"
            raise unknown_constraint(item, statement, [s.name for s in there])
        change = partial(_drop, engine, constraint=constraint)
    try:
        with alone(engine.timeline, item, engine.mint) as location, engine.leaving_intents():
            change(location)
            faults.point("source_committed")
    except conflict_errors() as problem:
        raise altered_meanwhile(item, COMMITTED_MEANWHILE) from problem
    engine.mint()
    return _DONE


def drop_on(engine: Engine, location: str, statement: st.ChangeConstraints) -> None:
    """Drop a constraint of a copy of a table, if it has it."""
    for constraint in stored_constraints(engine.gateway.table(location).configuration()):
        if fold(constraint.name) == fold(statement.dropped_name):
            _drop(engine, location, constraint)


def _drop(engine: Engine, location: str, constraint: StoredConstraint) -> None:
    with translate_spark_errors():
        engine.session.sql(
            f"ALTER TABLE {table_at(location)} DROP CONSTRAINT {backtick(constraint.name)}"
        )


def _with_name(definition: st.ConstraintDef, there: Iterable[str]) -> st.ConstraintDef:
    span = definition.span
    others = [
        st.ConstraintDef(
            name=name, span=span, columns=(), predicate=None, action=st.OnViolation.FAIL
        )
        for name in there
    ]
    return with_names([*others, definition])[-1]


class TableAlteration(OnNames):
    """ALTER TABLE ... ADD, DROP, RENAME and ALTER COLUMN."""

    def alter(
        self, statement: st.AlterTable, *, there: Schema | None = None
    ) -> tuple[str, list[str]]:
        """Change the columns; returns the status line, and notices.

        Args:
            there: the required columns before; None for any.

        Raises:
            COLUMNS_IN_USE: a task, a view or a named subscription would fail. ALTERED_MEANWHILE.
        """
        engine, change = self.engine, statement.change
        item = target_table(engine, statement.target, self.names.search_schema)
        columns = engine.relations.columns_now(item)
        if there is not None and not same_columns(columns, there):
            raise altered_meanwhile(item, "Another process gave it other columns.")
        after = altered_columns(columns, change)
        if after == columns and not isinstance(change, st.SetDefault):
            return "ALTER TABLE (unchanged)", []
        catalog = engine.refresh_catalog()
        check_readers(engine, item, columns, after, statement.span)
        table = engine.relations.table(item)
        new_features = features(change, has_features(table))
        with alone(engine.timeline, item, engine.mint) as location, engine.leaving_intents():
            if engine.refresh_catalog() is not catalog:
                check_readers(engine, item, columns, after, statement.span)
            if engine.relations.columns_now(item) != columns:
                raise altered_meanwhile(item, COMMITTED_MEANWHILE)
            self._commit(item, location, change, new_features)
            faults.point("source_committed")
            self._note(item, statement, columns)  # under the lock: in the order of the commits
        engine.mint()
        return "ALTER TABLE", [f'table "{item.name}": {feature.notice}' for feature in new_features]

    def _note(self, item: Table, statement: st.AlterTable, before: Schema) -> None:
        """Write the columns into the catalog, with their comments."""
        columns_now = self.engine.relations.columns_now(item)

        def noted(current: Catalog) -> Catalog:
            now = still_there(current, item)
            comments = {fold(c.name): c.comment for c in commented(now.columns, before)}
            if isinstance(statement.change, st.RenameColumn):
                old, new = statement.change.column.name, statement.change.new.name
                comments[fold(new)] = comments.pop(fold(old), None)
            columns = tuple(
                replace(c, comment=comments.get(fold(c.name), c.comment)) for c in columns_now
            )
            return current.with_items([replace(now, columns=columns)])

        self.engine.change_catalog(noted)

    def try_on(self, location: str, change: st.ColumnChange, columns: Schema) -> None:
        """Change a copy of a table with these columns, to find out whether that is possible.

        Raises NOT_SUPPORTED, DATA_ERROR: it is impossible, or not with these rows.
        """
        new_features = features(change, has_features(self.engine.gateway.table(location)))
        if new_features:
            self._turn_on(location, new_features)
        self._change(location, change, columns)

    def _commit(
        self, item: Table, location: str, change: st.ColumnChange, new_features: Sequence[Feature]
    ) -> None:
        table = self.engine.relations.table(item)
        columns = self.engine.relations.columns_now(item)
        try:
            if new_features:
                # What is turned on stays, so a copy has to show first that Delta takes the change.
                group = f"alter-{uuid.uuid4().hex}"
                copy = Clone(self.engine.gateway, table, table.version(), group)
                try:
                    self.try_on(copy.location, change, columns)
                finally:
                    copy.drop()
                self._turn_on(location, new_features)
                faults.point("table_prepared")
            self._change(location, change, columns)
        except conflict_errors() as problem:
            raise altered_meanwhile(item, COMMITTED_MEANWHILE) from problem
        except Conflict as problem:
            raise altered_meanwhile(item, COMMITTED_MEANWHILE) from problem

    def _turn_on(self, location: str, new_features: Sequence[Feature]) -> None:
        properties = ", ".join(f"'{f.name}' = '{f.value}'" for f in new_features)
        with translate_spark_errors():
            self.engine.session.sql(
                f"ALTER TABLE {table_at(location)} SET TBLPROPERTIES ({properties})"
            )

    def _change(self, location: str, change: st.ColumnChange, columns: Schema) -> None:
        with translate_spark_errors():
            if isinstance(change, st.SetNotNull) and change.not_null:
                _set_not_null(self.engine.gateway.table(location), change)
            else:
                self.engine.session.sql(delta_text(table_at(location), change, columns))


def has_features(table: DeltaTable) -> dict[str, str]:
    """A table's properties, with the protocol features that a change may need."""
    there = {FEATURE + f: "supported" for f in (DEFAULTS, WITHOUT_ZONE) if table.has_feature(f)}
    return {**table.configuration(), **there}


def _set_not_null(table: DeltaTable, change: st.SetNotNull) -> None:
    """Delta has no statement for it: check the rows of one version, and depend on them."""
    column = change.column
    txn = table.begin()
    rows = table.frame(txn.version_read)
    if not rows.where(rows[backtick(column.name)].isNull()).isEmpty():
        what = "NOT NULL for a column that holds NULL"
        why = "Existing rows would break it."
        name = quote(column.name)
        hint = f"Type first: UPDATE ... SET {name} = ... WHERE {name} IS NULL"
        raise not_supported(column.span, what, why=why, hint=hint)
    txn.depend_on_all()
    schema = table.metadata_at(txn.version_read).schema_text
    txn.set_columns(not_null_schema(schema, column.name))
    txn.commit(label="ctsql", epoch=0, metadata="{}")
