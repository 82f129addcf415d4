"""The ALTER TABLEs of existing tables that have other columns or constraints in the folder.

They run before the definitions of the folder are in force. Readers with older definitions continue.
No column is dropped or renamed, because its values would be lost.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import types as T

from ctsql.catalog.errors import CtsqlError, capitalised, error, not_supported
from ctsql.catalog.items import Table
from ctsql.catalog.names import fold, quote
from ctsql.catalog.schemas import Column, Schema, changes_between, commented, find
from ctsql.catalog.spans import Source, Span
from ctsql.planner.binding.constraints import bind_constraint
from ctsql.planner.definition_parts import Part
from ctsql.planner.lowering.spark_types import type_name
from ctsql.planner.syntax import ast as st, parse
from ctsql.planner.syntax.statements.constraints import constraint_text
from ctsql.planner.syntax.tokens.tokenizer import words_of
from ctsql.runtime.delta.clones import Clone
from ctsql.runtime.engine import Engine
from ctsql.runtime.pipelines.plan import warehouse_digest
from ctsql.runtime.statements.dml.stored_rules import (
    StoredConstraint,
    constraint_changes,
    default_changes,
    stored_constraints,
)
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.statements.tables.alter_table import (
    TableAlteration,
    change_table_constraints,
    drop_on,
    has_features,
    store_constraints,
)
from ctsql.runtime.statements.tables.altered_columns import altered_columns, features
from ctsql.runtime.statements.tables.effects_on_readers import ReaderEffect, check_readers

TableStatement = st.AlterTable | st.ChangeConstraints


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """The ALTER TABLEs of a table."""

    table: Table  # the stored table
    there: Schema  # its present columns
    schema: str  # for the names in constraints
    alterations: tuple[TableStatement, ...]  # in order, each with its text
    columns: Schema  # the columns after it
    notices: tuple[str, ...]  # Delta features that it turns on
    effects: tuple[ReaderEffect, ...]  # on the readers, all of which continue

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the table that differ."""
        parts = {_part(one) for one in self.alterations}
        return tuple(p for p in (Part.COLUMNS, Part.DEFAULTS, Part.CONSTRAINTS) if p in parts)


def table_change(names: Namespace, statement: st.CreateTable, table: Table) -> TableChange | None:
    """The ALTER TABLEs that make a table match its CREATE TABLE; None if it does.

    Raises:
        NOT_SUPPORTED: a column would be dropped. COLUMNS_IN_USE: a reader would fail. Also the
            errors of the alterations and of binding a constraint.
    """
    if not statement.columns:
        return None  # its columns come from a query
    engine = names.engine
    there, delta_table = engine.relations.columns_now(table), engine.relations.table(table)
    place = statement.columns_span or statement.target.span
    columns = declared_columns(statement.columns)
    properties = delta_table.configuration()
    texts = changes_between(there, columns)
    _check_none_lost(table, there, columns, texts, place)
    texts += default_changes(statement.columns, delta_table.metadata)
    texts += constraint_changes(statement.constraints, properties)
    alterations = [_parse(table, text) for text in texts]
    around = _around_types(alterations, statement, list(stored_constraints(properties)))
    alterations += (_parse(table, text) for text in around)
    if not alterations:
        return None
    # Constraints are dropped first, because their columns may get another type.
    alterations.sort(key=lambda one: isinstance(one, st.AlterTable) or bool(one.new_constraint))
    try:
        after, has, notices = there, has_features(delta_table), dict[str, None]()
        for one in alterations:
            if isinstance(one, st.AlterTable):
                after = altered_columns(after, one.change)
                for feature in features(one.change, has):
                    has[feature.name] = feature.value
                    notices[capitalised(feature.notice)] = None
        effects = check_readers(engine, table, there, after, place)
        after, analyst = commented(table.columns, after), names.analyst(names.catalog())
        for constraint in statement.constraints:
            bind_constraint(constraint, replace(table, columns=after), analyst)
    except CtsqlError as problem:
        problem.span = place
        raise
    return TableChange(
        table=table,
        there=there,
        schema=names.search_schema,
        alterations=tuple(alterations),
        columns=after,
        notices=tuple(notices),
        effects=tuple(effects),
    )


def alter_tables(
    engine: Engine,
    changes: Sequence[TableChange],
    expected: str,
) -> str:
    """Alter tables, after trying the alterations on copies of their logs.

    Each runs only if the catalog is unchanged since the one before it, so of two processes that
    apply folders one gets an error.

    Args:
        expected: the digest of the definitions that were planned on.

    Returns:
        The digest after them.

    Raises:
        DEFINITIONS_CHANGED, ALTERED_MEANWHILE: another process was first. COLUMNS_IN_USE, or the
            error of a row that breaks a constraint: no table is altered.
    """
    for change in changes:
        _try(engine, change)
    for change in changes:
        names, columns = Namespace(engine, change.schema), change.there
        for one in change.alterations:
            if warehouse_digest(engine.refresh_catalog()) != expected:
                raise error("DEFINITIONS_CHANGED")
            with _pointing_to(one):
                if isinstance(one, st.AlterTable):
                    TableAlteration(names).alter(one, there=columns)
                    columns = altered_columns(columns, one.change)
                else:
                    change_table_constraints(names, one)
            expected = warehouse_digest(engine.refresh_catalog())
    return expected


def _try(engine: Engine, change: TableChange) -> None:
    """Alter a copy; raises what the alterations would raise."""
    names, columns = Namespace(engine, change.schema), change.there
    table = engine.relations.table(change.table)
    copy = Clone(engine.gateway, table, table.version(), f"alter-{uuid.uuid4().hex}")
    try:
        for one in change.alterations:
            with _pointing_to(one):
                if isinstance(one, st.AlterTable):
                    TableAlteration(names).try_on(copy.location, one.change, columns)
                    columns = altered_columns(columns, one.change)
                elif one.new_constraint is None:
                    drop_on(engine, copy.location, one)
                else:
                    store_constraints(engine, copy.location, [one.new_constraint])
    finally:
        copy.drop()


@contextmanager
def _pointing_to(one: TableStatement) -> Iterator[None]:
    """Make an error without a position point to the statement."""
    try:
        yield
    except CtsqlError as problem:
        problem.span = problem.span or one.span
        raise


def declared_columns(columns: Iterable[st.ColumnDef]) -> Schema:
    """The columns of a list, with their types in Spark's spelling."""
    return tuple(
        Column(c.name, type_name(T.DataType.fromDDL(c.type or "")), c.nullable, c.comment)
        for c in columns
    )


def _check_none_lost(
    table: Table, there: Schema, columns: Schema, texts: Iterable[str], place: Span
) -> None:
    """Raise NOT_SUPPORTED if a column of a table is not in its list."""
    gone = [c.name for c in there if find(columns, c.name) is None]
    if gone:
        alter = f"ALTER TABLE {table.name}"
        drops = "; ".join(f"{alter} DROP COLUMN {quote(name)}" for name in gone)
        renames = "; ".join(f"{alter} {text}" for text in texts if text.startswith("RENAME"))
        what = "dropping or renaming a column of a table with the folder"
        why = f'Table "{table.name}" has {", ".join(gone)}, and its values would be lost.'
        hint = f"To drop it, type: {drops}" + (f". To rename it: {renames}" if renames else "")
        raise not_supported(place, what, why=why, hint=hint)


def _parse(table: Table, text: str) -> TableStatement:
    """A parsed statement with a qualified table name."""
    source = Source(f"ALTER TABLE {table.name} {text}", f"alteration of {table.name}")
    statement = parse(source.whole())
    assert isinstance(statement, TableStatement)  # ALTER TABLE has the same clause
    parts = (table.name.schema, table.name.name)
    return replace(statement, target=replace(statement.target, parts=parts))


def _around_types(
    alterations: Iterable[TableStatement],
    statement: st.CreateTable,
    there: Iterable[StoredConstraint],
) -> list[str]:
    """The alterations that drop and add again CHECKs of retyped columns, which Delta requires."""
    changes = [one.change for one in alterations if isinstance(one, st.AlterTable)]
    retyped = {fold(c.column.name) for c in changes if isinstance(c, st.RetypeColumn)}
    dropped = {fold(c.dropped_name) for c in alterations if isinstance(c, st.ChangeConstraints)}
    constraints = {fold(c.name): constraint_text(c) for c in statement.constraints}
    texts = []
    for one in there:
        words = {fold(word.strip("`")) for word in words_of(Source(one.rule, "constraint").whole())}
        if retyped & words and fold(one.name) not in dropped:
            texts += [f"DROP CONSTRAINT {quote(one.name)}", f"ADD {constraints[fold(one.name)]}"]
    return texts


def _part(one: TableStatement) -> Part:
    if isinstance(one, st.ChangeConstraints):
        return Part.CONSTRAINTS
    return Part.DEFAULTS if isinstance(one.change, st.SetDefault) else Part.COLUMNS
