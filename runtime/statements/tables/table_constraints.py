"""Constraints of tables: made with the table, added and dropped.

They are written into the table as Delta's protocol has them, so that every writer enforces them, or
may not write.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ctsql.catalog.catalog import Catalog, still_there
from ctsql.catalog.items import Table, altered_meanwhile
from ctsql.catalog.names import backtick, fold, quote, table_at
from ctsql.planner.binding.constraints import check_text
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.constraints import constraint_text, with_names
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.spark.failures.errors import conflict_errors, translate_spark_errors
from ctsql.runtime.statements.dml.dml import target_table
from ctsql.runtime.statements.dml.stored_constraints import (
    StoredConstraint,
    constraint_changes,
    stored_constraints,
    unknown_constraint,
)
from ctsql.runtime.statements.inspect.show import unnoted_changes
from ctsql.runtime.statements.objects.name_resolution import OnNames
from ctsql.runtime.warehouse.times.multi_table_commit import alone

_DONE = "ALTER TABLE"
COMMITTED_BESIDE = "A writer of its folder committed at the same time."


def store_constraints(
    engine: Engine, location: str, definitions: Iterable[st.ConstraintDef]
) -> None:
    """Add constraints to the table of a folder; raises DATA_ERROR if a stored row breaks one."""
    for one in definitions:
        text = f"ADD CONSTRAINT {backtick(one.name)} CHECK ({check_text(one)})"
        with translate_spark_errors():
            engine.session.sql(f"ALTER TABLE {table_at(location)} {text}")


class TableConstraints(OnNames):
    """ALTER TABLE ... ADD CONSTRAINT and DROP CONSTRAINT; returns the status line."""

    def change(self, statement: st.ChangeConstraints) -> str:
        """Change what every row of a table must keep.

        Raises:
            UNKNOWN_CONSTRAINT: there is none to drop. INVALID_STATEMENT: the name is taken.
            DATA_ERROR: a row that is there breaks it. ALTERED_MEANWHILE: another writer was first.
        """
        engine = self.engine
        item = target_table(engine, statement.target, self.names.search_schema)
        there = list(stored_constraints(engine.relations.table(item).configuration()))
        try:
            if statement.new_constraint is not None:
                text = self._added_before(item, statement.new_constraint)
                if text:
                    self._note(item, text)
                else:
                    self._add_and_note(item, statement.new_constraint, there)
            else:
                folded_name = fold(statement.dropped_name)
                constraint = next((s for s in there if fold(s.name) == folded_name), None)
                if constraint is None:
                    if statement.if_exists:
                        return f"{_DONE} (unchanged)"
                    raise unknown_constraint(item, statement, [s.name for s in there])
                self._drop_and_note(item, constraint)
        except conflict_errors() as problem:
            raise altered_meanwhile(item, COMMITTED_BESIDE) from problem
        engine.mint()
        return _DONE

    def _added_before(self, item: Table, addition: st.ConstraintDef) -> str:
        """The text of the change where a process that was killed has made it; else empty.

        It has not noted it then, so the same constraint is no second one.
        """
        now = self.engine.catalog.items[item.id]
        properties = self.engine.relations.table(item).configuration()
        definition = _with_name(addition, ())
        for one in stored_constraints(properties):
            text = f"ADD {one.text}"
            if fold(one.name) == fold(definition.name) and text in unnoted_changes(
                self.engine, now
            ):
                differs = constraint_changes([definition], {one.key: properties[one.key]})
                return "" if differs else text
        return ""

    def _add_and_note(
        self, item: Table, addition: st.ConstraintDef, there: Sequence[StoredConstraint]
    ) -> None:
        """Add a constraint, and note it."""
        engine = self.engine
        definition = _with_name(addition, [s.name for s in there])
        with alone(engine.timeline, item, engine.mint) as location, engine.leaving_intents():
            store_constraints(engine, location, [definition])
            faults.point("source_committed")
            self._note(item, f"ADD {constraint_text(definition)}")

    def _drop_and_note(self, item: Table, constraint: StoredConstraint) -> None:
        """Drop a constraint, and note it."""
        engine = self.engine
        with alone(engine.timeline, item, engine.mint) as location, engine.leaving_intents():
            self._drop(location, constraint)
            faults.point("source_committed")
            self._note(item, f"DROP CONSTRAINT IF EXISTS {quote(constraint.name)}")

    def drop_on(self, location: str, statement: st.ChangeConstraints) -> None:
        """Drop a constraint of a copy of a table, if it has it."""
        for constraint in stored_constraints(self.engine.gateway.table(location).configuration()):
            if fold(constraint.name) == fold(statement.dropped_name):
                self._drop(location, constraint)

    def _drop(self, location: str, constraint: StoredConstraint) -> None:
        with translate_spark_errors():
            self.engine.session.sql(
                f"ALTER TABLE {table_at(location)} DROP CONSTRAINT {backtick(constraint.name)}"
            )

    def _note(self, item: Table, text: str) -> None:
        """Write the change into the catalog, which makes it again in a dump.

        Under the table's lock, so that changes are noted in the order in which they were made.
        """

        def noted(current: Catalog) -> Catalog:
            now = still_there(current, item)
            return current.with_items([replace(now, alterations=(*now.alterations, text))])

        self.engine.change_catalog(noted)


def _with_name(definition: st.ConstraintDef, there: Iterable[str]) -> st.ConstraintDef:
    """A constraint with a name that none of those that are there has."""
    span = definition.span
    others = [
        st.ConstraintDef(
            name=name, span=span, columns=(), predicate=None, action=st.OnViolation.FAIL
        )
        for name in there
    ]
    return with_names([*others, definition])[-1]
