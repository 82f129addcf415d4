"""The objects: tables, views, materialized views, continual tasks and their outputs.

An item keeps its definition as the user typed it. Names in a definition are resolved once, when
the object is created, and kept by object id (``reads``): a later rename changes nothing. The
catalog's table stores each item as a JSON object of its fields.
"""

import json
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

from ctsql.catalog.errors import (
    RESTORE,
    CatalogError,
    CtsqlError,
    error,
    not_readable,
    unknown_relation,
)
from ctsql.catalog.names import DEFAULT_SCHEMA, Name
from ctsql.catalog.refreshes import Stretch
from ctsql.catalog.schemas import Column, Schema
from ctsql.catalog.spans import Span


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
    """A relation that a definition reads: its name there, and the object."""

    name: Name  # the name as resolved when the object was created
    object_id: str  # the object's id
    # the columns it had then; a column added to it later is not seen by ``SELECT *`` in the
    # definition.
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The definition of an object. It is immutable: a change of the object adds another one."""

    text: str = ""  # the statement as typed; empty for an attached table and an output of a task
    search_schema: str = DEFAULT_SCHEMA  # the schema in which its unqualified names were looked up
    # what it reads. An output of a task reads its task, and nothing else.
    reads: tuple[Reading, ...] = ()
    number: int = 0  # 0 for the first, then one more each time
    flow: str = ""  # the text of CREATE FLOW after its name, if that made it; else empty
    # it copies the rows of a replacement or of another table: it is in force at one T only, and
    # runs there whether or not an input has changed.
    copies_rows: bool = False
    # the columns of each output, in order; empty if they are the present ones.
    columns: tuple[Schema, ...] = ()

    def followed_by(self, text: str, reads: tuple[Reading, ...]) -> "Definition":
        """The next definition of the same object."""
        number = self.number + 1
        return replace(self, text=text, reads=reads, number=number, copies_rows=False, columns=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The Delta table that holds the rows of an object."""

    location: str  # its folder
    managed: bool = True  # ctsql made the folder and deletes it with the object
    # Delta's id of the table, by which a replaced table is detected; None until it was read.
    table_id: str | None = None


FILE_FORMATS = ("csv", "json", "parquet", "orc", "avro")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One object, of one of the kinds below."""

    kind: ClassVar[ObjectKind]

    id: str  # never changes and is never used again
    name: Name
    # the names and types by its newest definition, also before that is in force;
    # :func:`items_as_of` has those of another one.
    columns: tuple[Column, ...] = ()
    comment: str | None = None
    definition: Definition = field(default_factory=Definition)  # its newest definition
    storage: Storage | None = None  # its table; None if it has no rows
    created_at: int = 0  # the T of its creation; 0 if it does not matter

    @property
    def reads(self) -> tuple[Reading, ...]:
        """The relations that it reads."""
        return self.definition.reads

    @property
    def search_schema(self) -> str:
        """The schema of the unqualified names in its definition."""
        return self.definition.search_schema

    @property
    def revision(self) -> int:
        """The number of its newest definition."""
        return self.definition.number

    @property
    def flow(self) -> str:
        """The text of CREATE FLOW after its name; empty if no flow made it."""
        return self.definition.flow

    @property
    def location(self) -> str | None:
        """The folder of the Delta table that holds its rows; None without one."""
        return None if self.storage is None else self.storage.location

    @property
    def managed(self) -> bool:
        """Whether ctsql owns its folder, if any, and deletes it with the object."""
        return self.storage is None or self.storage.managed

    @property
    def problem(self) -> str:
        """The defect of its entry in the catalog; empty without one."""
        return ""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The ids of the tables that it writes, if they are separate objects."""
        return ()

    @property
    def quarantine(self) -> str | None:
        """The id of its quarantine; None without one."""
        return None

    @property
    def replaces(self) -> str | None:
        """The id of the object that it replaces; None if it is not a replacement."""
        return None

    @property
    def following(self) -> "Following":
        """The Ts at which a view is readable."""
        return Following()

    @property
    def known_from(self) -> int:
        """The T from which it is readable; for a view, before any change of its refresh times."""
        stretches = self.following.stretches
        return stretches[0].start if stretches else self.created_at

    @property
    def is_output(self) -> bool:
        """Whether it has a table that ctsql alone writes."""
        is_written = isinstance(self, MaterializedView | Task | TaskOutput)
        return is_written and not self.outputs

    @property
    def owner(self) -> str:
        """The id of the task that writes this output."""
        (reading,) = self.reads
        return reading.object_id

    @property
    def app(self) -> str:
        """The application id of its commits."""
        return f"ctsql:{self.id}"

    @property
    def revisions(self) -> tuple[Definition, ...]:
        """All its stored definitions, the newest last."""
        return (self.definition,)

    def bound(self, columns: Schema, reads: tuple[Reading, ...]) -> Self:
        """The item with the columns and the reads of its bound definition."""
        return replace(self, columns=columns, definition=replace(self.definition, reads=reads))

    def at_revision(self, number: int) -> "Item":
        """The item with the definition of that number, or with the oldest stored one."""
        return self

    def check(self, span: Span | None = None) -> "Item":
        """The item; raises STORED_DATA_INVALID if its entry is unreadable."""
        if self.problem:
            what = f'the entry of "{self.name}" in the catalog'
            hint = f"{RESTORE}, or drop it: DROP TABLE {self.name}"
            raise error("STORED_DATA_INVALID", span=span, what=what, detail=self.problem, hint=hint)
        return self

    def wrong_kind(
        self, expected: str, hint: str, span: Span | None = None, *, actual: str = ""
    ) -> CtsqlError:
        """WRONG_OBJECT_KIND; ``actual`` describes the object, if its kind is not enough."""
        name, actual = str(self.name), actual or self.kind.value
        return error(
            "WRONG_OBJECT_KIND", span=span, name=name, found=actual, wanted=expected, hint=hint
        )


Record = TypeVar("Record", bound=Item)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Item):
    """A table that any writer may change."""

    kind = ObjectKind.TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Item):
    """A plain view: its query runs whenever it is read."""

    kind = ObjectKind.VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained(Item):
    """A materialized view or a task: ctsql advances it to each T from ``created_at`` on."""

    # the id of the object with the rows that it sets aside; None for none.
    quarantine: str | None = None
    replaces: str | None = None  # the id of the object that it is a replacement for; else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The Ts at which a materialized view is readable, besides its refresh times."""

    # the earlier refresh schedules, each with its first T, the oldest first; the newest schedule
    # begins at the view's ``created_at``.
    stretches: tuple[Stretch, ...] = ()
    # treat it as followed until this T, because a task on it is being created; 0 for none.
    until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedView(Maintained):
    """A materialized view."""

    kind = ObjectKind.MATERIALIZED_VIEW

    following: Following = field(default_factory=Following)  # the Ts at which it is readable
    # after APPLY REPLACEMENT: the replacement's id, and the number of the new definition; its rows
    # are already computed.
    staged_in: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Maintained):
    """A continual task; the timeline binds which of its definitions is in force at a T.

    Attributes:
        storage: its rows; None if its outputs are separate objects.
        earlier: definitions that may still have to run, the oldest first.
        outputs: the ids of those outputs, which read it. The log of the first has the task's upper.
            Empty if the task is its own output.
        backfill: the id of the table whose rows it began with; None for none.
    """

    kind = ObjectKind.CONTINUAL_TASK

    earlier: tuple[Definition, ...] = ()
    outputs: tuple[str, ...] = ()
    backfill: str | None = None

    @property
    def reads(self) -> tuple[Reading, ...]:
        """The relations that it reads, by any definition that may still have to run."""
        if not self.earlier:
            return self.definition.reads
        return tuple({r.object_id: r for d in self.revisions for r in d.reads}.values())

    @property
    def revisions(self) -> tuple[Definition, ...]:
        """All its stored definitions, the newest last."""
        return (*self.earlier, self.definition)

    def at_revision(self, number: int) -> "Task":
        """The task with the definition of that number, or with the oldest stored one."""
        if not self.earlier:
            return self  # it has no other
        known = self.revisions
        then = next((d for d in reversed(known) if d.number <= number), known[0])
        columns = then.columns[0] if then.columns and not self.outputs else self.columns
        return replace(self, columns=columns, definition=then, earlier=())


def made_by_flow(item: Record, flow: str) -> Record:
    """An object of a flow, with the text of CREATE FLOW after its name; empty for no flow."""
    return replace(item, definition=replace(item.definition, flow=flow))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutput(Item):
    """A table that a task writes: one of its outputs, or its quarantine."""

    kind = ObjectKind.TASK_OUTPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable(Item):
    """An object whose entry in the catalog cannot be read."""

    kind = ObjectKind.UNREADABLE

    detail: str  # the defect of the entry
    # whether its name, location and ``reads`` are known; false for an entry that is too damaged to
    # read them.
    is_outlined: bool = False

    @property
    def problem(self) -> str:
        """The defect of its entry in the catalog."""
        return self.detail


RECORDS: dict[ObjectKind, type[Item]] = {
    record.kind: record for record in (Table, View, MaterializedView, Task, TaskOutput)
}


def was_dropped(name: object, when: str, kind: str = "relation") -> CtsqlError:
    """UNKNOWN_RELATION for an object that was dropped; the caller raises it."""
    return unknown_relation(name, f"It was dropped {when}.", kind=kind)


def altered_meanwhile(
    item: Item, detail: str = "Another process gave it another definition."
) -> CtsqlError:
    """ALTERED_MEANWHILE: another process changed an object or its readers; the caller raises it."""
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


def item_text(item: Item) -> str:
    """An object as text; its kind is the tag."""
    return json.dumps({"kind": item.kind.value, **_values(item)})


def read_item(text: str) -> Item:
    """The object of a text; raises STORED_DATA_INVALID if it is unreadable."""
    try:
        raw: dict[str, Any] = json.loads(text)
        item: Item = _read(RECORDS[ObjectKind(raw["kind"])], raw)
    except (ValueError, KeyError, TypeError) as problem:
        hint = "Restore the warehouse's _ctsql/catalog table to an earlier version."
        raise not_readable("an entry of the catalog", problem, hint) from problem
    return item


def item_of_entry(object_id: str, text: str) -> Item:
    """The object of an entry; an unreadable one raises its error only when it is used.

    It is damaged, or of a newer version of ctsql. Its name stays in use; its folder and the objects
    that it reads are not removed.
    """
    try:
        return read_item(text)
    except CatalogError as problem:
        return _unreadable(object_id, text, problem.detail or problem.message)


def _unreadable(object_id: str, text: str, problem: str) -> Item:
    name = Name(DEFAULT_SCHEMA, f"unreadable_{object_id[:8]}")
    unknown = Unreadable(id=object_id, name=name, detail=problem)
    try:
        raw = json.loads(text)
        return replace(
            unknown,
            name=_read(Name, raw["name"]),
            definition=_read(Definition, raw["definition"]),
            storage=_read(Storage | None, raw["storage"]),
            created_at=_read(int, raw["created_at"]),
            is_outlined=True,
        )
    except (ValueError, KeyError, TypeError):
        return unknown


def _values(value: Any) -> Any:
    """A record, or a field of one, as a JSON value."""
    if isinstance(value, tuple):
        return [_values(one) for one in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {f.name: _values(getattr(value, f.name)) for f in fields(value)}
    return value


def _read(kind: Any, raw: Any) -> Any:
    """Read a value of :func:`_values` as a type; raises KeyError, TypeError or ValueError."""
    if hasattr(kind, "from_json"):
        return kind.from_json(raw)
    if isinstance(kind, type) and is_dataclass(kind):
        types = _types(kind)
        return kind(**{f.name: _read(types[f.name], raw[f.name]) for f in fields(kind)})
    if isinstance(kind, UnionType):  # with None
        return None if raw is None else _read(get_args(kind)[0], raw)
    if get_origin(kind) is tuple:
        first, *others = get_args(kind)
        inside = [first] * len(raw) if others == [...] else [first, *others]
        return tuple(_read(one, value) for one, value in zip(inside, raw, strict=True))
    if not isinstance(raw, kind):
        raise TypeError(f"{raw!r} is no {kind.__name__}")
    return raw


_types = cache(get_type_hints)
