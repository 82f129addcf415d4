"""ALTER TABLE: columns of a table of ctsql's own; PLAN ALTER TABLE says what that means.

Spark's ALTER TABLE changes them, under the table's commit lock as any other commit. Before it every
reader is asked: its definition is analysed by Spark over the columns as they would be. What it
would then fail with is what it does fail with when a foreign writer changes the table
(docs/decisions/0065-rows-by-their-own-version.md); here it is refused before.
"""

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.errors import capitalised, not_supported, sentence_of
from ctsql.catalog.items import (
    Catalog,
    Item,
    KafkaSource,
    ObjectKind,
    columns_in_use,
    still_there,
    with_columns_there,
)
from ctsql.catalog.names import Name, backtick, fold, quote, table_at
from ctsql.catalog.schemas import Schema, names, same_columns
from ctsql.catalog.spans import Span
from ctsql.planner.lowering.store_assignment import is_exact
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.tokens.tokenizer import words_of
from ctsql.runtime.delta.clones import Clone
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.spark.errors import conflict_errors, translate_spark_errors
from ctsql.runtime.statements.altered_columns import (
    DEFAULTS,
    FEATURE,
    WITHOUT_ZONE,
    Feature,
    altered_columns,
    delta_text,
    features,
    named_columns,
    not_null_schema,
)
from ctsql.runtime.statements.columns_read import Analysis, analyse, readers_of, reads
from ctsql.runtime.statements.dml import target_table
from ctsql.runtime.statements.name_resolution import OnNames
from ctsql.runtime.statements.stored_constraints import kept_constraints
from ctsql.runtime.statements.table_constraints import COMMITTED_BESIDE, references_to
from ctsql.runtime.warehouse.multi_table_commit import alone
from ctsql.runtime.warehouse.replaced_views import altered_meanwhile
from ctsql.runtime.warehouse.watched_topics import check_topic_columns

GOES_ON, CHANGES, BREAKS = "goes on", "changes", "breaks"
COLUMNS = ["object", "kind", "effect", "detail", "what to do"]


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change means for an object: one of the words above, why, and what to do."""

    name: str
    kind: str
    effect: str
    detail: str
    action: str = ""


class TableAlteration(OnNames):
    """ALTER TABLE ... ADD, DROP, RENAME and ALTER COLUMN."""

    def plan(self, statement: st.AlterTable) -> list[Effect]:
        """What the change means for the table and for each reader; nothing is written."""
        item = self._table(statement)
        columns = self.engine.relations.columns_now(item)
        after = altered_columns(columns, statement.change)
        self.check_constraints(item, statement)
        table = self.engine.relations.table(item)
        new_features = features(statement.change, has_features(table))
        notice = " ".join(capitalised(f.notice) for f in new_features)
        shape = f"Its columns are then {', '.join(c.ddl() for c in after)}."
        is_same = after == columns and not isinstance(statement.change, st.SetDefault)
        own = Effect(
            str(item.name),
            item.kind.value,
            GOES_ON if is_same else CHANGES,
            "Its columns are so already." if is_same else f"{shape} {notice}".strip(),
        )
        return [own, *self.effects(item, statement.change, columns, after)]

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
            raise altered_meanwhile(item)
        after = altered_columns(columns, change)
        self.check_constraints(item, statement)
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

    def _note(self, item: Item, statement: st.AlterTable, before: Schema) -> None:
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
            return current.with_item(replace(now, columns=columns, alterations=alterations))

        self.engine.change_catalog(noted)

    def _table(self, statement: st.AlterTable) -> Item:
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
        self, item: Item, location: str, change: st.ColumnChange, new_features: Sequence[Feature]
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

    def check_constraints(
        self,
        item: Item,
        statement: st.AlterTable,
        *,
        own: Mapping[str, str] | None = None,
        dropped_constraints: Collection[tuple[Name, str]] = (),
    ) -> None:
        """Raise COLUMNS_IN_USE where a constraint that ctsql keeps is about a column that goes.

        So is one that gets another type, if it is a key: its values may no longer be one.

        Args:
            own: the properties of the table; None for those that it has now.
            dropped_constraints: constraints of other tables that do not count: the table, and the
                folded name.
        """
        change = statement.change
        if not isinstance(change, st.DropColumns | st.RenameColumn | st.RetypeColumn):
            return
        column_names = named_columns(change)
        if own is None:
            own = self.engine.relations.table(item).configuration()
        constraints = self._constraints_about(
            item, own, only_keys=isinstance(change, st.RetypeColumn)
        )
        for table, name, about in constraints:
            if column_names & about and (table, fold(name)) not in dropped_constraints:
                of = "" if table == item.name else f' of table "{table}"'
                detail = f'Constraint "{name}"{of} is about the column.'
                hint = f"Type first: ALTER TABLE {table} DROP CONSTRAINT {quote(name)}"
                raise columns_in_use(item, detail, statement.span, hint)

    def _constraints_about(
        self, item: Item, own: Mapping[str, str], *, only_keys: bool
    ) -> Iterator[tuple[Name, str, set[str]]]:
        """Constraints of a table, and those that refer to it, each with its columns, folded."""
        for one in kept_constraints(own):
            assert one.definition is not None  # it is one that ctsql keeps
            about = {fold(column) for column in one.definition.columns}
            if one.definition.predicate is not None and not only_keys:
                about = {fold(word.strip("`")) for word in words_of(one.definition.predicate.span)}
            yield item.name, one.name, about
        for table, name, keys in references_to(self.engine, self.engine.refresh_catalog(), item):
            yield table.name, name, keys

    # ---- readers

    def _check_readers(
        self, item: Item, statement: st.AlterTable, columns: Schema, after: Schema
    ) -> None:
        effects = self.effects(item, statement.change, columns, after)
        failures = [e for e in effects if e.effect == BREAKS]
        if failures:
            detail = " ".join(f"{e.kind.capitalize()} {e.name}: {e.detail}" for e in failures)
            raise columns_in_use(item, detail, statement.span, failures[0].action)

    def effects(
        self,
        item: Item,
        change: st.ColumnChange,
        columns: Schema,
        after: Schema,
        *,
        catalog: Catalog | None = None,
        without: Collection[str] = (),
    ) -> list[Effect]:
        """What a change means for each object that reads the table, directly or by plain views.

        Args:
            catalog: the definitions that are there; None for those that are stored.
            without: the ids of readers that are not asked.
        """
        catalog = self.engine.catalog if catalog is None else catalog
        all_effects = [self._feed(item, after)] if item.feed is not None else []
        if columns == after:
            return all_effects  # a default is for those who write
        readers = [r for r in readers_of(catalog, item) if r.id not in without]
        effects = {r.id: self._effect(r, item, change, columns, after, catalog) for r in readers}
        all_effects += effects.values()
        for relation in (item, *(r for r in readers if r.kind is ObjectKind.VIEW)):
            for subscription in catalog.subscribers(relation.id):
                detail = "What it is given has the columns of its last connection until the next."
                effect, action = GOES_ON, ""
                reader_effect = effects.get(relation.id)
                is_broken = reader_effect is not None and reader_effect.effect == BREAKS
                loses = (
                    isinstance(change, st.DropColumns | st.RenameColumn) and reader_effect is None
                )
                if is_broken or loses:
                    effect, detail = BREAKS, "It is given all columns, and would end there."
                    action = f"Type first: DROP SUBSCRIPTION {subscription.name}"
                all_effects.append(
                    Effect(subscription.name, "subscription", effect, detail, action)
                )
        return all_effects

    def _feed(self, item: Item, after: Schema) -> Effect:
        if isinstance(item.feed, KafkaSource):
            check_topic_columns(item.feed, after)
            what, name = "messages", item.feed.topic
        else:
            assert item.feed is not None  # the caller looked
            what, name = "files", item.feed.path
        text = ", ".join(names(after))
        return Effect(name, what, CHANGES, f"What comes from now on fills the columns {text}.")

    def _effect(
        self,
        reader: Item,
        table: Item,
        change: st.ColumnChange,
        columns: Schema,
        after: Schema,
        catalog: Catalog,
    ) -> Effect:
        name, kind, engine = str(reader.name), reader.kind.value, self.engine
        definition = engine.relations.current(reader)
        before, then = (analyse(engine, definition, table, c, catalog) for c in (columns, after))
        if before.problem is not None:
            detail = f"It fails already: {before.problem.message}."
            if then.problem is None:
                return Effect(name, kind, CHANGES, f"{detail} Then it does no longer.")
            return Effect(name, kind, GOES_ON, detail)
        if then.problem is not None:
            return Effect(name, kind, BREAKS, sentence_of(then.problem), _replace_text(reader))
        if isinstance(change, st.AddColumns):
            detail = "It does not see the new column, SELECT * included."
            return Effect(name, kind, GOES_ON, detail)
        if not reads(engine, before, table, columns, named_columns(change), catalog):
            return Effect(name, kind, GOES_ON, "It does not read the column.")
        if len(then.columns) != len(before.columns):
            detail = "Its SELECT * gives other columns then than it has."
            return Effect(name, kind, BREAKS, detail, _replace_text(reader))
        if isinstance(change, st.DropColumns | st.RenameColumn):
            detail = "It reads the column, and would read something else by that name."
            return Effect(name, kind, BREAKS, detail, _replace_text(reader))
        return _effect_of_retype(reader, change, then)


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


def _effect_of_retype(reader: Item, change: st.ColumnChange, then: Analysis) -> Effect:
    """A reader that reads a column whose type has become wider, or that may be NULL."""
    name, kind = str(reader.name), reader.kind.value
    pairs = zip(reader.columns, then.columns, strict=True)
    others = [(old, new) for old, new in pairs if old.type != new.type]
    if reader.kind is ObjectKind.CONTINUAL_TASK and isinstance(change, st.RetypeColumn):
        detail = "It reads the column. Where it stores it in a narrower one, a value that is too "
        detail += "large is an error, and digits that have no place there are left out."
        return Effect(name, kind, CHANGES, detail)
    if reader.kind is not ObjectKind.MATERIALIZED_VIEW or not others:
        return Effect(name, kind, GOES_ON, "It reads the column, and gives what it gave.")
    text = ", ".join(f"{old.name} {new.type.upper()}" for old, new in others)
    old_text = ", ".join(f"{old.name} {old.type.upper()}" for old, _ in others)
    if not all(is_exact(new.type, old.type) for old, new in others):
        detail = f"Its query gives {text} then, and it stores {old_text}."
        return Effect(name, kind, BREAKS, detail, _replace_text(reader))
    detail = f"Its query gives {text} then. It goes on to store {old_text}: a value that is too "
    detail += "large is an error, and it is recomputed at each change."
    action = f"For the wider type: CREATE OR REPLACE {reader.kind.keyword} {reader.name} ..."
    return Effect(name, kind, CHANGES, detail, action)


def _replace_text(reader: Item) -> str:
    if reader.flow or reader.flows:
        names = [f.name for f in reader.flows] or [str(reader.name)]
        statements = " or ".join(f"CREATE OR REPLACE FLOW {name} ..." for name in names)
    else:
        statements = f"CREATE OR REPLACE {reader.kind.keyword} {reader.name} ..."
    return f"Type first: {statements} without the column, or drop it."
