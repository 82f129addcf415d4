"""ALTER TABLE: columns of a table of ctsql's own.

Spark's ALTER TABLE changes them, under the table's commit lock as any other commit. A change that
would break a reader is refused before.
"""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import Table, altered_meanwhile, columns_in_use, with_columns_there
from ctsql.catalog.names import backtick, fold, quote, table_at
from ctsql.catalog.schemas import Schema, same_columns
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.runtime.delta.clones import Clone
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.spark.failures.errors import conflict_errors, translate_spark_errors
from ctsql.runtime.statements.dml.dml import target_table
from ctsql.runtime.statements.objects.name_resolution import OnNames
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
from ctsql.runtime.statements.tables.effects_on_readers import effects_on_readers
from ctsql.runtime.statements.tables.table_constraints import COMMITTED_BESIDE
from ctsql.runtime.warehouse.times.multi_table_commit import alone


class TableAlteration(OnNames):
    """ALTER TABLE ... ADD, DROP, RENAME and ALTER COLUMN."""

    def alter(
        self, statement: st.AlterTable, *, there: Schema | None = None
    ) -> tuple[str, list[str]]:
        """Change the columns; returns the status line, and notices.

        Args:
            there: the columns that it is to have before; None for whatever it has.

        Raises:
            COLUMNS_IN_USE: a task, a view or a named subscription would fail. ALTERED_MEANWHILE.
        """
        engine, change = self.engine, statement.change
        item = self._table(statement)
        columns = engine.relations.columns_now(item)
        if there is not None and not same_columns(columns, there):
            raise altered_meanwhile(item, "Another process gave it other columns.")
        after = altered_columns(columns, change)
        if after == columns and not isinstance(change, st.SetDefault):
            return "ALTER TABLE (unchanged)", []
        catalog = engine.refresh_catalog()
        self._check_readers(item, statement, columns, after)
        table = engine.relations.table(item)
        new_features = features(change, has_features(table))
        with alone(engine.timeline, item, engine.mint) as location, engine.leaving_intents():
            if engine.refresh_catalog() is not catalog:
                self._check_readers(item, statement, columns, after)
            if engine.relations.columns_now(item) != columns:
                raise altered_meanwhile(item, COMMITTED_BESIDE)
            self._commit(item, location, change, new_features)
            faults.point("source_committed")
            self._note(item, statement, columns)  # under the lock: in the order of the commits
        engine.mint()
        return "ALTER TABLE", [f'table "{item.name}": {feature.notice}' for feature in new_features]

    def _note(self, item: Table, statement: st.AlterTable, before: Schema) -> None:
        """Write the columns into the catalog, and the change, which makes them again in a dump.

        What other writers have changed by then, to the columns ``before``, goes in front of it.
        """
        columns_now = self.engine.relations.columns_now(item)
        source = statement.span.source
        text = Span(source, statement.target.span.stop, statement.span.stop).text.strip(" ;\n")

        def noted(current: Catalog) -> Catalog:
            now = with_columns_there(still_there(current, item), before)
            comments = {fold(c.name): c.comment for c in now.columns}
            if isinstance(statement.change, st.RenameColumn):
                old, new = statement.change.column.name, statement.change.new.name
                comments[fold(new)] = comments.pop(fold(old), None)
            columns = tuple(
                replace(c, comment=comments.get(fold(c.name), c.comment)) for c in columns_now
            )
            alterations = (*now.alterations, text)
            return current.with_items([replace(now, columns=columns, alterations=alterations)])

        self.engine.change_catalog(noted)

    def _table(self, statement: st.AlterTable) -> Table:
        return target_table(self.engine, statement.target, self.names.search_schema)

    def try_on(self, location: str, change: st.ColumnChange, columns: Schema) -> None:
        """Make a change of a copy of a table alone, which shows whether it can be made.

        Args:
            columns: those that the copy has.

        Raises:
            NOT_SUPPORTED, DATA_ERROR: it cannot be made, or not with these rows.
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
            raise altered_meanwhile(item, COMMITTED_BESIDE) from problem
        except Conflict as problem:
            raise altered_meanwhile(item, COMMITTED_BESIDE) from problem

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

    # ---- readers

    def _check_readers(
        self, item: Table, statement: st.AlterTable, columns: Schema, after: Schema
    ) -> None:
        effects = effects_on_readers(self.engine, item, statement.change, columns, after)
        failures = [e for e in effects if e.is_break]
        if failures:
            detail = " ".join(f"{e.kind.capitalize()} {e.name}: {e.detail}" for e in failures)
            raise columns_in_use(item, detail, statement.span, failures[0].action)


def has_features(table: DeltaTable) -> dict[str, str]:
    """A table's properties, with the features of its protocol that a change may need."""
    there = {FEATURE + f: "supported" for f in (DEFAULTS, WITHOUT_ZONE) if table.has_feature(f)}
    return {**table.configuration(), **there}


def _set_not_null(table: DeltaTable, change: st.SetNotNull) -> None:
    """Delta has no statement for it: look at the rows of one version, and depend on them."""
    column = change.column
    txn = table.begin()
    rows = table.frame(txn.version_read)
    if not rows.where(rows[backtick(column.name)].isNull()).isEmpty():
        what = "NOT NULL for a column that holds NULL"
        why = "Rows that are there would not be allowed."
        name = quote(column.name)
        hint = f"Type first: UPDATE ... SET {name} = ... WHERE {name} IS NULL"
        raise not_supported(column.span, what, why=why, hint=hint)
    txn.depend_on_all()
    schema = table.metadata_at(txn.version_read).schema_text
    txn.set_columns(not_null_schema(schema, column.name))
    txn.commit(label="ctsql", epoch=0, metadata="{}")
