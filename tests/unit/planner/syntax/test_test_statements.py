"""TEST statements are cut where their parts begin, and refused at the place that is wrong."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import ast as st, parse, parse_as, splice

START = "TEST 'it' GIVEN t VALUES (1) "

CHANGES = [
    ("GIVEN t VALUES (1), (2)", ["INSERT INTO t VALUES (1), (2)"]),
    ("GIVEN s.t (a, b) VALUES (1, 2)", ["INSERT INTO s.t (a, b) VALUES (1, 2)"]),
    (
        "GIVEN t (a INT, b DECIMAL(9, 2) NOT NULL) VALUES (1, 2)",
        ["INSERT INTO t (a, b) VALUES (1, 2)"],
    ),
    ("GIVEN t AS (SELECT * FROM u)", ["INSERT INTO t  (SELECT * FROM u)"]),
    ("GIVEN t (a) AS (SELECT 1)", ["INSERT INTO t (a)  (SELECT 1)"]),
    ("GIVEN INSERT INTO t SELECT 1", ["INSERT INTO t SELECT 1"]),
    (
        "GIVEN t VALUES (1) AND u VALUES (2) AND DELETE FROM v WHERE a AND b",
        ["INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (2)", "DELETE FROM v WHERE a AND b"],
    ),
    (
        "GIVEN DELETE FROM t WHERE a = 1 AND b(2) AND v AND u (k) VALUES (3)",
        ["DELETE FROM t WHERE a = 1 AND b(2) AND v", "INSERT INTO u (k) VALUES (3)"],
    ),
    (
        "GIVEN UPDATE t SET a = CASE WHEN b THEN 1 WHEN c THEN 2 END, expect = 3 WHERE given > 1",
        ["UPDATE t SET a = CASE WHEN b THEN 1 WHEN c THEN 2 END, expect = 3 WHERE given > 1"],
    ),
    (
        "GIVEN MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT *",
        [
            "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT *"
        ],
    ),
    ("GIVEN AT TIMESTAMP '2026-03-01' t VALUES (1)", ["INSERT INTO t VALUES (1)"]),
    ("GIVEN at VALUES (1)", ["INSERT INTO at VALUES (1)"]),
    ("GIVEN merge VALUES (1)", ["INSERT INTO merge VALUES (1)"]),
    ("GIVEN AT '2026-03-01'", []),
]


def _test(text: str) -> st.Test:
    return parse_as(st.Test, text, "<test>")


@pytest.mark.parametrize(("text", "expected"), CHANGES)
@pytest.mark.parametrize("behind", ["EXPECT NO ROWS IN t", "THEN t VALUES (9) EXPECT t VALUES (9)"])
def test_changes_end_where_the_next_part_begins(
    text: str, expected: list[str], behind: str
) -> None:
    """What Spark is given is the user's own text, whatever stands in it and behind it."""
    step = _test(f"TEST 'it' {text} {behind}").steps[0]
    assert [splice(c.text.span, c.text.edits).text for c in step.changes] == expected
    assert step.span.text == text


def test_steps_have_times_and_typed_columns() -> None:
    """AT is the time of a step; a list with types declares a table."""
    test = _test(
        "TEST 'a ''b''' GIVEN AT 5 t (a INT NOT NULL) VALUES (1) THEN AT '2026-01-01' "
        "THEN t VALUES (2) EXPECT NO ROWS IN t"
    )
    assert test.name == "a 'b'"
    assert [s.at.value if s.at else None for s in test.steps] == [5, "2026-01-01", None]
    assert [(c.name, c.type, c.nullable) for c in test.steps[0].columns[0]] == [("a", "INT", False)]
    assert [len(s.changes) for s in test.steps] == [1, 0, 1]


EXPECTATIONS = [
    ("EXPECT x VALUES (1), (2)", st.ExpectRows, None, "SELECT * FROM x"),
    ("EXPECT s.x (a, `b c`) AFTER 1 VALUES (1, 2)", st.ExpectRows, 1, "SELECT a, `b c` FROM s.x"),
    ("EXPECT x AFTER 0 AS (SELECT 1)", st.ExpectRows, 0, "SELECT * FROM x"),
    ("EXPECT (SELECT a FROM x) AFTER 1 VALUES (1)", st.ExpectRows, 1, "(SELECT a FROM x)"),
    ("EXPECT NO ROWS IN x AFTER 1", st.ExpectRows, 1, "SELECT * FROM x"),
    ("EXPECT error VALUES (1)", st.ExpectRows, None, "SELECT * FROM error"),
    ("EXPECT no VALUES (1)", st.ExpectRows, None, "SELECT * FROM no"),
    ("EXPECT NO CHANGE IN x", st.ExpectNoChange, None, None),
    ("EXPECT ERROR task_failed LIKE '%zero%' IN x AFTER 0", st.ExpectError, 0, None),
    ("EXPECT ERROR DATA_ERROR", st.ExpectError, None, None),
]


@pytest.mark.parametrize(("text", "kind", "after", "query"), EXPECTATIONS)
def test_expectations_are_read(
    text: str, kind: type[st.Expectation], after: int | None, query: str | None
) -> None:
    """Each says what is looked at, and after which step."""
    (expected,) = _test(START + text).expectations
    assert isinstance(expected, kind)
    assert (expected.span.text, expected.after) == (text, after)
    if isinstance(expected, st.ExpectRows):
        found = splice(expected.query.span, expected.query.edits).text
        assert found == query
    if isinstance(expected, st.ExpectError):
        assert expected.condition == expected.condition.upper()


def test_only_order_by_of_the_query_itself_asks_for_an_order() -> None:
    """One inside of a window or a subquery does not."""
    ordered = _test(START + "EXPECT (SELECT a FROM x ORDER BY a) VALUES (1)").expectations[0]
    plain = _test(START + "EXPECT (SELECT max(a) OVER (ORDER BY b) FROM x) VALUES (1)")
    assert isinstance(ordered, st.ExpectRows)
    assert isinstance(plain.expectations[0], st.ExpectRows)
    assert (ordered.is_ordered, plain.expectations[0].is_ordered) == (True, False)


WRONG = [
    ("TEST", "", "the test's name in quotes"),
    ("TEST it GIVEN t VALUES (1)", "it", "the test's name in quotes"),
    ("TEST 'it'", "", "expected GIVEN or EXPECT"),
    ("TEST 'it' GIVN t VALUES (1)", "GIVN", "expected GIVEN or EXPECT"),
    ("TEST 'it' GIVEN t VALUES (1)", "", "expected EXPECT"),
    (START + "EXPCT x VALUES (1)", "EXPCT", "expected THEN or EXPECT"),
    (START + "THN t VALUES (1) EXPECT NO ROWS IN t", "THN", "expected THEN or EXPECT"),
    ("TEST 'it' GIVEN t", "", "expected VALUES or AS (query)"),
    ("TEST 'it' GIVEN t VALUSE (1)", "VALUSE", "expected VALUES or AS (query)"),
    ("TEST 'it' GIVEN DELETE t", "t", "expected FROM"),
    ("TEST 'it' THEN t VALUES (1) GIVEN t VALUES (2)", "GIVEN", "GIVEN comes before THEN"),
    (START + "EXPECT", "", "the name of an object"),
    (START + "EXPECT x AFTER 2 VALUES (1)", "2", "does not take 2"),
    (START + "EXPECT x AFTER x VALUES (1)", "x", "the number of a step"),
    (START + "EXPECT NO CHANGE IN x AFTER 0", "0", "does not take 0"),
    (START + "EXPECT ERROR DATA_ERROR AFTER 0", "0", "does not take 0"),
    (START + "EXPECT x VALUES (1) THEN t VALUES (2)", "THEN", "expected EXPECT or the end"),
    ("TEST 'it' EXPECT NO CHANGE IN x", "EXPECT NO CHANGE IN x", "there is no step"),
    ("TEST 'it' EXPECT ERROR DATA_ERROR", "DATA_ERROR", "there is no step"),
    ("TEST 'it' GIVEN t (a, A) VALUES (1, 2) EXPECT NO ROWS IN t", "A", "appears twice"),
]


@pytest.mark.parametrize(("text", "place", "message"), WRONG)
def test_what_is_wrong_is_shown_at_its_place(text: str, place: str, message: str) -> None:
    """A slip is named where it is."""
    with pytest.raises(CtsqlError) as caught:
        parse(Source(text, "f.sql").whole())
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.text == place
