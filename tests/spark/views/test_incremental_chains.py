"""Views that follow views and tasks, or are followed, disturbed and killed: each state is right."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.runtime.views.refresh_policy import Strategy
from tests.helpers.opened import item_of
from tests.helpers.processes import run_killed
from tests.helpers.table_folder import check_written_once, folder, log, rows_at, transaction
from tests.helpers.view_reports import rows, said

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FOLLOW = "WITH (REFRESH POLICY = incremental)"
TABLES = """
CREATE TABLE t (k INT, v INT);
INSERT INTO t VALUES (1, 1), (1, 1), (2, NULL), (NULL, 3);
"""
QUERIES = {
    "sums": "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k",
    "big": "SELECT k, s FROM sums WHERE n > 1",
    "diamond": "SELECT t.k, t.v, sums.s FROM t JOIN sums ON t.k = sums.k",
    "logged": "SELECT k, count(*) AS n FROM audit GROUP BY k",
    "above": "SELECT n, count(*) AS m FROM logged GROUP BY n",
}
TASKS = """
CREATE CONTINUAL TASK audit (k INT, v INT) ON INPUT t AS (INSERT INTO audit SELECT k, v FROM t);
"""
FOLLOWER = """
CREATE CONTINUAL TASK seen (k INT, s BIGINT) ON INPUT big AS (INSERT INTO seen SELECT * FROM big);
"""
ROUNDS = (
    "INSERT INTO t VALUES (1, 5), (3, 7), (3, 7)",
    "UPDATE t SET v = 2 WHERE k = 1",
    "DELETE FROM t WHERE k IS NULL OR v = 7; INSERT INTO t VALUES (2, 8)",
)


def test_chains_and_a_diamond(con: Connection) -> None:
    """Every object of a chain follows; a reader of any version sees the query at some T."""
    con.execute(TABLES + TASKS)
    for name, query in QUERIES.items():
        con.execute(f"CREATE MATERIALIZED VIEW {name} {FOLLOW} AS {query}")
    con.execute(FOLLOWER)
    for statements in ROUNDS:
        con.execute(statements)
        for name, query in reversed(QUERIES.items()):
            assert rows(con, f"SELECT * FROM {name}") == rows(con, query), (name, statements)
            told = said(con, name)
            assert told["strategy"] != Strategy.RECOMPUTE.value, (name, told)
    for name, query in QUERIES.items():
        for version, commit in enumerate(log(folder(con, name))):
            upper = transaction(commit)
            if upper is None or upper - 1 < created(con, name):
                continue
            found = rows_at(con, folder(con, name), version)
            wanted = con.execute(f"{query} AS OF {upper - 1}").fetchall()
            assert sorted(map(repr, found)) == sorted(map(repr, wanted)), (name, version)


def created(con: Connection, name: str) -> int:
    """The time of an object's creation."""
    return item_of(con, name).created_at


def test_rows_of_others_are_corrected_and_then_it_follows_again(con: Connection) -> None:
    """What somebody else wrote makes one comparison; a row that is gone is noticed without it."""
    con.execute(TABLES)
    query = QUERIES["sums"]
    con.execute(f"CREATE MATERIALIZED VIEW sums {FOLLOW} AS {query}")
    con.execute("INSERT INTO t VALUES (1, 5)")
    assert rows(con, "SELECT * FROM sums") == rows(con, query)
    location = str(folder(con, "sums"))
    wrong = con.spark.createDataFrame([(7, 7, 7), (1, 1, 1)], "k INT, s BIGINT, n BIGINT")
    wrong.write.format("delta").mode("append").save(location)
    con.spark.sql(f"DELETE FROM delta.`{location}` WHERE k = 2")
    con.execute("INSERT INTO t VALUES (4, 5)")
    assert rows(con, "SELECT * FROM sums") == rows(con, query)
    assert said(con, "sums")["why"] == "FOREIGN_ROWS"
    con.execute("INSERT INTO t VALUES (4, 6)")
    assert rows(con, "SELECT * FROM sums") == rows(con, query)
    assert said(con, "sums")["strategy"] == Strategy.AFFECTED_KEYS.value


def test_a_replaced_query_is_compared_once(con: Connection) -> None:
    """CREATE OR REPLACE commits the difference; from then on the new query is followed."""
    con.execute(TABLES)
    con.execute(f"CREATE MATERIALIZED VIEW sums {FOLLOW} AS {QUERIES['sums']}")
    other = "SELECT k, CAST(max(v) AS BIGINT) AS s, count(*) AS n FROM t GROUP BY k"
    con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW sums {FOLLOW} AS {other}")
    assert rows(con, "SELECT * FROM sums") == rows(con, other)
    con.execute("DELETE FROM t WHERE k = 1")
    assert rows(con, "SELECT * FROM sums") == rows(con, other)
    assert said(con, "sums")["strategy"] == Strategy.AFFECTED_KEYS.value


@pytest.mark.parametrize("point", ["output_staged", "output_committed", "timeline_committed"])
def test_killed_while_following(
    point: str, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """The next process goes on; each T is written once."""
    first = connect()
    first.execute(TABLES)
    first.execute(f"CREATE MATERIALIZED VIEW sums {FOLLOW} AS {QUERIES['sums']}")
    first.execute("SELECT * FROM sums").fetchall()
    first.close()
    script = ["INSERT INTO t VALUES (1, 9), (5, 5)", "SELECT * FROM sums"]
    run_killed(warehouse, script, point)
    con = connect()
    con.execute("INSERT INTO t VALUES (2, 2)")
    assert rows(con, "SELECT * FROM sums") == rows(con, QUERIES["sums"])
    assert said(con, "sums")["strategy"] == Strategy.AFFECTED_KEYS.value
    check_written_once(folder(con, "sums"))
