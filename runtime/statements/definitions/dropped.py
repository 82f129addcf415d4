"""Dropped objects: keeping them, UNDROP, and removing their files.

A DROP commits an entry to the catalog that keeps the objects and their readers; their folders are
kept too. UNDROP restores all objects of one DROP; a task or view continues from its log.
MAINTAIN removes the entry, then the folders.
"""

import uuid
from collections.abc import Collection, Iterable, Sequence

from ctsql.catalog.catalog import Catalog, DropEntry
from ctsql.catalog.dependencies import parts_of, replacement_of, subscribers
from ctsql.catalog.errors import CtsqlError, capitalised, error, unknown_relation
from ctsql.catalog.items import Item, ObjectKind, Table, in_use
from ctsql.catalog.names import Name, fold, quote
from ctsql.catalog.spans import Span
from ctsql.catalog.times import to_iso
from ctsql.planner.binding.binder import qualify
from ctsql.planner.syntax import ast as st
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock
from ctsql.runtime.statements.objects.name_resolution import OnNames
from ctsql.runtime.warehouse.table_checks import is_replaced, missing_table


def dropped(catalog: Catalog, items: Iterable[Item], schema: str = "") -> DropEntry:
    """The entry of a DROP; an object with an unreadable entry is not kept."""
    readable = tuple(i for i in items if not i.problem)
    readers = (s for i in readable for s in subscribers(catalog, i.id) if not s.problem)
    return DropEntry(
        id=uuid.uuid4().hex,
        at_ms=clock.now_ms(),
        items=readable,
        subscriptions=tuple(readers),
        schema=schema,
    )


def readers_of_dropped(
    catalog: Catalog, items: Iterable[Item], others: Collection[str] = ()
) -> list[str]:
    """The readers of dropped objects, and of their outputs, as texts.

    ``others`` are the ids of objects that are dropped as well.
    """
    parts = [p for item in items for p in (item, *parts_of(catalog, item))]
    own = {p.id for p in parts} | set(others)
    readers = {r.id: r for p in parts for r in catalog.readers(p.id) if r.id not in own}
    followers = [s for p in parts for s in subscribers(catalog, p.id)]
    waiting = (r for p in parts if (r := replacement_of(catalog, p.id)) and r.id not in own)
    return [
        *(f"{i.kind.value} {i.name}" for i in readers.values()),
        *(f"its replacement {r.name}" for r in waiting),
        *(f"subscription '{s.name}'" for s in followers),
    ]


def check_unread(catalog: Catalog, items: Sequence[Item], span: Span | None) -> None:
    """Raise DEPENDENT_OBJECTS if another object reads one of these objects."""
    for item in items:
        readers = readers_of_dropped(catalog, [item], [i.id for i in items])
        if readers:
            kind = "replacement" if item.replaces else ""
            raise in_use(item, f"It is read by {', '.join(readers)}.", span, kind=kind)


def delete_folders(engine: Engine, items: Sequence[Item]) -> None:
    """Delete the folders of objects that are no longer in the catalog."""
    catalog = engine.refresh_catalog()
    for item in items:
        if item.location is None:
            continue
        # Another table that has replaced it, or is attached there, is not ours.
        ours = (
            item.managed and not _is_used(catalog, item) and not is_replaced(engine.relations, item)
        )
        engine.gateway.forget(item.location)
        if ours:
            engine.gateway.delete_tree(item.location)


def remove_dropped(engine: Engine, drops: Sequence[DropEntry]) -> list[Item]:
    """Delete the files of some DROPs; returns the objects that were not undropped."""
    items: list[Item] = []

    def remove(current: Catalog) -> Catalog:
        rest = [d for d in drops if d.id in current.drops]
        items[:] = [i for d in rest for i in d.items]
        return current.purged(d.id for d in rest)

    engine.catalog_store.change(remove)
    delete_folders(engine, items)
    return items


def _is_used(catalog: Catalog, item: Item) -> bool:
    """Whether an object of the catalog has its table in the dropped object's folder."""
    place = (item.location or "").rstrip("/") + "/"
    return any(
        i.location is not None and (i.location.rstrip("/") + "/").startswith(place) for i in catalog
    )


class Undropping(OnNames):
    """UNDROP."""

    def undrop(self, statement: st.UndropObject) -> str:
        """Restore all objects of one DROP, or none.

        Raises:
            UNKNOWN_RELATION, UNKNOWN_SCHEMA: nothing of that name was dropped, or MAINTAIN has
                removed it. WRONG_OBJECT_KIND: it is of another kind. UNDROP_BLOCKED: a name is
                taken, or an object that it reads, or its rows, are missing.
        """
        back: list[DropEntry] = []
        item: Item | None = None

        def restore(current: Catalog) -> Catalog:
            nonlocal item
            drop, item = self._find(current, statement)
            after = current.restored(drop)
            self._check(current, after, drop, statement)
            back[:] = [drop]
            return after

        self.engine.change_catalog(restore)
        others = [f"{i.kind.value} {i.name}" for i in back[0].items if i != item]
        others += [f"subscription '{s.name}'" for s in back[0].subscriptions]
        return f"UNDROP {statement.keyword}" + (f" (with {', '.join(others)})" if others else "")

    def _find(self, catalog: Catalog, statement: st.UndropObject) -> tuple[DropEntry, Item | None]:
        hint = "SHOW DROPPED lists what can be restored."
        for drop in catalog.drops.values():
            drop.check()
        if statement.kind is ObjectKind.SCHEMA:
            schema = statement.target.parts[-1]
            for drop in catalog.drops.values():
                if drop.schema and fold(drop.schema) == fold(schema):
                    return drop, None
            raise error("UNKNOWN_SCHEMA", span=statement.target.span, name=schema, hint=hint)
        name = qualify(statement.target, self.names.search_schema)
        last_drop = catalog.last_drop(name)
        if last_drop is None:
            kind = f"dropped {statement.keyword.lower()}"
            raise unknown_relation(name, hint, statement.target.span, kind=kind)
        drop, item = last_drop
        if item.kind is not statement.kind or (statement.flow and not item.flow):
            keyword = statement.keyword.lower()
            raise item.wrong_kind(keyword, f"Type: {drop.undrop_text(item)}", statement.target.span)
        return last_drop

    def _check(
        self, current: Catalog, after: Catalog, drop: DropEntry, statement: st.UndropObject
    ) -> None:
        """Raise UNDROP_BLOCKED if a name is taken or something that is read is missing."""
        if drop.schema and fold(drop.schema) in current.schemas:
            raise _blocked_error(
                statement,
                f"There is a schema {drop.schema} now.",
                "Drop that one first; it comes back later under its own name.",
            )
        for item in drop.items:
            self._check_item(current, after, item, statement)
        for subscription in drop.subscriptions:
            if fold(subscription.name) in current.subscriptions:
                raise _blocked_error(
                    statement,
                    f"There is another subscription '{subscription.name}' now.",
                    f"Drop it: DROP SUBSCRIPTION '{subscription.name}'",
                )

    def _check_item(
        self, current: Catalog, after: Catalog, item: Item, statement: st.UndropObject
    ) -> None:
        item.check(statement.target.span)
        other = current.find(item.name)
        if other is not None:
            detail = f'There is another {other.kind.value} "{other.name}" now.'
            to = Name(other.name.schema, f"{other.name.name}_2")
            hint = f"Give it another name: ALTER {other.kind.keyword} {other.name} RENAME TO {to}"
            raise _blocked_error(statement, detail, hint)
        if fold(item.name.schema) not in after.schemas:
            detail = f"There is no schema {item.name.schema}."
            raise _blocked_error(
                statement, detail, f"Type: CREATE SCHEMA {quote(item.name.schema)}"
            )
        for reading in item.reads:
            self._check_reading(after, item, reading.object_id, statement)
        if item.replaces is not None:
            self._check_replaced(current, after, item, statement)
        if item.location is None:
            return
        if _is_used(current, item):
            detail = f"Another table is in the folder of {item.kind.value} {item.name}."
            raise _blocked_error(statement, detail, "Drop that one first.")
        problem = missing_table(self.engine.relations, [item])
        if problem is not None:
            detail = f"The rows of {item.kind.value} {item.name} are gone."
            raise _blocked_error(statement, detail, "Create it again.", cause=problem)

    def _check_replaced(
        self, current: Catalog, after: Catalog, item: Item, statement: st.UndropObject
    ) -> None:
        """Check that a replacement's original exists and has no other replacement."""
        of = after.items.get(item.replaces or "")
        if of is None:
            detail = f"The {item.kind.value} that {item.name} is a replacement for is gone."
            raise _blocked_error(statement, detail, "Create both again.")
        other = replacement_of(current, of.id)
        if other is not None:
            kind = capitalised(of.kind.value)
            detail = f"{kind} {of.name} has another replacement now: {other.name}."
            hint = f"Apply or drop that one first: DROP {other.kind.keyword} {other.name}"
            raise _blocked_error(statement, detail, hint)

    def _check_reading(
        self, catalog: Catalog, item: Item, object_id: str, statement: st.UndropObject
    ) -> None:
        """Check that what an object reads exists, with unchanged columns if they are fixed."""
        read = catalog.items.get(object_id)
        readings = [r for r in item.reads if r.object_id == object_id]
        if read is None:
            for drop, other in catalog.all_dropped():
                if other.id == object_id:  # another dropped one, which must be restored first
                    detail = f"{item.kind.value} {item.name} reads {other.kind.value} {other.name}"
                    detail += f", which was dropped at {to_iso(drop.at_ms)}."
                    hint = f"First: {drop.undrop_text(other)}"
                    raise _blocked_error(statement, capitalised(detail), hint)
            detail = f"{item.kind.value} {item.name} reads {readings[0].name}, which is gone."
            raise _blocked_error(statement, capitalised(detail), "Create both again.")
        if isinstance(read, Table) or read.problem:
            return  # its columns are those of its log now; its readers report what is missing
        names = {fold(c.name) for c in read.columns}
        missing_columns = [c for r in readings for c in r.columns if fold(c) not in names]
        if missing_columns:
            detail = f"{item.kind.value} {item.name} reads {read.name}, which was replaced and has "
            detail += f"no column {missing_columns[0]} now."
            hint = "Restore that column, or create this object again."
            raise _blocked_error(statement, capitalised(detail), hint)


def _blocked_error(
    statement: st.UndropObject, detail: str, hint: str, cause: CtsqlError | None = None
) -> CtsqlError:
    return error(
        "UNDROP_BLOCKED",
        span=statement.target.span,
        kind=statement.keyword.lower(),
        name=statement.target.span.text,
        detail=detail,
        hint=hint,
        cause=cause,
    )
