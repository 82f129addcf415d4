"""Which parts of two definitions say something else: a table of cases."""

import pytest

from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source
from ctsql.planner.definition_parts import Part, Words
from ctsql.planner.syntax import parse

VIEW = "CREATE MATERIALIZED VIEW m WITH (REFRESH EVERY '1 day') AS SELECT k, v::INT8 FROM t"
TASK = """CREATE CONTINUAL TASK c (k INT) ON INPUT t AS r WITH (SNAPSHOT = true) AS (
    DELETE FROM c WHERE k IN (SELECT k FROM r); INSERT INTO c SELECT k FROM r WHERE k > 1)"""
TABLE = "CREATE TABLE t (k INT) TBLPROPERTIES ('a' = 'b') COMMENT 'x'"
KEYS = """CREATE CONTINUAL TASK c (k INT, j STRING) ON INPUT t AS (INSERT INTO c
    SELECT CAST(m.Key AS INT), v:Name, to_json(struct(id AS Id)) FROM t)"""
FLOW = "CREATE FLOW f AS AUTO CDC INTO d FROM t KEYS (k) SEQUENCE BY v"


def _changed(old: str, new: str) -> set[Part]:
    def meaning(name: Name) -> str:
        return "/".join(name.key)

    words = Words("default", meaning)
    one, other = (words.parts(parse(Source(text).whole())) for text in (old, new))
    return {part for part, said in other.items() if one[part] != said}


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (VIEW, VIEW, set()),
        (VIEW, "-- note\n" + VIEW.lower().replace("from t", "FROM default.T"), set()),
        (VIEW, VIEW.replace("v::INT8", "v::BIGINT"), set()),
        (VIEW, VIEW.replace("VIEW m", "VIEW m (a, b)"), {Part.COLUMNS}),
        (VIEW, VIEW.replace("1 day", "2 days"), {Part.OPTIONS}),
        (VIEW, VIEW.replace("FROM t", "FROM u"), {Part.QUERY}),
        (VIEW, VIEW.replace("FROM t", "FROM t WHERE v = 'A'"), {Part.QUERY}),
        (VIEW + " WHERE v = 'A'", VIEW + " WHERE v = 'a'", {Part.QUERY}),
        (TASK, TASK, set()),
        (TASK, TASK.replace("INSERT INTO c", "insert into `default`.C"), set()),
        (TASK, TASK.replace("CREATE", "CREATE OR REPLACE"), set()),
        (TASK, TASK.replace("k > 1", "k > 2"), {Part.BODY}),
        (TASK, TASK.replace("ON INPUT t", "ON INPUT u"), {Part.INPUTS}),
        (TASK, TASK.replace("t AS r", "t AS r WHERE k > 0"), {Part.INPUTS}),
        (TASK, TASK.replace("k INT)", "k INT8)"), {Part.COLUMNS}),
        (TASK, TASK.replace("= true", "= false"), {Part.OPTIONS}),
        (TABLE, TABLE.replace("k INT", "j INT"), set()),
        (TABLE, TABLE.replace("COMMENT 'x'", "COMMENT 'y'"), set()),
        (TABLE, "CREATE TABLE t (k INT) USING delta TBLPROPERTIES ('a' = 'b')", set()),
        (TABLE, TABLE.replace("'b'", "'c'"), {Part.LAYOUT}),
        ("CREATE TABLE t AS SELECT 1 AS k", "CREATE TABLE t AS SELECT 2 AS k", {Part.QUERY}),
        (FLOW, FLOW.lower(), set()),
        (KEYS, KEYS.replace("AS INT", "as int").replace("SELECT", "select"), set()),
        (KEYS, KEYS.replace("m.Key", "m.key"), {Part.BODY}),
        (KEYS, KEYS.replace("v:Name", "v:name"), {Part.BODY}),
        (KEYS, KEYS.replace("AS Id", "AS id"), {Part.BODY}),
        (FLOW, FLOW.replace("KEYS (k)", "KEYS (j)"), {Part.BODY}),
    ],
)
def test_parts(old: str, new: str, parts: set[Part]) -> None:
    """What is told apart is what has another meaning, as far as words tell."""
    assert _changed(old, new) == parts
