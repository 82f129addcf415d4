"""Plays scenarios through the public interface, and compares rows as multisets."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.spark.versions import as_text, at_least
from tests.scenarios.scenario_text import (
    Query,
    Refusal,
    Require,
    Restart,
    Scenario,
    Sleep,
    Statement,
    as_written,
)

DEFECTS = ("INTERNAL_ERROR", "SPARK_ERROR")
"""Conditions that no statement of a user's may end in."""

Connect = Callable[[], Connection]


def play(scenario: Scenario, connect: Connect) -> None:
    """Run the steps in order; the first that is not as it says fails."""
    con = connect()
    for line, step in zip(scenario.lines, scenario.steps, strict=True):
        match step:
            case Statement(sql):
                con.execute(sql)
            case Query(sql, rows):
                found = [tuple(map(as_written, row)) for row in con.execute(sql).fetchall()]
                assert_rows(found, rows, f"{scenario.name}.slt:{line}: {sql}")
            case Refusal(sql, condition):
                expect_error(con, sql, condition)
            case Restart():
                con.close()
                con = connect()
            case Sleep(seconds):
                time.sleep(seconds)
            case Require(release) if not at_least(*release):
                pytest.skip(f"{scenario.name}.slt:{line}: the rest is of Spark {as_text(release)}")


def expect_error(con: Connection, sql: str, condition: str | None = None) -> CtsqlError:
    """Run a statement that must be refused by name; gives the error."""

    def run() -> None:
        result = con.execute(sql)
        if result.has_rows:
            result.fetchall()

    with pytest.raises(CtsqlError) as caught:
        run()
    refused = caught.value
    assert refused.condition not in DEFECTS, f"{sql}\n{refused}"
    assert condition in (None, refused.condition), f"{sql}\n{refused}"
    return refused


def assert_rows(rows: Iterable[Iterable[Any]], expected: Iterable[Iterable[Any]], at: str) -> None:
    """Compare two multisets of rows."""
    left, right = multiset(rows), multiset(expected)
    missing, surplus = list((right - left).elements()), list((left - right).elements())
    assert (missing, surplus) == ([], []), at


def multiset(rows: Iterable[Iterable[Any]]) -> Counter[Any]:
    """Rows with multiplicities; a number is its value, but -0.0 is not 0 and NaN is NaN."""
    return Counter(tuple(_key(v) for v in row) for row in rows)


def _key(value: Any) -> Any:
    match value:
        case bool() | None | str() | date() | datetime():
            return value
        case float() if repr(value) in ("nan", "-0.0", "inf", "-inf"):
            return repr(value)
        case int() | float() | Decimal():
            return value
        case bytes() | bytearray():
            return bytes(value)
        case Mapping():
            return frozenset((_key(k), _key(v)) for k, v in value.items())
        case Iterable():
            return tuple(_key(v) for v in value)
        case _:
            raise TypeError(f"{type(value).__name__} in a row")
