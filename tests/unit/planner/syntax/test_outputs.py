"""OUTPUTS (...) of a continual task, as it is read and as mistakes in it are shown."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import ObjectKind
from ctsql.planner.syntax.ast import CommentOn, CreateContinualTask, RenameObject, Show
from tests.helpers.parsed import parsed, refused

CT = "CREATE CONTINUAL TASK ct "
BODY = " ON INPUT a AS (INSERT INTO x SELECT 1)"


def test_several_outputs() -> None:
    """Each with its columns; the word may be a name as well."""
    task = parsed(
        "CREATE CONTINUAL TASK outputs OUTPUTS (s.a (k INT NOT NULL, n INT8 DEFAULT 1), outputs2"
        " (`a b` TEXT COMMENT ')')) WITH (ITERATIONS = 2) ON INPUT f AS (DELETE FROM s.a)"
    )
    assert isinstance(task, CreateContinualTask)
    assert task.target.parts == ("outputs",)
    assert task.columns == ()
    first, second = task.outputs
    assert (first.target.parts, second.target.parts) == (("s", "a"), ("outputs2",))
    assert [(c.name, c.type, c.nullable) for c in first.columns] == [
        ("k", "INT", False),
        ("n", "BIGINT", True),
    ]
    assert first.columns[1].default is not None
    assert [(c.name, c.comment) for c in second.columns] == [("a b", ")")]
    named = parsed(
        "CREATE CONTINUAL TASK outputs (outputs INT) ON INPUT f AS (DELETE FROM outputs)"
    )
    assert isinstance(named, CreateContinualTask)
    assert (named.outputs, named.columns[0].name) == ((), "outputs")


@pytest.mark.parametrize(
    ("text", "condition", "place"),
    [
        (CT + "OUTPUTS (x)" + BODY, "SYNTAX_ERROR", ")"),
        (CT + "OUTPUTS x (k INT)" + BODY, "SYNTAX_ERROR", "x"),
        (CT + "OUTPUTS ()" + BODY, "SYNTAX_ERROR", ")"),
        (CT + "OUTPUTS (x (k INT),)" + BODY, "SYNTAX_ERROR", ")"),
        (CT + "OUTPUTS (x (k INT) y (k INT))" + BODY, "SYNTAX_ERROR", "y"),
        (CT + "OUTPUTS (x (k))" + BODY, "SYNTAX_ERROR", ""),
        (CT + "OUTPUTS (x ())" + BODY, "SYNTAX_ERROR", "x"),
        (CT + "(k INT) OUTPUTS (x (k INT))" + BODY, "SYNTAX_ERROR", "OUTPUTS"),
        (CT + "OUTPUTS (x (k INT)) FROM TRANSFORM a USING (SELECT 1)", "NOT_SUPPORTED", "FROM"),
        ("CREATE MATERIALIZED VIEW v OUTPUTS (x (k INT)) AS SELECT 1", "SYNTAX_ERROR", "OUTPUTS"),
    ],
)
def test_refused(text: str, condition: str, place: str) -> None:
    """With the exact place."""
    with refused(condition, place):
        parsed(text)


def test_columns_are_asked_for() -> None:
    """A name alone is answered with what to write."""
    with pytest.raises(CtsqlError) as raised:
        parsed(CT + "OUTPUTS (x, y)" + BODY)
    assert raised.value.message == 'found ",", expected the columns of the output'
    assert raised.value.hint == "Write its columns behind the name: x (k INT, ...)"


def test_statements_about_outputs() -> None:
    """TASK OUTPUT is a kind of object; task and output are names too."""
    renamed = parsed("ALTER TASK OUTPUT s.a RENAME TO b", RenameObject)
    assert (renamed.kind, renamed.target.parts) == (ObjectKind.TASK_OUTPUT, ("s", "a"))
    commented = parsed("COMMENT ON TASK OUTPUT a IS NULL", CommentOn)
    assert commented.kind is ObjectKind.TASK_OUTPUT
    shown = parsed("SHOW TASK OUTPUTS IN s LIKE 'x*'", Show)
    assert (shown.what, shown.schema, shown.like) == ("task outputs", "s", "x*")
