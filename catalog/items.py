"""The objects: tables, views, materialized views, continual tasks and their outputs.

An item keeps its definition as the user typed it. Names in a definition are resolved once, when
the object is created, and kept by object id (``reads``): a later rename changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Self, TypeVar

from ctsql.catalog.errors import (
    RESTORE,
    CtsqlError,
    error,
    unknown_relation,
)
from ctsql.catalog.names import DEFAULT_SCHEMA, Name
from ctsql.catalog.refreshes import Stretch
from ctsql.catalog.schemas import Column, Schema, changes_between, commented
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
class Definition:
    """What an object is made by. It never changes: a change of the object makes the next one.

    Attributes:
        text: the statement as typed; empty for an attached table and an output of a task.
        search_schema: the schema in which its unqualified names were looked up.
        reads: what it reads. An output of a task reads its task, and nothing else.
        number: 0 for the first, then one more each time.
        flow: what CREATE FLOW said behind its name, where that made it; else empty.
        once: it is in force at one T only, and runs there whether or not an input has changed.
        columns: those of each output by it, in order; empty where they are as they are now.
    """

    text: str = ""
    search_schema: str = DEFAULT_SCHEMA
    reads: tuple[Reading, ...] = ()
    number: int = 0
    flow: str = ""
    once: bool = False
    columns: tuple[Schema, ...] = ()

    def followed_by(self, text: str, reads: tuple[Reading, ...]) -> "Definition":
        """The next definition of the same object."""
        number = self.number + 1
        return replace(self, text=text, reads=reads, number=number, once=False, columns=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The Delta table that holds the rows of an object.

    Attributes:
        location: its folder. managed: ctsql made the folder and deletes it with the object.
        table_id: the id that Delta gave it, which shows whether somebody put another table there;
            None before it was seen.
    """

    location: str
    managed: bool = True
    table_id: str | None = None


FILE_FORMATS = ("csv", "json", "parquet", "orc", "avro")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One object, of one of the kinds below.

    Attributes:
        id: never changes and is never used again.
        columns: the names and types by its newest definition, also before that is in force;
            :func:`items_as_of` has those of another one.
        definition: its newest definition.
        storage: where its rows are; None where it holds none.
        created_at: the T of its creation; 0 where that does not matter.
    """

    kind: ClassVar[ObjectKind]

    id: str
    name: Name
    columns: tuple[Column, ...] = ()
    comment: str | None = None
    definition: Definition = field(default_factory=Definition)
    storage: Storage | None = None
    created_at: int = 0

    @property
    def reads(self) -> tuple[Reading, ...]:
        """What it reads."""
        return self.definition.reads

    @property
    def search_schema(self) -> str:
        """The schema in which the unqualified names of its definition are looked up."""
        return self.definition.search_schema

    @property
    def revision(self) -> int:
        """The number of its newest definition."""
        return self.definition.number

    @property
    def flow(self) -> str:
        """What CREATE FLOW said behind its name; empty where that did not make it."""
        return self.definition.flow

    @property
    def location(self) -> str | None:
        """The folder of the Delta table that holds its rows; None where it holds none."""
        return None if self.storage is None else self.storage.location

    @property
    def managed(self) -> bool:
        """Whether it is ctsql's alone: its folder, if it has one, is deleted with it."""
        return self.storage is None or self.storage.managed

    @property
    def problem(self) -> str:
        """What is wrong with its entry in the catalog; else empty."""
        return ""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The ids of the tables that it writes, if they are separate objects."""
        return ()

    @property
    def quarantine(self) -> str | None:
        """The id of what holds the rows that it sets aside; None for none."""
        return None

    @property
    def replaces(self) -> str | None:
        """The id of the object that it is a replacement for; None where it is none."""
        return None

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """How it was refreshed before its refresh times were changed."""
        return ()

    @property
    def continues(self) -> bool:
        """Whether what its table held under other columns is known on."""
        return False

    @property
    def known_from(self) -> int:
        """The T from which on it is known."""
        return self.created_at

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
        """The application id under which its commits are made."""
        return f"ctsql:{self.id}"

    @property
    def revisions(self) -> tuple[Definition, ...]:
        """All its definitions that are known, the newest last."""
        return (self.definition,)

    def bound(self, columns: Schema, reads: tuple[Reading, ...]) -> Self:
        """The item with the columns and the reads that its definition has, now that it is bound."""
        return replace(self, columns=columns, definition=replace(self.definition, reads=reads))

    def at_revision(self, number: int) -> "Item":
        """The item with the definition of that number, or with the oldest one that is known."""
        return self

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


Record = TypeVar("Record", bound=Item)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Item):
    """A table that anybody may write.

    Attributes:
        alterations: what ALTER TABLE changed of it, as typed behind its name.
    """

    kind = ObjectKind.TABLE

    alterations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Item):
    """A view: its query is run wherever it is read."""

    kind = ObjectKind.VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained(Item):
    """What ctsql advances to each T: a materialized view or a continual task.

    Attributes:
        created_at: the time I from which it follows its inputs.
        quarantine: the id of the table, or of the view, of the rows that it sets aside; None for
            none.
        replaces: the id of the object that it is a replacement for; else None.
    """

    quarantine: str | None = None
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What is known of the Ts of a materialized view besides its refresh times.

    Attributes:
        stretches: how it was refreshed before its refresh times were changed: each with the T at
            which it began, the oldest first. The view's ``created_at`` is when the newest began.
        continues: its newest columns came while somebody read it: what its table held before is
            known on, by the columns that both have. Else it is known from ``created_at`` on.
        until: the T until which it counts as followed, as a task that reads it is being made; 0 for
            none.
    """

    stretches: tuple[Stretch, ...] = ()
    continues: bool = False
    until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedView(Maintained):
    """A materialized view.

    Attributes:
        following: at which of its Ts it is known.
        built_beside: where a replacement was applied the replacement's id, and the number of the
            definition that this made: its rows are there already.
    """

    kind = ObjectKind.MATERIALIZED_VIEW

    following: Following = field(default_factory=Following)
    built_beside: tuple[str, int] | None = None

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """How it was refreshed before its refresh times were changed."""
        return self.following.stretches

    @property
    def continues(self) -> bool:
        """Whether what its table held under other columns is known on."""
        return self.following.continues

    @property
    def known_from(self) -> int:
        """The T from which on it is known: also before its refresh times changed."""
        return self.stretches[0].start if self.stretches else self.created_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Maintained):
    """A continual task.

    Which of its definitions is in force at a T is bound by the timeline.

    Attributes:
        storage: its rows; None where its outputs are separate objects.
        earlier: definitions that may still have to run, the oldest first.
        outputs: the ids of those outputs, which read it; the first one leads: its log has the
            task's upper. Empty where the task is its own output.
        backfill: the id of the table whose rows it began with; None for none.
    """

    kind = ObjectKind.CONTINUAL_TASK

    earlier: tuple[Definition, ...] = ()
    outputs: tuple[str, ...] = ()
    backfill: str | None = None

    @property
    def reads(self) -> tuple[Reading, ...]:
        """What it reads, by any definition that may still have to run."""
        if not self.earlier:
            return self.definition.reads
        return tuple({r.object_id: r for d in self.revisions for r in d.reads}.values())

    @property
    def revisions(self) -> tuple[Definition, ...]:
        """All its definitions that are known, the newest last."""
        return (*self.earlier, self.definition)

    def at_revision(self, number: int) -> "Task":
        """The task with the definition of that number, or with the oldest one that is known."""
        if not self.earlier:
            return self  # it has no other
        known = self.revisions
        then = next((d for d in reversed(known) if d.number <= number), known[0])
        columns = then.columns[0] if then.columns and not self.outputs else self.columns
        return replace(self, columns=columns, definition=then, earlier=())

    def with_definitions(self, current: Definition, earlier: Iterable[Definition]) -> "Task":
        """The task with another definition and those before it."""
        return replace(self, definition=current, earlier=tuple(earlier))


def made_by_flow(item: Record, flow: str) -> Record:
    """An object of a flow, with what CREATE FLOW said behind its name; empty for no flow."""
    return replace(item, definition=replace(item.definition, flow=flow))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutput(Item):
    """A table that a task writes: one of its outputs, or its quarantine."""

    kind = ObjectKind.TASK_OUTPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable(Item):
    """An object whose entry in the catalog cannot be read.

    Attributes:
        detail: what is wrong with the entry.
        is_outlined: whether its name, location and ``reads`` are known; false for an entry that is
            too damaged to read them.
    """

    kind = ObjectKind.UNREADABLE

    detail: str
    is_outlined: bool = False

    @property
    def problem(self) -> str:
        """What is wrong with its entry in the catalog."""
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


def with_columns_there(table: Table, there: Schema) -> Table:
    """A table with its current columns and their comments, even if another writer changed them.

    The ALTER TABLE for each difference is noted with it, so that a dump contains it.
    """
    changes = changes_between(table.columns, there)
    columns = commented(table.columns, there)
    return replace(table, columns=columns, alterations=(*table.alterations, *changes))
