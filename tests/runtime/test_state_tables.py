"""Views kept by a state table beside them hold what recomputing gives, round for round."""

from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.runtime.incremental.choice import Strategy
from tests.runtime.following import rows, said

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE t (k INT, v INT, d DECIMAL(12, 2));
INSERT INTO t VALUES (1, 10, 1.25), (1, 10, 1.25), (1, NULL, 0.01), (2, 3, NULL), (NULL, 5, 7),
  (NULL, 6, 2.34), (3, 7, -0.05)
"""
ROUNDS = (
    "INSERT INTO t VALUES (1, 11, 3.33), (9, 9, 0.10), (9, NULL, NULL)",
    "DELETE FROM t WHERE k = 3 OR v = 10",
    "UPDATE t SET v = CASE WHEN k = 2 THEN NULL ELSE v + 1 END, d = d / 3 WHERE k IS NOT NULL",
    "INSERT INTO t VALUES (3, 1, 1), (3, -4, 2.01), (2, 8, 1)",
    "DELETE FROM t",
    "INSERT INTO t VALUES (1, 1, 1)",
)
VIEWS = {
    "averages": "SELECT k, avg(v) AS a, avg(d) AS b FROM t GROUP BY k",
    "whole": "SELECT count(*) AS n, sum(d) AS s, avg(v) AS a FROM t",
    "hidden_key": "SELECT sum(v) AS s FROM t GROUP BY k",
    "having": "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING count(v) > 1",
}
GIVEN = "WITH (REFRESH POLICY = incremental)"


def create(con: Connection, *names: str) -> None:
    """Make views that follow wherever they can."""
    for name in names:
        con.execute(f"CREATE MATERIALIZED VIEW {name} {GIVEN} AS {VIEWS[name]}")


def check(con: Connection, name: str, query: str | None = None) -> dict[str, Any]:
    """A view equals its query; what its commit says."""
    assert rows(con, f"SELECT * FROM {name}") == rows(con, query or VIEWS[name]), name
    return said(con, name)


def follow(con: Connection, *names: str) -> None:
    """Every round, every view: as recomputed, and by the state table."""
    con.execute(TABLES)
    create(con, *names)
    for statement in ROUNDS:
        con.execute(statement)
        for name in names:
            told = check(con, name)
            assert told["strategy"] == Strategy.STATE_TABLE.value, (name, statement, told)


def test_averages_follow_from_their_state(con: Connection) -> None:
    """NULLs, groups that go and come back, averages of integers and of decimals."""
    follow(con, "averages")


@pytest.mark.slow
def test_other_views_follow_from_their_state(con: Connection) -> None:
    """One group of all rows, groups whose key is not shown, and groups that HAVING hides."""
    follow(con, "whole", "hidden_key", "having")
