"""The catalog: all objects at one of its versions, and the dropped ones that UNDROP can restore."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ctsql.catalog.errors import RESTORE, error, unknown_relation
from ctsql.catalog.items import (
    FILE_FORMATS,
    Item,
    Record,
    Task,
    TaskOutput,
    item_of_entry,
    item_text,
    was_dropped,
)
from ctsql.catalog.names import DEFAULT_SCHEMA, Name, did_you_mean, fold
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Span
from ctsql.catalog.system_tables import SYSTEM_TABLES, find_system_table, is_system
from ctsql.catalog.times import to_iso


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubscription:
    """A named reader."""

    id: str  # never used again, so that a new reader of the same name starts from the beginning
    name: str  # as typed
    object_id: str  # the object that it follows
    start: int  # the T it began at
    snapshot: bool  # whether the contents as of ``start`` come first
    # a short text that changes with the definition of a plain view; else empty.
    definition: str = ""
    problem: str = ""  # the defect of an unreadable entry; else empty

    def check(self) -> "StoredSubscription":
        """The reader; raises STORED_DATA_INVALID if its entry is unreadable."""
        if self.problem:
            what = f"the entry of subscription '{self.name}' in the catalog"
            hint = f"{RESTORE}, or drop it: DROP SUBSCRIPTION '{self.name}'"
            raise error("STORED_DATA_INVALID", what=what, detail=self.problem, hint=hint)
        return self

    @property
    def app(self) -> str:
        """The application id of its stored position."""
        return f"sub-{self.name}-{self.id[:8]}"

    def to_json(self) -> str:
        """The reader as text for the store."""
        return json.dumps({k: v for k, v in asdict(self).items() if k != "problem"})

    @staticmethod
    def of_entry(name: str, text: str) -> "StoredSubscription":
        """The reader of an entry; an unreadable one raises its error only when used."""
        try:
            return StoredSubscription(**json.loads(text))
        except (ValueError, TypeError) as problem:
            return StoredSubscription(
                id="",
                name=name,
                object_id="",
                start=0,
                snapshot=False,
                problem=f"{type(problem).__name__}: {problem}.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEntry:
    """The objects of one DROP; UNDROP restores all of them, until MAINTAIN removes them."""

    id: str
    at_ms: int  # when, in milliseconds since 1970
    items: tuple[Item, ...] = ()  # the objects; their folders still exist
    subscriptions: tuple[StoredSubscription, ...] = ()  # the named readers that followed them
    schema: str = ""  # the dropped schema, as typed; empty if objects were dropped
    problem: str = ""  # the defect of an unreadable entry; else empty

    def check(self) -> "DropEntry":
        """The entry; raises STORED_DATA_INVALID if it is unreadable."""
        if self.problem:
            what = "the entry of dropped objects in the catalog"
            hint = f"{RESTORE} to an earlier version."
            raise error("STORED_DATA_INVALID", what=what, detail=self.problem, hint=hint)
        return self

    def undrop_text(self, item: Item) -> str:
        """The statement that restores one of the objects; for an output it names the task."""
        if isinstance(item, TaskOutput):
            item = next((i for i in self.items if i.id == item.owner), item)
        flow = item.flow and isinstance(item, Task)
        return f"UNDROP {'FLOW' if flow else item.kind.keyword} {item.name}"

    def to_json(self) -> str:
        """The entry as text for the store."""
        return json.dumps(
            {
                "at": self.at_ms,
                "items": {i.id: item_text(i) for i in self.items},
                "subscriptions": {s.name: s.to_json() for s in self.subscriptions},
                "schema": self.schema,
            }
        )

    @staticmethod
    def of_entry(drop_id: str, text: str) -> "DropEntry":
        """The entry of a text; an unreadable one raises its error only when it is used."""
        try:
            raw: dict[str, Any] = json.loads(text)
            return DropEntry(
                id=drop_id,
                at_ms=int(raw["at"]),
                items=tuple(item_of_entry(k, v) for k, v in raw["items"].items()),
                subscriptions=tuple(
                    StoredSubscription.of_entry(k, v) for k, v in raw["subscriptions"].items()
                ),
                schema=raw["schema"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            return DropEntry(id=drop_id, at_ms=0, problem=f"{type(problem).__name__}: {problem}.")


def _readers_by_id(items: Iterable[Item]) -> dict[str, list[Item]]:
    """The objects whose definitions read another one directly, in order of name, by its id."""
    readers = defaultdict[str, list[Item]](list)
    for item in sorted(items, key=lambda i: i.name.key):
        for object_id in {r.object_id for r in item.reads} - {item.id}:
            readers[object_id].append(item)
    return readers


def _hint_of_file(name: Name) -> str:
    """The hint for Spark's ``format.path``, which ctsql parses as schema and name."""
    if fold(name.schema) == "delta":
        return f"Make it a table here first: CREATE TABLE t LOCATION {quote_text(name.name)}"
    if fold(name.schema) in FILE_FORMATS:
        return f"A file is read by read_{fold(name.schema)}({quote_text(name.name)})"
    return ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All objects at one version of the catalog. It is immutable: changes return a new value."""

    items: Mapping[str, Item]
    schemas: Mapping[str, str]  # folded name -> name as typed
    subscriptions: Mapping[str, StoredSubscription] = field(default_factory=dict)  # by folded name
    drops: Mapping[str, DropEntry] = field(default_factory=dict)  # by id of the DROP, newest first
    _readers: dict[bool, dict[str, list[Item]]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )  # readers by the id of what they read, without and with dropped ones; cached, because each
    # tick uses it for each object

    @staticmethod
    def of(
        items: Iterable[Item],
        schemas: Iterable[str] = (),
        subscriptions: Iterable[StoredSubscription] = (),
        drops: Iterable[DropEntry] = (),
    ) -> "Catalog":
        """A catalog with these items; it always has the default schema."""
        names = {DEFAULT_SCHEMA: DEFAULT_SCHEMA} | {fold(s): s for s in schemas}
        readers = {fold(s.name): s for s in subscriptions}
        newest_first = sorted(drops, key=lambda d: (-d.at_ms, d.id))
        return Catalog({i.id: i for i in items}, names, readers, {d.id: d for d in newest_first})

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items.values())

    def find(self, name: Name) -> Item | None:
        """The object of a name, None if there is none."""
        return next((i for i in self if i.name == name), None)

    def get(self, name: Name, *, span: Span | None = None, kind: str = "relation") -> Item:
        """The object of a name; UNKNOWN_SCHEMA or UNKNOWN_RELATION with near names."""
        item = self.find(name)
        if item is not None:
            return item.check(span)
        if find_system_table(name) is not None:
            hint = f"Type: SELECT * FROM {name}; or DESCRIBE {name}"
            message = f'"{name}" is a system table, which can only be queried'
            raise error("SYSTEM_SCHEMA", span=span, message=message, hint=hint)
        if fold(name.schema) not in self.schemas and not is_system(name.schema):
            otherwise = _hint_of_file(name) or "SHOW SCHEMAS lists all schemas."
            hint = did_you_mean(name.schema, self.schemas.values(), otherwise=otherwise)
            raise error("UNKNOWN_SCHEMA", span=span, name=name.schema, hint=hint)
        names = [i.name.name for i in self]
        if is_system(name.schema):
            names += SYSTEM_TABLES
        hint = did_you_mean(name.name, names, otherwise="SHOW OBJECTS lists all objects.")
        elsewhere = [i for i in self if fold(i.name.name) == fold(name.name)]
        if elsewhere:
            hint = f'Did you mean "{elsewhere[0].name.qualified()}"?'
        last_drop = self.last_drop(name)
        if last_drop is not None:
            drop, item = last_drop
            hint = (
                f"It was dropped at {to_iso(drop.at_ms)}. To restore it: {drop.undrop_text(item)}"
            )
        raise unknown_relation(name, hint, span, kind=kind)

    def readers(self, object_id: str, *, dropped: bool = False) -> list[Item]:
        """The objects whose definitions read this one directly, also ``dropped`` ones, by name."""
        dropped = dropped and bool(self.drops)
        if dropped not in self._readers:
            others = (i for _, i in self.all_dropped()) if dropped else ()
            self._readers[dropped] = _readers_by_id([*self, *others])
        return [*self._readers[dropped].get(object_id, ())]

    def with_items(self, items: Iterable[Item]) -> "Catalog":
        """The catalog with items added or replaced."""
        return replace(self, items={**self.items, **{i.id: i for i in items}})

    def without(self, object_ids: Iterable[str]) -> "Catalog":
        """The catalog without some items, and without the readers that followed them."""
        ids = set(object_ids)
        return replace(
            self,
            items={k: v for k, v in self.items.items() if k not in ids},
            subscriptions={k: s for k, s in self.subscriptions.items() if s.object_id not in ids},
        )

    def last_drop(self, name: Name) -> tuple[DropEntry, Item] | None:
        """The newest DROP of an object with a name, and the object."""
        return next(((d, i) for d, i in self.all_dropped() if i.name == name), None)

    def all_dropped(self) -> Iterator[tuple[DropEntry, Item]]:
        """All objects that can be restored, each with its DROP, the newest first."""
        return ((drop, item) for drop in self.drops.values() for item in drop.items)

    def with_dropped(self, drop: DropEntry) -> "Catalog":
        """The catalog after a DROP, with the dropped objects among its drops."""
        schemas = {k: v for k, v in self.schemas.items() if not drop.schema or v != drop.schema}
        catalog = replace(self, schemas=schemas, drops={drop.id: drop, **self.drops})
        return catalog.without(i.id for i in drop.items)

    def restored(self, drop: DropEntry) -> "Catalog":
        """The catalog with the objects of a DROP again; the caller has checked the names."""
        back = self.purged([drop.id]).with_items(drop.items)
        if drop.schema:
            back = back.with_schema(drop.schema)
        for subscription in drop.subscriptions:
            back = back.with_subscription(subscription)
        return back

    def purged(self, drop_ids: Iterable[str]) -> "Catalog":
        """The catalog without some DROPs, whose objects can then not be restored."""
        ids = set(drop_ids)
        return replace(self, drops={k: d for k, d in self.drops.items() if k not in ids})

    def with_schema(self, schema: str) -> "Catalog":
        """The catalog with a schema added."""
        return replace(self, schemas={**self.schemas, fold(schema): schema})

    def with_subscription(self, subscription: StoredSubscription) -> "Catalog":
        """The catalog with a named reader added."""
        entry = {fold(subscription.name): subscription}
        return replace(self, subscriptions={**self.subscriptions, **entry})

    def without_subscription(self, name: str) -> "Catalog":
        """The catalog without a named reader."""
        others = {k: s for k, s in self.subscriptions.items() if k != fold(name)}
        return replace(self, subscriptions=others)


def still_there(catalog: "Catalog", item: Record, when: str = "meanwhile") -> Record:
    """An object as in a later catalog; raises UNKNOWN_RELATION if it was dropped since."""
    current = catalog.items.get(item.id)
    if not isinstance(current, type(item)):  # an id never changes its kind
        raise was_dropped(item.name, when, item.kind.value)
    return current


def item_there(catalog: "Catalog", object_id: str) -> Item:
    """The object of an id; UNKNOWN_RELATION if another process has dropped it."""
    item = catalog.items.get(object_id)
    if item is None:
        names = (i.name for _, i in catalog.all_dropped() if i.id == object_id)
        raise was_dropped(next(names, object_id), "meanwhile")
    return item
