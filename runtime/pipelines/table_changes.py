"""Existing tables of a folder with other columns or constraints: their ALTER TABLE actions.

    first:  ADD COLUMN, a wider type, NOT NULL, DEFAULT and constraints, before the definitions of
            the folder come into force. Readers with an older definition go on
    last:   DROP COLUMN with pruning, when no object reads it any more

:class:`TableAlteration` makes the changes, and decides their effect on readers.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import types as T

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError, capitalised, error, not_supported
from ctsql.catalog.items import Item
from ctsql.catalog.names import fold, quote
from ctsql.catalog.schemas import Column, Schema, changes_between, commented, find
from ctsql.catalog.spans import Source, Span
from ctsql.planner.binding.constraints import bind_constraint
from ctsql.planner.definition_parts import Part
from ctsql.planner.folder import FileDefinition
from ctsql.planner.lowering.spark_types import type_name
from ctsql.planner.syntax import ast as st, parse
from ctsql.planner.syntax.statements.constraints import constraint_text
from ctsql.planner.syntax.tokens.tokenizer import words_of
from ctsql.runtime.delta.clones import Clone
from ctsql.runtime.engine import Engine
from ctsql.runtime.pipelines.overlay import Overlay
from ctsql.runtime.pipelines.plan import Effect
from ctsql.runtime.statements.dml.stored_rules import (
    constraint_changes,
    default_changes,
    stored_constraints,
)
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.statements.tables.alter_table import (
    TableAlteration,
    TableConstraints,
    has_features,
    store_constraints,
)
from ctsql.runtime.statements.tables.altered_columns import altered_columns, features
from ctsql.runtime.statements.tables.effects_on_readers import (
    ReaderEffect as OnReader,
    effects_on_readers,
)

Alteration = st.AlterTable | st.ChangeConstraints
OF_TABLES = (Part.COLUMNS, Part.DEFAULTS, Part.CONSTRAINTS)
"""What ALTER TABLE makes other of a table; of other objects these are parts of definitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What ALTER TABLE is to say of a table."""

    table: Item  # as it is
    there: Schema  # the columns that it has
    schema: str  # of the names in constraints
    # before definitions come into force, those that drop constraints in front.
    first: tuple[Alteration, ...]
    last: tuple[Alteration, ...]  # when they have. Each with its text.
    after: Item  # the table as it would be
    notices: tuple[str, ...]  # what is turned on for it

    @property
    def texts(self) -> tuple[str, ...]:
        """The statements, in order."""
        return tuple(one.span.text for one in (*self.first, *self.last))

    @property
    def parts(self) -> tuple[Part, ...]:
        """What of the table differs."""
        parts = dict.fromkeys(map(_part, (*self.first, *self.last)))
        return tuple(p for p in OF_TABLES if p in parts)

    @property
    def effect(self) -> Effect:
        """What the change does, in words."""
        return Effect.LOSES if self.last else Effect.ALTERED

    @property
    def is_looked_at(self) -> bool:
        """Are rows read, to see whether they may stay?"""
        return any(_looks_at_rows(one) for one in self.first)

    def columns_before(self, alteration: Alteration) -> Schema:
        """The columns that the table has when an alteration is made."""
        columns = self.there
        for one in (*self.first, *self.last):
            if one is alteration:
                break
            if isinstance(one, st.AlterTable):
                columns = altered_columns(columns, one.change)
        return columns


class TableComparison:
    """Compares existing tables with a folder; ``prune`` drops columns that are not in it."""

    def __init__(self, overlay: Overlay, *, prune: bool) -> None:
        self.overlay, self.engine = overlay, overlay.engine
        self._prune = prune

    def change(
        self, definition: FileDefinition, statement: st.CreateTable, table: Item
    ) -> TableChange | None:
        """The ALTER TABLE actions; None for none.

        Raises NOT_SUPPORTED if there is no such action, or values would be lost; and the errors of
        binding a constraint.
        """
        if not statement.columns:
            return None  # a query has made its columns
        there = self.engine.relations.columns_now(table)
        delta_table = self.engine.relations.table(table)
        columns = declared_columns(statement.columns)
        place = statement.columns_span or statement.target.span
        texts = changes_between(there, columns)
        texts += default_changes(statement.columns, delta_table.metadata)
        texts += constraint_changes(statement.constraints, delta_table.configuration())
        if self._prune:
            names = self._constraints_unsaid(statement, table)
            texts += (f"DROP CONSTRAINT {quote(name)}" for name in names)
        if not texts:
            return None
        alterations = [_parse(table, text) for text in texts]
        around = _around_types(alterations, statement, delta_table.configuration(), place)
        alterations += (_parse(table, text) for text in around)
        self._check_lost(table, alterations, place)
        last = [one for one in alterations if _loses(one)]
        first = [one for one in alterations if one not in last]
        first.sort(key=lambda one: not drops_constraint(one))
        try:
            table_change = self._simulate(definition, table, there, first, last)
            self._check_constraints(definition, statement, table_change.after)
            return table_change
        except CtsqlError as problem:
            problem.span = place
            raise

    def note(self, statement: st.CreateTable, table: Item) -> str:
        """What of a table is left alone, though the folder does not say it; for people."""
        names = [] if self._prune else self._constraints_unsaid(statement, table)
        if not names:
            return ""
        text = ", ".join(map(quote, names))
        return f"it has constraints that the folder does not say, which --prune drops: {text}"

    def _constraints_unsaid(self, statement: st.CreateTable, table: Item) -> list[str]:
        """The constraints of a table that the folder does not mention."""
        if statement.constraints or not statement.columns:
            return []
        properties = self.engine.relations.table(table).configuration()
        return [one.name for one in stored_constraints(properties)]

    def _check_lost(self, table: Item, alterations: Iterable[Alteration], place: Span) -> None:
        """Raise NOT_SUPPORTED if a folder cannot express a change, or values would be lost."""
        table_alterations = [one for one in alterations if isinstance(one, st.AlterTable)]
        renames = [one for one in table_alterations if isinstance(one.change, st.RenameColumn)]
        if renames:
            what = "renaming a column of a table with the folder"
            why = "A column that goes while one of its type comes may be the same one."
            rename_text = "; ".join(one.span.text for one in renames)
            drop_text = "; ".join(
                f"ALTER TABLE {table.name} DROP COLUMN {one.change.column.span.text}"
                for one in renames
                if isinstance(one.change, st.RenameColumn)
            )
            hint = f"If it is, type: {rename_text}. If it is not, drop it first: {drop_text}"
            raise not_supported(place, what, why=why, hint=hint)
        gone_texts = [
            one.span.text for one in table_alterations if isinstance(one.change, st.DropColumns)
        ]
        if gone_texts and not self._prune:
            columns = ", ".join(
                c.name
                for one in table_alterations
                if isinstance(one.change, st.DropColumns)
                for c in one.change.columns
            )
            what = "dropping a column of a table with the folder, without --prune,"
            why = f'Table "{table.name}" has {columns}, and its values would be lost.'
            hint = f"To drop it: --prune, or type: {'; '.join(gone_texts)}"
            raise not_supported(place, what, why=why, hint=hint)

    def _simulate(
        self,
        definition: FileDefinition,
        table: Item,
        there: Schema,
        first: Sequence[Alteration],
        last: Sequence[Alteration],
    ) -> TableChange:
        """Go through the alterations without making them."""
        has = has_features(self.engine.relations.table(table))
        columns, notices = there, dict[str, None]()
        for one in (*first, *last):
            if isinstance(one, st.AlterTable):
                self._check_not_null(table, there, one)
                columns = altered_columns(columns, one.change)
                for feature in features(one.change, has):
                    has[feature.name] = feature.value
                    notices[capitalised(feature.notice)] = None
        return TableChange(
            table=table,
            there=there,
            schema=definition.schema,
            first=tuple(first),
            last=tuple(last),
            after=replace(table, columns=commented(table.columns, columns)),
            notices=tuple(notices),
        )

    def _check_constraints(
        self, definition: FileDefinition, statement: st.CreateTable, table: Item
    ) -> None:
        """Raise UNKNOWN_COLUMN, and what Spark says, of constraints over a table's new columns."""
        names = self.overlay.names(definition.schema)
        analyst = names.analyst(names.catalog())
        for constraint in statement.constraints:
            bind_constraint(constraint, table, analyst)

    def _check_not_null(self, table: Item, there: Schema, one: st.AlterTable) -> None:
        """Raise NOT_SUPPORTED for NOT NULL of a column that comes, where rows are there."""
        change = one.change
        if not isinstance(change, st.SetNotNull) or not change.not_null:
            return
        delta_table = self.engine.relations.table(table)
        if find(there, change.column.name) is None and delta_table.rows_count(
            delta_table.version()
        ):
            what = "NOT NULL of a column that is added"
            why = f'Rows that are in table "{table.name}" have no value for it.'
            hint = f"Write {change.column.name} without NOT NULL, apply, UPDATE the rows, and add "
            raise not_supported(None, what, why=why, hint=f"{hint}NOT NULL then.")


def effects_of_alterations(
    engine: Engine,
    change: TableChange,
    *,
    catalog: Catalog,
    without: Collection[str],
) -> list[OnReader]:
    """The effects of a table's alterations on its readers.

    Args:
        catalog: with the folder's definitions. without: the ids of readers that are changed or
            dropped before columns are.
    """
    on_readers: list[OnReader] = []
    for one in (*change.first, *change.last):
        if not isinstance(one, st.AlterTable):
            continue
        columns = change.columns_before(one)
        after = altered_columns(columns, one.change)
        if one in change.last:
            on_readers += effects_on_readers(
                engine, change.table, one.change, columns, after, catalog=catalog, without=without
            )
        else:
            effects = effects_on_readers(engine, change.table, one.change, columns, after)
            names = {str(catalog.items[i].name) for i in without if i in catalog.items}
            on_readers += (e for e in effects if e.is_break or e.name not in names)
    return on_readers


class Altering:
    """Makes the alterations of a folder's tables.

    Each is made only on the catalog that the one before it left: if two processes apply folders at
    once, one of them raises.

    Args:
        expected: the digest of the definitions that were planned on.
    """

    def __init__(self, engine: Engine, digest: Callable[[Catalog], str], expected: str) -> None:
        self._engine, self._digest, self._expected = engine, digest, expected

    def try_all(self, changes: Iterable[TableChange]) -> None:
        """Make what may fail of copies of the tables first; raises as the alterations would."""
        for change in changes:
            if not all(map(drops_constraint, (*change.first, *change.last))):
                self._try(change)

    def make(self, change: TableChange, alterations: Iterable[Alteration]) -> None:
        """Make alterations of a table.

        Raises:
            DEFINITIONS_CHANGED, ALTERED_MEANWHILE: another process was first. COLUMNS_IN_USE. And
                the errors of stored rows that break a constraint.
        """
        names = Namespace(self._engine, change.schema)
        for one in alterations:
            if self._digest(self._engine.refresh_catalog()) != self._expected:
                raise error("DEFINITIONS_CHANGED")
            with _pointing_to(one):
                if isinstance(one, st.AlterTable):
                    there = change.columns_before(one)
                    TableAlteration(names).alter(one, there=there)
                else:
                    TableConstraints(names).change(one)
            self._expected = self._digest(self._engine.refresh_catalog())

    def _try(self, change: TableChange) -> None:
        """Make the alterations of a copy."""
        engine, table = self._engine, self._engine.relations.table(change.table)
        names = Namespace(engine, change.schema)
        columns, constraints = change.there, TableConstraints(names)
        group = f"alter-{uuid.uuid4().hex}"
        copy = Clone(engine.gateway, table, table.version(), group)
        try:
            for one in (*change.first, *change.last):
                with _pointing_to(one):
                    if isinstance(one, st.AlterTable):
                        TableAlteration(names).try_on(copy.location, one.change, columns)
                        columns = altered_columns(columns, one.change)
                    elif one.new_constraint is None:
                        constraints.drop_on(copy.location, one)
                    else:
                        store_constraints(engine, copy.location, [one.new_constraint])
        finally:
            copy.drop()


@contextmanager
def _pointing_to(one: Alteration) -> Iterator[None]:
    """Let an error that names no place point to the statement."""
    try:
        yield
    except CtsqlError as problem:
        problem.span = problem.span or one.span
        raise


def declared_columns(columns: Iterable[st.ColumnDef]) -> tuple[Column, ...]:
    """The columns of a list, with their types in Spark's spelling."""
    return tuple(
        Column(c.name, type_name(T.DataType.fromDDL(c.type or "")), c.nullable, c.comment)
        for c in columns
    )


def _parse(table: Item, text: str) -> Alteration:
    """A statement whose table is found whatever schema is searched."""
    source = Source(f"ALTER TABLE {table.name} {text}", f"alteration of {table.name}")
    statement = parse(source.whole())
    assert isinstance(statement, Alteration)  # ALTER TABLE says it
    parts = (table.name.schema, table.name.name)
    return replace(statement, target=replace(statement.target, parts=parts))


def _around_types(
    alterations: Iterable[Alteration],
    statement: st.CreateTable,
    properties: Mapping[str, str],
    place: Span,
) -> list[str]:
    """The actions that drop Delta's CHECKs on columns that get another type, and add them again.

    Delta changes no type under a CHECK. Raises NOT_SUPPORTED for a CHECK that is not in the folder:
    after a kill it could not be added again.
    """
    changes = [one.change for one in alterations if isinstance(one, st.AlterTable)]
    retyped_columns = {fold(c.column.name) for c in changes if isinstance(c, st.RetypeColumn)}
    dropped_names = {
        fold(c.dropped_name) for c in alterations if isinstance(c, st.ChangeConstraints)
    }
    constraints = {fold(c.name): constraint_text(c) for c in statement.constraints}
    texts = []
    for one in stored_constraints(properties):
        if fold(one.name) in dropped_names:
            continue
        words = words_of(Source(properties[one.key], "constraint").whole())
        if not retyped_columns & {fold(word.strip("`")) for word in words}:
            continue
        if fold(one.name) not in constraints:
            what = "another type for a column that a CHECK is about which the folder does not say"
            why = f'Delta wants "{one.name}" dropped for it, and the folder would not give it back.'
            hint = f"Write it into the CREATE TABLE: {one.text}"
            raise not_supported(place, what, why=why, hint=hint)
        texts.append(f"DROP CONSTRAINT {quote(one.name)}")
        texts.append(f"ADD {constraints[fold(one.name)]}")
    return texts


def drops_constraint(one: Alteration) -> bool:
    """Does an alteration take a constraint away?"""
    return isinstance(one, st.ChangeConstraints) and one.new_constraint is None


def _loses(one: Alteration) -> bool:
    return isinstance(one, st.AlterTable) and isinstance(one.change, st.DropColumns)


def _part(one: Alteration) -> Part:
    if isinstance(one, st.ChangeConstraints):
        return Part.CONSTRAINTS
    return Part.DEFAULTS if isinstance(one.change, st.SetDefault) else Part.COLUMNS


def _looks_at_rows(one: Alteration) -> bool:
    if isinstance(one, st.ChangeConstraints):
        return one.new_constraint is not None
    return isinstance(one.change, st.SetNotNull) and one.change.not_null
