"""Scenarios are read as they are written: the given ones to the word, mistakes by their line."""

import doctest
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import VECTORS
from tests.scenarios import scenario_text
from tests.scenarios.scenario_text import (
    Ahead,
    Connect,
    Query,
    Refusal,
    Remember,
    Require,
    Restart,
    Scenario,
    Sleep,
    Statement,
    Step,
    load,
    read,
    row,
)

GIVEN = {s.name: s for s in load(Path(__file__).resolve().parent / "given")}
VECTOR: list[dict[str, Any]] = json.loads((VECTORS / "scenarios.json").read_text())["scenarios"]


def _step(told: dict[str, Any]) -> Step:
    """A step of the vector."""
    match told:
        case {"sql": sql}:
            return Statement(sql)
        case {"expect": {"query": query, "rows": rows}}:
            return Query(query, tuple(tuple(values) for values in rows))
        case {"expect_error": {"sql": sql, "about": about}}:
            return Refusal(sql, None, about)
        case {"restart": True}:
            return Restart()
        case {"sleep_seconds": seconds}:
            return Sleep(seconds)
    raise ValueError(told)


def _in_one_line(step: Step) -> Step:
    """Files put each of several statements on a line of its own."""
    match step:
        case Statement(sql):
            return Statement(sql.replace("\n", " "))
        case Query(sql, rows):
            return Query(sql.replace("\n", " "), rows)
        case Refusal(sql, condition, about):
            return Refusal(sql.replace("\n", " "), condition, about)
    return step


def test_all_that_is_given_has_a_file() -> None:
    """None is left out, and none is there that nobody gave."""
    assert sorted(GIVEN) == sorted(told["name"] for told in VECTOR)


@pytest.mark.parametrize("told", VECTOR, ids=lambda told: told["name"])
def test_a_file_says_what_is_given(told: dict[str, Any]) -> None:
    """Its note, tags and steps are those of the vector, and each value has its type."""
    found = GIVEN[told["name"]]
    assert (found.note, found.tags) == (told.get("note", ""), frozenset(told["tags"]))
    wanted = [_step(step) for step in told["steps"]]
    assert [_in_one_line(step) for step in found.steps] == wanted
    assert [repr(_in_one_line(step)) for step in found.steps] == [repr(step) for step in wanted]


def test_each_kind_of_record() -> None:
    """Comments stand before a record; a row may begin with what would be a comment elsewhere."""
    text = """
# Shows
# all.
tags: mv ddl

# why
statement error NO_SUCH
SELECT 1
  FROM t
----
first part
second

query
SELECT 2
----
# location  'it''s'  NULL  true  -1  1.50
''

sleep 0.5

restart

require spark 4.1

connection other

clock 2 days

remember early

statement ok
DROP TABLE t
----
DROP TABLE
"""
    assert read("x", text) == Scenario(
        "x",
        "Shows all.",
        frozenset({"mv", "ddl"}),
        (
            Refusal("SELECT 1\n  FROM t", "NO_SUCH", "why", ("first part", "second")),
            Query("SELECT 2", (row("# location  'it''s'  NULL  true  -1  1.50"), ("",))),
            Sleep(0.5),
            Restart(),
            Require((4, 1)),
            Connect("other"),
            Ahead(172_800_000),
            Remember("early"),
            Statement("DROP TABLE t", "DROP TABLE"),
        ),
        (7, 14, 20, 22, 24, 26, 28, 30, 32),
    )
    assert read("x", text).steps[1].rows[0][:5] == ("# location", "it's", None, True, -1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("query\nSELECT 1", 1),
        ("restart\n\nstatment ok\nSELECT 1", 3),
        ("# why\nstatement error no such\nSELECT 1", 2),
        ("statement ok", 1),
        ("query\nSELECT 1\n----\n'one", 1),
        ("restart\nSELECT 1", 1),
        ("statement ok\nSELECT 1\n----\none\ntwo", 1),
        ("require delta 4.4", 1),
        ("clock 2 weeks", 1),
    ],
)
def test_mistakes_are_said_with_their_line(text: str, line: int) -> None:
    """What is no record is not passed over."""
    with pytest.raises(ValueError, match=rf"^x\.slt:{line}: "):
        read("x", text)


def test_examples_hold() -> None:
    """How values are written."""
    failed, attempted = doctest.testmod(scenario_text)
    assert (failed, attempted) == (0, 2)
