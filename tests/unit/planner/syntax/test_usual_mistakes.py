"""Mistakes that are named at their place, in texts that no parser takes."""

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.syntax.tokens.sqltext import usual_mistake
from ctsql.planner.syntax.tokens.tokenizer import tokenise


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("SELECT a, FROM t", ",", "nothing follows this comma"),
        ("SELECT f(a, ) FROM t", ",", "nothing follows this comma"),
        ("SELECT CASE WHEN a THEN 'x' FROM t", "CASE", "has no END"),
        ("SELECT CASE WHEN CASE WHEN a THEN b END THEN 'x' FROM t", "CASE", "has no END"),
        ("SELECT * FORM t", "FORM", "expected a clause"),
        ("SELECT a FROM t WEHRE a = 1", "WEHRE", "expected a clause"),
        ("DELETE FROM t USING u WHERE t.a = u.a", "USING", "DELETE has no USING"),
        ("UPDATE t SET a = 1 FROM u", "FROM", "UPDATE has no FROM"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "ON", "no ON CONFLICT"),
        ("DELETE FROM t RETURNING a", "RETURNING", "DELETE has no RETURNING"),
    ],
)
def test_mistakes(text: str, place: str, message: str) -> None:
    """Each at the word at fault, with something to type."""
    found = usual_mistake(tokenise(Source(text).whole()), text.index(place) + len(place))
    assert found is not None
    assert found.span is not None
    assert (found.span.text, found.condition) == (place, "SYNTAX_ERROR")
    assert message in found.message
    assert found.hint


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t GROUP BY ROLLUP",
        "SELECT CASE WHEN a THEN 1 END AS case FROM t",
        "MERGE INTO t USING u ON t.a = u.a",
        "UPDATE t SET a = (SELECT max(a) FROM u)",
        "SELECT t.case FROM t",
    ],
)
def test_no_mistake_is_made_up(text: str) -> None:
    """What is wrong for another reason keeps the parser's own words."""
    assert usual_mistake(tokenise(Source(text).whole()), 0) is None
