"""The objects: tables, views, materialized views and continual tasks, and how they depend.

An item keeps its definition as the user typed it. Names in a definition are resolved once, when
the object is created, and kept by object id (``reads``): a later rename changes nothing.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ctsql.catalog.errors import (
    RESTORE,
    CatalogError,
    CtsqlError,
    error,
    not_readable,
    unknown_relation,
)
from ctsql.catalog.names import DEFAULT_SCHEMA, Name, did_you_mean, fold
from ctsql.catalog.ordering import behind_needs
from ctsql.catalog.refreshes import Stretch
from ctsql.catalog.schemas import Column, Schema, changes_between, commented, quote_text
from ctsql.catalog.spans import Span
from ctsql.catalog.subscriptions import Subscription
from ctsql.catalog.system_tables import SYSTEM_TABLES, find_system_table, is_system, only_queried
from ctsql.catalog.times import to_iso


class ObjectKind(Enum):
    """The kinds of objects, with the words a statement and a message use for them."""

    TABLE = "table"
    VIEW = "view"
    MATERIALIZED_VIEW = "materialized view"
    CONTINUAL_TASK = "continual task"
    TASK_OUTPUT = "task output"
    SCHEMA = "schema"
    UNREADABLE = "unreadable object"

    @property
    def keyword(self) -> str:
        """As a statement spells it: ``CONTINUAL TASK``."""
        return self.value.upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A relation that a definition reads: what it is called there, and what that is.

    Attributes:
        name: the name as resolved when the object was created.
        object_id: the object it is. columns: the columns it had then; a column added to it
            later is not seen by ``SELECT *`` in the definition.
    """

    name: Name
    object_id: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """An earlier definition of a task: it still runs at the times it was in force.

    Attributes:
        once: it is in force at one T only, and runs there whether or not an input has changed.
        columns: those of each output by it, in order; empty where they are as they are now.
    """

    number: int
    definition: str
    reads: tuple[Reading, ...]
    once: bool = False
    columns: tuple[Schema, ...] = ()


FILE_FORMATS = ("csv", "json", "parquet", "orc", "avro")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One object.

    Attributes:
        id: never changes and is never used again.
        columns: of an output of a task those of the newest definition, also where that is not in
            force yet; :func:`items_as_of` has those of another one.
        definition: the statement that made it, as typed; empty for an attached table.
        search_schema: the schema in which unqualified names of the definition were looked up.
        location: the Delta table that holds its rows; None for a view.
        managed: ctsql made the folder and deletes it with the object.
        created_at: for a task or materialized view the time I from which it follows its inputs.
        reads: of a task also what its earlier definitions read.
        revision: the number of a task's definition; ALTER makes the next one. Which one is in
            force at a time is bound by the timeline.
        earlier: definitions that may still have to run.
        own_reads: what this definition itself reads, where that is less than ``reads``.
        table_id: the id of its Delta table, which shows whether the table was replaced by another
            one; None where it has no table.
        outputs: the ids of a task's outputs, where they are objects of their own: the task then
            holds no rows, and each output reads the task and nothing else. The first one leads:
            its log has the task's upper.
        quarantine: the id of the table for rows that a task's outputs do not take, which reads the
            task, as an output does; of a view that of a view of the rows that it leaves out. None
            for none.
        flow: of the task and the view of a flow what CREATE FLOW said behind its name; else empty.
        once, retry: of a task at an earlier revision, see :class:`Revision`.
        alterations: of a table what ALTER TABLE changed of it, as typed behind its name.
        replaces: of a replacement the id of the view or task that it is for; else None.
        backfill: of a task the id of the table whose rows it began with; None for none.
        built_beside: of a view whose replacement was applied the replacement's id, and the
            ``revision`` that this made: its rows are there already.
        continues: of a view whether its newest columns came while somebody read it: what its table
            held before is known on, by the columns that both have. Else it is known from
            ``created_at`` on.
        stretches: of a view whose refresh times were changed how it was refreshed before: each with
            the T at which it began, the oldest first. ``created_at`` is when the newest began.
        followed_until: of a view the T until which it counts as followed, as a task that reads it
            is being made; 0 for none.
        problem: of an unreadable object what is wrong with its entry; else empty.
        is_outlined: whether its name, location and ``reads`` are known; false for an entry that is
            too damaged to read them.
    """

    id: str
    kind: ObjectKind
    name: Name
    columns: tuple[Column, ...]
    definition: str = ""
    search_schema: str = DEFAULT_SCHEMA
    reads: tuple[Reading, ...] = ()
    location: str | None = None
    managed: bool = True
    created_at: int = 0
    comment: str | None = None
    revision: int = 0
    earlier: tuple[Revision, ...] = ()
    own_reads: tuple[Reading, ...] | None = None
    outputs: tuple[str, ...] = ()
    quarantine: str | None = None
    table_id: str | None = None
    flow: str = ""
    once: bool = False
    alterations: tuple[str, ...] = ()
    replaces: str | None = None
    backfill: str | None = None
    built_beside: tuple[str, int] | None = None
    continues: bool = False
    stretches: tuple[Stretch, ...] = ()
    followed_until: int = 0
    problem: str = ""
    is_outlined: bool = True

    def check(self, span: Span | None = None) -> "Item":
        """The item; raises STORED_DATA_INVALID when its entry could not be read."""
        if self.problem:
            what = f'the entry of "{self.name}" in the catalog'
            hint = f"{RESTORE}, or give it up: DROP TABLE {self.name}"
            raise error("STORED_DATA_INVALID", span=span, what=what, detail=self.problem, hint=hint)
        return self

    def wrong_kind(
        self, expected: str, hint: str, span: Span | None = None, *, actual: str = ""
    ) -> CtsqlError:
        """WRONG_OBJECT_KIND, where something else is wanted; the caller raises it.

        Args:
            actual: what it is, where its kind does not say enough.
        """
        name, actual = str(self.name), actual or self.kind.value
        return error(
            "WRONG_OBJECT_KIND", span=span, name=name, found=actual, wanted=expected, hint=hint
        )

    def at_revision(self, number: int) -> "Item":
        """The item with the definition of that number, or with the oldest one that is known."""
        if not self.earlier and self.own_reads is None:
            return self  # it has no other
        revisions = sorted(self.revisions, key=lambda r: r.number)
        revision = next((r for r in reversed(revisions) if r.number <= number), revisions[0])
        is_output = bool(revision.columns) and not self.outputs
        return replace(
            self,
            columns=revision.columns[0] if is_output else self.columns,
            definition=revision.definition,
            reads=revision.reads,
            revision=revision.number,
            earlier=(),
            own_reads=None,
            once=revision.once,
        )

    def with_revisions(self, current: Revision, earlier: Iterable[Revision]) -> "Item":
        """The item with another definition and those before it; it reads what they all read."""
        older = tuple(earlier)
        reads = {r.object_id: r for revision in older for r in revision.reads}
        reads.update((r.object_id, r) for r in current.reads)
        return replace(
            self,
            definition=current.definition,
            revision=current.number,
            earlier=older,
            own_reads=current.reads,
            reads=tuple(reads.values()),
        )

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """All definitions that are known, the newest last."""
        own = self.reads if self.own_reads is None else self.own_reads
        newest = Revision(
            number=self.revision,
            definition=self.definition,
            reads=own,
            once=self.once,
        )
        return (*self.earlier, newest)

    @property
    def is_output(self) -> bool:
        """Whether it has a table that ctsql alone writes."""
        if self.kind is ObjectKind.CONTINUAL_TASK:
            return not self.outputs
        return self.kind in (ObjectKind.MATERIALIZED_VIEW, ObjectKind.TASK_OUTPUT)

    @property
    def is_run(self) -> bool:
        """Whether ctsql runs it to bring outputs up: a task or a materialized view."""
        return self.kind in (ObjectKind.MATERIALIZED_VIEW, ObjectKind.CONTINUAL_TASK)

    @property
    def known_from(self) -> int:
        """The T from which on it is known: of a view also from before its refresh times changed."""
        return self.stretches[0].start if self.stretches else self.created_at

    @property
    def is_task(self) -> bool:
        """Whether it is a continual task."""
        return self.kind is ObjectKind.CONTINUAL_TASK

    @property
    def owner(self) -> str:
        """The id of the task that writes this output."""
        (reading,) = self.reads
        return reading.object_id

    @property
    def app(self) -> str:
        """The application id under which its commits are made."""
        return f"ctsql:{self.id}"

    def to_json(self) -> str:
        """The item as text for the store."""
        fields: dict[str, Any] = {}
        if self.revision:
            fields = {
                "revision": self.revision,
                "earlier": [_revision_json(r) for r in self.earlier],
            }
            if self.own_reads is not None:
                fields["own_reads"] = _readings_json(self.own_reads)
        optional = {
            "outputs": self.outputs,
            "quarantine": self.quarantine,
            "table_id": self.table_id,
            "flow": self.flow,
            "alterations": self.alterations,
            "replaces": self.replaces,
            "backfill": self.backfill,
            "built_beside": self.built_beside,
            "continues": self.continues,
            "paced": [s.to_json() for s in self.stretches],
            "followed_until": self.followed_until,
        }
        fields |= {name: value for name, value in optional.items() if value}
        return json.dumps(
            {
                **fields,
                "id": self.id,
                "kind": self.kind.value,
                "schema": self.name.schema,
                "name": self.name.name,
                "columns": [c.to_json() for c in self.columns],
                "definition": self.definition,
                "search_schema": self.search_schema,
                "reads": _readings_json(self.reads),
                "location": self.location,
                "managed": self.managed,
                "created": self.created_at,
                "comment": self.comment,
            }
        )

    @staticmethod
    def from_json(text: str) -> "Item":
        """The item from its text; raises STORED_DATA_INVALID when it is none."""
        try:
            raw: dict[str, Any] = json.loads(text)
            return Item(
                id=raw["id"],
                kind=ObjectKind(raw["kind"]),
                name=Name(raw["schema"], raw["name"]),
                columns=tuple(Column.from_json(c) for c in raw["columns"]),
                definition=raw["definition"],
                search_schema=raw["search_schema"],
                reads=_readings(raw["reads"]),
                location=raw["location"],
                managed=raw["managed"],
                created_at=raw["created"],
                comment=raw["comment"],
                revision=int(raw.get("revision", 0)),
                earlier=tuple(_revision(r) for r in raw.get("earlier", ())),
                own_reads=_readings(raw["own_reads"]) if "own_reads" in raw else None,
                outputs=tuple(raw.get("outputs", ())),
                quarantine=raw.get("quarantine"),
                table_id=raw.get("table_id"),
                flow=raw.get("flow", ""),
                alterations=tuple(raw.get("alterations", ())),
                replaces=raw.get("replaces"),
                backfill=raw.get("backfill"),
                built_beside=_built_beside(raw),
                continues=raw.get("continues", False) is True,
                stretches=tuple(Stretch.from_json(s) for s in raw.get("paced", ())),
                followed_until=int(raw.get("followed_until", 0)),
            )
        except (ValueError, KeyError, TypeError) as problem:
            hint = "Restore the warehouse's _ctsql/catalog table to an earlier version."
            raise not_readable("an entry of the catalog", problem, hint) from problem

    @staticmethod
    def of_entry(object_id: str, text: str) -> "Item":
        """The item of an entry; an unreadable one raises its error only where it is used.

        A newer version of ctsql may have written it, or it is damaged. What can be read of it is
        kept: its name stays taken, its folder and what it reads are not removed.
        """
        try:
            return Item.from_json(text)
        except CatalogError as problem:
            return _unreadable(object_id, text, problem.detail or problem.message)


def was_dropped(name: object, when: str, kind: str = "relation") -> CtsqlError:
    """UNKNOWN_RELATION for an object that was dropped; the caller raises it."""
    return unknown_relation(name, f"It was dropped {when}.", kind=kind)


def altered_meanwhile(
    item: Item, detail: str = "Another process gave it another definition."
) -> CtsqlError:
    """ALTERED_MEANWHILE, where somebody else changed an object or its readers; to be raised."""
    return error("ALTERED_MEANWHILE", kind=item.kind.value, name=str(item.name), detail=detail)


def in_use(
    item: Item, dependants: str, span: Span | None = None, *, kind: str = "", keyword: str = ""
) -> CtsqlError:
    """DEPENDENT_OBJECTS for an object that cannot be dropped; the caller raises it."""
    return error(
        "DEPENDENT_OBJECTS",
        span=span,
        kind=kind or item.kind.value,
        name=str(item.name),
        keyword=keyword or item.kind.keyword,
        dependants=dependants,
    )


def columns_in_use(item: Item, dependants: str, span: Span | None, hint: str = "") -> CtsqlError:
    """COLUMNS_IN_USE for an object that cannot get other columns; the caller raises it."""
    kind, name = item.kind.value, str(item.name)
    return error(
        "COLUMNS_IN_USE", span=span, kind=kind, name=name, dependants=dependants, hint=hint
    )


def still_there(catalog: "Catalog", item: Item, when: str = "meanwhile") -> Item:
    """An object as a later catalog has it; raises UNKNOWN_RELATION where it was dropped since."""
    current = catalog.items.get(item.id)
    if current is None:
        raise was_dropped(item.name, when, item.kind.value)
    return current


def with_columns_there(table: Item, there: Schema) -> Item:
    """A table with the columns that it has, whoever changed them, with the comments known of them.

    What ALTER TABLE says for that is noted with it, so that a dump makes them again.
    """
    changes = changes_between(table.columns, there)
    columns = commented(table.columns, there)
    return replace(table, columns=columns, alterations=(*table.alterations, *changes))


def item_there(catalog: "Catalog", object_id: str) -> Item:
    """The object of an id; raises UNKNOWN_RELATION where somebody has dropped it meanwhile."""
    item = catalog.items.get(object_id)
    if item is None:
        names = (i.name for _, i in catalog.all_dropped() if i.id == object_id)
        raise was_dropped(next(names, object_id), "meanwhile")
    return item


def _unreadable(object_id: str, text: str, problem: str) -> Item:
    unknown = Item(
        id=object_id,
        kind=ObjectKind.UNREADABLE,
        name=Name(DEFAULT_SCHEMA, f"unreadable_{object_id[:8]}"),
        columns=(),
        problem=problem,
        is_outlined=False,
    )
    try:
        raw = json.loads(text)
        item = replace(
            unknown,
            name=Name(str(raw["schema"]), str(raw["name"])),
            reads=_readings(raw["reads"]),
            location=None if raw["location"] is None else str(raw["location"]),
            managed=raw["managed"] is True,
            created_at=int(raw["created"]),
            is_outlined=True,
        )
    except (ValueError, KeyError, TypeError):
        return unknown
    return item


def _built_beside(raw: dict[str, Any]) -> tuple[str, int] | None:
    pair = raw.get("built_beside")
    return None if pair is None else (str(pair[0]), int(pair[1]))


def _revision_json(revision: Revision) -> dict[str, Any]:
    return {
        "number": revision.number,
        "definition": revision.definition,
        "reads": _readings_json(revision.reads),
        "once": revision.once,
        "columns": [[c.to_json() for c in schema] for schema in revision.columns],
    }


def _revision(raw: Mapping[str, Any]) -> Revision:
    return Revision(
        number=raw["number"],
        definition=raw["definition"],
        reads=_readings(raw["reads"]),
        once=raw["once"],
        columns=tuple(tuple(map(Column.from_json, schema)) for schema in raw["columns"]),
    )


def _readings_json(reads: Iterable[Reading]) -> list[list[Any]]:
    return [[r.name.schema, r.name.name, r.object_id, list(r.columns)] for r in reads]


def _readings(raw: list[list[Any]]) -> tuple[Reading, ...]:
    return tuple(Reading(name=Name(s, n), object_id=i, columns=tuple(c)) for s, n, i, c in raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEntry:
    """What one DROP took away. UNDROP brings all of it back, until MAINTAIN removes it.

    Attributes:
        at_ms: when, in milliseconds since 1970.
        items: the objects; their folders are still there.
        subscriptions: the named readers that followed them.
        schema: the schema that was dropped, as typed; empty where it was an object.
        problem: what is wrong with an entry that cannot be read; else empty.
    """

    id: str
    at_ms: int
    items: tuple[Item, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    schema: str = ""
    problem: str = ""

    def check(self) -> "DropEntry":
        """The entry; raises STORED_DATA_INVALID when it could not be read."""
        if self.problem:
            what = "the entry of dropped objects in the catalog"
            hint = f"{RESTORE} to an earlier version."
            raise error("STORED_DATA_INVALID", what=what, detail=self.problem, hint=hint)
        return self

    def undrop_text(self, item: Item) -> str:
        """The statement that brings one of the objects back; for an output it names the task."""
        if item.kind is ObjectKind.TASK_OUTPUT:
            item = next((i for i in self.items if i.id == item.owner), item)
        flow = item.flow and item.kind is ObjectKind.CONTINUAL_TASK
        return f"UNDROP {'FLOW' if flow else item.kind.keyword} {item.name}"

    def to_json(self) -> str:
        """The entry as text for the store."""
        return json.dumps(
            {
                "at": self.at_ms,
                "items": {i.id: i.to_json() for i in self.items},
                "subscriptions": {s.name: s.to_json() for s in self.subscriptions},
                "schema": self.schema,
            }
        )

    @staticmethod
    def of_entry(drop_id: str, text: str) -> "DropEntry":
        """The entry of a text; an unreadable one raises its error only where it is used."""
        try:
            raw: dict[str, Any] = json.loads(text)
            drop = DropEntry(
                id=drop_id,
                at_ms=int(raw["at"]),
                items=tuple(Item.of_entry(k, v) for k, v in raw["items"].items()),
                subscriptions=tuple(
                    Subscription.of_entry(k, v) for k, v in raw["subscriptions"].items()
                ),
                schema=raw["schema"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            return DropEntry(id=drop_id, at_ms=0, problem=f"{type(problem).__name__}: {problem}.")
        return drop


def _readers_by_id(items: Iterable[Item]) -> dict[str, list[Item]]:
    """The objects whose definitions read another one directly, in order of name, by its id."""
    readers = defaultdict[str, list[Item]](list)
    for item in sorted(items, key=lambda i: i.name.key):
        for object_id in {r.object_id for r in item.reads} - {item.id}:
            readers[object_id].append(item)
    return readers


def _hint_of_file(name: Name) -> str:
    """What to type where Spark would read a file by a format and a path, as a schema and a name."""
    if fold(name.schema) == "delta":
        return f"Make it a table here first: CREATE TABLE t LOCATION {quote_text(name.name)}"
    if fold(name.schema) in FILE_FORMATS:
        return f"A file is read by read_{fold(name.schema)}({quote_text(name.name)})"
    return ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All objects at one version of the catalog. Changes give a new value."""

    items: Mapping[str, Item]
    schemas: Mapping[str, str]  # folded name -> name as typed
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)  # by folded name
    drops: Mapping[str, DropEntry] = field(default_factory=dict)  # by id of the DROP, newest first
    _readers: dict[str, list[Item]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )  # by id of what they read, once it was asked for: each tick asks it of each object
    _with_dropped: dict[str, list[Item]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )  # the same, with the readers that can be had back

    @staticmethod
    def of(
        items: Iterable[Item],
        schemas: Iterable[str] = (),
        subscriptions: Iterable[Subscription] = (),
        drops: Iterable[DropEntry] = (),
    ) -> "Catalog":
        """A catalog with these items; the default schema is always there."""
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
            raise only_queried(name, span)
        if fold(name.schema) not in self.schemas and not is_system(name.schema):
            otherwise = _hint_of_file(name) or "SHOW SCHEMAS lists what there is."
            hint = did_you_mean(name.schema, self.schemas.values(), otherwise=otherwise)
            raise error("UNKNOWN_SCHEMA", span=span, name=name.schema, hint=hint)
        names = [i.name.name for i in self]
        if is_system(name.schema):
            names += SYSTEM_TABLES
        hint = did_you_mean(name.name, names, otherwise="SHOW OBJECTS lists what there is.")
        elsewhere = [i for i in self if fold(i.name.name) == fold(name.name)]
        if elsewhere:
            hint = f'Did you mean "{elsewhere[0].name.qualified()}"?'
        last_drop = self.last_drop(name)
        if last_drop is not None:
            drop, item = last_drop
            hint = (
                f"It was dropped at {to_iso(drop.at_ms)}. To have it back: {drop.undrop_text(item)}"
            )
        raise unknown_relation(name, hint, span, kind=kind)

    def check_outlined(self) -> None:
        """Raise STORED_DATA_INVALID where the needs of an object or a reader are not known."""
        for item in self:
            if not item.is_outlined:
                item.check()
        for subscription in self.subscriptions.values():
            subscription.check()
        for drop in self.drops.values():
            drop.check()
            for item in drop.items:
                if not item.is_outlined:
                    item.check()

    def readers(self, object_id: str, *, dropped: bool = False) -> list[Item]:
        """The objects whose definitions read this one directly, in order of name.

        Args:
            dropped: with those that can be had back.
        """
        readers = self._with_dropped if dropped and self.drops else self._readers
        if not readers:
            others = (i for _, i in self.all_dropped()) if readers is self._with_dropped else ()
            readers.update(_readers_by_id([*self, *others]))
        return [*readers.get(object_id, ())]

    def flow_targets(self, task: Item) -> list[Item]:
        """The view of a flow's task; none for another one."""
        return [i for i in self.readers(task.id) if i.flow] if task.flow else []

    def all_readers(self, object_id: str, *, dropped: bool = False) -> list[Item]:
        """The objects that read this one directly or through others, nearest first.

        Args:
            dropped: with those that can be had back.
        """
        readers: dict[str, Item] = {}
        queue = [object_id]
        while queue:
            for item in self.readers(queue.pop(0), dropped=dropped):
                if item.id not in readers:
                    readers[item.id] = item
                    queue.append(item.id)
        return list(readers.values())

    def outputs_of(self, task: Item) -> list[Item]:
        """The outputs of a task that are objects of their own, in order; none for others."""
        return [self.items[object_id] for object_id in task.outputs]

    def going_with(self, object_ids: Iterable[str]) -> list[Item]:
        """The objects and all that is dropped with them, each once.

        Dropped are what reads them, directly or through others; with an output its task and the
        task's other outputs; with a task its outputs, which read it; with a view its replacement.
        """
        items: dict[str, Item] = {}
        queue = [self.items[object_id] for object_id in object_ids]
        while queue:
            item = queue.pop(0)
            if item.id in items:
                continue
            items[item.id] = item
            queue += self.readers(item.id)
            replacement = replacement_of(self, item.id)
            if replacement is not None:
                queue.append(replacement)
            if item.kind is ObjectKind.TASK_OUTPUT:
                queue.append(self.items[item.owner])
            elif item.quarantine is not None:
                queue.append(self.items[item.quarantine])
        return list(items.values())

    def closure(self, object_ids: Iterable[str]) -> list[Item]:
        """The objects and all they read, each after what it reads (a topological order).

        Raises UNKNOWN_RELATION where somebody has dropped one of them.
        """
        items: dict[str, Item] = {}

        def reads(object_id: str) -> Iterator[str]:
            item = items[object_id] = item_there(self, object_id)
            return (r.object_id for r in item.reads)

        return [items[object_id] for object_id in behind_needs(object_ids, reads)]

    def fingerprint(self, item: Item) -> str:
        """A short text that changes with an object's definition, or that of a plain view in it."""
        definitions = [(i.id, i.search_schema, i.definition) for i in with_plain_views(self, item)]
        return hashlib.sha256(repr(sorted(definitions)).encode()).hexdigest()[:16]

    def sources(self) -> list[Item]:
        """The tables that are not outputs: those whose commits get Ts."""
        return [i for i in self if i.kind is ObjectKind.TABLE]

    def with_item(self, item: Item) -> "Catalog":
        """The catalog with an item added or replaced."""
        return self.with_items([item])

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
        """The newest DROP that took an object of a name away, and the object."""
        return next(((d, i) for d, i in self.all_dropped() if i.name == name), None)

    def all_dropped(self) -> Iterator[tuple[DropEntry, Item]]:
        """All objects that can be had back, each with its DROP, the newest first."""
        return ((drop, item) for drop in self.drops.values() for item in drop.items)

    def with_dropped(self, drop: DropEntry) -> "Catalog":
        """The catalog without what a DROP takes away, which is kept beside it."""
        schemas = {k: v for k, v in self.schemas.items() if not drop.schema or v != drop.schema}
        catalog = replace(self, schemas=schemas, drops={drop.id: drop, **self.drops})
        return catalog.without(i.id for i in drop.items)

    def restored(self, drop: DropEntry) -> "Catalog":
        """The catalog with what a DROP took away; the caller looked that all names are free."""
        back = self.purged([drop.id]).with_items(drop.items)
        if drop.schema:
            back = back.with_schema(drop.schema)
        for subscription in drop.subscriptions:
            back = back.with_subscription(subscription)
        return back

    def purged(self, drop_ids: Iterable[str]) -> "Catalog":
        """The catalog without some of what can be had back."""
        ids = set(drop_ids)
        return replace(self, drops={k: d for k, d in self.drops.items() if k not in ids})

    def with_schema(self, schema: str) -> "Catalog":
        """The catalog with a schema added."""
        return replace(self, schemas={**self.schemas, fold(schema): schema})

    def with_subscription(self, subscription: Subscription) -> "Catalog":
        """The catalog with a named reader added."""
        entry = {fold(subscription.name): subscription}
        return replace(self, subscriptions={**self.subscriptions, **entry})

    def without_subscription(self, name: str) -> "Catalog":
        """The catalog without a named reader."""
        others = {k: s for k, s in self.subscriptions.items() if k != fold(name)}
        return replace(self, subscriptions=others)

    def subscribers(self, object_id: str) -> list[Subscription]:
        """The named readers that follow this object itself, in order of name."""
        subscriptions = [s for s in self.subscriptions.values() if s.object_id == object_id]
        return sorted(subscriptions, key=lambda s: fold(s.name))


def with_plain_views(catalog: Catalog, item: Item) -> list[Item]:
    """An object, and the plain views of whose queries its own is made."""
    items = {item.id: item}
    waiting = [item]
    while waiting:
        for reading in waiting.pop().reads:
            read = catalog.items[reading.object_id]
            if read.kind is ObjectKind.VIEW and read.id not in items:
                items[read.id] = read
                waiting.append(read)
    return list(items.values())


def tasks_and_views(catalog: Iterable[Item]) -> list[Item]:
    """The tasks and materialized views whose entries can be read, in order of name."""
    return sorted((i for i in catalog if i.is_run and not i.problem), key=lambda i: i.name.key)


def is_quarantine(catalog: Catalog, item: Item) -> bool:
    """Whether an object is the quarantine of another one."""
    return owner_of_quarantine(catalog, item) is not None


def owner_of_quarantine(catalog: Catalog, item: Item) -> Item | None:
    """The task or view whose quarantine an object is; None for any other object."""
    return next((i for i in catalog if i.quarantine == item.id), None)


def beside(catalog: Catalog, task: Item) -> list[Item]:
    """The objects that go and come with a task or view: its outputs, and its quarantine."""
    quarantine = [] if task.quarantine is None else [catalog.items[task.quarantine]]
    return [*catalog.outputs_of(task), *quarantine]


def written_by(catalog: Catalog, task: Item) -> list[Item]:
    """All that a task writes, the output that leads first."""
    own = [] if task.outputs else [task]
    return [*own, *beside(catalog, task)]


def writer_of(catalog: Catalog, item: Item) -> Item:
    """The task of an output or the owner of a quarantine; any other object itself."""
    if item.kind is ObjectKind.TASK_OUTPUT:
        return catalog.items[item.owner]
    return owner_of_quarantine(catalog, item) or item


def written_under(catalog: Catalog, task: Item) -> dict[str, Item]:
    """By the id of each output of a task the object under whose name a quarantine has its rows.

    Those of a replacement have the names of the task that it is for, which gets its quarantine.
    """
    of = catalog.items.get(task.replaces or "", task)
    pairs = zip(catalog.outputs_of(task) or [task], catalog.outputs_of(of) or [of], strict=True)
    return {output.id: read_item for output, read_item in pairs}


def quarantine_copied(catalog: Catalog, task: Item) -> Item | None:
    """The quarantine whose rows a task takes over at a T; None at any other T.

    That is where it begins as the task that it replaces, or gets what its replacement holds.

    Args:
        task: as it is at that T.
    """
    if not task.once:
        return None
    for reading in task.reads:
        read = catalog.items[reading.object_id]
        owner = owner_of_quarantine(catalog, read)
        if owner is not None and (owner.replaces == task.id or owner.id == task.replaces):
            return read
    return None


def items_as_of(catalog: Catalog, task: Item, number: int) -> list[Item]:
    """A task by one of its definitions, and its outputs with the columns of that."""
    then = task.at_revision(number)
    revision = next((r for r in task.revisions if r.number == then.revision), None)
    outputs = catalog.outputs_of(task)
    if revision is None or not revision.columns or not outputs:
        return [then, *outputs]
    pairs = zip(outputs, revision.columns, strict=True)
    return [then, *(replace(output, columns=columns) for output, columns in pairs)]


def replacement_of(catalog: Catalog, object_id: str) -> Item | None:
    """The replacement that there is for a view or a task; None where there is none."""
    return next((i for i in catalog if i.replaces == object_id), None)


def stored_reads(catalog: Catalog, item: Item, *others: str) -> list[Item]:
    """The stored objects that a definition reads, through plain views, each once.

    An object with an unreadable entry may be a plain view.

    Args:
        others: the ids of what is read besides.
    """
    items: dict[str, Item] = {}
    seen_ids, waiting = {item.id}, [*(r.object_id for r in item.reads), *others]
    while waiting:
        read = catalog.items[waiting.pop(0)]
        if read.id in seen_ids:
            continue
        seen_ids.add(read.id)
        if read.location is None or read.problem:
            waiting += [r.object_id for r in read.reads]
        else:
            items[read.id] = read
    return list(items.values())


def check_no_cycle(
    catalog: Catalog,
    item: Item,
    reads: Iterable[Reading],
    span: Span | None,
    detail: str = "The new query reads it, directly or through other views.",
) -> None:
    """Raise RECURSIVE_DEFINITION where one of the reads is the object, or reads it."""
    below = catalog.closure(r.object_id for r in reads)
    if any(i.id == item.id for i in below):
        raise error("RECURSIVE_DEFINITION", span=span, name=str(item.name), detail=detail)
