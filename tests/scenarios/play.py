"""Plays scenarios: lists of steps through the public interface, one warehouse each.

A step is one of

    {"sql": text}                                          must succeed
    {"expect": {"query": text, "rows": [...]}}             the rows, as a multiset; null is NULL
    {"expect_error": {"sql": text, "about": why}}          must be refused by an error of ours;
                                                           "condition" names which, if given
    {"restart": true}                                      close, and connect again
    {"sleep_seconds": n}
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError

DEFECTS = ("INTERNAL_ERROR", "SPARK_ERROR")
"""Conditions that no statement of a user's may end in."""

Connect = Callable[[], Connection]


@dataclass(frozen=True)
class Scenario:
    """A named list of steps."""

    name: str
    tags: frozenset[str]
    steps: tuple[dict[str, Any], ...]


def load(path: Path) -> list[Scenario]:
    """The scenarios of a JSON file."""
    return [
        Scenario(s["name"], frozenset(s.get("tags", ())), tuple(s["steps"]))
        for s in json.loads(path.read_text())["scenarios"]
    ]


def play(scenario: Scenario, connect: Connect) -> None:
    """Run the steps in order; the first that is not as it says fails."""
    con = connect()
    for number, step in enumerate(scenario.steps, 1):
        match step:
            case {"sql": sql}:
                con.execute(sql)
            case {"expect": {"query": query, "rows": rows}}:
                assert_rows(con.execute(query).fetchall(), rows, f"step {number}: {query}")
            case {"expect_error": wanted}:
                expect_error(con, wanted["sql"], wanted.get("condition"))
            case {"restart": _}:
                con.close()
                con = connect()
            case {"sleep_seconds": seconds}:
                time.sleep(seconds)
            case _:
                raise ValueError(f"step {number} of {scenario.name} is none: {step}")


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


def assert_rows(found: Iterable[Iterable[Any]], wanted: Iterable[Iterable[Any]], at: str) -> None:
    """Compare two multisets of rows."""
    left, right = multiset(found), multiset(wanted)
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
