"""The classes of errors, and what a condition is. See :mod:`ctsql.catalog.errors`."""

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
        message: one short line.
        detail: facts, or None.
        hint: what to do, or None.
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
    """Another process committed first; this commit is not in."""


class UpperMismatch(CommitLost):
    """Another writer has moved a job's upper, or there would be a gap; nothing was changed."""

    @property
    def current(self) -> int:
        """The upper that is."""
        return int(str(self.given["current"]))

    @property
    def expected(self) -> int:
        """The upper that the write expected."""
        return int(str(self.given["expected"]))


class CommitUnknown(CtsqlError, OperationalError):
    """The commit may or may not be in; read again before anything else."""


class EnvironmentProblem(CtsqlError, OperationalError):
    """Java, the network, the disk or permissions are in the way."""


class DataError(CtsqlError, DatabaseError):
    """A row cannot be computed; PEP 249's ``DataError``."""


class InternalError(CtsqlError, DatabaseError):
    """A defect of ctsql: an invariant does not hold; PEP 249's ``InternalError``."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the table; ``{names}`` in the templates are the parameters of :func:`error`.

    A parameter that is a whole detail or hint may be left out, and then so is the line.
    """

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
        """Those of them that may be left out."""
        whole = {"{detail}", "{why}", "{hint}"} & {self.detail, self.hint}
        return frozenset(text[1:-1] for text in whole if text)
