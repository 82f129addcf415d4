"""ON INPUT source [AS] alias [WHERE condition]."""

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse, rewrite
from ctsql.planner.syntax.ast import CreateContinualTask
from ctsql.planner.syntax.tokens.name_scopes import QualifiedNames
from tests.helpers.parsed import refused

BODY = "AS (INSERT INTO t SELECT 1 AS a)"


def _inputs(clause: str) -> list[tuple[str, str | None, str | None]]:
    task = parse(Source(f"CREATE CONTINUAL TASK t ON INPUT {clause} {BODY}").whole())
    assert isinstance(task, CreateContinualTask)
    names = QualifiedNames([i.rows for i in task.inputs if i.rows is not None], "default")
    return [
        (
            i.ref.span.text,
            i.alias,
            None if i.rows is None else rewrite(names.applied(i.rows), relation=lambda _: "r").text,
        )
        for i in task.inputs
    ]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("a", [("a", None, None)]),
        ("a AS x, s.b y", [("a", "x", None), ("s.b", "y", None)]),
        ("a x WITH (SNAPSHOT = false)", [("a", "x", None)]),
        ("a WHERE k = 1", [("a", None, "SELECT * FROM r AS `a` WHERE k = 1")]),
        (
            "a AS x WHERE x.k IN (1, 2) AND CAST(v AS STRING) <> 'AS ('"
            ", b WHERE CASE WHEN c THEN d END",
            [
                (
                    "a",
                    "x",
                    "SELECT * FROM r AS x WHERE x.k IN (1, 2) AND CAST(v AS STRING) <> 'AS ('",
                ),
                ("b", None, "SELECT * FROM r AS `b` WHERE CASE WHEN c THEN d END"),
            ],
        ),
        ("s.a WHERE s.a.k > 0", [("s.a", None, "SELECT * FROM r AS `s.a` WHERE `s.a`.k > 0")]),
    ],
)
def test_inputs(clause: str, expected: list[tuple[str, str | None, str | None]]) -> None:
    """A source, its alias, and the query of the rows that are seen."""
    assert _inputs(clause) == expected


@pytest.mark.parametrize(
    ("clause", "condition", "place"),
    [
        ("a WHERE", "SYNTAX_ERROR", "AS"),
        ("a x y", "SYNTAX_ERROR", "y"),
        ("a WHERE k IN (SELECT k FROM b)", "INVALID_STATEMENT", "b"),
        ("a WHERE at > now()", "INVALID_STATEMENT", "now()"),
        ("a WHERE rand() > 0.5", "INVALID_STATEMENT", "rand"),
        ("a WHERE k = ?", "INVALID_STATEMENT", "?"),
    ],
)
def test_refused(clause: str, condition: str, place: str) -> None:
    """What would not depend on the changed row alone."""
    with refused(condition, place):
        _inputs(clause)
