"""The statements ctsql reads, as frozen values with spans into the user's text.

SQL that Spark will run is never printed anew from a tree: a round trip through another
library's printer changes meanings. It stays the user's own text (:class:`SqlText`), with the
places marked that ctsql replaces: relations, clock calls, and spellings Spark does not know.
"""

from dataclasses import dataclass
from enum import Enum

from ctsql.catalog.items import ObjectKind
from ctsql.catalog.refreshes import RefreshPart
from ctsql.catalog.spans import Span


class ChangeKind(Enum):
    """What ``inserts(t)`` and its like read of a relation, in the body of a task."""

    INSERTS = "inserts"
    DELETES = "deletes"
    CONTENTS = "contents"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationRef:
    """A relation named in SQL text.

    Attributes:
        parts: the identifiers as typed, without quotes: (name,) or (schema, name).
        span: from the first part to the last; of ``inserts(t)`` the whole call.
        aliased: an alias follows; if not, replacing the name must add one.
        column_prefixes: spans of a schema written in front of a column (``s.t.c``): the ``s.``
            must be cut when the relation is replaced.
        change: which of its changes are read, or its contents by name; None for a bare name.
        inner: in ``inserts(t)``, where the name stands.
    """

    parts: tuple[str, ...]
    span: Span
    aliased: bool = False
    column_prefixes: tuple[Span, ...] = ()
    change: ChangeKind | None = None
    inner: Span | None = None

    @property
    def name_span(self) -> Span:
        """Where the name itself stands."""
        return self.inner or self.span


class ClockKind(Enum):
    """Which clock a call reads."""

    TIMESTAMP = "timestamp"  # now(), current_timestamp, current_timestamp()
    DATE = "date"  # current_date, current_date(), curdate()
    LOCAL_TIMESTAMP = "localtimestamp"  # localtimestamp, localtimestamp()
    UNIX = "unix"  # unix_timestamp() without arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCall:
    """A call that reads the clock; ``span`` covers it with its parentheses."""

    kind: ClockKind
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRef:
    """A function named in SQL text whose result is not a function of the data."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Text to put in place of a span, whatever the statement is used for."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlText:
    """A piece of Spark SQL (a query, a predicate, a statement) and what is replaceable in it.

    Attributes:
        span: the piece.
        relations: every relation it reads, in order of text, common table expressions left out.
        clocks: calls that read the clock.
        nondeterministic: rand(), uuid() and their like, and TABLESAMPLE.
        edits: fixed replacements (Postgres type names, say).
        parameters: spans of ``?`` placeholders, in order.
    """

    span: Span
    relations: tuple[RelationRef, ...] = ()
    clocks: tuple[ClockCall, ...] = ()
    nondeterministic: tuple[FunctionRef, ...] = ()
    edits: tuple[Edit, ...] = ()
    parameters: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDef:
    """A column in a column list; a view's list gives names (and comments) only."""

    name: str
    span: Span
    type: str | None = None  # Spark's spelling: INT8 has become BIGINT
    type_span: Span | None = None
    nullable: bool = True
    comment: str | None = None
    default: SqlText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """``NAME = value`` in WITH (...); the value is a string, a number or a boolean.

    A view's REFRESH has a part of its schedule as value, or the string "ON COMMIT".
    """

    name: str  # upper case, words separated by one space: "ON ERROR"
    value: str | int | float | bool | RefreshPart
    span: Span
    value_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A query at the top level. ``as_of`` is the literal's text after AS OF, or None."""

    span: Span
    query: SqlText
    as_of: str | int | None = None
    as_of_span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dml:
    """INSERT, UPDATE, DELETE or MERGE at the top level; ``text`` is the whole statement.

    ``text.relations`` leaves the target out.
    """

    span: Span
    verb: str  # INSERT, UPDATE, DELETE, MERGE
    target: RelationRef
    text: SqlText


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE with columns or AS SELECT (``text`` is the whole statement), or an attachment.

    ``location`` is set for ``CREATE TABLE t LOCATION 'uri'``, which attaches a table that is there.
    """

    span: Span
    target: RelationRef
    text: SqlText
    if_not_exists: bool = False
    has_query: bool = False
    location: str | None = None
    location_span: Span | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW."""

    span: Span
    target: RelationRef
    query: SqlText
    columns: tuple[ColumnDef, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMaterializedView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW."""

    span: Span
    target: RelationRef
    query: SqlText
    columns: tuple[ColumnDef, ...] = ()
    options: tuple[Option, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertStatement:
    """INSERT INTO target [(columns)] query, in a task's body; VALUES is a query too.

    A WITH clause in front of INSERT belongs to the query. ``defaults`` are the words DEFAULT in a
    VALUES list, each with the place of its column, from 0.
    """

    span: Span
    target: RelationRef
    query: SqlText
    columns: tuple[ColumnDef, ...] = ()
    defaults: tuple[tuple[int, Span], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStatement:
    """DELETE FROM target [[AS] alias] [WHERE predicate], in a task's body."""

    span: Span
    target: RelationRef
    alias: str | None = None
    where: SqlText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """``column = value`` in UPDATE SET, or a column with its value in a MERGE's INSERT.

    The value None stands for DEFAULT.
    """

    column: str
    span: Span
    value: SqlText | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatement:
    """UPDATE target [[AS] alias] SET column = value, ... [WHERE predicate], in a task's body."""

    span: Span
    target: RelationRef
    assignments: tuple[Assignment, ...]
    alias: str | None = None
    where: SqlText | None = None


class MergeWhen(Enum):
    """Which rows a clause of a MERGE is about."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class MergeAction(Enum):
    """What a clause of a MERGE does."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenClause:
    """WHEN ... [AND condition] THEN action. ``star`` is where ``*`` stands for all columns."""

    span: Span
    when: MergeWhen
    action: MergeAction
    condition: SqlText | None = None
    assignments: tuple[Assignment, ...] = ()
    star: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """MERGE INTO target USING source ON condition WHEN ..., in a task's body.

    Attributes:
        source: a query; of a bare relation, one that selects all of it.
        source_alias: the name by which the conditions know the source, as SQL spells it.
    """

    span: Span
    target: RelationRef
    source: SqlText
    source_alias: str
    on: SqlText
    clauses: tuple[WhenClause, ...]
    alias: str | None = None


BodyStatement = InsertStatement | DeleteStatement | UpdateStatement | MergeStatement


def texts_of(statement: BodyStatement) -> list[SqlText]:
    """The pieces of SQL in a statement of a body, in no order."""
    match statement:
        case InsertStatement():
            return [statement.query]
        case DeleteStatement():
            found = [statement.where]
        case UpdateStatement():
            found = [statement.where, *(a.value for a in statement.assignments)]
        case MergeStatement():
            found = [statement.source, statement.on]
            for clause in statement.clauses:
                found += [clause.condition, *(a.value for a in clause.assignments)]
    return [text for text in found if text is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateContinualTask:
    """CREATE CONTINUAL TASK ... ON INPUT ... AS ( statements ).

    Attributes:
        body_span: the body with its parentheses. options_span: WITH (...) if there is one.
        as_span: the word AS in front of the body.
    """

    span: Span
    target: RelationRef
    inputs: tuple[RelationRef, ...]
    body: tuple[BodyStatement, ...]
    body_span: Span
    as_span: Span
    columns: tuple[ColumnDef, ...] = ()
    options: tuple[Option, ...] = ()
    options_span: Span | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema:
    """CREATE SCHEMA [IF NOT EXISTS] name."""

    span: Span
    name: str
    name_span: Span
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropObject:
    """DROP TABLE / VIEW / MATERIALIZED VIEW / CONTINUAL TASK / SCHEMA."""

    span: Span
    kind: ObjectKind
    target: RelationRef
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameObject:
    """ALTER <kind> name RENAME TO new."""

    span: Span
    kind: ObjectKind
    target: RelationRef
    new: RelationRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeTask:
    """ALTER CONTINUAL TASK name RETRY, or SKIP: go on from the T at which it failed."""

    span: Span
    target: RelationRef
    skip: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentOn:
    """COMMENT ON <kind> name IS 'text' | NULL; COMMENT ON COLUMN t.c IS ... sets ``column``."""

    span: Span
    kind: ObjectKind | None  # None for a column
    target: RelationRef
    comment: str | None
    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowObjects:
    """SHOW TABLES / VIEWS / MATERIALIZED VIEWS / CONTINUAL TASKS / SCHEMAS / OBJECTS / COLUMNS."""

    span: Span
    what: str  # lower case plural: "tables", "materialized views", "objects", "columns", ...
    schema: str | None = None  # IN or FROM schema
    schema_span: Span | None = None
    relation: RelationRef | None = None  # SHOW COLUMNS IN t
    like: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreate:
    """SHOW CREATE [kind] name."""

    span: Span
    kind: ObjectKind | None
    target: RelationRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """DESCRIBE | DESC [kind] [EXTENDED] name."""

    span: Span
    target: RelationRef
    kind: ObjectKind | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN [PHYSICAL] statement, or EXPLAIN [PHYSICAL] <kind> name for a stored object."""

    span: Span
    physical: bool = False
    statement: "Statement | None" = None
    kind: ObjectKind | None = None
    target: RelationRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshView:
    """REFRESH MATERIALIZED VIEW name [FULL]."""

    span: Span
    target: RelationRef
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSetting:
    """SET name = value | SET name TO value."""

    span: Span
    name: str
    name_span: Span
    value: str
    value_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowSetting:
    """SHOW name, SET name (Spark's way to ask), SHOW ALL (name is None)."""

    span: Span
    name: str | None
    name_span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSetting:
    """RESET name, RESET ALL (name is None)."""

    span: Span
    name: str | None
    name_span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UseSchema:
    """USE [SCHEMA] name."""

    span: Span
    name: str
    name_span: Span


Statement = (
    Select
    | Dml
    | CreateTable
    | CreateView
    | CreateMaterializedView
    | CreateContinualTask
    | CreateSchema
    | DropObject
    | RenameObject
    | ResumeTask
    | CommentOn
    | ShowObjects
    | ShowCreate
    | Describe
    | Explain
    | RefreshView
    | SetSetting
    | ShowSetting
    | ResetSetting
    | UseSchema
)
