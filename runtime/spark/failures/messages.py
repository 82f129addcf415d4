"""Reads Spark's and Delta's throwables, and makes their messages readable.

The exception that Python sees is often a wrapper: a failed task says TASK_WRITE_FAILED, and the
row's error is a cause of it. The condition and the SQLSTATE identify an error, not its class:
Python has a dozen of Spark's classes and none of Delta's.

Source: Spark's error-conditions.json and Delta's delta-error-classes.json, whose sentences
    tests/unit/runtime/spark/test_messages.py runs through :func:`plain_message`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ctsql.planner.syntax.ast import ClockKind
from ctsql.runtime.spark.internals.java import causes, is_a, spark_error_utils

# 22 data exception, 23 constraint violation; an analysis that says so looked at values as well.
_DATA_STATES = ("22", "23")
# 21 too many rows, 38 and 39 a function failed, P0 raise_error(); an analysis means the statement.
_RUN_STATES = ("21", "38", "39", "P0")
NESTED_VOID = "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"
_DATA_CONDITIONS = (
    "COLLECTION_SIZE_LIMIT_EXCEEDED",
    "EXCEED_LIMIT_LENGTH",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION",
    "INVALID_FORMAT",
    "USER_RAISED_EXCEPTION",
)
# What the JVM itself throws where Spark computes a value without looking first.
_ARITHMETIC = (
    "java.lang.ArithmeticException",
    "java.lang.NumberFormatException",
    "java.time.DateTimeException",
)
_NO_CONDITION = re.compile(r"Illegal sequence boundaries|CSV header does not conform")
_QUOTED = re.compile(
    r"\n== (?:SQL|DataFrame)\b.*==|\n\s*JVM stacktrace:|;\n'"
    r"|; line \d+ pos \d+(?=;?\n|$)|\s*SQLSTATE: \w{5}(?: \(line \d+, pos \d+\))?(?=[;\n]|$)"
)
_ENDS = re.compile(r"(?<=[.!?])\s+")
_SETTING = re.compile(
    r"(?:If|To|You can|You may|Please) .*\b(?:set|disable|enable)\b.*\bspark(?:\.\w+){2}", re.DOTALL
)
"""A sentence that advises a Spark setting; ctsql sets those."""
_ELSEWHERE = re.compile(r"For more (?:information|details)\b")
"""A sentence that refers to Spark's documentation."""
_CLOCKS = {
    kind: re.compile(re.escape(kind.sql("@")).replace("@", r"-?\d+L?"))
    for kind in (ClockKind.DATE, ClockKind.LOCAL_TIMESTAMP, ClockKind.TIMESTAMP)  # inner ones last
}
_CLOCK_CALLS = {
    ClockKind.DATE: "current_date()",
    ClockKind.LOCAL_TIMESTAMP: "localtimestamp()",
    ClockKind.TIMESTAMP: "now()",
}


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a text that a throwable is about; ``text`` if quoted."""

    start: int
    stop: int
    fragment: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Throwable:
    """One throwable; condition and state are empty if it has none."""

    kind: str
    text: str
    condition: str = ""
    state: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    places: Sequence[Place] = ()
    is_analysis: bool = False

    @property
    def is_data_error(self) -> bool:
        """Whether a row's values cause the error."""
        if self.condition == NESTED_VOID:
            return False  # it has the state of data, and is about the type
        if self.condition.startswith(_DATA_CONDITIONS) or self.state.startswith(_DATA_STATES):
            return True
        if self.condition and not self.condition.startswith("_LEGACY_ERROR"):
            return self.state.startswith(_RUN_STATES) and not self.is_analysis
        return self.kind in _ARITHMETIC or _NO_CONDITION.search(self.text) is not None


def thrown_by(problem: PySparkException | Py4JJavaError) -> list[Throwable]:
    """An exception and its causes, outermost first."""
    chain = [_of_java(java) for java in causes(problem)]
    if chain or isinstance(problem, Py4JJavaError):
        return chain
    return [
        Throwable(
            kind=type(problem).__name__,
            text=str(problem),
            condition=problem.getCondition() or "",
            state=problem.getSqlState() or "",
            parameters=problem.getMessageParameters() or {},
        )
    ]


def _of_java(java: JavaObject) -> Throwable:
    """Read a Java throwable, by Spark's help for Python."""
    kinds = (k for k in _ARITHMETIC if is_a(java, k))
    kind = next(kinds, str(java.getClass().getName()))
    text = str(java.getMessage() or "")
    if not is_a(java, "org.apache.spark.SparkThrowable"):
        return Throwable(kind=kind, text=text)
    says = spark_error_utils()
    return Throwable(
        kind=kind,
        text=text,
        condition=says.getCondition(java) or "",
        state=says.getSqlState(java) or "",
        parameters=dict(says.getMessageParameters(java) or {}),
        places=tuple(
            _place(c) for c in says.getQueryContext(java) if c.contextType().toString() == "SQL"
        ),
        is_analysis=is_a(java, "org.apache.spark.sql.AnalysisException"),
    )


def _place(context: JavaObject) -> Place:
    """The place in Spark's SQLQueryContext."""
    text = context.sqlText()
    return Place(
        context.startIndex(),
        context.stopIndex(),
        context.fragment(),
        text.get() if text.isDefined() else "",
    )


def data_error(chain: Sequence[Throwable]) -> Throwable | None:
    """The throwable about a row, if any."""
    return next((throwable for throwable in reversed(chain) if throwable.is_data_error), None)


def plain_message(text: str) -> str:
    """A Spark message without condition, SQLSTATE, quoted text and Spark settings."""
    text = _QUOTED.split(text.strip(), maxsplit=1)[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    sentences = [s for s in _ENDS.split(text) if not (_SETTING.match(s) or _ELSEWHERE.match(s))]
    return re.sub(r"\s+", " ", " ".join(sentences) or text).strip()


_CHECK = re.compile(r"CHECK constraint (\S+) .*violated by row with values:\s*- (.*)", re.DOTALL)


def broken_check(text: str) -> str:
    r"""Delta's message about a row that breaks a CHECK, in fewer words; empty for another message.

    Delta quotes the condition as Spark has rewritten it.

    >>> broken_check("CHECK constraint c (NOT (k > 0)) violated by row with values:\n - k : 0")
    'constraint "c" is broken by a row with k : 0'
    """
    found = _CHECK.search(text)
    if found is None:
        return ""
    values = ", ".join(re.split(r"\n\s*- ", found[2].strip()))
    return f'constraint "{found[1]}" is broken by a row with {values}'


def name_clocks(message: str) -> str:
    """A message with the functions that the user typed, instead of their replacement.

    >>> name_clocks('cannot resolve "(CAST(timestamp_millis(0) AS DATE) > id)"')
    'cannot resolve "(current_date() > id)"'
    """
    for kind, pattern in _CLOCKS.items():
        message = pattern.sub(_CLOCK_CALLS[kind], message)
    return message


def as_message(message: str) -> str:
    """A sentence as a message: lower case unless it begins with a name, no full stop."""
    message = message.rstrip(".")
    if len(message) > 1 and message[0].isupper() and message[1].islower():
        message = message[0].lower() + message[1:]
    return message
