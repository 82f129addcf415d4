"""Spark's and Delta's exceptions as errors of ours.

Every call into Spark that can fail for a reason a person should read runs inside
:func:`converted`. A stack trace is never what a person sees first; it stays as ``__cause__``.

Trap: in Python Delta's conflict classes are siblings, not subclasses of one another, so they are
listed one by one; and they are only raised as such after ``import delta``.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from delta import exceptions as delta_errors
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.spans import Span

_CONFLICTS = (
    delta_errors.ConcurrentAppendException,
    delta_errors.ConcurrentDeleteDeleteException,
    delta_errors.ConcurrentDeleteReadException,
    delta_errors.ConcurrentTransactionException,
    delta_errors.ConcurrentWriteException,
    delta_errors.DeltaConcurrentModificationException,
    delta_errors.MetadataChangedException,
    delta_errors.ProtocolChangedException,
)
FILE_MISSING = "a file of the table is missing"
NOT_ALLOWED = "a file may not be written or read"
NO_CONNECTOR = "Spark has no connector for such a location"
_CONNECTOR_HINT = "Give Spark the store's connector: spark.jars.packages in spark-defaults.conf."
_DATA_STATES = ("22", "23")
_ROUTINE_CONDITIONS = ("UNRESOLVED_ROUTINE", "ROUTINE_NOT_FOUND")


def conflicts() -> tuple[type[BaseException], ...]:
    """The exceptions by which Delta says that another commit came first."""
    return _CONFLICTS


def is_lost(problem: CtsqlError) -> bool:
    """Is Spark gone, so that nothing of this process will work again?"""
    gone = (Py4JNetworkError, ConnectionError)
    return problem.condition == "SPARK_ERROR" and isinstance(problem.__cause__, gone)


class Located(Protocol):
    """Text given to Spark that knows where its characters come from (``Rewritten``)."""

    @property
    def text(self) -> str:
        """What Spark was given."""

    def origin(self, offset: int) -> int:
        """The offset in the user's text of an offset in ``text``."""


@contextmanager
def converted(
    sent: Located | None = None,
    within: Span | None = None,
    relation_name: Callable[[str], str] | None = None,
) -> Iterator[None]:
    """Run calls into Spark; what they raise becomes an error of ours.

    Args:
        sent: the text Spark was given, to find the place of a mistake in it.
        within: the user's text that ``sent`` was made from.
        relation_name: gives back the user's name for a name of ours in a message.
    """
    try:
        yield
    except _CONFLICTS:
        raise
    except PySparkException as problem:
        raise _from_spark(problem, sent, within, relation_name) from problem
    except Py4JJavaError as problem:
        raise _from_java(problem) from problem
    except (Py4JNetworkError, Py4JError, ConnectionError) as problem:
        raise error(
            "SPARK_ERROR",
            message="the connection to Spark was lost",
            detail=str(problem).splitlines()[0] if str(problem) else "",
            hint="Start again: what was committed is there, and nothing is written twice.",
        ) from problem


def plain_message(text: str) -> str:
    """A Spark message without its condition, SQLSTATE and the text it quotes."""
    text = re.split(r"\n== (?:SQL|DataFrame)|\n\s*JVM stacktrace|;\n'|; line \d+ pos \d+", text)[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text.strip())
    text = re.split(r"\s*SQLSTATE: \w{5}", text)[0]
    text = re.sub(r"\s*If necessary set \S+ to \S+ to bypass this error\.?", "", text)
    return re.sub(r"\s+", " ", text).strip()


def _span(problem: PySparkException, sent: Located | None, within: Span | None) -> Span | None:
    if sent is None or within is None:
        return within
    for context in problem.getQueryContext() or []:
        start, stop = context.startIndex(), context.stopIndex()
        if 0 <= start <= stop and sent.text[start : stop + 1] == context.fragment():
            first, last = sent.origin(start), sent.origin(stop) + 1
            first = min(max(first, within.start), within.stop)
            return Span(within.source, first, max(first, min(last, within.stop)))
    return within


def _from_spark(
    problem: PySparkException,
    sent: Located | None,
    within: Span | None,
    relation_name: Callable[[str], str] | None,
) -> CtsqlError:
    condition = problem.getCondition() or ""
    state = problem.getSqlState() or ""
    given = problem.getMessageParameters() or {}
    span = _span(problem, sent, within)
    message = plain_message(str(problem))
    message = re.sub(r"`?__ct_r\d+\w*`?\.?", _shown(relation_name), message)
    storage = _storage_problem(str(problem))
    if storage is not None:
        return storage
    if condition.startswith("UNRESOLVED_COLUMN"):
        column = given.get("objectName", "").split(".")[-1].strip("`")
        known = re.findall(r"`([^`]+)`(?=,|$)", given.get("proposal", ""))
        return error(
            "UNKNOWN_COLUMN",
            span=span,
            column=column,
            detail=f"Columns here: {', '.join(known)}." if known else "",
            hint=did_you_mean(column, known),
        )
    if condition == "AMBIGUOUS_REFERENCE":
        return error(
            "AMBIGUOUS_COLUMN",
            span=span,
            column=given.get("name", "").strip("`"),
            candidates=given.get("referenceNames", "").strip("[]").replace("`", ""),
        )
    if condition.startswith(_ROUTINE_CONDITIONS):
        name = given.get("routineName", "").replace("`", "").split(".")[-1]
        return error("UNKNOWN_FUNCTION", span=span, function=name, hint="")
    if condition.startswith("PARSE_") or condition == "INVALID_SQL_SYNTAX":
        return error("SYNTAX_ERROR", span=span, message=_lower(message), detail="", hint="")
    if condition.startswith(("DATATYPE_MISMATCH", "INCOMPATIBLE_DATA", "CANNOT_MERGE_INCOM")):
        return error("TYPE_MISMATCH", span=span, message=_lower(message), detail="", hint="")
    if "CANCELLED" in condition or "cancelled" in message:
        return error("STATEMENT_CANCELLED", span=span)
    if state.startswith(_DATA_STATES) or condition in ("USER_RAISED_EXCEPTION",):
        return error("DATA_ERROR", span=span, message=_lower(message), detail="", hint="")
    if type(problem).__name__ in ("AnalysisException", "ParseException"):
        return error("INVALID_STATEMENT", span=span, message=_lower(message), detail="", hint="")
    return error("SPARK_ERROR", span=span, message=_lower(message), detail="", hint="")


def _shown(relation_name: Callable[[str], str] | None) -> Callable[[re.Match[str]], str]:
    def show(match: re.Match[str]) -> str:
        if relation_name is None:
            return ""
        return relation_name(match.group(0).strip("`."))

    return show


def _from_java(problem: Py4JJavaError) -> CtsqlError:
    chain: list[str] = []
    java = problem.java_exception
    while java is not None and len(chain) < 8:
        chain.append(f"{java.getClass().getSimpleName()}: {java.getMessage()}")
        java = java.getCause()
    text = "\n".join(chain)
    if "cancelled" in text:
        return error("STATEMENT_CANCELLED")
    storage = _storage_problem(text)
    if storage is not None:
        return storage
    violated = re.search(r"\[DELTA_\w*(?:CONSTRAINT|INVARIANT)\w*\]\s*(.*)", text)
    if violated:
        message = _lower(plain_message(violated.group(1)))
        return error("DATA_ERROR", message=message, detail="", hint="")
    root = plain_message(chain[-1].split(": ", 1)[-1]) if chain else str(problem)
    return error(
        "SPARK_ERROR",
        message=_lower(root.splitlines()[0] if root else "Spark failed"),
        detail=chain[0].splitlines()[0] if chain else "",
        hint="",
    )


# What a store said; the first that matches is taken. Texts of Linux, Hadoop 3.4 and Delta 4.4.
_STORAGE = (
    ("No space left on device", "the disk is full", "Free some space and run it again."),
    ("Disk quota exceeded", "the disk's quota is used up", "Free some space and run it again."),
    ("File too large", "a file may not grow any more", "Check the limits: ulimit -f"),
    ("Read-only file system", "the disk is read-only", "Check how it is mounted."),
    ("Permission denied", NOT_ALLOWED, "Check the permissions."),
    ("Operation not permitted", NOT_ALLOWED, "Check the permissions."),
    ("AccessControlException", NOT_ALLOWED, "Check the permissions."),
    ("AccessDenied", NOT_ALLOWED, "Check the permissions."),
    ("ot a directory", "a file is where a folder should be", "Check the path."),
    ("Input/output error", "the disk could not be read or written", "Check the disk."),
    ("Too many open files", "too many files are open", "Raise the limit: ulimit -n"),
    ("No FileSystem for scheme", NO_CONNECTOR, _CONNECTOR_HINT),
    ("ClassNotFoundException: Class org.apache.hadoop.fs", NO_CONNECTOR, _CONNECTOR_HINT),
    ("UnknownHostException", "the store's host is not known", "Check the URI and the network."),
    ("DELTA_CANNOT_CREATE_LOG_PATH", NOT_ALLOWED, "Check the permissions."),
    ("Mkdirs failed", NOT_ALLOWED, "Check the permissions."),
    ("FileNotFoundException", FILE_MISSING, "See the detail."),
    ("FILE_NOT_EXIST", FILE_MISSING, "See the detail."),
    ("PATH_NOT_FOUND", FILE_MISSING, "See the detail."),
)
_CHECKSUM = re.compile(r"Checksum error: (\S+)")
_NEWER = re.compile(r"\[DELTA_(?:UNSUPPORTED_FEATURES\w*|INVALID_PROTOCOL_VERSION)\]\s*(.*)")


def _storage_problem(text: str) -> CtsqlError | None:
    damaged = _CHECKSUM.search(text)
    if damaged:
        return damaged_file(damaged.group(1), "its contents do not match its checksum")
    newer = _NEWER.search(text)
    if newer:
        return error(
            "STORED_DATA_INVALID",
            what="a table of a newer Delta Lake",
            detail=newer.group(1)[:400],
            hint="Use a ctsql for that Delta Lake, if there is one: pip install --upgrade ctsql",
        )
    for sign, message, hint in _STORAGE:
        if sign in text:
            line = next(line for line in text.splitlines() if sign in line)
            return error("STORAGE_ERROR", message=message, detail=line.strip()[:400], hint=hint)
    return None


def damaged_file(path: str, how: str) -> CtsqlError:
    """A file of a table that is there and cannot be what was written; the caller raises it."""
    return error(
        "STORED_DATA_INVALID",
        what="a file of a table",
        detail=f"{path}: {how}.",
        hint="Restore the file from a copy and run it again; nothing is written until then.",
    )


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Run Python's own file calls; what the system refuses becomes an error of ours."""
    try:
        yield
    except OSError as problem:
        said = f"{path}: {problem.strerror or problem}"
        found = _storage_problem(said)
        if found is None:
            found = error("STORAGE_ERROR", message=NOT_ALLOWED, detail=said, hint="")
        raise found from problem


def _lower(message: str) -> str:
    """A sentence as a message: first letter small unless it is a name, no full stop."""
    message = message.rstrip(".")
    if len(message) > 1 and message[0].isupper() and message[1].islower():
        message = message[0].lower() + message[1:]
    return message
