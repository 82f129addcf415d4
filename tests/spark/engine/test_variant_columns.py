"""VARIANT, which Spark does not compare: rows with one come, change and go all the same."""

from collections.abc import Mapping, Sequence

import pytest

from ctsql.api import Connection
from tests.scenarios.runner import assert_rows

VIEWS = {"whole": "SELECT * FROM t"}
MORE_VIEWS = {
    "joined": "SELECT a.id, b.x FROM t a LEFT JOIN t b ON a.id = b.id + 1",
}
CHANGES = [
    "UPDATE t SET x = parse_json('\"2020-01-01\"') WHERE id = 1",
    "UPDATE t SET x = to_variant_object(array(DATE '2020-01-01')) WHERE id = 1",
    "DELETE FROM t WHERE id = 1",
]
MORE_CHANGES = [
    "INSERT INTO t SELECT 2, parse_json('{\"a\": 2}'), named_struct('v', parse_json('[1, 2]')),"
    " map('k', parse_json('2'))",
    "INSERT INTO t SELECT * FROM t WHERE id = 1",
    "UPDATE t SET x = parse_json('\"2020-01-01\"') WHERE id = 2",
    "UPDATE t SET x = to_variant_object(array(DATE '2020-01-01')) WHERE id = 2",
    "UPDATE t SET x = parse_json('null'), id = 3 WHERE id = 2",
    "DELETE FROM t WHERE id = 1",
]


def _follow(con: Connection, views: Mapping[str, str], changes: Sequence[str]) -> None:
    con.execute(
        "CREATE TABLE t (id INT, x VARIANT, s STRUCT<v: VARIANT>, m MAP<STRING, VARIANT>);"
        "INSERT INTO t SELECT 1, parse_json('{\"a\": 1}'), NULL, NULL"
    )
    for name, query in views.items():
        con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    con.execute(
        "CREATE CONTINUAL TASK seen ON INPUT t AS"
        " (INSERT INTO seen SELECT id, to_json(x) AS x, diff FROM changes(t))"
    )
    for change in changes:
        con.execute(change)
        for name, query in views.items():
            shown = "SELECT to_json(struct(*)), schema_of_variant(x) FROM "
            wanted = con.execute(f"{shown} ({query}) AS q").fetchall()
            assert_rows(con.execute(f"{shown} {name}").fetchall(), wanted, f"{name}: {change}")


def _left(con: Connection) -> list[tuple[object, ...]]:
    """What all changes that the task saw come to."""
    query = "SELECT x, sum(diff) FROM seen GROUP BY x HAVING sum(diff) <> 0"
    return con.execute(query).fetchall()


@pytest.mark.spark
def test_rows_with_a_variant(con: Connection) -> None:
    """A view that shows a VARIANT, and a task over its changes, follow updates and deletes."""
    _follow(con, VIEWS, CHANGES)
    assert _left(con) == []


@pytest.mark.spark
@pytest.mark.slow
def test_variants_in_every_place(con: Connection) -> None:
    """Also within a value, on the side of a join that may be missing, twice, and JSON's null."""
    _follow(con, {**VIEWS, **MORE_VIEWS}, MORE_CHANGES)
    assert_rows(_left(con), [("null", 1)], "all changes together")
