"""Constraints of tables: Delta's own CHECKs, which every writer of the table has to keep.

A table is written by ctsql, by Spark and by others, so a rule that holds for its rows must be one
that all of them keep: it is written into the table as Delta's protocol has it, and a writer that
does not know it may not write. Such a rule refuses; it neither drops rows nor sets them aside.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item, was_dropped
from ctsql.catalog.names import backtick, did_you_mean, fold, quote
from ctsql.catalog.spans import Span
from ctsql.planner.binding.constraints import check_text
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.constraints import with_names
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.dml import target_table
from ctsql.runtime.statements.name_resolution import OnNames
from ctsql.runtime.statements.stored_constraints import stored_constraints
from ctsql.runtime.warehouse.multi_table_commit import alone

_DONE = "ALTER TABLE"


def add_constraints(engine: Engine, location: str, made: Iterable[st.ConstraintDef]) -> None:
    """Add constraints to the table in a folder; raises where a row that is there breaks one."""
    for one in made:
        text = f"ADD CONSTRAINT {backtick(one.name)} CHECK ({check_text(one)})"
        with translate_spark_errors():
            engine.session.sql(f"ALTER TABLE delta.`{location}` {text}")


class TableConstraints(OnNames):
    """ALTER TABLE ... ADD CONSTRAINT and DROP CONSTRAINT; returns the status line."""

    def change(self, statement: st.ChangeConstraints) -> str:
        """Change what every row of a table must keep.

        Raises:
            UNKNOWN_CONSTRAINT: there is none to drop. INVALID_STATEMENT: the name is taken.
            DATA_ERROR: a row that is there breaks it.
        """
        engine = self.engine
        item = target_table(engine, statement.target, self.names.search_schema)
        table = engine.relations.table(item)
        with alone(engine.timeline, item, engine.mint) as location, engine.leaving_intents():
            there = dict(stored_constraints(table.configuration()))
            if statement.added is not None:
                added = _named(statement.added, there)
                add_constraints(engine, location, [added])
                text = _added_text(added)
            else:
                name = next((n for n in there if fold(n) == fold(statement.dropped)), None)
                if name is None and statement.if_exists:
                    return f"{_DONE} (unchanged)"
                if name is None:
                    raise _unknown(item, statement, there)
                text = f"DROP CONSTRAINT IF EXISTS {quote(name)}"
                with translate_spark_errors():
                    engine.session.sql(
                        f"ALTER TABLE delta.`{location}` DROP CONSTRAINT {backtick(name)}"
                    )
        faults.point("source_committed")
        self._note(item, text)
        engine.mint()
        return _DONE

    def _note(self, item: Item, text: str) -> None:
        """Write the change into the catalog, which makes it again in a dump."""

        def noted(current: Catalog) -> Catalog:
            now = current.items.get(item.id)
            if now is None:
                raise was_dropped(item.name, "meanwhile", item.kind.value)
            return current.with_item(replace(now, alterations=(*now.alterations, text)))

        self.engine.change_catalog(noted)


def _named(made: st.ConstraintDef, there: Mapping[str, str]) -> st.ConstraintDef:
    """A constraint with a name that none of those that are there has."""
    span = made.span
    known = [
        st.ConstraintDef(
            name=name, span=span, columns=(), predicate=None, action=st.OnViolation.FAIL
        )
        for name in there
    ]
    return with_names([*known, made])[-1]


def _added_text(made: st.ConstraintDef) -> str:
    rule = made.rule if made.predicate is None else f"CHECK ({made.predicate.span.text})"
    return f"ADD CONSTRAINT {quote(made.name)} {rule}"


def _unknown(item: Item, statement: st.ChangeConstraints, there: Mapping[str, str]) -> Exception:
    span: Span | None = statement.dropped_span
    hint = did_you_mean(statement.dropped, [*there], otherwise="SHOW CONSTRAINTS lists them.")
    return error(
        "UNKNOWN_CONSTRAINT", span=span, name=statement.dropped, relation=str(item.name), hint=hint
    )
