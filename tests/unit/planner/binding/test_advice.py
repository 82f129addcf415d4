"""What the author of a definition is told, and where nothing is said."""

import pytest

from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Source
from ctsql.planner.binding.advice import advise
from ctsql.planner.binding.checks import name_unnamed
from ctsql.planner.syntax import parse, parse_as
from ctsql.planner.syntax.ast import RelationRef, Select

COLUMNS = {
    "t": (Column("k", "int"), Column("id", "int", nullable=False)),
    "o": (Column("k", "int"), Column("id", "int", nullable=False)),
}


def _columns_of(ref: RelationRef) -> tuple[Column, ...]:
    return COLUMNS.get(ref.parts[-1], ())


def _told(text: str) -> list[tuple[str, str]]:
    found = advise(parse(Source(text).whole()), _columns_of)
    return [(advice.span.text, advice.message.split()[0]) for advice in found]


def _view(query: str) -> str:
    return f"CREATE MATERIALIZED VIEW v AS {query}"


def _task(body: str) -> str:
    return f"CREATE CONTINUAL TASK o (k INT, id INT NOT NULL) ON INPUT t AS ({body})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_view("SELECT k FROM t WHERE k NOT IN (SELECT k FROM t)"), [("NOT", "NOT")]),
        (_view("SELECT k FROM t WHERE k NOT IN (SELECT DISTINCT t.k FROM t)"), [("NOT", "NOT")]),
        (_view("SELECT k FROM t WHERE k NOT IN (SELECT k + 1 FROM t)"), [("NOT", "NOT")]),
        (_view("SELECT k FROM t WHERE k NOT IN (SELECT id FROM t)"), []),
        (_view("SELECT k FROM t WHERE k NOT IN (SELECT k FROM t WHERE k IS NOT NULL)"), []),
        (_view("SELECT k FROM t WHERE k NOT IN (1, 2)"), []),
        (_view("SELECT k FROM t LIMIT 3"), [("LIMIT", "LIMIT")]),
        (_view("SELECT k FROM (SELECT k FROM t ORDER BY k) LIMIT 3"), [("LIMIT", "LIMIT")]),
        (_view("SELECT k FROM t ORDER BY k LIMIT 3"), []),
        (_view("SELECT first(k) AS k FROM t"), [("first", "FIRST")]),
        (_view("SELECT first(k) OVER (ORDER BY id) AS k FROM t"), []),
        (_view("SELECT sort_array(collect_list(k)) AS k FROM t"), []),
        (
            _task("DELETE FROM o WHERE k IN (SELECT k FROM t); INSERT INTO o SELECT * FROM t"),
            [("k", "a")],
        ),
        (
            _task(
                "DELETE FROM o WHERE (id, o.k) IN (SELECT id, k FROM t); "
                "INSERT INTO o SELECT * FROM t"
            ),
            [("(", "a")],
        ),
        (_task("DELETE FROM o WHERE id IN (SELECT id FROM t); INSERT INTO o SELECT * FROM t"), []),
        (_task("DELETE FROM o WHERE k IN (SELECT k FROM t)"), []),
        (_task("INSERT INTO o SELECT * FROM t WHERE k NOT IN (SELECT k FROM o)"), [("NOT", "NOT")]),
        ("SELECT k FROM t LIMIT 3", []),
    ],
)
def test_advice(text: str, expected: list[tuple[str, str]]) -> None:
    """By place and by the first word of the message."""
    assert _told(text) == expected


def test_unnamed_columns_get_names() -> None:
    """As their function or their place; typed names and good ones stay."""
    statement = parse_as(Select, "SELECT k, count(*), count(k), a + 1, `x y`", "<test>")
    given = ("k", "count(1)", "count(k)", "(a + 1)", "x y", "COUNT")
    found = name_unnamed([Column(name, "int") for name in given], statement.query)
    assert [c.name for c in found] == ["k", "count_2", "count_3", "column_4", "x y", "COUNT"]
