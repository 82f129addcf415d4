"""CHAR(n): views and tasks compare it as a SELECT over the table does, padded."""

from collections.abc import Mapping

from ctsql.api import Connection
from tests.scenarios.runner import assert_rows

FORMS = {
    "equal": "SELECT id FROM t WHERE c = 'ab'",
    "joined": "SELECT t.id, u.id AS uid FROM t JOIN u ON t.c = u.c",
    "grouped": "SELECT c, count(*) AS k, sum(n) AS s FROM t GROUP BY c",
    "whole": "SELECT * FROM t",
    "nested": "SELECT id, s, a FROM t WHERE s.x = 'y   '",
}
CHANGES = [
    "INSERT INTO t VALUES (3, 'ab', 'ab', 7, named_struct('x', 'y'), array('z')),"
    " (6, 'x', 'q', 1, NULL, NULL)",
    "UPDATE t SET c = 'ab', n = 5 WHERE id = 2",
    "DELETE FROM t WHERE id = 1",
]


def _begin(con: Connection) -> None:
    con.execute(
        "CREATE TABLE t (id INT, c CHAR(5), v VARCHAR(5), n INT, s STRUCT<x: CHAR(4)>,"
        " a ARRAY<CHAR(3)>); CREATE TABLE u (id INT, c CHAR(8));"
        "INSERT INTO t VALUES (1, 'ab', 'ab', 1, named_struct('x', 'y'), array('z')),"
        " (2, 'x', 'x ', 2, NULL, NULL), (4, NULL, NULL, 3, NULL, NULL);"
        "INSERT INTO u VALUES (10, 'ab')"
    )
    for name, query in FORMS.items():
        con.execute(
            f"CREATE MATERIALIZED VIEW `{name}` WITH (REFRESH POLICY = incremental) AS {query}"
        )


def _check(con: Connection, forms: Mapping[str, str], at: str) -> None:
    for name, query in forms.items():
        wanted = con.execute(query).fetchall()
        assert_rows(con.execute(f"SELECT * FROM `{name}`").fetchall(), wanted, f"{name}: {at}")


def test_char_is_compared_as_in_the_table(con: Connection) -> None:
    """Views, a view over one, and tasks find the rows of a CHAR that the same SELECT finds."""
    _begin(con)
    con.execute(
        "CREATE MATERIALIZED VIEW above AS SELECT id FROM whole WHERE c = 'ab';"
        "CREATE CONTINUAL TASK seen ON INPUT t AS"
        " (INSERT INTO seen SELECT id, diff FROM changes(t) WHERE c = 'ab');"
        "CREATE CONTINUAL TASK latest (c CHAR(5), n INT, s STRUCT<x: CHAR(4)>) ON INPUT t AS ("
        "DELETE FROM latest WHERE c IN (SELECT c FROM t);"
        "INSERT INTO latest SELECT c, max(n), NULL FROM t GROUP BY c;"
        "UPDATE latest SET s = named_struct('x', 'q') WHERE c = 'ab')"
    )
    forms = {**FORMS, "above": FORMS["equal"]}
    for change in CHANGES:
        con.execute(change)
        _check(con, forms, change)
    seen = con.execute("SELECT * FROM seen").fetchall()
    assert_rows(seen, [(1, 1), (3, 1), (2, 1), (1, -1)], "changes of a CHAR")
    latest = con.execute("SELECT c, n, s.x FROM latest").fetchall()
    assert_rows(latest, [("ab   ", 5, "q   "), ("x    ", 1, None), (None, 3, None)], "by key")
    described = dict(row[:2] for row in con.execute("DESCRIBE whole").fetchall())
    assert described["c"] == "char(5)"
    assert described["v"] == "string"
