"""Pieces of statements: relations, SQL text with what is replaceable in it, columns, forms."""

from dataclasses import dataclass
from enum import Enum

from ctsql.catalog.refreshes import RefreshPart
from ctsql.catalog.spans import Span


class ChangeKind(Enum):
    """The part of a relation that ``inserts(t)`` and its like read, in the body of a task."""

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
        names_columns: an alias with a list of columns follows, ``t AS a(x, y)``.
    """

    parts: tuple[str, ...]
    span: Span
    aliased: bool = False
    column_prefixes: tuple[Span, ...] = ()
    change: ChangeKind | None = None
    inner: Span | None = None
    names_columns: bool = False

    @property
    def name_span(self) -> Span:
        """The span of the name itself."""
        return self.inner or self.span


class ClockKind(Enum):
    """The clock that a call reads."""

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
class OutputDef:
    """One of the OUTPUTS of a task: its name and its columns."""

    target: RelationRef
    columns: tuple[ColumnDef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForm:
    """FROM TRANSFORM or FROM RETAIN, as texts of the user's.

    Attributes:
        retain: it is FROM RETAIN. head: IF NOT EXISTS, the name and the columns, as typed.
        source: what it follows; source_alias: what its columns may be qualified with.
        inner: the query or the predicate. options: `` WITH (...)`` or empty.
    """

    span: Span
    retain: bool
    head: str
    target: str
    source: str
    source_alias: str
    inner: str
    options: str
