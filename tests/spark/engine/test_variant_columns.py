"""VARIANT, which Spark does not compare: rows with one come, change and go all the same."""

from ctsql.api import Connection
from tests.scenarios.runner import assert_rows

VIEWS = {
    "whole": "SELECT * FROM t",
    "joined": "SELECT a.id, b.x FROM t a LEFT JOIN t b ON a.id = b.id + 1",
}
CHANGES = [
    "INSERT INTO t SELECT 2, parse_json('{\"a\": 2}'), named_struct('v', parse_json('[1, 2]')),"
    " map('k', parse_json('2'))",
    "UPDATE t SET x = parse_json('\"2020-01-01\"') WHERE id = 2",
    "UPDATE t SET x = to_variant_object(array(DATE '2020-01-01')) WHERE id = 2",
    "UPDATE t SET x = parse_json('null'), id = 3 WHERE id = 2",
    "DELETE FROM t WHERE id = 1",
]


def test_rows_with_a_variant(con: Connection) -> None:
    """Views that show a VARIANT, and a task over its changes, follow updates and deletes."""
    con.execute(
        "CREATE TABLE t (id INT, x VARIANT, s STRUCT<v: VARIANT>, m MAP<STRING, VARIANT>);"
        "INSERT INTO t SELECT 1, parse_json('{\"a\": 1}'), NULL, NULL"
    )
    for name, query in VIEWS.items():
        con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    con.execute(
        "CREATE CONTINUAL TASK seen ON INPUT t AS"
        " (INSERT INTO seen SELECT id, to_json(x) AS x, diff FROM changes(t))"
    )
    for change in CHANGES:
        con.execute(change)
        for name, query in VIEWS.items():
            shown = "SELECT to_json(struct(*)), schema_of_variant(x) FROM "
            wanted = con.execute(f"{shown} ({query}) AS q").fetchall()
            assert_rows(con.execute(f"{shown} {name}").fetchall(), wanted, f"{name}: {change}")
    left = "SELECT x, sum(diff) FROM seen GROUP BY x HAVING sum(diff) <> 0"
    assert con.execute(left).fetchall() == [("null", 1)]
