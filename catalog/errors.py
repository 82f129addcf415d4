"""The errors ctsql raises: six classes and one table of conditions.

A class says what the caller may do; they are those of PEP 249, which code for any DB-API driver
catches. A condition is a stable public name with an SQLSTATE, a message, and often a detail and a
hint. :class:`Declined` is no error: a function returns it to leave its work to another.

A message is short, lower case, without a full stop; present tense if it can never work, past tense
if a retry could. Detail is facts in sentences. Hint is one thing to do.
Source: the PostgreSQL message style guide and its SQLSTATE table; SQL conditions in Spark.
"""

import re
import string
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ctsql.catalog.conditions import OBJECTS, RUNNING, STATEMENTS
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
    """PEP 249: not supported."""


class IntegrityError(DatabaseError):
    """PEP 249: a row breaks a constraint, such as NOT NULL."""


class CtsqlError(DatabaseError):
    """An error with a condition.

    Attributes:
        condition: the stable public name, for example ``UNKNOWN_RELATION``.
        given: the parameters of its texts, for example ``{"name": "t"}``.
        sqlstate: five characters, after PostgreSQL if it has one.
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
    """Existing, missing, owned or used objects prevent the statement."""


class NotSupported(CtsqlError, NotSupportedError):
    """Refused by name, by design or until a later version."""


class CommitLost(CtsqlError, OperationalError):
    """Another process committed first; this commit did not happen."""


class UpperMismatch(CommitLost):
    """Another writer has moved a job's upper, or there would be a gap; nothing was changed."""

    @property
    def current(self) -> int:
        """The upper of the job."""
        return int(str(self.given["current"]))

    @property
    def expected(self) -> int:
        """The upper that the write expected."""
        return int(str(self.given["expected"]))


class CommitUnknown(CtsqlError, OperationalError):
    """The commit may or may not have happened; read again before anything else."""


class EnvironmentProblem(CtsqlError, OperationalError):
    """Java, the network, the disk or permissions prevent the work."""


class DataError(CtsqlError, DatabaseError):
    """A row cannot be computed; PEP 249's ``DataError``."""


class InternalError(CtsqlError, DatabaseError):
    """A defect of ctsql: an invariant does not hold; PEP 249's ``InternalError``."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition; ``{names}`` in its texts are parameters, a whole detail or hint is optional."""

    name: str
    sqlstate: str
    kind: type[CtsqlError]
    message: str
    detail: str | None = None
    hint: str | None = None

    @property
    def parameters(self) -> frozenset[str]:
        """The names that :func:`error` takes."""
        templates = (self.message, self.detail or "", self.hint or "")
        fields = (field for t in templates for _, field, _, _ in string.Formatter().parse(t))
        return frozenset(field for field in fields if field)

    @property
    def optional(self) -> frozenset[str]:
        """The parameters that may be omitted."""
        whole = {"{detail}", "{why}", "{hint}"} & {self.detail, self.hint}
        return frozenset(text[1:-1] for text in whole if text)


_CLASSES = {
    kind.__name__: kind
    for kind in (
        CatalogError, CommitLost, CommitUnknown, DataError, EnvironmentProblem, InternalError,
        NotSupported, StatementError, UpperMismatch,
    )
}  # fmt: skip


def _conditions(text: str) -> Iterator[Condition]:
    """The conditions of a text, in the form that :mod:`ctsql.catalog.conditions` describes."""
    for entry in re.split(r"\n(?! )", text.strip()):
        head, *lines = re.sub(r"\n      +", " ", entry).split("\n    ")
        name, sqlstate, kind, *given = head.split()
        message, *others = lines
        fixed = dict(line.split(maxsplit=1) for line in others)
        detail = next((t for t in given if t in ("{detail}", "{why}")), fixed.get("DETAIL"))
        hint = "{hint}" if "{hint}" in given else fixed.get("HINT")
        yield Condition(name, sqlstate, _CLASSES[kind], message, detail, hint)


CONDITIONS = {c.name: c for text in (STATEMENTS, OBJECTS, RUNNING) for c in _conditions(text)}
"""All conditions by name."""


def error(
    condition: str,
    *,
    span: Span | None = None,
    cause: BaseException | None = None,
    **parameters: object,
) -> CtsqlError:
    """Build the error of a condition; the caller raises it.

    Args:
        span: the piece of the user's text at fault. cause: becomes ``__cause__``.
        **parameters: those of the condition's templates.

    Raises:
        KeyError: no such condition. ValueError: the parameters are not the templates'.
    """
    row = CONDITIONS[condition]
    if not row.parameters - row.optional <= parameters.keys() <= row.parameters:
        raise ValueError(f"{condition} takes {sorted(row.parameters)}, given {sorted(parameters)}")
    texts = dict.fromkeys(row.optional, "") | parameters
    problem = row.kind(
        row.name,
        row.sqlstate,
        row.message.format(**texts),
        detail=(row.detail or "").format(**texts).strip() or None,
        hint=(row.hint or "").format(**texts).strip() or None,
        span=span,
        given=parameters,
    )
    problem.__cause__ = cause
    return problem


def capitalised(text: str) -> str:
    """A text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def sentence_of(problem: CtsqlError) -> str:
    """The message of an error as a sentence."""
    return f"{capitalised(problem.message)}."


RESTORE = "Use the version of ctsql that wrote it, or restore the warehouse's _ctsql/catalog table"
"""What to do with an unreadable entry of the catalog; the caller completes the sentence."""


class suppress_conditions(AbstractContextManager[None]):
    """Ends its block at an error with one of these conditions, like ``contextlib.suppress``."""

    def __init__(self, *conditions: str) -> None:
        self._conditions = conditions

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> bool:
        return isinstance(problem, CtsqlError) and problem.condition in self._conditions


def not_readable(what: str, problem: Exception, hint: str) -> CtsqlError:
    """A STORED_DATA_INVALID for unreadable stored data; the caller raises it."""
    detail = f"{type(problem).__name__}: {problem}."
    return error("STORED_DATA_INVALID", what=what, detail=detail, hint=hint, cause=problem)


def bad_option(
    span: Span | None, option: str, detail: str, *, value: str = "", hint: str = ""
) -> CtsqlError:
    """An INVALID_OPTION; ``value`` is what was found, or else the text of the place."""
    value_text = value or (span.text if span else "")
    return error(
        "INVALID_OPTION", span=span, option=option, value=value_text, detail=detail, hint=hint
    )


def broken(invariant: str, detail: str) -> CtsqlError:
    """An INTERNAL_ERROR for a broken invariant; ``detail``: the case. The caller raises it."""
    return error("INTERNAL_ERROR", invariant=invariant, detail=detail)


def unknown_relation(
    name: object, hint: str, span: Span | None = None, *, kind: str = "relation"
) -> CtsqlError:
    """An UNKNOWN_RELATION for an expected kind; the caller raises it."""
    return error("UNKNOWN_RELATION", span=span, kind=kind, name=str(name), hint=hint)


def out_of_range(
    relation: object, time: int, detail: str, hint: str, span: Span | None
) -> CtsqlError:
    """An AS_OF_OUT_OF_RANGE for a relation that has no contents at a T; the caller raises it."""
    name = str(relation)
    return error(
        "AS_OF_OUT_OF_RANGE", span=span, time=time, relation=name, detail=detail, hint=hint
    )


def type_changed(column: str, relation: object, before: str, now: str) -> CtsqlError:
    """A COLUMN_TYPE_CHANGED; the caller raises it."""
    name = str(relation)
    return error("COLUMN_TYPE_CHANGED", column=column, relation=name, before=before, now=now)


def misuse(message: str, detail: str = "") -> CtsqlError:
    """An INVALID_USAGE: wrong use of the Python interface or the command line; to be raised."""
    return error("INVALID_USAGE", message=message, detail=detail)


def invalid(span: Span, message: str, detail: str = "", hint: str = "") -> CtsqlError:
    """An INVALID_STATEMENT at a place; the caller raises it."""
    return error("INVALID_STATEMENT", span=span, message=message, detail=detail, hint=hint)


def not_supported(span: Span | None, what: str, *, why: str = "", hint: str = "") -> CtsqlError:
    """A NOT_SUPPORTED at a place; the caller raises it."""
    return error("NOT_SUPPORTED", span=span, what=what, why=why, hint=hint)


def nested_too_deeply(span: Span | None) -> CtsqlError:
    """A NOT_SUPPORTED for a statement deeper than the stack of ctsql or of Spark."""
    hint = "Divide it: compute a part of it in a view, or in a subquery behind WITH."
    return not_supported(span, "nesting as deep as in this statement", hint=hint)


def check_text(text: str, what: str) -> None:
    """Refuse half of a surrogate pair, which is no UTF-8 text: INVALID_USAGE."""
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        detail = f"U+{ord(text[problem.start]):04X} is not a character."
        raise misuse(f"{what} is not text", detail) from problem


@dataclass(frozen=True, slots=True)
class Declined:
    """The function did nothing; the caller uses another way."""

    reason: str  # the reason: a sentence for developers, or a code if users see it
    detail: str = ""  # for example, which table
    span: Span | None = None  # the responsible part of a definition
