"""The errors ctsql raises: six classes and one table of conditions.

A class answers one question only: what may the caller do? Everything finer is a condition:
a stable public name with an SQLSTATE, a message, and where one helps a detail and a hint.

    Error                       PEP 249 root
      CtsqlError                condition, sqlstate, message, detail, hint, span
        StatementError          the text is wrong; nothing ran; do not retry   (ProgrammingError)
        CatalogError            the objects are in the way                     (ProgrammingError)
        NotSupported            refused by name, by design or until later      (NotSupportedError)
        CommitLost              somebody else committed first; ours is not in  (OperationalError)
        CommitUnknown           ours may or may not be in; re-read first       (OperationalError)
        EnvironmentProblem      Java, network, disk, permissions               (OperationalError)
        DataError               a row cannot be computed                       (DataError)
        InternalError           our bug: says which invariant                  (InternalError)

The PEP 249 names (``ProgrammingError``, ``OperationalError`` and so on) are bases of these, so
that code written for any DB-API driver can catch them.

Text rules: a message is short, lower case, without a full stop; present tense if it can never
work, past tense if a retry could. Detail is facts in sentences. Hint is one thing to do.
Source: the PostgreSQL message style guide and its SQLSTATE table; SQL conditions in Spark.
"""

import string
from collections.abc import Mapping
from dataclasses import dataclass

from ctsql.catalog.spans import Span


class Error(Exception):
    """PEP 249 ``Error``: the root of everything ctsql raises."""


class InterfaceError(Error):
    """PEP 249: the Python interface was used wrongly (a closed connection, say)."""


class DatabaseError(Error):
    """PEP 249: anything about the database."""


class ProgrammingError(DatabaseError):
    """PEP 249: the statement or the objects it names are wrong."""


class OperationalError(DatabaseError):
    """PEP 249: outside the programmer's control; a retry may work."""


class NotSupportedError(DatabaseError):
    """PEP 249: refused by name."""


class IntegrityError(DatabaseError):
    """PEP 249: part of the interface; a NOT NULL that fails is one."""


class CtsqlError(DatabaseError):
    """An error with a condition.

    Attributes:
        condition: the stable public name, for example ``UNKNOWN_RELATION``.
        given: the parameters of its texts, for example ``{"name": "t"}``.
        sqlstate: five characters, after PostgreSQL where one fits.
        message: one short line. detail: facts, or None. hint: what to do, or None.
        span: the piece of the user's text that is at fault, or None.
    """

    def __init__(
        self,
        condition: str,
        sqlstate: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        span: Span | None = None,
        given: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.condition = condition
        self.sqlstate = sqlstate
        self.message = message
        self.detail = detail
        self.hint = hint
        self.span = span
        self.given = dict(given or {})

    def __str__(self) -> str:
        place = f" at {self.span.place()}" if self.span else ""
        lines = [f"[{self.condition}] {self.message}{place}"]
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT: {self.hint}")
        return "\n".join(lines)


class StatementError(CtsqlError, ProgrammingError):
    """The text is wrong; nothing ran; do not retry."""


class CatalogError(CtsqlError, ProgrammingError):
    """The objects are in the way: they exist, are missing, are owned or are in use."""


class NotSupported(CtsqlError, NotSupportedError):
    """Refused by name, by design or until a later version."""


class CommitLost(CtsqlError, OperationalError):
    """Somebody else committed first; ours is not in."""


class CommitUnknown(CtsqlError, OperationalError):
    """Ours may or may not be in; read again before anything else."""


class EnvironmentProblem(CtsqlError, OperationalError):
    """Java, the network, the disk or permissions are in the way."""


class DataError(CtsqlError, DatabaseError):
    """A row cannot be computed; PEP 249's ``DataError``."""


class InternalError(CtsqlError, DatabaseError):
    """A defect of ctsql: an invariant does not hold; PEP 249's ``InternalError``."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the table; ``{names}`` in the templates are the parameters of :func:`error`."""

    name: str
    sqlstate: str
    kind: type[CtsqlError]
    message: str
    detail: str | None = None
    hint: str | None = None

    @property
    def parameters(self) -> frozenset[str]:
        """The names that :func:`error` must be given, no more and no fewer."""
        templates = (self.message, self.detail or "", self.hint or "")
        fields = (field for t in templates for _, field, _, _ in string.Formatter().parse(t))
        return frozenset(field for field in fields if field)


def error(
    condition: str, *, span: Span | None = None, cause: BaseException | None = None, **given: object
) -> CtsqlError:
    """Build the error of a condition; the caller raises it.

    Args:
        condition: a name in :data:`CONDITIONS`.
        span: the piece of the user's text at fault, if there is one.
        cause: what it comes from; becomes ``__cause__``.
        **given: exactly the parameters of the condition's templates. A detail or hint that
            comes out empty is left out.

    Raises:
        KeyError: no such condition. ValueError: the parameters are not the template's.
    """
    row = CONDITIONS[condition]
    if frozenset(given) != row.parameters:
        raise ValueError(f"{condition} takes {sorted(row.parameters)}, given {sorted(given)}")
    made = row.kind(
        row.name,
        row.sqlstate,
        row.message.format(**given),
        detail=(row.detail or "").format(**given).strip() or None,
        hint=(row.hint or "").format(**given).strip() or None,
        span=span,
        given=given,
    )
    made.__cause__ = cause
    return made


def _table(*rows: Condition) -> dict[str, Condition]:
    return {row.name: row for row in rows}


CONDITIONS: dict[str, Condition] = _table(
    Condition(
        "AMBIGUOUS_COLUMN",
        "42702",
        StatementError,
        'column "{column}" is ambiguous',
        "It could be any of: {candidates}.",
        "Write the relation's name or alias in front of it.",
    ),
    Condition(
        "AS_OF_OUT_OF_RANGE",
        "22008",
        StatementError,
        'the time {time} is outside what "{relation}" can be read at',
        "{detail}",
        "{hint}",
    ),
    Condition("COLUMN_COUNT_MISMATCH", "42601", StatementError, "{message}", "{detail}", "{hint}"),
    Condition(
        "COMMIT_UNKNOWN",
        "40003",
        CommitUnknown,
        'whether the commit to "{output}" is in could not be found out',
        "{detail}",
        "Run the statement again: what is in already is not written twice.",
    ),
    Condition("CURSOR_STATE", "24000", StatementError, "{message}"),
    Condition("DATA_ERROR", "22000", DataError, "{message}", "{detail}", "{hint}"),
    Condition(
        "DEPENDENT_OBJECTS",
        "2BP01",
        CatalogError,
        '{kind} "{name}" cannot be dropped because other objects read it',
        "{dependants}",
        "Drop those first, or type: DROP {keyword} {name} CASCADE",
    ),
    Condition("DUPLICATE_COLUMN", "42701", StatementError, 'column "{column}" appears twice'),
    Condition(
        "HISTORY_LOST",
        "55000",
        DataError,
        'the history of "{relation}" that is still needed was removed',
        "{detail}",
        "{hint}",
    ),
    Condition(
        "INTERNAL_ERROR",
        "XX000",
        InternalError,
        "an invariant of ctsql does not hold: {invariant}",
        "{detail}",
        "Nothing was written. Please report this, with the statement that led here.",
    ),
    Condition(
        "INVALID_COLUMN_TYPE", "42704", StatementError, '"{type}" is not a type', None, "{hint}"
    ),
    Condition("INVALID_NAME", "42602", StatementError, '"{name}" is not a valid name', "{detail}"),
    Condition(
        "INVALID_OPTION",
        "22023",
        StatementError,
        'option "{option}" does not take {value}',
        "{detail}",
        "{hint}",
    ),
    Condition("INVALID_STATEMENT", "42601", StatementError, "{message}", "{detail}", "{hint}"),
    Condition("INVALID_USAGE", "HY000", StatementError, "{message}", "{detail}"),
    Condition(
        "JAR_DOWNLOAD_FAILED",
        "58000",
        EnvironmentProblem,
        "Delta Lake's JAR files could not be fetched",
        "{detail}",
        "{hint}",
    ),
    Condition(
        "JAVA_NOT_FOUND", "58000", EnvironmentProblem, "Java was not found", "{detail}", "{hint}"
    ),
    Condition(
        "JAVA_UNSUPPORTED",
        "58000",
        EnvironmentProblem,
        "Java {found} cannot run Spark",
        "{detail}",
        "{hint}",
    ),
    Condition(
        "NONDETERMINISTIC_FUNCTION",
        "42P17",
        StatementError,
        "{function} may not stand in a {kind}",
        "{detail}",
        "{hint}",
    ),
    Condition(
        "NOT_A_DELTA_TABLE",
        "42809",
        CatalogError,
        'there is no Delta table at "{location}"',
        "{detail}",
        "{hint}",
    ),
    Condition("NOT_SUPPORTED", "0A000", NotSupported, "{what} is not supported", "{why}", "{hint}"),
    Condition(
        "NOT_SUPPORTED_YET", "0A000", NotSupported, "{what} is not supported yet", None, "{hint}"
    ),
    Condition(
        "OBJECT_EXISTS",
        "42P07",
        CatalogError,
        '{kind} "{name}" already exists',
        None,
        "{hint}",
    ),
    Condition(
        "OUTPUT_OWNED",
        "42809",
        CatalogError,
        '{kind} "{name}" cannot be written by a statement',
        "Its contents are kept by ctsql.",
        "{hint}",
    ),
    Condition(
        "PARAMETER_MISMATCH",
        "42P02",
        StatementError,
        "the statement has {wanted} parameter(s), {given} value(s) were given",
    ),
    Condition(
        "READ_ONLY_MODE",
        "25006",
        CatalogError,
        "{what} cannot run on a read-only connection",
        None,
        "Connect without read_only (or --read-only) to write.",
    ),
    Condition(
        "RECURSIVE_DEFINITION",
        "42P17",
        CatalogError,
        '"{name}" would read itself',
        "{detail}",
    ),
    Condition(
        "SCHEMA_NOT_EMPTY",
        "2BP01",
        CatalogError,
        'schema "{name}" is not empty',
        "{objects}",
        "Drop those first, or type: DROP SCHEMA {name} CASCADE",
    ),
    Condition("SPARK_ERROR", "58000", EnvironmentProblem, "{message}", "{detail}", "{hint}"),
    Condition(
        "SPARK_WITHOUT_DELTA",
        "58000",
        EnvironmentProblem,
        "the given SparkSession cannot use Delta Lake",
        "{detail}",
        "{hint}",
    ),
    Condition("STATEMENT_CANCELLED", "57014", EnvironmentProblem, "the statement was cancelled"),
    Condition("STORAGE_ERROR", "58030", EnvironmentProblem, "{message}", "{detail}", "{hint}"),
    Condition(
        "STORED_DATA_INVALID",
        "XX001",
        CatalogError,
        "{what} cannot be read",
        "{detail}",
        "{hint}",
    ),
    Condition("SYNTAX_ERROR", "42601", StatementError, "{message}", "{detail}", "{hint}"),
    Condition(
        "TASK_FAILED",
        "22000",
        DataError,
        'continual task "{name}" failed at T = {time}: {reason}',
        "{detail}",
        "{hint}",
    ),
    Condition(
        "TASK_INPUT_IS_OUTPUT",
        "42P17",
        StatementError,
        'continual task "{name}" cannot be its own input',
        "A task runs for each change of its input; its own writes would make it run for ever.",
        "Read it in the body instead: there it holds what it held before the change.",
    ),
    Condition(
        "TASK_INPUT_NOT_DURABLE",
        "42809",
        StatementError,
        'view "{name}" cannot be the input of a continual task',
        "A view has no stored history, so its changes cannot be followed exactly once.",
        "Type: CREATE MATERIALIZED VIEW ... AS with the view's query, and use that as input.",
    ),
    Condition(
        "TASK_NOT_FAILED",
        "55000",
        CatalogError,
        'continual task "{name}" has not failed',
        "{detail}",
        "SHOW CONTINUAL TASKS lists the state of each task.",
    ),
    Condition(
        "TASK_WRITES_FOREIGN_TABLE",
        "42809",
        StatementError,
        'the body of continual task "{task}" writes "{name}"',
        "A body may write the task's own output and nothing else.",
        'Write "{task}" here, or make a second task for "{name}".',
    ),
    Condition(
        "TIME_OUT_OF_RANGE",
        "22008",
        StatementError,
        "{what} has no time after {time}",
        "{detail}",
    ),
    Condition("TYPE_MISMATCH", "42804", StatementError, "{message}", "{detail}", "{hint}"),
    Condition(
        "UNKNOWN_COLUMN",
        "42703",
        StatementError,
        'column "{column}" does not exist',
        "{detail}",
        "{hint}",
    ),
    Condition(
        "UNKNOWN_FUNCTION",
        "42883",
        StatementError,
        'function "{function}" does not exist',
        None,
        "{hint}",
    ),
    Condition(
        "UNKNOWN_RELATION",
        "42P01",
        CatalogError,
        '{kind} "{name}" does not exist',
        None,
        "{hint}",
    ),
    Condition(
        "UNKNOWN_SCHEMA", "3F000", CatalogError, 'schema "{name}" does not exist', None, "{hint}"
    ),
    Condition(
        "UNKNOWN_SETTING",
        "42704",
        StatementError,
        'setting "{name}" does not exist',
        None,
        "{hint}",
    ),
    Condition(
        "VIEW_FAILED",
        "22000",
        DataError,
        'materialized view "{name}" cannot be computed at T = {time}: {reason}',
        "{detail}",
        "Mend the rows it reads; the view then heals by itself.",
    ),
    Condition(
        "VIEW_FINISHED",
        "55000",
        CatalogError,
        'materialized view "{name}" is finished: its last refresh is over',
        "It keeps what it holds; nothing is written to it any more.",
        "Drop it and create it again with other refresh times.",
    ),
    Condition(
        "WAREHOUSE_NOT_FOUND",
        "3D000",
        CatalogError,
        'there is no ctsql warehouse at "{location}"',
        "{detail}",
        "{hint}",
    ),
    Condition(
        "WAREHOUSE_TOO_NEW",
        "3D000",
        CatalogError,
        'the warehouse at "{location}" was made by a newer ctsql',
        "Its format is {found}; this ctsql reads formats up to {known}.",
        "Type: pip install --upgrade ctsql",
    ),
    Condition(
        "WRONG_OBJECT_KIND",
        "42809",
        CatalogError,
        '"{name}" is a {found}, not a {wanted}',
        None,
        "{hint}",
    ),
)
