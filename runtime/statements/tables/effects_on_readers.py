"""The effect of a change of a table's columns on the objects that read the table.

``ctsql plan``, ``ctsql apply`` and ALTER TABLE use it. Spark analyses each reader's definition over
the new columns; its error is the error that the reader would get
(docs/decisions/0065-rows-by-their-own-version.md).
"""

from collections.abc import Collection
from dataclasses import dataclass

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import subscribers
from ctsql.catalog.errors import sentence_of
from ctsql.catalog.items import Item, MaterializedView, Task, View
from ctsql.catalog.schemas import Schema
from ctsql.planner.lowering.store_assignment import is_exact
from ctsql.planner.syntax import ast as st
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.tables.altered_columns import named_columns
from ctsql.runtime.statements.tables.columns_read import Analysis, analyse, readers_of, reads


@dataclass(frozen=True, slots=True)
class ReaderEffect:
    """The effect of a change on one object."""

    name: str
    kind: str
    is_break: bool  # it would fail; otherwise it continues with other values or columns
    detail: str
    action: str = ""  # the statement that helps, if any


def effects_on_readers(
    engine: Engine,
    item: Item,
    change: st.ColumnChange,
    columns: Schema,
    after: Schema,
    *,
    catalog: Catalog | None = None,
    without: Collection[str] = (),
) -> list[ReaderEffect]:
    """The effect on each direct reader of a table, or by plain views, if there is one.

    ``catalog``: the definitions; None for the stored ones. ``without``: ids of ignored readers.
    """
    catalog = engine.catalog if catalog is None else catalog
    if columns == after:
        return []  # a default is for those who write
    readers = [r for r in readers_of(catalog, item) if r.id not in without]
    by_reader = {r.id: _effect(engine, r, item, change, columns, after, catalog) for r in readers}
    effects = [e for e in by_reader.values() if e is not None]
    is_lossy = isinstance(change, st.DropColumns | st.RenameColumn)
    for relation in (item, *(r for r in readers if isinstance(r, View))):
        effect = by_reader.get(relation.id)
        is_break = is_lossy if relation is item else effect is not None and effect.is_break
        if is_break:
            detail = "It is given all columns, and would end there."
            effects += [
                ReaderEffect(
                    s.name, "subscription", True, detail, f"Type first: DROP SUBSCRIPTION {s.name}"
                )
                for s in subscribers(catalog, relation.id)
            ]
    return effects


def _effect(
    engine: Engine,
    reader: Item,
    table: Item,
    change: st.ColumnChange,
    columns: Schema,
    after: Schema,
    catalog: Catalog,
) -> ReaderEffect | None:
    name, kind = str(reader.name), reader.kind.value
    definition = engine.relations.current(reader)
    before, then = (analyse(engine, definition, table, c, catalog) for c in (columns, after))
    if before.problem is not None:
        if then.problem is not None:
            return None
        detail = f"It fails already: {before.problem.message}. Then it does no longer."
        return ReaderEffect(name, kind, False, detail)
    if then.problem is not None:
        return ReaderEffect(name, kind, True, sentence_of(then.problem), _replace_text(reader))
    if isinstance(change, st.AddColumns):
        return None  # SELECT * is expanded when the reader is made
    if not reads(engine, before, table, columns, named_columns(change), catalog):
        return None
    if len(then.columns) != len(before.columns):
        detail = "Its SELECT * gives other columns then than it has."
        return ReaderEffect(name, kind, True, detail, _replace_text(reader))
    if isinstance(change, st.DropColumns | st.RenameColumn):
        detail = "It reads the column, and would read something else by that name."
        return ReaderEffect(name, kind, True, detail, _replace_text(reader))
    return _effect_of_retype(reader, change, then)


def _effect_of_retype(reader: Item, change: st.ColumnChange, then: Analysis) -> ReaderEffect | None:
    """A reader of a column with a wider type, or that may be NULL."""
    name, kind = str(reader.name), reader.kind.value
    pairs = zip(reader.columns, then.columns, strict=True)
    others = [(old, new) for old, new in pairs if old.type != new.type]
    if isinstance(reader, Task) and isinstance(change, st.RetypeColumn):
        detail = "It reads the column. Where it stores it in a narrower one, a value that is too "
        detail += "large is an error, and digits that have no place there are left out."
        return ReaderEffect(name, kind, False, detail)
    if not isinstance(reader, MaterializedView) or not others:
        return None
    text = ", ".join(f"{old.name} {new.type.upper()}" for old, new in others)
    old_text = ", ".join(f"{old.name} {old.type.upper()}" for old, _ in others)
    if not all(is_exact(new.type, old.type) for old, new in others):
        detail = f"Its query gives {text} then, and it stores {old_text}."
        return ReaderEffect(name, kind, True, detail, _replace_text(reader))
    detail = f"Its query gives {text} then. It goes on to store {old_text}: a value that is too "
    detail += "large is an error, and it is recomputed at each change."
    action = f"For the wider type: CREATE OR REPLACE {reader.kind.keyword} {reader.name} ..."
    return ReaderEffect(name, kind, False, detail, action)


def _replace_text(reader: Item) -> str:
    keyword = "FLOW" if reader.flow else reader.kind.keyword
    statement = f"CREATE OR REPLACE {keyword} {reader.name} ..."
    return f"Type first: {statement} without the column, or drop it."
