"""The errors ctsql raises: six classes and one table of conditions.

A class answers one question only: what may the caller do? Everything finer is a condition:
a stable public name with an SQLSTATE, a message, and where one helps a detail and a hint.

    Error                       PEP 249 root
      CtsqlError                condition, sqlstate, message, detail, hint, span
        StatementError          the text is wrong; nothing ran; do not retry   (ProgrammingError)
        CatalogError            the objects are in the way                     (ProgrammingError)
        NotSupported            refused by name, by design or until later      (NotSupportedError)
        CommitLost              another process committed first; ours is not in (OperationalError)
          UpperMismatch         of a writer of jobs
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

from ctsql.catalog.conditions import CONDITIONS as CONDITIONS
from ctsql.catalog.error_classes import (
    CatalogError as CatalogError,
    CommitLost as CommitLost,
    CommitUnknown as CommitUnknown,
    Condition as Condition,
    CtsqlError as CtsqlError,
    DatabaseError as DatabaseError,
    DataError as DataError,
    EnvironmentProblem as EnvironmentProblem,
    Error as Error,
    IntegrityError as IntegrityError,
    InterfaceError as InterfaceError,
    InternalError as InternalError,
    NotSupported as NotSupported,
    NotSupportedError as NotSupportedError,
    OperationalError as OperationalError,
    ProgrammingError as ProgrammingError,
    StatementError as StatementError,
    UpperMismatch as UpperMismatch,
)
from ctsql.catalog.spans import Span


def error(
    condition: str,
    *,
    span: Span | None = None,
    cause: BaseException | None = None,
    **parameters: object,
) -> CtsqlError:
    """Build the error of a condition; the caller raises it.

    Args:
        condition: a name in :data:`CONDITIONS`.
        span: the piece of the user's text at fault, if there is one.
        cause: what it comes from; becomes ``__cause__``.
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
    """A text with its first letter as a capital, and all others as they are."""
    return text[:1].upper() + text[1:]


def sentence_of(problem: CtsqlError) -> str:
    """The message of an error as a sentence."""
    return f"{capitalised(problem.message)}."


RESTORE = "Use the version of ctsql that wrote it, or restore the warehouse's _ctsql/catalog table"
"""What to do with an entry of the catalog that cannot be read; goes on."""


def not_readable(what: str, problem: Exception, hint: str) -> CtsqlError:
    """A STORED_DATA_INVALID for what is stored and cannot be read back; the caller raises it."""
    detail = f"{type(problem).__name__}: {problem}."
    return error("STORED_DATA_INVALID", what=what, detail=detail, hint=hint, cause=problem)


def bad_option(
    span: Span, option: str, detail: str, *, value: str = "", hint: str = ""
) -> CtsqlError:
    """An INVALID_OPTION; ``value`` is what was found, or else the text of the place."""
    value_text = value or span.text
    return error(
        "INVALID_OPTION", span=span, option=option, value=value_text, detail=detail, hint=hint
    )


def broken(invariant: str, detail: str) -> CtsqlError:
    """An INTERNAL_ERROR: what should always hold, and where it does not; the caller raises it."""
    return error("INTERNAL_ERROR", invariant=invariant, detail=detail)


def unknown_relation(
    name: object, hint: str, span: Span | None = None, *, kind: str = "relation"
) -> CtsqlError:
    """An UNKNOWN_RELATION, of the kind that was looked for; the caller raises it."""
    return error("UNKNOWN_RELATION", span=span, kind=kind, name=str(name), hint=hint)


def out_of_range(
    relation: object, time: int, detail: str, hint: str, span: Span | None
) -> CtsqlError:
    """An AS_OF_OUT_OF_RANGE: what cannot be read at a T; the caller raises it."""
    name = str(relation)
    return error(
        "AS_OF_OUT_OF_RANGE", span=span, time=time, relation=name, detail=detail, hint=hint
    )


def type_changed(column: str, relation: object, before: str, now: str) -> CtsqlError:
    """A COLUMN_TYPE_CHANGED; the caller raises it."""
    name = str(relation)
    return error("COLUMN_TYPE_CHANGED", column=column, relation=name, before=before, now=now)


def misuse(message: str, detail: str = "") -> CtsqlError:
    """An INVALID_USAGE: what cannot be asked for like that; the caller raises it."""
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
    """Refuse half of a surrogate pair, which Python has for bytes that are not UTF-8.

    Raises INVALID_USAGE.
    """
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        detail = f"U+{ord(text[problem.start]):04X} is not a character."
        raise misuse(f"{what} is not text", detail) from problem
