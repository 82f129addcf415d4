"""Scripts are cut into statements at the right places."""

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import is_complete, split

CASES = [
    ("", []),
    (" -- only a comment\n /* and ; this */ ", []),
    (";;  ; ", []),
    ("SELECT 1", ["SELECT 1"]),
    ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
    ("-- a ; b\nSELECT 1 /* ; */ ; -- x\n SELECT 2 -- y", ["SELECT 1", "SELECT 2"]),
    ("SELECT ';' ; SELECT `a;b`; SELECT \"x;\"", ["SELECT ';'", "SELECT `a;b`", 'SELECT "x;"']),
    (r"SELECT 'it\'s; on'; SELECT 'a'';'", [r"SELECT 'it\'s; on'", "SELECT 'a'';'"]),
    ("SELECT r'\\'; SELECT 2", ["SELECT r'\\'", "SELECT 2"]),
    ("/* a /* nested; */ ; */ SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
    ("f(a; b); g", ["f(a; b)", "g"]),
    ("EXPLAIN SELECT ';)'; SHOW TABLES; x", ["EXPLAIN SELECT ';)'", "SHOW TABLES", "x"]),
    ("SHOW TABLES LIKE 'a;b'; EXPLAIN EXPLAIN x", ["SHOW TABLES LIKE 'a;b'", "EXPLAIN EXPLAIN x"]),
    ("SELECT 'é', '日本', '𝒳'; SELECT ü", ["SELECT 'é', '日本', '𝒳'", "SELECT ü"]),
    ("\ufeffSELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
    ("SELECT 1;\r\nSELECT 2;\r\n", ["SELECT 1", "SELECT 2"]),
    ("SELECT 1L; SELECT x", ["SELECT 1L", "SELECT x"]),
    (
        "CREATE CONTINUAL TASK a ON INPUT b AS (\n DELETE FROM a; -- )\n INSERT INTO a"
        " SELECT 1;\n); x",
        [
            "CREATE CONTINUAL TASK a ON INPUT b AS (\n DELETE FROM a; -- )\n"
            " INSERT INTO a SELECT 1;\n)",
            "x",
        ],
    ),
]


@pytest.mark.parametrize(("text", "statements"), CASES)
def test_split(text: str, statements: list[str]) -> None:
    """A semicolon outside parentheses, strings and comments ends a statement."""
    assert [span.text for span in split(Source(text))] == statements


UNCLOSED = [
    ("SELECT 1;\nSELECT 'abc; x", "'", 17),
    ("SELECT `abc", "`", 7),
    ('SELECT "abc', '"', 7),
    ("SELECT 'it''s', 'x", "'", 16),
    ("SELECT /* a /* b */ c", "/*", 7),
    ("-- it's\nSELECT 'x", "'", 15),
    ("SELECT (1 + (2); SELECT 2", "(", 7),
    ("SELECT 1); SELECT 2", ")", 8),
    ("EXPLAIN SELECT 'x", "'", 15),
]


@pytest.mark.parametrize(("text", "mark", "start"), UNCLOSED)
def test_unclosed(text: str, mark: str, start: int) -> None:
    """What is not closed is shown where it opens."""
    with pytest.raises(CtsqlError, match="SYNTAX_ERROR") as raised:
        split(Source(text))
    assert raised.value.span is not None
    assert (raised.value.span.text, raised.value.span.start) == (mark, start)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("  -- hi", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("/* open ;", False),
        ("CREATE CONTINUAL TASK a ON INPUT b AS (DELETE FROM a;", False),
        ("CREATE CONTINUAL TASK a ON INPUT b AS (DELETE FROM a;)", False),
        ("CREATE CONTINUAL TASK a ON INPUT b AS (DELETE FROM a;);", True),
        ("SELECT 1);", True),
        ("EXPLAIN SELECT 1;", True),
        ("SELECT x'zz'", True),
    ],
)
def test_is_complete(text: str, complete: bool) -> None:
    """A text is run once nothing is open and its last token is a semicolon."""
    assert is_complete(text) is complete


STATEMENTS = st.sampled_from(
    [
        "SELECT 1",
        "SELECT ';', `;`, \";\" FROM t",
        "SHOW TABLES LIKE ';'",
        "EXPLAIN SELECT ')' /* ; */ FROM t",
        "CREATE CONTINUAL TASK a ON INPUT b AS (DELETE FROM a; INSERT INTO a SELECT 'x;';)",
        "SET a.b = 'é;'",
    ]
)
GAPS = st.sampled_from([";", " ; ", ";\n", "; -- it's (\n", ";; /* ( ' */ ", "\n;\t;"])


@given(st.lists(st.tuples(STATEMENTS, GAPS)))
def test_split_undoes_joining(parts: list[tuple[str, str]]) -> None:
    """Statements joined by semicolons and comments come apart again."""
    text = "".join(statement + gap for statement, gap in parts)
    assert [span.text for span in split(Source(text))] == [statement for statement, _ in parts]
