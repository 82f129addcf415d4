"""What Spark cannot run in a body is refused at CREATE, in every clause, and nothing is created."""

from collections.abc import Iterator
from pathlib import Path

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.table_folder import tree

CONDITIONS = {
    "DELETE": "DELETE FROM k WHERE {}",
    "DELETE, WITH": "WITH c AS (SELECT id FROM d WHERE {}) DELETE FROM k WHERE id IN (TABLE c)",
    "DELETE, subquery": "DELETE FROM k WHERE EXISTS (SELECT 1 FROM d WHERE {})",
    "UPDATE": "UPDATE k SET v = 1 WHERE {}",
    "UPDATE, subquery": "UPDATE k SET v = (SELECT max(v) FROM d WHERE {})",
    "INSERT": "INSERT INTO k SELECT id, v FROM d WHERE {}",
    "USING": "MERGE INTO k USING (SELECT * FROM d WHERE {}) AS s ON k.id = s.id "
    "WHEN NOT MATCHED THEN INSERT *",
    "ON": "MERGE INTO k USING d ON {} WHEN MATCHED THEN DELETE",
    "ON, insert only": "MERGE INTO k USING d ON {} WHEN NOT MATCHED THEN INSERT *",
    "ON, by source": "MERGE INTO k USING d ON {} WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "WHEN MATCHED": "MERGE INTO k USING d ON k.id = d.id WHEN MATCHED AND {} THEN DELETE",
    "WHEN NOT MATCHED": "MERGE INTO k USING d ON k.id = d.id WHEN NOT MATCHED AND {} THEN INSERT *",
    "BY SOURCE": "MERGE INTO k USING d ON k.id = d.id "
    "WHEN NOT MATCHED BY SOURCE AND {} THEN DELETE",
}
VALUES = {
    "SET": "UPDATE k SET v = {}",
    "SELECT": "INSERT INTO k SELECT id, {} FROM d",
    "VALUES": "INSERT INTO k VALUES (1, {})",
    "MERGE, SET": "MERGE INTO k USING d ON k.id = d.id WHEN MATCHED THEN UPDATE SET v = {}",
    "MERGE, VALUES": "MERGE INTO k USING d ON k.id = d.id "
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (d.id, {})",
    "MERGE, all VALUES": "MERGE INTO k USING d ON k.id = d.id "
    "WHEN NOT MATCHED THEN INSERT (v) VALUES ({})",
    "BY SOURCE, SET": "MERGE INTO k USING d ON k.id = d.id "
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = {}",
}
TWICE = "EXISTS (SELECT 1 FROM d AS a, d AS b WHERE v = 1)"
WRONG_CONDITIONS = {
    "nope = 1": "UNKNOWN_COLUMN",
    TWICE: "AMBIGUOUS_COLUMN",
    "1 + 1": "TYPE_MISMATCH",
    "count(*) > 1": "INVALID_STATEMENT",
    "nofun(1) = 1": "UNKNOWN_FUNCTION",
    "1 IN (SELECT nope FROM d)": "UNKNOWN_COLUMN",
}
WRONG_VALUES = {
    "nope": "UNKNOWN_COLUMN",
    "array(1)": "TYPE_MISMATCH",
    "count(*)": "INVALID_STATEMENT",
    "sum(1) OVER ()": "INVALID_STATEMENT",
    "explode(array(1))": "INVALID_STATEMENT",
    "nofun(1)": "UNKNOWN_FUNCTION",
    "(SELECT nope FROM d)": "UNKNOWN_COLUMN",
}
QUERIES = ("SELECT", "VALUES")
"""Clauses of a query: it has aggregates, windows and generators by rules of its own."""


def wrong_bodies() -> Iterator[tuple[str, str, str]]:
    """Each body with what is wrong in it, and the condition."""
    for text in CONDITIONS.values():
        for wrong, condition in WRONG_CONDITIONS.items():
            yield text.format(wrong), wrong, condition
    for name, text in VALUES.items():
        for wrong, condition in WRONG_VALUES.items():
            if name not in QUERIES or (condition != "INVALID_STATEMENT" and "(" not in wrong[:1]):
                yield text.format(wrong), wrong, condition
    for name in ("ON", "ON, insert only", "ON, by source", "WHEN MATCHED"):
        yield CONDITIONS[name].format("id = 1"), "id", "AMBIGUOUS_COLUMN"


def test_wrong_bodies_are_refused_at_create(con: Connection, tmp_path: Path) -> None:
    """Each clause is analysed, the error is at its place, and neither object nor file is made."""
    con.execute("CREATE TABLE d (id INT, v INT); INSERT INTO d VALUES (1, 1)")
    before = tree(tmp_path)
    outcomes = {}
    for body, wrong, condition in wrong_bodies():
        try:
            con.execute(f"CREATE CONTINUAL TASK k (id INT, v INT) ON INPUT d AS ({body})")
            outcomes[body] = "created"
            con.execute("DROP CONTINUAL TASK k")
        except CtsqlError as problem:
            place = "" if problem.span is None else problem.span.text.strip()
            is_there = bool(place) and (place in wrong or wrong in place) and place != body
            if problem.condition != condition or not is_there:
                outcomes[body] = f"{problem.condition} at {place}"
    assert outcomes == {}
    assert tree(tmp_path) == before
