"""Constraints of tables: made with the table, added and dropped.

CHECK and NOT NULL that refuse are written into the table as Delta's protocol has them, so that
every writer keeps them, or may not write. Others are kept by ctsql's own statements
(:mod:`ctsql.runtime.statements.kept_constraints`). Both are in the table's metadata; the catalog
only notes what refers to what, and where the quarantine is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from pyspark.sql import DataFrame

from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import (
    Catalog,
    Item,
    ObjectKind,
    is_quarantine,
    item_there,
    still_there,
)
from ctsql.catalog.names import backtick, fold, quarantine_name, quote, table_at
from ctsql.catalog.schemas import Column, get
from ctsql.planner.binding import qualify
from ctsql.planner.binding.constraints import (
    bind_constraint,
    check_key,
    check_reference,
    check_text,
)
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.constraints import constraint_text, with_names
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.transaction import set_properties
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.dml import target_table
from ctsql.runtime.statements.kept_constraints import (
    ProposedWrite,
    bound_constraints,
    check_proposed,
)
from ctsql.runtime.statements.name_resolution import Namespace, OnNames, check_free
from ctsql.runtime.statements.output_tables import make_table, undo_on_failure
from ctsql.runtime.statements.show import unnoted_changes
from ctsql.runtime.statements.stored_constraints import (
    StoredConstraint,
    constraint_changes,
    kept_constraints,
    names_of,
    property_of,
    stored_constraints,
    unknown_constraint,
)
from ctsql.runtime.tasks.tallies import QUARANTINE_COLUMNS
from ctsql.runtime.warehouse.multi_table_commit import alone
from ctsql.runtime.warehouse.replaced_views import altered_meanwhile

_DONE = "ALTER TABLE"
COMMITTED_BESIDE = "A writer of its folder committed at the same time."
_COUNTS = {"delta.feature.domainMetadata": "supported"}
"""What a table has to know so that its commits can count rows that break constraints."""
_HINT = "Mend these rows first, or only count such rows: ON VIOLATION WARN"


def bind_constraints(
    names: Namespace, item: Item, definitions: Iterable[st.ConstraintDef]
) -> tuple[Item, list[Item]]:
    """A table with what its constraints refer to, and beside it the quarantine that it gets.

    Args:
        item: with its columns; maybe not in the catalog yet.

    Raises:
        UNKNOWN_COLUMN, UNKNOWN_RELATION, NOT_SUPPORTED: of what they name. OBJECT_EXISTS.
    """
    own_constraints = [one for one in definitions if not one.is_of_delta]
    refers = dict(item.refers)
    for one in own_constraints:
        other = _bound(names, item, one)
        if other is not None:
            refers[fold(one.name)] = other.id
    item = replace(item, refers=tuple(sorted(refers.items())))
    asks = [one for one in own_constraints if one.action is st.OnViolation.QUARANTINE]
    if not asks or item.quarantine is not None:
        return item, []
    name = quarantine_name(item.name)
    check_free(names.catalog(), name, asks[0].span, quiet=False)
    columns = tuple(Column(column, kind) for column, kind in QUARANTINE_COLUMNS)
    away = names.new(name, ObjectKind.TABLE, asks[0].span, None)
    away = replace(away, definition="", columns=columns)
    return replace(item, quarantine=away.id), [away]


def _bound(names: Namespace, item: Item, definition: st.ConstraintDef) -> Item | None:
    """Look whether ctsql can keep a constraint; gives the relation that it refers to."""
    catalog = names.catalog()
    constraint = bind_constraint(definition, item, names.analyst(catalog))
    key = [get(item.columns, name, span=definition.span) for name in constraint.key]
    check_key(definition, key)
    if definition.references is None:
        return None
    ref = definition.references
    is_own = ref.file is None and qualify(ref, names.search_schema) == item.name
    if is_own:
        other, columns = item, item.columns
    else:
        other = names.binder().resolve(ref)
        columns = names.columns_now(other)
    if other.kind is ObjectKind.VIEW:
        why = "The rows of a plain view are not looked up by key."
        what = "REFERENCES to what is no table of its own"
        raise not_supported(ref.span, what, why=why, hint="Refer to the table below it.")
    heading = "Columns there:"
    check_reference(
        definition,
        key,
        [get(columns, k, span=definition.span, heading=heading) for k in definition.keys],
    )
    return other


def references_to(
    engine: Engine, catalog: Catalog, item: Item
) -> Iterator[tuple[Item, str, set[str]]]:
    """The constraints of tables that refer to an object: table, name, and keys there, folded."""
    for table in catalog:
        if any(object_id == item.id for _, object_id in table.refers):
            for one in kept_constraints(engine.relations.table(table).configuration()):
                if one.refers == item.id and one.definition is not None:
                    yield table, one.name, {fold(key) for key in one.definition.keys}


def store_constraints(engine: Engine, item: Item, definitions: Sequence[st.ConstraintDef]) -> None:
    """Add constraints to a table; raises DATA_ERROR where a row that is there breaks a CHECK.

    Args:
        item: as :func:`bind_constraints` gives it.
    """
    assert item.location is not None  # a table has a folder
    for one in definitions:
        if one.is_of_delta:
            text = f"ADD CONSTRAINT {backtick(one.name)} CHECK ({check_text(one)})"
            with translate_spark_errors():
                engine.session.sql(f"ALTER TABLE {table_at(item.location)} {text}")
    own_definitions = [one for one in definitions if not one.is_of_delta]
    if own_definitions:
        table = engine.relations.table(item)
        _change_properties(
            table, properties_of(engine, item, own_definitions, table.configuration())
        )


def properties_of(
    engine: Engine,
    item: Item,
    definitions: Iterable[st.ConstraintDef],
    configuration: Mapping[str, str],
) -> dict[str, str]:
    """The properties of constraints that ctsql is to keep; raises NOT_SUPPORTED."""
    refers, name_of = dict(item.refers), names_of(engine.catalog)
    now = dict(configuration)
    properties: dict[str, str] = {}
    for one in definitions:
        other = refers.get(fold(one.name))
        referred_object = None
        if other is not None and one.references is not None:
            referred_object = (other, name_of(other) or one.references.name_span.text)
        key, value = property_of(one, now, referred_object)
        now[key] = properties[key] = value
        if one.action is not st.OnViolation.FAIL:
            properties |= _COUNTS
    check_together(item, kept_constraints(now))
    return properties


def _check_rows(
    engine: Engine, own: Item, properties: Mapping[str, str], rows: DataFrame, at: int
) -> None:
    """Raise where rows that are there break the newest of a table's constraints.

    Args:
        own: the table with its columns. at: the T at which other tables are read.
    """
    bound = bound_constraints(engine.warehouse, own, properties, columns=own.columns)[-1]
    only = [replace(bound, action=st.OnViolation.FAIL)]
    with ExitStack() as stack, translate_spark_errors():
        proposal = ProposedWrite(None, rows, None, at, own_writes={own.id: lambda: rows})
        check_proposed(engine.warehouse, own, only, proposal, small=False, stack=stack, hint=_HINT)


def _change_properties(
    table: DeltaTable, properties: Mapping[str, str], names_to_remove: Collection[str] = ()
) -> None:
    """Change a table's properties; raises Conflict if another commit comes first."""
    txn = table.begin()
    txn.depend_on_all()
    set_properties(txn, properties, names_to_remove)
    txn.commit(label="ctsql", epoch=0, metadata="{}")


def check_together(item: Item, constraints: Iterable[StoredConstraint]) -> None:
    """Raise NOT_SUPPORTED where rows that are left out could be those that others refer to."""
    all_constraints = list(constraints)
    own = next((one for one in all_constraints if one.refers == item.id), None)
    leaves_out = (st.OnViolation.DROP, st.OnViolation.QUARANTINE)
    other = next((one for one in all_constraints if one.action in leaves_out), None)
    if own is not None and other is not None:
        what = f'"{own.name}", by which {item.name} refers to itself, with "{other.name}"'
        why = "A row that is left out may be the one that another row refers to."
        raise not_supported(None, what, why=why, hint="Let both refuse: ON VIOLATION FAIL")


class TableConstraints(OnNames):
    """ALTER TABLE ... ADD CONSTRAINT and DROP CONSTRAINT; returns the status line."""

    def change(self, statement: st.ChangeConstraints) -> str:
        """Change what every row of a table must keep.

        Raises:
            UNKNOWN_CONSTRAINT: there is none to drop. INVALID_STATEMENT: the name is taken.
            DATA_ERROR, CONSTRAINT_VIOLATED: a row that is there breaks it.
            ALTERED_MEANWHILE: another writer was first.
        """
        engine = self.engine
        item = target_table(engine, statement.target, self.names.search_schema)
        there = list(stored_constraints(engine.relations.table(item).configuration()))
        beside: list[Item] = []
        try:
            with undo_on_failure(engine, beside):
                if statement.new_constraint is not None:
                    text = self._added_before(item, statement.new_constraint)
                    if text:
                        self._note(item, text)
                    else:
                        self._add_and_note(item, statement.new_constraint, there, beside)
                else:
                    folded_name = fold(statement.dropped_name)
                    constraint = next((s for s in there if fold(s.name) == folded_name), None)
                    # The catalog may have one that a killed process did not add, or did drop.
                    is_noted = any(name == folded_name for name, _ in item.refers)
                    if constraint is None and not is_noted:
                        if statement.if_exists:
                            return f"{_DONE} (unchanged)"
                        raise unknown_constraint(item, statement, [s.name for s in there])
                    name = statement.dropped_name if constraint is None else constraint.name
                    self._drop_and_note(item, name, constraint)
        except Conflict as problem:
            raise altered_meanwhile(item, COMMITTED_BESIDE) from problem
        engine.mint()
        return _DONE

    def _added_before(self, item: Item, addition: st.ConstraintDef) -> str:
        """The text of the change where a process that was killed has made it; else empty.

        It has not noted it then, so the same constraint is no second one.
        """
        now = self.engine.catalog.items[item.id]
        properties = self.engine.relations.table(item).configuration()
        definition = _with_name(addition, ())
        for one in stored_constraints(properties, names_of(self.engine.catalog)):
            text = f"ADD {one.text}"
            if fold(one.name) == fold(definition.name) and text in unnoted_changes(
                self.engine, now
            ):
                differs = constraint_changes(
                    [definition], {one.key: properties[one.key]}, self._id_of
                )
                return "" if differs else text
        return ""

    def _id_of(self, ref: st.RelationRef) -> str:
        return self.names.binder().resolve(ref).id

    def _add_and_note(
        self,
        item: Item,
        addition: st.ConstraintDef,
        there: Sequence[StoredConstraint],
        beside: list[Item],
    ) -> None:
        """Add a constraint, and note it.

        Args:
            beside: gets the quarantine that the table needs.
        """
        engine = self.engine
        definition = _with_name(addition, [s.name for s in there])
        if is_quarantine(engine.catalog, item) and not definition.is_of_delta:
            why = f'"{item.name}" takes what another table does not take.'
            raise not_supported(definition.span, "such a constraint of a quarantine", why=why)
        own = replace(item, columns=engine.relations.columns_now(item))
        after, new_items = bind_constraints(self.names, own, [definition])
        beside += (make_table(engine, one) for one in new_items)
        at = 0 if definition.is_of_delta else self._time_of(after)
        with alone(engine.timeline, item, engine.mint), engine.leaving_intents():
            self._add(after, definition, at, beside)
            faults.point("source_committed")
            self._note(item, f"ADD {constraint_text(definition)}")

    def _drop_and_note(self, item: Item, name: str, constraint: StoredConstraint | None) -> None:
        """Drop a constraint, if the table has it, and note it."""
        engine = self.engine
        with alone(engine.timeline, item, engine.mint) as location, engine.leaving_intents():
            if constraint is not None:
                self._drop(engine.relations.table(item), location, constraint)
            faults.point("source_committed")
            self._note(item, f"DROP CONSTRAINT IF EXISTS {quote(name)}", dropped_name=name)

    def _time_of(self, item: Item) -> int:
        """The T at which what a table refers to is read."""
        others = [self.engine.relations.item(i) for _, i in item.refers if i != item.id]
        return self.engine.read_time(others) if others else self.engine.mint()

    def _add(
        self, item: Item, definition: st.ConstraintDef, at: int, beside: Sequence[Item]
    ) -> None:
        engine = self.engine
        if definition.is_of_delta:
            store_constraints(engine, item, [definition])
            return
        table = engine.relations.table(item)
        txn = table.begin()
        txn.depend_on_all()
        configuration = table.metadata_at(txn.version_read).configuration
        properties = properties_of(engine, item, [definition], configuration)
        if definition.action is not st.OnViolation.WARN:
            own = replace(item, columns=engine.relations.columns_now(item))
            rows = table.frame(txn.version_read)
            _check_rows(engine, own, {**configuration, **properties}, rows, at)
        self._note_before(item, definition, beside)
        set_properties(txn, properties)
        txn.commit(label="ctsql", epoch=0, metadata="{}")

    def try_on(self, location: str, item: Item, definition: st.ConstraintDef) -> None:
        """Look whether the rows of a copy of a table keep a constraint that is to be added.

        Args:
            item: the table with the columns of the copy, as :func:`bind_constraints` gives it.

        Raises:
            DATA_ERROR, CONSTRAINT_VIOLATED: a row breaks it.
        """
        engine = self.engine
        if definition.is_of_delta:
            store_constraints(engine, replace(item, location=location), [definition])
        elif definition.action is not st.OnViolation.WARN:
            copy = engine.gateway.table(location)
            properties = properties_of(engine, item, [definition], copy.configuration())
            rows = copy.frame(copy.version())
            _check_rows(engine, item, properties, rows, self._time_of(item))

    def drop_on(self, location: str, statement: st.ChangeConstraints) -> None:
        """Drop a constraint of a copy of a table, if it has it."""
        copy = self.engine.gateway.table(location)
        for constraint in stored_constraints(copy.configuration()):
            if fold(constraint.name) == fold(statement.dropped_name):
                self._drop(copy, location, constraint)

    def _drop(self, table: DeltaTable, location: str, constraint: StoredConstraint) -> None:
        if constraint.definition is not None:
            _change_properties(table, {}, [constraint.key])
            return
        with translate_spark_errors():
            self.engine.session.sql(
                f"ALTER TABLE {table_at(location)} DROP CONSTRAINT {backtick(constraint.name)}"
            )

    def _note_before(
        self, item: Item, definition: st.ConstraintDef, beside: Sequence[Item]
    ) -> None:
        """Write into the catalog what has to be there before the constraint is.

        That is a new quarantine, and what is referred to, which nobody drops from then on.
        """
        object_id = dict(item.refers).get(fold(definition.name))

        def noted(current: Catalog) -> Catalog:
            now = still_there(current, item)
            if object_id is not None:
                now = referring(now, definition.name, item_there(current, object_id))
            for one in beside:
                check_free(current, one.name, None, quiet=False)
                now = replace(now, quarantine=one.id)
            return current.with_items([now, *beside])

        if beside or object_id is not None:
            self.engine.change_catalog(noted)

    def _note(self, item: Item, text: str, *, dropped_name: str = "") -> None:
        """Write the change into the catalog, which makes it again in a dump.

        Under the table's lock, so that changes are noted in the order in which they were made.

        Args:
            dropped_name: the constraint that is dropped, if one is.
        """

        def noted(current: Catalog) -> Catalog:
            now = referring(still_there(current, item), dropped_name, None)
            return current.with_item(replace(now, alterations=(*now.alterations, text)))

        self.engine.change_catalog(noted)


def referring(table: Item, constraint: str, other: Item | None) -> Item:
    """A table of which a constraint refers to another object; None for to nothing."""
    refers = {name: object_id for name, object_id in table.refers if name != fold(constraint)}
    if other is not None:
        refers[fold(constraint)] = other.id
    return replace(table, refers=tuple(sorted(refers.items())))


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
