"""Dynamic tables with REFRESH USING, and the tasks that they are compiled to."""

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.ast import CreateContinualTask
from tests.helpers.parsed import refused

HEAD = "CREATE DYNAMIC TABLE x (id INT) TARGET_LAG = DOWNSTREAM "


def _task(text: str) -> CreateContinualTask:
    made = parse(Source(text, "<test>").whole())
    assert isinstance(made, CreateContinualTask)
    return made


@pytest.mark.parametrize(
    ("statement", "body"),
    [
        (
            "INSERT INTO SELF SELECT id FROM src CHANGES (INFORMATION => APPEND_ONLY)"
            " WHERE src.id > 1",
            "INSERT INTO x SELECT id FROM inserts(src) AS src WHERE src.id > 1",
        ),
        (
            "INSERT INTO SELF SELECT c.id FROM s.src CHANGES(INFORMATION => DEFAULT) AS c"
            " JOIN dim ON dim.id = c.id WHERE c.METADATA$ACTION = 'DELETE'",
            "INSERT INTO x SELECT c.id FROM (SELECT *, 'INSERT' AS `METADATA$ACTION`"
            " FROM inserts(s.src) UNION ALL SELECT *, 'DELETE' AS `METADATA$ACTION`"
            " FROM deletes(s.src)) AS c JOIN contents(dim) AS `dim` ON dim.id = c.id"
            " WHERE c.`METADATA$ACTION` = 'DELETE'",
        ),
        (
            "MERGE INTO SELF USING CHANGES(src, INFORMATION => APPEND_ONLY) ON src.id = SELF.id"
            " WHEN NOT MATCHED AND EXISTS (SELECT 1 FROM src AS o) THEN INSERT *",
            "MERGE INTO x USING inserts(src) AS src ON src.id = x.id"
            " WHEN NOT MATCHED AND EXISTS (SELECT 1 FROM contents(src) AS o) THEN INSERT *",
        ),
        (
            "INSERT INTO SELF SELECT id FROM SELF AS old JOIN CHANGES(src) AS n USING (id)",
            "INSERT INTO x SELECT id FROM x AS old JOIN (SELECT * FROM inserts(src) UNION ALL"
            " SELECT * FROM deletes(src)) AS n USING (id)",
        ),
    ],
)
def test_changes_are_inputs_and_all_else_is_read_whole(statement: str, body: str) -> None:
    """SELF is the output; a relation without CHANGES is a reference, an input's name included."""
    made = _task(f"{HEAD} REFRESH USING ({statement})")
    (part,) = made.body
    assert part.span.text == body
    assert [i.ref.parts[-1] for i in made.inputs] == ["src"]
    assert (made.options, made.comment, made.or_replace) == ((), None, False)


def test_the_clauses_become_options() -> None:
    """A lag is the interval in which changes share a run; what was typed stays as a comment."""
    made = _task(
        "CREATE OR REPLACE DYNAMIC TABLE IF NOT EXISTS s.x (id INT NOT NULL, v VARCHAR(3))"
        " TARGET_LAG = '5 minutes' REFRESH_MODE = CUSTOM_INCREMENTAL INITIALIZE = ON_CREATE"
        " COMMENT = 'it''s' REFRESH USING (INSERT INTO SELF SELECT id, v FROM A CHANGES"
        " (INFORMATION => APPEND_ONLY) UNION ALL SELECT id, v FROM a CHANGES (INFORMATION =>"
        " DEFAULT) WHERE METADATA$ACTION = 'DELETE' UNION ALL SELECT id, v FROM CHANGES(b))"
    )
    assert (made.target.parts, made.or_replace, made.if_not_exists) == (("s", "x"), True, True)
    assert [(o.name, o.value.text) for o in made.options] == [("COALESCE", "EVERY '5 minutes'")]
    assert [(c.name, c.nullable) for c in made.columns] == [("id", False), ("v", True)]
    assert [i.ref.parts for i in made.inputs] == [("a",), ("b",)]
    assert made.comment == "it's"
    assert "--   CREATE OR REPLACE DYNAMIC TABLE" in made.span.text


@pytest.mark.parametrize(
    ("text", "condition", "place"),
    [
        (
            "REFRESH USING (INSERT INTO SELF SELECT 1)",
            "INVALID_STATEMENT",
            "INSERT INTO SELF SELECT 1",
        ),
        ("REFRESH USING (DELETE FROM SELF)", "INVALID_STATEMENT", "DELETE"),
        ("REFRESH USING ()", "INVALID_STATEMENT", "("),
        (
            "REFRESH USING (INSERT INTO SELF SELECT * FROM CHANGES(a)) AS SELECT 1",
            "SYNTAX_ERROR",
            "AS",
        ),
        (
            "REFRESH USING (INSERT INTO SELF SELECT * FROM CHANGES(a); DELETE FROM SELF)",
            "INVALID_STATEMENT",
            "DELETE FROM x",
        ),
        (
            "REFRESH USING (INSERT INTO SELF SELECT METADATA$ROW_ID FROM CHANGES(a))",
            "NOT_SUPPORTED",
            "METADATA$ROW_ID",
        ),
        (
            "REFRESH USING (INSERT INTO SELF SELECT 1 FROM CHANGES(a) WHERE METADATA$ISUPDATE)",
            "NOT_SUPPORTED",
            "METADATA$ISUPDATE",
        ),
        (
            "REFRESH USING (INSERT INTO SELF SELECT 1 FROM a CHANGES (INFORMATION => ALL))",
            "SYNTAX_ERROR",
            "ALL",
        ),
        (
            "REFRESH USING (INSERT INTO SELF SELECT 1 FROM a"
            " CHANGES (INFORMATION => DEFAULT) AT (X))",
            "NOT_SUPPORTED",
            "AT",
        ),
        (
            "REFRESH USING (INSERT INTO SELF SELECT 1 FROM CHANGES((SELECT 1)))",
            "INVALID_STATEMENT",
            "CHANGES((SELECT 1))",
        ),
        (
            "REFRESH_MODE = FULL REFRESH USING (INSERT INTO SELF SELECT * FROM CHANGES(a))",
            "NOT_SUPPORTED",
            "REFRESH_MODE = FULL",
        ),
        (
            "INITIALIZE = ON_SCHEDULE REFRESH USING (INSERT INTO SELF SELECT * FROM CHANGES(a))",
            "NOT_SUPPORTED",
            "INITIALIZE = ON_SCHEDULE",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(text: str, condition: str, place: str) -> None:
    """By name, at its place."""
    with refused(condition, place):
        _task(HEAD + text)
