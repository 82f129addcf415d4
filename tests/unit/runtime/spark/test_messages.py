"""What becomes of Spark's messages: by its own list of them, and by values that look like marks."""

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from ctsql.runtime.spark.failures.messages import (
    Throwable,
    as_message,
    data_error,
    name_clocks,
    plain_message,
)

DECIMAL = (
    "[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION]  -999.99 cannot be represented as Decimal(4, 1)."
    ' If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error, and return NULL'
    " instead. SQLSTATE: 22003\n== SQL (line 1, position 8) ==\nSELECT cast(-999.99\n       ^^^^"
)
MESSAGES = [
    (DECIMAL, "-999.99 cannot be represented as Decimal(4, 1)."),
    (
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return"
        ' NULL instead. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error.'
        " SQLSTATE: 22012",
        "Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead.",
    ),
    (
        '[DELTA_CAST_OVERFLOW_IN_TABLE_WRITE] Failed to write a value of "DOUBLE" type into the'
        ' "INT" type column `v` due to an overflow.\nUse `try_cast` on the input value.\nIf'
        " necessary, set spark.sql.storeAssignmentPolicy to LEGACY to bypass this error. For more"
        " information see the docs.",
        'Failed to write a value of "DOUBLE" type into the "INT" type column `v` due to an'
        " overflow. Use `try_cast` on the input value.",
    ),
    ("[A.B] No such column. SQLSTATE: 42703; line 1 pos 7;\n'Project [x]", "No such column."),
    ("It failed\n\nJVM stacktrace:\njava.lang.X: y", "It failed"),
    # Values of rows that look like what is cut.
    ("[C] The value 'a; line 1 pos 3 b' is bad. SQLSTATE: 22018", "The value 'a; line 1 pos 3 b'"),
    ("[C] The value 'a SQLSTATE: 12345 b' is bad.", "The value 'a SQLSTATE: 12345 b' is bad."),
    ("To do it set spark.sql.x", "To do it set spark.sql.x"),
]


def templates() -> Iterator[tuple[str, str]]:
    """Each condition of Spark's with its message, whose blanks are filled."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-common-utils_2*.jar")
    with zipfile.ZipFile(jar) as archive:
        known = json.loads(archive.read("error/error-conditions.json"))
    for name, condition in known.items():
        below = condition.get("subClass", {})
        for key, sub in {"": {"message": []}, **below}.items():
            text = " ".join("\n".join(m) for m in (condition["message"], sub["message"]))
            filled = re.sub(r"<\w*[cC]onf\w*>", '"spark.sql.some.setting"', text)
            filled = filled.replace("<alternative>", " Use try_add.")
            yield f"{name}.{key}".rstrip("."), re.sub(r"<(\w+)>", r"'\1'", filled).strip()


@pytest.mark.parametrize(("text", "begins"), MESSAGES)
def test_a_message(text: str, begins: str) -> None:
    """A message ends where its own sentences end; a value in it may be any text."""
    assert plain_message(text).startswith(begins)


CLOCKS = [
    ('cannot resolve "(id > timestamp_millis(0))"', 'cannot resolve "(id > now())"'),
    ('"(CAST(timestamp_millis(17) AS DATE) > d)"', '"(current_date() > d)"'),
    ('"CAST(timestamp_millis(5) AS TIMESTAMP_NTZ)"', '"localtimestamp()"'),
    ('"timestamp_millis(id)"', '"timestamp_millis(id)"'),
]


@pytest.mark.parametrize(("text", "expected"), CLOCKS)
def test_clocks_are_named(text: str, expected: str) -> None:
    """A message shows the call that was typed, not the T that stands for it."""
    assert name_clocks(text) == expected


def test_every_message_of_sparks() -> None:
    """What is left are whole sentences; only advice on settings and links are left out."""
    count = cut = 0
    for name, text in templates():
        count += 1
        given = f"[{name}] {text} SQLSTATE: 22000\n== SQL (line 1, position 8) ==\nSELECT 1"
        kept = plain_message(given)
        sentences = [re.sub(r"\s+", " ", s) for s in re.split(r"(?<=[.!?])\s+", text)]
        left_out = [s for s in sentences if s not in kept]
        assert kept == " ".join(s for s in sentences if s in kept), name
        assert all("spark." in s or s.startswith("For more") for s in left_out), (
            f"{name}: {left_out}"
        )
        assert "to bypass this error" not in kept, name
        assert kept or not text, name
        cut += bool(left_out)
    assert count > 1500
    assert cut > 10


CASES = [
    ("22018", "CAST_INVALID_INPUT", False, True),
    ("22001", "DELTA_EXCEED_CHAR_VARCHAR_LIMIT", False, True),
    ("23502", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", False, True),
    ("21000", "SCALAR_SUBQUERY_TOO_MANY_ROWS", False, True),
    ("21S01", "INSERT_COLUMN_ARITY_MISMATCH", True, False),
    ("P0001", "USER_RAISED_EXCEPTION", False, True),
    ("54006", "EXCEED_LIMIT_LENGTH", False, True),
    ("54006", "KRYO_BUFFER_OVERFLOW", False, False),
    ("58030", "TASK_WRITE_FAILED", False, False),
    ("42703", "UNRESOLVED_COLUMN.WITH_SUGGESTION", True, False),
    ("42601", "INVALID_FORMAT.MISMATCH_INPUT", False, True),
    ("", "", False, False),
]


@pytest.mark.parametrize(("state", "condition", "is_analysis", "is_data"), CASES)
def test_a_row_or_not(state: str, condition: str, is_analysis: bool, is_data: bool) -> None:
    """The state and the condition tell whether a row is at fault."""
    thrown = Throwable(
        kind="x.Y", text="t", condition=condition, state=state, is_analysis=is_analysis
    )
    assert thrown.is_data_error is is_data


def test_the_wrapper_is_not_the_reason() -> None:
    """Of a chain the innermost error of a row is told, below and above what has no condition."""
    wrapper = Throwable(kind="w", text="Task failed", condition="TASK_WRITE_FAILED", state="58030")
    row = Throwable(
        kind="r", text="bad row", condition="MALFORMED_RECORD_IN_PARSING", state="22023"
    )
    assert data_error([wrapper, row, Throwable(kind="JsonParseException", text="token")]) is row
    assert data_error([wrapper]) is None
    overflow = Throwable(kind="java.lang.ArithmeticException", text="integer overflow")
    assert data_error([wrapper, overflow]) is overflow


def test_lowered() -> None:
    """A sentence becomes a message; a name at its beginning stays."""
    assert as_message("Division by zero.") == "division by zero"
    assert as_message("NOT NULL constraint violated.") == "NOT NULL constraint violated"
