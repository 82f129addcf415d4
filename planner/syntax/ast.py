"""The statements ctsql reads, as frozen values with spans into the user's text.

SQL for Spark is never printed from a tree, which could change its meaning. It stays the user's own
text (:class:`SqlText`), with the places that ctsql replaces: relations, clock calls, and spellings
that Spark does not accept.
"""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from ctsql.catalog.items import ObjectKind
from ctsql.catalog.refreshes import RefreshPart
from ctsql.catalog.spans import Span

# ---- pieces of statements


class ChangeKind(Enum):
    """The part of a relation that ``inserts(t)`` and similar functions read in a task's body."""

    INSERTS = "inserts"
    DELETES = "deletes"
    CONTENTS = "contents"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A file, a folder or a pattern of them; ``span`` is the place of the path.

    ``options`` are those of Spark's reader or writer, names in lower case.
    """

    path: str
    span: Span
    format: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationRef:
    """A relation named in SQL text."""

    parts: tuple[str, ...]  # the identifiers as typed, without quotes: (name,) or (schema, name)
    span: Span  # from the first part to the last; of ``inserts(t)`` the whole call
    aliased: bool = False  # whether an alias follows; if not, a replaced name needs one
    alias: str = ""  # the alias to add; empty for the name itself
    alias_place: Span | None = None  # where to add it if not after the name
    # which of its changes are read, or its contents by name; None for a bare name.
    change: ChangeKind | None = None
    inner: Span | None = None  # in ``inserts(t)``, the place of the name
    names_columns: bool = False  # an alias with a list of columns follows, ``t AS a(x, y)``
    # the file that is read instead of a named relation; ``parts`` are then its alias.
    file: FileRef | None = None

    @property
    def name_span(self) -> Span:
        """The span of the name itself."""
        return self.inner or self.span

    @property
    def shown_name(self) -> str:
        """The name by which columns are qualified when no alias follows."""
        return self.alias or self.parts[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSource:
    """An entry of a scope: a relation in FROM, or a statement's target. Names are folded."""

    names: tuple[str, ...]  # the alias, or the name as typed; empty for none
    # names of its columns; a relation stands for all of its columns. None if unknown.
    columns: "tuple[str | RelationRef, ...] | None"
    ref: RelationRef | None = None  # the relation, if it has no alias


NameScope = tuple[NamedSource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QualifiedName:
    """A column or a star after a name that may be a relation's."""

    parts: tuple[str, ...]  # the names between dots, folded
    span: Span  # of the whole name
    first: Span  # its first part
    second: Span  # its first two parts
    scopes: tuple[NameScope, ...]  # where the name is looked up, innermost first

    @property
    def is_star(self) -> bool:
        """Whether it is a star."""
        return self.parts[-1] == "*"


class ClockKind(Enum):
    """The clock that a call reads."""

    TIMESTAMP = "timestamp"  # now(), current_timestamp, current_timestamp()
    DATE = "date"  # current_date, current_date(), curdate()
    LOCAL_TIMESTAMP = "localtimestamp"  # localtimestamp, localtimestamp()
    UNIX = "unix"  # unix_timestamp() without arguments

    def sql(self, at: int | str) -> str:
        """The text that replaces such a call at T, or at the T in a column."""
        instant = f"timestamp_millis({at})"
        match self:
            case ClockKind.TIMESTAMP:
                return instant
            case ClockKind.DATE:
                return f"CAST({instant} AS DATE)"
            case ClockKind.LOCAL_TIMESTAMP:
                return f"CAST({instant} AS TIMESTAMP_NTZ)"
            case ClockKind.UNIX:
                return f"CAST(floor({at} / 1000) AS BIGINT)"


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
    """A text that replaces a span, for every use of the statement."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlText:
    """A piece of Spark SQL (a query, a predicate, a statement) and its replaceable places."""

    span: Span  # the piece
    # every relation it reads, in order of text, common table expressions left out.
    relations: tuple[RelationRef, ...] = ()
    clocks: tuple[ClockCall, ...] = ()  # calls that read the clock
    nondeterministic: tuple[FunctionRef, ...] = ()  # rand(), uuid() and similar; TABLESAMPLE
    edits: tuple[Edit, ...] = ()  # fixed replacements, for example of Postgres type names
    parameters: tuple[Span, ...] = ()  # spans of ``?`` and ``:name``, in order
    # columns and stars that may be qualified by a relation without alias, until they are resolved.
    names: tuple[QualifiedName, ...] = ()


def rows_of(ref: RelationRef, columns: str = "*") -> SqlText:
    """The query of a relation's rows, made of its name: ``SELECT a, b FROM x``."""
    edit = Edit(span=ref.span.front, text=f"SELECT {columns} FROM ")
    return SqlText(span=ref.span, relations=(ref,), edits=(edit,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDef:
    """A column in a column list; a view's list gives names (and comments) only."""

    name: str
    span: Span
    type: str | None = None  # Spark's spelling: INT8 has become BIGINT
    nullable: bool = True
    comment: str | None = None
    default: SqlText | None = None


class OnViolation(Enum):
    """The action for a row that breaks a constraint."""

    FAIL = "FAIL"
    DROP = "DROP"
    WARN = "WARN"
    QUARANTINE = "QUARANTINE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintDef:
    """A constraint that every row of an output keeps."""

    name: str  # empty until one is generated
    span: Span
    columns: tuple[str, ...]
    predicate: SqlText | None  # of a CHECK; other constraints have ``columns``
    action: OnViolation
    # the column whose definition contains it; None for a constraint of a whole row.
    column: str | None = None
    unique: bool = False  # it is UNIQUE

    @property
    def rule(self) -> str:
        """The constraint as SQL, on one line."""
        if self.predicate is not None:
            return f"CHECK ({' '.join(self.predicate.span.text.split())})"
        column_list = ", ".join(self.columns)
        return f"UNIQUE ({column_list})" if self.unique else f"NOT NULL ({column_list})"


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
class OutputDef:
    """One of the OUTPUTS of a task: its name, its columns, its constraints."""

    target: RelationRef
    columns: tuple[ColumnDef, ...]
    constraints: tuple[ConstraintDef, ...] = ()


# ---- the statements of a task's body


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertStatement:
    """INSERT INTO target [(columns)] query, in a task's body; VALUES is a query too.

    A WITH clause before INSERT belongs to the query. ``defaults`` are the words DEFAULT in a VALUES
    list, each with its column's index. ``overwrites``: a DELETE of all rows precedes it.
    """

    span: Span
    target: RelationRef
    query: SqlText
    columns: tuple[ColumnDef, ...] = ()
    by_name: bool = False
    overwrites: bool = False
    defaults: tuple[tuple[int, Span], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """``column = value``; the value None means DEFAULT. ``qualifier``: folded names before it."""

    column: str
    span: Span
    value: SqlText | None
    qualifier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStatement:
    """[WITH ctes] DELETE FROM target, or UPDATE target SET assignments, in a task's body.

    A DELETE has no assignments. After the target: [[AS] alias]; at the end: [WHERE predicate].
    """

    span: Span
    target: RelationRef
    assignments: tuple[Assignment, ...] = ()
    alias: str | None = None
    where: SqlText | None = None
    ctes: SqlText | None = None


class MergeWhen(Enum):
    """The kind of rows that a clause of a MERGE applies to."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class MergeAction(Enum):
    """The action of a clause of a MERGE."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenClause:
    """WHEN ... [AND condition] THEN action. ``star`` is the place of ``*`` for all columns."""

    span: Span
    when: MergeWhen
    action: MergeAction
    condition: SqlText | None = None
    assignments: tuple[Assignment, ...] = ()
    star: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """MERGE INTO target USING source ON condition WHEN ...; ``source`` is always a query.

    ``source_ref``: the relation that the source is, if no alias follows it.
    """

    span: Span
    target: RelationRef
    source: SqlText
    source_alias: str
    on: SqlText
    clauses: tuple[WhenClause, ...]
    alias: str | None = None
    source_ref: RelationRef | None = None


BodyStatement = InsertStatement | ChangeStatement | MergeStatement


def texts_of(statement: BodyStatement) -> list[SqlText]:
    """The pieces of SQL in a statement of a body, in no order."""
    match statement:
        case InsertStatement():
            return [statement.query]
        case ChangeStatement():
            texts = [statement.ctes, statement.where, *(a.value for a in statement.assignments)]
        case MergeStatement():
            texts = [statement.source, statement.on]
            for clause in statement.clauses:
                texts += [clause.condition, *(a.value for a in clause.assignments)]
    return [text for text in texts if text is not None]


def assignments_of(statement: BodyStatement) -> list[Assignment]:
    """All assignments of a statement of a body."""
    match statement:
        case ChangeStatement():
            return [*statement.assignments]
        case MergeStatement():
            return [a for clause in statement.clauses for a in clause.assignments]
        case _:
            return []


# ---- statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Any statement; ``span`` is its text."""

    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class OnObject(Statement):
    """A statement about one object."""

    target: RelationRef


@dataclass(frozen=True, slots=True, kw_only=True)
class OnKind(OnObject):
    """A statement that names the object's kind."""

    kind: ObjectKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateObject(OnObject):
    """CREATE of a table, a view or a task."""

    kind: ClassVar[ObjectKind]
    columns: tuple[ColumnDef, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Statement):
    """A query at the top level. ``as_of`` is the literal's text after AS OF, or None."""

    query: SqlText
    as_of: str | int | None = None
    as_of_span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dml(OnObject):
    """INSERT, UPDATE, DELETE or MERGE at top level; ``text.relations`` leaves the target out."""

    verb: str  # INSERT, UPDATE, DELETE, MERGE
    text: SqlText


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFrom(OnObject):
    """COPY table [(columns)] FROM 'file' [(options)]."""

    file: FileRef
    columns: tuple[ColumnDef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTo(Statement):
    """COPY table | (query) TO 'file' [(options)]; ``select`` reads the table or is the query."""

    select: Select
    file: FileRef
    overwrite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(CreateObject):
    """CREATE TABLE with columns or AS SELECT (``text`` is the whole statement), or an attachment.

    ``location`` is set for ``CREATE TABLE t LOCATION 'uri'``, which attaches an existing table.
    ``columns_span`` is the list with its parentheses; ``text`` excludes its ``constraints``.
    ``partitions`` are the columns of PARTITIONED BY.
    """

    kind: ClassVar = ObjectKind.TABLE
    text: SqlText
    location: str | None = None
    location_span: Span | None = None
    columns_span: Span | None = None
    query: SqlText | None = None
    constraints: tuple[ConstraintDef, ...] = ()
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView(CreateObject):
    """CREATE [OR REPLACE] VIEW."""

    kind: ClassVar = ObjectKind.VIEW
    query: SqlText


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMaterializedView(CreateObject):
    """CREATE [OR REPLACE] MATERIALIZED VIEW, or CREATE REPLACEMENT ... FOR ``replaces``."""

    kind: ClassVar = ObjectKind.MATERIALIZED_VIEW
    query: SqlText
    options: tuple[Option, ...] = ()
    replaces: RelationRef | None = None
    constraints: tuple[ConstraintDef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """An input of ON INPUT: ``source [AS] alias [WHERE condition]``."""

    ref: RelationRef  # the source, as typed
    span: Span  # all of it
    alias: str | None = None  # what the body may call it besides
    # with a condition, the query of the source's rows for which it is true.
    rows: SqlText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateContinualTask(CreateObject):
    """CREATE CONTINUAL TASK ... ON INPUT ... AS ( statements )."""

    kind: ClassVar = ObjectKind.CONTINUAL_TASK
    inputs: tuple[TaskInput, ...]
    body: tuple[BodyStatement, ...]
    body_span: Span  # the body with its parentheses
    as_span: Span  # the word AS in front of the body
    # those of OUTPUTS (...); none where the task is its own output.
    outputs: tuple[OutputDef, ...] = ()
    options: tuple[Option, ...] = ()
    options_span: Span | None = None  # WITH (...) if there is one
    constraints: tuple[ConstraintDef, ...] = ()  # of the task's own rows, each with a name
    # the column list with its parentheses, or OUTPUTS with its list, if there is one.
    columns_span: Span | None = None
    backfill: RelationRef | None = None  # the table of BACKFILL FROM
    replaces: RelationRef | None = None  # the task of REPLACEMENT ... FOR
    begin: "Instant | None" = None  # its FROM; None for SNAPSHOT
    beginning_span: Span | None = None  # that clause, from BACKFILL or FOR on


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema(Statement):
    """CREATE SCHEMA [IF NOT EXISTS] name."""

    name: str
    name_span: Span
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropOrUndrop(OnKind):
    """DROP or UNDROP of an object; of a flow its task."""

    flow: bool = False

    @property
    def keyword(self) -> str:
        """The words after DROP or UNDROP."""
        return "FLOW" if self.flow else self.kind.keyword


@dataclass(frozen=True, slots=True, kw_only=True)
class DropObject(DropOrUndrop):
    """DROP TABLE / VIEW / MATERIALIZED VIEW / CONTINUAL TASK / FLOW / SCHEMA name."""

    if_exists: bool = False
    cascade: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UndropObject(DropOrUndrop):
    """UNDROP TABLE / VIEW / MATERIALIZED VIEW / CONTINUAL TASK / FLOW / SCHEMA name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameObject(OnKind):
    """ALTER <kind> name RENAME TO new."""

    new: RelationRef


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumns:
    """ADD COLUMNS (name type [COMMENT 'text'], ...)."""

    columns: tuple[ColumnDef, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumns:
    """DROP COLUMNS (name, ...)."""

    columns: tuple[ColumnDef, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """RENAME COLUMN name TO new."""

    column: ColumnDef
    new: ColumnDef


@dataclass(frozen=True, slots=True, kw_only=True)
class RetypeColumn:
    """ALTER COLUMN name TYPE type, which must be a wider one."""

    column: ColumnDef
    type: str
    type_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNotNull:
    """ALTER COLUMN name SET NOT NULL, or DROP NOT NULL."""

    column: ColumnDef
    not_null: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefault:
    """ALTER COLUMN name SET DEFAULT value; None is DROP DEFAULT."""

    column: ColumnDef
    value: SqlText | None


ColumnChange = AddColumns | DropColumns | RenameColumn | RetypeColumn | SetNotNull | SetDefault


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable(OnObject):
    """ALTER TABLE name <change of its columns>."""

    change: ColumnChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceBody(OnObject):
    """ALTER CONTINUAL TASK name AS ( statements ): another body from the next T on."""

    body: tuple[BodyStatement, ...]
    body_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTask(OnObject):
    """ALTER CONTINUAL TASK name RETRY or SKIP the T at which it failed; SUSPEND or RESUME."""

    verb: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOptions(OnKind):
    """ALTER <kind> name SET (options), or RESET (names of options): of a task or a view."""

    options: tuple[Option, ...] = ()
    reset: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeConstraints(OnKind):
    """ALTER <kind> name ADD constraint, or DROP CONSTRAINT [IF EXISTS] name."""

    new_constraint: ConstraintDef | None = None
    dropped_name: str = ""
    dropped_span: Span | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyReplacement(OnKind):
    """ALTER MATERIALIZED VIEW | CONTINUAL TASK name APPLY REPLACEMENT replacement."""

    replacement: RelationRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask(OnObject):
    """REPLAY CONTINUAL TASK name FROM t [AS ( statements )]."""

    begin: "Instant"  # the first T that is run again
    # the new one, with ``body_span``; empty where the task keeps its own.
    body: tuple[BodyStatement, ...] = ()
    body_span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentOn(Statement):
    """COMMENT ON <kind> name IS 'text' | NULL; COMMENT ON COLUMN t.c IS ... sets ``column``."""

    kind: ObjectKind | None  # None for a column
    target: RelationRef
    comment: str | None
    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Show(Statement):
    """SHOW <what>: a list of objects, SHOW CREATE, SHOW PENDING and so on."""

    what: str  # the words after SHOW in lower case, as "materialized views" or "create"
    target: RelationRef | None = None  # the object that is asked about
    kind: ObjectKind | None = None  # its kind, as typed after CREATE
    schema: str | None = None  # IN or FROM schema
    schema_span: Span | None = None
    like: str | None = None  # the pattern of names


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe(OnObject):
    """DESCRIBE | DESC [EXTENDED] [kind] name."""

    kind: ObjectKind | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN statement | <kind> name; EXPLAIN ANALYZE [MATERIALIZED VIEW] name."""

    analyze: bool = False
    statement: Statement | None = None
    kind: ObjectKind | None = None
    target: RelationRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshView(OnObject):
    """REFRESH MATERIALIZED VIEW name [FULL]."""

    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyView(OnObject):
    """VERIFY [MATERIALIZED VIEW] name [REPAIR]."""

    repair: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSetting(Statement):
    """SET name = value | SET name TO value."""

    name: str
    name_span: Span
    value: str
    value_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowSetting(Statement):
    """SHOW name, SHOW ALL (name is None)."""

    name: str | None
    name_span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSetting(Statement):
    """RESET name, RESET ALL (name is None)."""

    name: str | None
    name_span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UseSchema(Statement):
    """USE [SCHEMA] name."""

    name: str
    name_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintain(Statement):
    """MAINTAIN [ALL | name] [RETAIN 'interval'] [DRY RUN]."""

    target: RelationRef | None = None  # one object; None for the outputs and ctsql's own tables
    everything: bool = False  # and the tables that CREATE TABLE made
    retain_ms: int | None = None  # None without RETAIN
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuestion(OnObject):
    """BLAME name [WHERE predicate] [AS OF time], or WHY name WHERE predicate [AS OF time]."""

    verb: str  # BLAME or WHY
    select: Select  # ``SELECT *`` of the text after it, which is a separate source


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A time as typed: milliseconds since 1970, or the text of a timestamp."""

    value: str | int
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe(Statement):
    """SUBSCRIBE TO name, or TO (query): its changes as they happen."""

    target: RelationRef | None  # the name; None for a query
    query: SqlText | None = None
    as_of: Instant | None = None  # begin with the contents as of it
    begin: Instant | None = None  # begin with the changes at it (FROM)
    up_to: Instant | None = None  # end before it
    up_to_now: bool = False  # end where the statement finds the newest T
    reader: str | None = None  # the name under which the position is kept
    reader_span: Span | None = None
    progress: bool = False  # report times without a change


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSubscription(Statement):
    """DROP SUBSCRIPTION [IF EXISTS] 'reader'."""

    name: str
    name_span: Span
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnList:
    """Columns by name; ``without``: all but these (``* EXCEPT``)."""

    span: Span
    names: tuple[str, ...]
    without: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFlow(Statement):
    """CREATE [OR REPLACE] FLOW name AS AUTO CDC INTO target FROM source ..."""

    kind: ClassVar = ObjectKind.CONTINUAL_TASK
    name: RelationRef
    target: RelationRef
    source: RelationRef
    keys: tuple[str, ...]
    keys_span: Span
    sequence: Span  # the expression of SEQUENCE BY
    delete_when: Span | None = None  # the condition of APPLY AS DELETE
    columns: ColumnList | None = None  # of the target; None for all
    tracked_columns: ColumnList | None = None  # TRACK HISTORY ON; None for all
    scd_type: int = 1
    ignore_nulls: bool = False
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transact(Statement):
    """BEGIN, START TRANSACTION, COMMIT or ROLLBACK."""

    verb: str  # BEGIN, COMMIT, ROLLBACK


# ---- tests


@dataclass(frozen=True, slots=True, kw_only=True)
class TestStep:
    """GIVEN or THEN [AT time] change [AND change ...]: one commit, at one T."""

    __test__ = False  # pytest would collect a class named Test

    span: Span  # the whole step, with its first word
    # the time that the test's clock is set to; None for a second after the step before.
    at: Instant | None = None
    # what is written, each into its own table; none where only time passes.
    changes: tuple[Dml, ...] = ()
    # for each change the columns that its list declares with types, if it does.
    columns: tuple[tuple[ColumnDef, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An expectation after a step of a test."""

    span: Span  # from the word EXPECT on
    after: int | None = None  # the number of the step, from 1; None for the last


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectRows(Expectation):
    """EXPECT name [(columns)] | (query) [AFTER n] VALUES ... | AS (query); or NO ROWS IN name."""

    query: SqlText  # the query of the actual rows
    rows: SqlText | None = None  # the query of the expected rows; None for no rows
    cells: tuple[tuple[Span, ...], ...] = ()  # of VALUES the values of each row; none of a query
    is_ordered: bool = False  # whether the order counts


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectNoChange(Expectation):
    """EXPECT NO CHANGE IN name [AFTER n]: the step changes none of its rows."""

    subject: RelationRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectError(Expectation):
    """EXPECT ERROR condition [LIKE 'pattern'] [IN name] [AFTER n]."""

    condition: str  # its name, in upper case
    condition_span: Span
    like: str | None = None  # the LIKE pattern of its message
    subject: RelationRef | None = None  # what cannot be read; None where a step is refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Test(Statement):
    """TEST 'name' GIVEN ... THEN ... EXPECT ..."""

    __test__ = False  # pytest would collect a class named Test

    name: str
    name_span: Span
    steps: tuple[TestStep, ...]
    expectations: tuple[Expectation, ...]
