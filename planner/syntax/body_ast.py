"""The statements of a task's body, as frozen values with spans into the user's text."""

from dataclasses import dataclass
from enum import Enum

from ctsql.catalog.spans import Span
from ctsql.planner.syntax.fragments import ColumnDef, RelationRef, SqlText


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
    """DELETE FROM target [[AS] alias] [WHERE predicate], in a task's body.

    ``ctes`` is the WITH clause in front of it.
    """

    span: Span
    target: RelationRef
    alias: str | None = None
    where: SqlText | None = None
    ctes: SqlText | None = None


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
    ctes: SqlText | None = None


class MergeWhen(Enum):
    """The rows that a clause of a MERGE is for."""

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
            found = [statement.ctes, statement.where]
        case UpdateStatement():
            found = [statement.ctes, statement.where, *(a.value for a in statement.assignments)]
        case MergeStatement():
            found = [statement.source, statement.on]
            for clause in statement.clauses:
                found += [clause.condition, *(a.value for a in clause.assignments)]
    return [text for text in found if text is not None]
