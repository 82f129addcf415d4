"""A test gets what it reads, and nothing else; its steps have their times."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source
from ctsql.planner.folder import Folder, read_folder
from ctsql.planner.syntax import ast as st, splice
from ctsql.planner.testing import START_MS, TestPlan, at_time, plan_test, typed_values

FOLDER = """
CREATE MATERIALIZED VIEW totals AS SELECT sum(v) AS s FROM best;
CREATE CONTINUAL TASK best (k INT, v INT) ON INPUT feed AS (
    DELETE FROM best WHERE k IN (SELECT k FROM feed);
    INSERT INTO best SELECT k, max(v) FROM feed GROUP BY k;
);
CREATE TABLE feed (k INT, v INT);
CREATE TABLE far LOCATION '/somewhere';
CREATE VIEW over_far AS SELECT * FROM far;
CREATE VIEW over_nothing AS SELECT * FROM nothing;
CREATE CONTINUAL TASK two OUTPUTS (one_out (k INT), other_out (k INT)) ON INPUT feed AS (
    INSERT INTO one_out SELECT k FROM feed;
    INSERT INTO other_out SELECT k FROM feed;
);
CREATE VIEW over_two AS SELECT * FROM other_out;
USE shop;
CREATE VIEW best AS SELECT * FROM default.feed;
"""


def _plan(test: str, schema: str = "default", folder: str = FOLDER) -> TestPlan:
    text = f"TEST 'it' {test}"
    found: Folder = read_folder([Source(folder, "a.sql"), Source(text, "b.sql")], also=(st.Test,))
    (other,) = found.others
    assert isinstance(other.statement, st.Test)
    return plan_test(other.statement, schema, found)


NEEDED = [
    ("GIVEN feed VALUES (1, 2) EXPECT totals VALUES (2)", ["feed", "best", "totals"]),
    ("GIVEN feed VALUES (1, 2) EXPECT best VALUES (1, 2)", ["feed", "best"]),
    ("GIVEN feed VALUES (1, 2) EXPECT NO CHANGE IN best", ["feed", "best"]),
    ("GIVEN feed VALUES (1, 2) EXPECT ERROR TASK_FAILED IN best", ["feed", "best"]),
    ("GIVEN feed VALUES (1, 2) EXPECT (SELECT s FROM totals) VALUES (2)", None),
    ("GIVEN feed VALUES (1, 2) EXPECT feed AS (SELECT 1, s FROM totals)", None),
    ("GIVEN feed AS (SELECT 1, s FROM totals) EXPECT NO ROWS IN feed", None),
    ("EXPECT NO ROWS IN shop.best", ["feed", "shop.best"]),
]


@pytest.mark.parametrize(("test", "expected"), NEEDED)
def test_only_what_is_read_is_made(test: str, expected: list[str] | None) -> None:
    """Each after what it reads; None stands for all of a view's."""
    made = [str(d.name).removeprefix("default.") for d in _plan(test).definitions]
    assert made == (expected or ["feed", "best", "totals"])


def test_what_is_given_rows_stands_for_the_object_of_its_name() -> None:
    """Nothing below it is made then."""
    plan = _plan("GIVEN best VALUES (1, 2) EXPECT totals VALUES (2)")
    assert [str(d.name) for d in plan.definitions] == ["totals"]
    assert [(str(s.name), s.columns) for s in plan.stand_ins] == [("best", ())]
    plan = _plan("GIVEN far (k INT) VALUES (1) EXPECT over_far VALUES (1)")
    assert [c.type for c in plan.stand_ins[0].columns] == ["INT"]
    plan = _plan("GIVEN nothing (k INT) VALUES (1) EXPECT over_nothing VALUES (1)")
    assert [str(s.name) for s in plan.stand_ins] == ["nothing"]
    plan = _plan("GIVEN other_out VALUES (1) EXPECT over_two VALUES (1)")
    assert [str(d.name) for d in plan.definitions] == ["over_two"]


def test_no_output_is_written_where_the_folder_says() -> None:
    """A test's own warehouse has all its tables."""
    folder = (
        "CREATE TABLE t (k INT);"
        "CREATE MATERIALIZED VIEW v WITH (LOCATION = '/prod/v', REFRESH EVERY '1 day') "
        "AS SELECT k FROM t;"
        "CREATE CONTINUAL TASK c (k INT) ON INPUT t WITH (LOCATION = '/prod/c') AS "
        "(INSERT INTO c SELECT k FROM t);"
    )
    options = []
    for made in _plan("EXPECT c AS (SELECT k FROM v)", folder=folder).definitions:
        if isinstance(made.statement, st.CreateMaterializedView | st.CreateContinualTask):
            options += [o.name for o in made.statement.options]
    assert options == ["REFRESH"]


def test_steps_are_a_second_apart_unless_they_say() -> None:
    """The objects are made a second before the first."""
    plan = _plan(
        "GIVEN feed VALUES (1, 2) THEN feed VALUES (1, 3) THEN AT TIMESTAMP '2026-01-02' "
        "THEN feed VALUES (3, 4) EXPECT NO ROWS IN feed"
    )
    day = 24 * 3_600_000
    assert plan.step_times == (START_MS, START_MS + 1000, START_MS + day, START_MS + day + 1000)
    assert plan.made_at == START_MS - 1000
    assert _plan("EXPECT NO ROWS IN feed").made_at == START_MS - 1000


REFUSED = [
    ("GIVEN fed VALUES (1) EXPECT NO ROWS IN feed", "UNKNOWN_RELATION", "fed", 'Did you mean "fe'),
    ("GIVEN zebra VALUES (1) EXPECT NO ROWS IN feed", "UNKNOWN_RELATION", "zebra", "GIVEN zebra ("),
    ("EXPECT NO ROWS IN over_nothing", "UNKNOWN_RELATION", "over_nothing", "GIVEN nothing (id INT"),
    ("EXPECT NO ROWS IN over_far", "INVALID_STATEMENT", "'it'", "GIVEN far (id INT"),
    ("GIVEN far VALUES (1) EXPECT NO ROWS IN far", "INVALID_STATEMENT", "far", "GIVEN far (id"),
    ("GIVEN feed (k INT) VALUES (1) EXPECT NO ROWS IN feed", "INVALID_STATEMENT", "feed", "Leave"),
    (
        "GIVEN x (k INT) VALUES (1) THEN x (k STRING) VALUES (1) EXPECT NO ROWS IN x",
        "INVALID_STATEMENT",
        "x",
        "Leave their types out here",
    ),
    (
        "GIVEN one_out VALUES (1) EXPECT NO ROWS IN over_two",
        "INVALID_STATEMENT",
        "one_out",
        "",
    ),
    ("GIVEN AT 5 feed VALUES (1, 1) EXPECT NO ROWS IN feed", "INVALID_OPTION", "5", ""),
    (
        "GIVEN feed VALUES (1, 1) THEN AT '2025-01-01' EXPECT NO ROWS IN feed",
        "INVALID_OPTION",
        "'2025-01-01'",
        "",
    ),
    ("GIVEN AT 'noon' feed VALUES (1, 1) EXPECT NO ROWS IN feed", "INVALID_OPTION", "'noon'", ""),
    (
        "GIVEN feed VALUES (1, 1) EXPECT ERROR TASK_FAILD IN best",
        "INVALID_OPTION",
        "TASK_FAILD",
        'Did you mean "TASK_FAILED"',
    ),
]


@pytest.mark.parametrize(("test", "condition", "place", "hint"), REFUSED)
def test_what_cannot_be_tested_is_refused(test: str, condition: str, place: str, hint: str) -> None:
    """The error is at its place, and says what to type."""
    with pytest.raises(CtsqlError, match=condition) as caught:
        _plan(test)
    assert caught.value.span is not None
    assert caught.value.span.text == place
    assert hint in (caught.value.hint or "")


def test_now_is_the_time_of_the_step() -> None:
    """Calls of the clock become the T as Spark's own text."""
    plan = _plan("GIVEN feed AS (SELECT 1, unix_timestamp()) EXPECT NO ROWS IN feed")
    text = at_time(plan.test.steps[0].changes[0].text, 5000)
    assert splice(text.span, text.edits).text.endswith("CAST(floor(5000 / 1000) AS BIGINT))")


def test_each_expected_value_is_cast_by_itself() -> None:
    """Two rows may spell the values of a column in different ways."""
    plan = _plan("EXPECT feed VALUES ( 1 , now()), (2,'x')")
    (expected,) = plan.test.expectations
    assert isinstance(expected, st.ExpectRows)
    assert expected.rows is not None
    text = typed_values(expected.rows, expected.cells, ("int", "string"), {0: "string"})
    assert splice(text.span, text.edits).text == (
        "VALUES ( CAST(1 AS int) , CAST(now() AS string), CAST(1 AS string)), "
        "(CAST(2 AS int),CAST('x' AS string), CAST(2 AS string))"
    )


@pytest.mark.parametrize("rows", ["AS (SELECT 1, 2)", "VALUES 1, 2", "VALUES (1, 2) AS t(a, b)"])
def test_other_rows_are_cast_as_a_whole(rows: str) -> None:
    """Their values are not found in the text."""
    (expected,) = _plan(f"EXPECT feed {rows}").test.expectations
    assert isinstance(expected, st.ExpectRows)
    assert expected.cells == ()
