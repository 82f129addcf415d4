"""Translates Spark's and Delta's exceptions into errors of ctsql.

Calls into Spark run inside :func:`translate_spark_errors`. The stack trace is kept as
``__cause__``. Spark computes rows long after it read a text, and an error of a row quotes that
text; the last texts are kept to find the place in the user's text.

In Python Delta's conflict classes are siblings, not subclasses of one another, and are raised only
after ``import delta``.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyspark
from delta import exceptions as delta_errors
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from ctsql.catalog.errors import CtsqlError, error, nested_too_deeply, not_supported
from ctsql.catalog.names import did_you_mean, fold, unquote
from ctsql.catalog.reserved_columns import PREFIX
from ctsql.catalog.spans import Span
from ctsql.planner.binding.checks import forbidden_in
from ctsql.planner.syntax import RewrittenText
from ctsql.planner.syntax.tokens.sqltext import usual_mistake
from ctsql.planner.syntax.tokens.tokenizer import tokenise
from ctsql.runtime.spark.failures.messages import (
    NESTED_VOID,
    Place,
    Throwable,
    as_message,
    broken_check,
    data_error,
    name_clocks,
    plain_message,
    thrown_by,
)
from ctsql.runtime.spark.failures.storage_errors import storage_problem
from ctsql.runtime.spark.internals.sessions import function_names
from ctsql.runtime.spark.missing import FAILURES, Missing, missing_of
from ctsql.runtime.spark.versions import TESTED

TEXTS_MAX = 1_000  # the most texts kept; an error of an older one is shown without its place


@dataclass(frozen=True, slots=True)
class SentText:
    """A text that Spark was given, made from the user's text ``within``."""

    spark_text: RewrittenText
    within: Span
    relation_name: Callable[[str], str] | None  # maps ctsql's names in messages to the user's names


class SentTexts:
    """The last texts, as Spark quotes them. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_text: OrderedDict[str, SentText] = OrderedDict()

    def remember(self, text: SentText) -> None:
        """Store a text; of equal texts the last one counts."""
        key = text.spark_text.text
        with self._lock:
            self._by_text[key] = text
            self._by_text.move_to_end(key)
            if len(self._by_text) > TEXTS_MAX:
                self._by_text.popitem(last=False)

    def find(self, text: str) -> SentText | None:
        """The quoted text; None if it is not kept."""
        with self._lock:
            return self._by_text.get(text)


sent_texts = SentTexts()


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
_MAPPED = (
    "Choose another one; a table keeps it with TBLPROPERTIES ('delta.columnMapping.mode' = 'name')."
)
_NO_SOURCE = re.compile(r"Failed to find data source: (\w+)\. .*Please deploy", re.DOTALL)
_PACKAGES = {
    "avro": f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}",
}
_NO_MEMORY = re.compile(
    r"[^\n]*(?:OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|TaskResultLost|driver\.maxResultSize)[^\n]*"
)
_OVERFLOW = re.compile(
    r"^(?:\w+: )?(?:java\.lang\.)?StackOverflowError|\[FAILED_TO_PARSE_TOO_COMPLEX\]", re.MULTILINE
)
_OTHER_BUILD = re.compile(
    r"^(?:\w+: )?(?:java\.lang\.)?((?:NoSuchMethod|NoSuchField|AbstractMethod|IllegalAccess"
    r"|IncompatibleClassChange)Error: [^\n]*)",
    re.MULTILINE,
)
_BUILT_FOR = (
    f"A JAR was built for another Spark than this one. Delta's must name Spark"
    f" {'.'.join(pyspark.__version__.split('.')[:2])}, and SPARK_HOME, if set, PySpark's Spark"
)
_NAMES = re.compile(r"(?:`(?:[^`]|``)*`\.?)+")
_PARTS = re.compile(r"`(?:[^`]|``)*`")
_ROUTINE_CONDITIONS = ("UNRESOLVED_ROUTINE", "ROUTINE_NOT_FOUND")
_PARSE_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_TYPE_CONDITIONS = (
    "DATATYPE_MISMATCH", "INCOMPATIBLE_DATA", "CANNOT_MERGE_INCOM",
    "JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE",
)  # fmt: skip
_NOT_AS_MANY = ("INSERT_COLUMN_ARITY_MISMATCH", "DELTA_INSERT_COLUMN_ARITY_MISMATCH")
_VOID_CONDITIONS = (
    NESTED_VOID,
    "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.STRUCT_ALL_VOID_FIELDS",
    "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS",
)
_ONLY_APPENDS = "delta.appendOnly"
_COLUMN_OF_SCHEMA = re.compile(r"^ \|-- (.+?): ", re.MULTILINE)


def conflict_errors() -> tuple[type[BaseException], ...]:
    """The exceptions that Delta raises if another commit came first."""
    return _CONFLICTS


def is_lost(problem: CtsqlError) -> bool:
    """Whether this process has lost its connection to Spark."""
    error_types = (Py4JNetworkError, ConnectionError)
    return problem.condition == "SPARK_ERROR" and isinstance(problem.__cause__, error_types)


RECORD_CHARS_MAX = 200


@contextmanager
def translate_spark_errors(
    spark_text: RewrittenText | None = None,
    within: Span | None = None,
    relation_name: Callable[[str], str] | None = None,
) -> Iterator[None]:
    """Run calls into Spark; their exceptions become errors of ctsql.

    Args:
        spark_text: the text for Spark, to find the place of an error in it.
        within: the user's text that ``spark_text`` was made from.
        relation_name: maps ctsql's names in messages to the user's names.
    """
    if spark_text is not None and within is not None:
        sent_texts.remember(SentText(spark_text, within, relation_name))
    try:
        yield
    except _CONFLICTS:
        raise
    except (PySparkException, *FAILURES, ConnectionError) as problem:
        missing = missing_of(problem)
        if missing is not None:
            raise lacks(missing) from problem
        if isinstance(problem, PySparkException | Py4JJavaError):
            raise _from_spark(problem, spark_text, within, relation_name) from problem
        if not isinstance(problem, Py4JError | ConnectionError):
            raise
        raise _lost(problem) from problem
    except RecursionError as problem:
        raise nested_too_deeply(within) from problem


def lacks(*missing: Missing, span: Span | None = None) -> CtsqlError:
    """The error for methods that this release of Spark or Delta lacks."""
    return error(
        "SPARK_VERSION",
        span=span,
        version=pyspark.__version__,
        detail="; ".join(map(str, missing)) + ".",
        tested=TESTED,
    )


def _lost(problem: Py4JError | ConnectionError) -> CtsqlError:
    """The error for a call without a JVM, or with another JVM than before."""
    return error(
        "SPARK_ERROR",
        message="the connection to Spark was lost",
        detail=str(problem).splitlines()[0] if str(problem) else "",
        hint="Start again: committed rows are kept, and nothing is written twice.",
    )


def _span(
    throwable: Throwable, spark_text: RewrittenText | None, within: Span | None
) -> Span | None:
    if spark_text is None or within is None:
        return within
    for place in (*throwable.places, *_parse_places(throwable, spark_text.text)):
        start, stop = place.start, place.stop
        if 0 <= start <= stop and spark_text.text[start : stop + 1] == place.fragment:
            first, last = spark_text.origin(start), spark_text.origin(stop) + 1
            if last < first:
                return within  # it covers pieces that stand in another order than the user's
            first = min(max(first, within.start), within.stop)
            return Span(within.source, first, max(first, min(last, within.stop)))
    return within


def _quoted_text(throwable: Throwable) -> SentText | None:
    """The text of ctsql that a throwable quotes."""
    texts = (sent_texts.find(place.text) for place in throwable.places)
    return next((text for text in texts if text is not None), None)


def _parse_places(throwable: Throwable, text: str) -> Iterator[Place]:
    """The place of an error of Spark's parser, by line, column and token."""
    place = _PARSE_PLACE.search(throwable.text)
    token = throwable.parameters.get("error", "").strip("'")
    if place is not None and throwable.condition == "PARSE_SYNTAX_ERROR" and token:
        line, column = map(int, place.groups())
        start = sum(len(before) + 1 for before in text.split("\n")[: line - 1]) + column
        yield Place(start, start + len(token) - 1, token)


def _from_spark(
    problem: PySparkException | Py4JJavaError,
    spark_text: RewrittenText | None,
    within: Span | None,
    relation_name: Callable[[str], str] | None,
) -> CtsqlError:
    chain = thrown_by(problem)
    # A value may contain the text of a disk error: errors of rows come first.
    bad_row = data_error(chain)
    throwable = bad_row or chain[0]
    # Rows are computed after their text was read, inside another call.
    quote = None if spark_text is not None else _quoted_text(throwable)
    if quote is not None:
        spark_text, within, relation_name = quote.spark_text, quote.within, quote.relation_name
    span = _span(throwable, spark_text, within)
    message = re.sub(r"`?__ct_r\d+\w*`?\.?", _namer(relation_name), plain_message(throwable.text))
    if within is not None and "timestamp_millis" not in within.text.lower():
        message = name_clocks(message)
    if bad_row is not None:
        message = broken_check(bad_row.text) or as_message(message)
        return error("DATA_ERROR", span=span, message=message, detail=_place(chain))
    text = "\n".join(f"{t.kind.rpartition('.')[2]}: {t.text}" for t in chain)
    storage = storage_problem(text)
    if storage is not None:
        return storage
    if _OVERFLOW.search(text) is not None:
        return nested_too_deeply(span)
    if "CANCELLED" in throwable.condition or "cancelled" in text:
        return error("STATEMENT_CANCELLED", span=span)
    used_up = _NO_MEMORY.search(text)
    if used_up is not None:
        return error("OUT_OF_MEMORY", span=span, detail=used_up[0][:400])
    other_build = _OTHER_BUILD.search(text)
    if other_build is not None:
        return lacks(Missing("", f"{_BUILT_FOR}: {other_build[1][:400]}", ""), span=span)
    missing = _NO_SOURCE.match(throwable.text)
    if missing is not None:
        what, package = f'data source "{missing[1]}"', _PACKAGES.get(missing[1], "")
        hint = f"Give Spark its package, in spark-defaults.conf: spark.jars.packages {package}"
        return not_supported(span, what, why="Spark has no package for it.", hint=hint)
    refusal = _about_the_statement(throwable, span, within, as_message(message))
    if refusal is not None:
        return refusal
    root = next((t for t in reversed(chain) if t.text), throwable)
    return error(
        "SPARK_ERROR",
        span=span,
        message=as_message(plain_message(root.text)) or "Spark failed",
        detail=text.splitlines()[0] if len(chain) > 1 else "",
    )


def _place(chain: Sequence[Throwable]) -> str:
    """The record and the file of an error, if any."""
    # A failed task names the folder that it was writing to.
    causes = [t for t in chain if t.condition != "TASK_WRITE_FAILED"]
    parameters = {name: value for t in causes for name, value in t.parameters.items()}
    if "path" not in parameters:
        return ""
    record = f": {parameters['badRecord'][:RECORD_CHARS_MAX]}" if "badRecord" in parameters else ""
    return f"It is in the file {parameters['path']}{record}"


def _last_part(name: str) -> str:
    """The last part of a qualified name as Spark writes it.

    >>> _last_part("`t`.`a.b`"), _last_part("`one``two`"), _last_part("plain")
    ('a.b', 'one`two', 'plain')
    """
    return _parts(name)[-1]


def _column_counts(throwable: Throwable) -> tuple[int, int] | None:
    """Given and wanted numbers of columns, if that is the error."""
    parameters = throwable.parameters
    if throwable.condition == "DELTA_METADATA_MISMATCH":
        table, _, rows = throwable.text.partition("Data schema:")
        counts = len(_COLUMN_OF_SCHEMA.findall(rows)), len(_COLUMN_OF_SCHEMA.findall(table))
        return counts if counts[0] > counts[1] else None
    if not throwable.condition.startswith(_NOT_AS_MANY):
        return None
    if "numColumns" in parameters:
        return int(parameters["insertColumns"]), int(parameters["numColumns"])
    sides = (_NAMES.findall(parameters.get(key, "")) for key in ("dataColumns", "tableColumns"))
    rows_count, table_count = (len(names) for names in sides)
    return rows_count, table_count


def _parts(name: str) -> list[str]:
    """The parts of a name as Spark writes it: each in backticks."""
    return [unquote(part) for part in _PARTS.findall(name)] or name.split(".")


def _unknown_column(
    name: list[str], proposals: Sequence[list[str]], span: Span | None
) -> CtsqlError:
    """The error of an unknown column; ``proposals`` are Spark's, in parts."""
    column = name[-1]
    visible = [parts for parts in proposals if not parts[-1].startswith(PREFIX)]
    proposals = [[part for part in parts if not part.startswith(PREFIX)] for parts in visible]
    columns = [parts[-1] for parts in proposals]
    hint = did_you_mean(column, columns)
    others = [".".join(parts) for parts in proposals if fold(parts[-1]) == fold(column)]
    if len(name) > 1 and others:  # another relation has the column
        quoted = " or ".join(f'"{other}"' for other in others)
        hint = f"Did you mean {quoted}?"
        column, columns = ".".join(name), [".".join(parts) for parts in proposals]
    detail = f"Columns like it: {', '.join(columns)}." if columns else ""
    return error("UNKNOWN_COLUMN", span=span, column=column, detail=detail, hint=hint)


def _about_the_statement(
    throwable: Throwable, span: Span | None, within: Span | None, message: str
) -> CtsqlError | None:
    """The error of a statement that Spark refuses; None for another kind."""
    condition, parameters = throwable.condition, throwable.parameters
    if condition.startswith("UNRESOLVED_COLUMN"):
        name, proposals = parameters.get("objectName", ""), parameters.get("proposal", "")
        return _unknown_column(_parts(name), list(map(_parts, _NAMES.findall(proposals))), span)
    if condition == "AMBIGUOUS_REFERENCE":
        names = parameters.get("referenceNames", "").strip("[]").replace("`", "")
        candidates = re.sub(rf"\b{PREFIX}\w+\.", "", names)
        column = _last_part(parameters.get("name", ""))
        return error("AMBIGUOUS_COLUMN", span=span, column=column, candidates=candidates)
    if condition.startswith(_ROUTINE_CONDITIONS):
        name = _last_part(parameters.get("routineName", ""))
        hint = did_you_mean(name, function_names())
        return error("UNKNOWN_FUNCTION", span=span, function=name, hint=hint)
    count = _column_counts(throwable)
    if count is not None:
        given_count, wanted_count = count
        message = f"the rows have {given_count} column(s), {wanted_count} are to be filled"
        hint = "Name the columns that they are for: INSERT INTO t (a, b) ..."
        return error("COLUMN_COUNT_MISMATCH", span=span, message=message, hint=hint)
    if condition.startswith(_VOID_CONDITIONS):
        void = parameters.get("columName") or parameters.get("columnPath")
        what = f'Column "{void}" holds' if void else "The columns hold"
        hint = f"{what} NULLs without a type. Give them one, as in a query: CAST(NULL AS STRING)."
        return error("INVALID_COLUMN_TYPE", span=span, type="void", hint=hint)
    if condition == "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES":
        names = parameters.get("invalidColumnNames", "")
        detail = f"{forbidden_in(names)} {_MAPPED}"
        return error("INVALID_NAME", span=span, name=names, detail=detail)
    if condition == "DELTA_UNSUPPORTED_SUBQUERY":
        what = f"a subquery in the {parameters.get('operation', 'statement')}"
        hint = "Join what it reads in USING: MERGE INTO t USING (SELECT ...) AS s ON ..."
        return not_supported(span, what, hint=hint)
    if condition == "DELTA_CANNOT_MODIFY_APPEND_ONLY":
        what, why = (
            "changing or deleting rows of this table",
            f"Its property {_ONLY_APPENDS} is true.",
        )
        hint = f"Type in Spark: ALTER TABLE ... SET TBLPROPERTIES ('{_ONLY_APPENDS}' = 'false')"
        return not_supported(span, what, why=why, hint=hint)
    if condition.startswith("PARSE_") or condition == "INVALID_SQL_SYNTAX":
        known_mistake = None
        if within is not None and span is not None:
            known_mistake = usual_mistake(tokenise(within), span.start)
        if known_mistake is not None:
            return known_mistake
        return error("SYNTAX_ERROR", span=span, message=message)
    if condition.startswith(_TYPE_CONDITIONS):
        return error("TYPE_MISMATCH", span=span, message=message)
    if throwable.is_analysis:
        return error("INVALID_STATEMENT", span=span, message=message)
    return None


def _namer(relation_name: Callable[[str], str] | None) -> Callable[[re.Match[str]], str]:
    def show(match: re.Match[str]) -> str:
        if relation_name is None:
            return ""
        return relation_name(match.group(0).strip("`."))

    return show
