"""Plays scenarios through the public interface, and compares rows as multisets."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log import clock
from ctsql.runtime.spark.versions import as_text, at_least
from tests.helpers.clock_ahead import Clock
from tests.scenarios.scenario_text import (
    Ahead,
    Connect as Switch,
    Query,
    Refusal,
    Remember,
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
    ahead = Clock()
    with mock.patch.object(clock, "now_ms", ahead.now_ms):
        _play(scenario, connect, ahead)


def _play(scenario: Scenario, connect: Connect, ahead: Clock) -> None:
    open_ones, now = {"first": connect()}, "first"
    times: dict[str, int] = {}
    for line, step in zip(scenario.lines, scenario.steps, strict=True):
        con, at = open_ones[now], f"{scenario.name}.slt:{line}"
        match step:
            case Statement(sql, status):
                told = con.execute(_with_times(sql, times)).status
                assert status in (None, told), f"{at}: {told}"
            case Query(sql, rows):
                held = con.execute(_with_times(sql, times)).fetchall()
                found = [tuple(map(as_written, row)) for row in held]
                assert_rows(found, rows, f"{at}: {sql}")
            case Refusal(sql, condition, _, parts):
                refused = str(expect_error(con, _with_times(sql, times), condition))
                assert [part for part in parts if part not in refused] == [], f"{at}: {refused}"
            case Restart():
                con.close()
                open_ones[now] = connect()
            case Switch(name):
                now = name
                if name not in open_ones:
                    open_ones[name] = connect()
            case Remember(name):
                times[name] = con.now()
            case Sleep(seconds):
                time.sleep(seconds)
            case Ahead(ms):
                ahead.ahead = ms
            case Require(release) if not at_least(*release):
                pytest.skip(f"{at}: the rest is of Spark {as_text(release)}")


def _with_times(sql: str, times: Mapping[str, int]) -> str:
    """A text with the Ts in it that were given names."""
    return re.sub(r"\$(\w+)", lambda name: str(times.get(name[1], name[0])), sql)


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
    assert (missing, surplus) == ([], []), f"{at}: {missing} missing, {surplus} too many"


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
