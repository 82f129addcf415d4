"""The effect of a change of a table's columns on the objects that read the table.

``ctsql plan``, ``ctsql apply`` and ALTER TABLE use it. Spark analyses each reader's definition over
the new columns; its error is the error that the reader would get
(docs/decisions/0065-rows-by-their-own-version.md).
"""

from dataclasses import dataclass
from functools import partial

from ctsql.catalog.dependencies import subscribers
from ctsql.catalog.errors import sentence_of
from ctsql.catalog.items import Item, MaterializedView, Task, View, columns_in_use
from ctsql.catalog.names import fold
from ctsql.catalog.schemas import Schema, find, lacking
from ctsql.catalog.spans import Span
from ctsql.planner.lowering.store_assignment import is_exact
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.tables.columns_read import analyse, readers_of, reads


@dataclass(frozen=True, slots=True)
class ReaderEffect:
    """The effect of a change on one object."""

    name: str
    kind: str
    is_break: bool  # it would fail; otherwise it continues with other values or columns
    detail: str
    action: str = ""  # the statement that helps, if any


def check_readers(
    engine: Engine, item: Item, columns: Schema, after: Schema, span: Span
) -> list[ReaderEffect]:
    """The effects of other columns of a table, with which all its readers continue.

    Raises COLUMNS_IN_USE if one of them would fail.
    """
    effects = effects_on_readers(engine, item, columns, after)
    failures = [e for e in effects if e.is_break]
    if failures:
        detail = " ".join(f"{e.kind.capitalize()} {e.name}: {e.detail}" for e in failures)
        raise columns_in_use(item, detail, span, failures[0].action)
    return effects


def effects_on_readers(
    engine: Engine, item: Item, columns: Schema, after: Schema
) -> list[ReaderEffect]:
    """The effect on each reader of a table, directly or by plain views, if there is one."""
    if columns == after:
        return []  # a default is for those who write
    readers = readers_of(engine.catalog, item)
    by_reader = {r.id: _effect(engine, r, item, columns, after) for r in readers}
    effects = [e for e in by_reader.values() if e is not None]
    for relation in (item, *(r for r in readers if isinstance(r, View))):
        effect = by_reader.get(relation.id)
        is_break = effect is not None and effect.is_break
        if relation is item:
            is_break = _is_lossy(columns, after)
        if is_break:
            detail = "It receives all columns, so it would end."
            effects += [
                ReaderEffect(
                    s.name, "subscription", True, detail, f"Type first: DROP SUBSCRIPTION {s.name}"
                )
                for s in subscribers(engine.catalog, relation.id)
            ]
    return effects


def _is_lossy(columns: Schema, after: Schema) -> bool:
    """Whether a column is dropped or renamed."""
    return any(find(after, c.name) is None for c in columns)


def _effect(
    engine: Engine, reader: Item, table: Item, columns: Schema, after: Schema
) -> ReaderEffect | None:
    keyword = "FLOW" if reader.flow else reader.kind.keyword
    action = f"Type first: CREATE OR REPLACE {keyword} {reader.name} ... without the column, or "
    action += "drop it."
    name, kind = str(reader.name), reader.kind.value
    breaks = partial(ReaderEffect, name, kind, True, action=action)
    definition = engine.relations.current(reader)
    before, then = (analyse(engine, definition, table, c) for c in (columns, after))
    if before.problem is not None:
        if then.problem is not None:
            return None
        detail = f"It fails already: {before.problem.message}. After the change it does not."
        return ReaderEffect(name, kind, False, detail)
    if then.problem is not None:
        return breaks(sentence_of(then.problem))
    changed = {fold(c.name) for c in columns if c not in after}
    # SELECT * is expanded when the reader is made, so no reader has an added column.
    if not changed or not reads(engine, before, table, columns, changed):
        return None
    if len(then.columns) != len(before.columns):
        return breaks("Its SELECT * would give other columns than it has.")
    if _is_lossy(columns, after):
        return breaks("It reads the column, and would read something else by that name.")
    # A column with a wider type, or that may be NULL.
    if isinstance(reader, Task) and lacking(columns, after):
        detail = "It reads the column. If it stores it in a narrower one, a value that is too "
        detail += "large is an error, and extra digits are cut off."
        return ReaderEffect(name, kind, False, detail)
    pairs = zip(reader.columns, then.columns, strict=True)
    others = [(old, new) for old, new in pairs if old.type != new.type]
    if not isinstance(reader, MaterializedView) or not others:
        return None
    text = ", ".join(f"{old.name} {new.type.upper()}" for old, new in others)
    old_text = ", ".join(f"{old.name} {old.type.upper()}" for old, _ in others)
    if not all(is_exact(new.type, old.type) for old, new in others):
        return breaks(f"Its query would then give {text}, but it stores {old_text}.")
    detail = f"Its query then gives {text}. It still stores {old_text}: a value that is too "
    detail += "large is an error, and it is recomputed at each change."
    action = f"For the wider type: CREATE OR REPLACE {reader.kind.keyword} {reader.name} ..."
    return ReaderEffect(name, kind, False, detail, action)
