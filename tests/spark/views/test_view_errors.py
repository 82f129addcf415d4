"""Errors of views are contents: at a T, definite, gone when the data is mended, with an origin."""

from collections.abc import Callable

import pytest

from ctsql.api import Connection
from tests.helpers.table_folder import folder, log
from tests.scenarios.runner import assert_rows, expect_error

pytestmark = pytest.mark.spark


def test_a_view_that_a_task_follows_heals_and_the_task_knows_where_it_failed(
    connect: Callable[[], Connection],
) -> None:
    """The view goes on; what follows it fails at the T of the error, once, and goes on by SKIP."""
    con = connect()
    con.execute(
        "CREATE TABLE feed (k INT, v INT);"
        "CREATE MATERIALIZED VIEW ratios AS SELECT k, 100 DIV v AS r FROM feed;"
        "CREATE MATERIALIZED VIEW above AS SELECT k, r + 1 AS r FROM ratios;"
        "CREATE CONTINUAL TASK strict (k INT, r BIGINT) ON INPUT above"
        " AS (INSERT INTO strict SELECT k, r FROM above);"
        "CREATE CONTINUAL TASK lenient (k INT, r BIGINT) ON INPUT ratios WITH (ON ERROR = 'skip')"
        " AS (INSERT INTO lenient SELECT k, r FROM ratios);"
        "INSERT INTO feed VALUES (1, 10); SELECT * FROM strict;"
        "INSERT INTO feed VALUES (2, 0)"
    )
    first = expect_error(con, "SELECT * FROM strict", "VIEW_FAILED")
    assert 'view "ratios" cannot be computed' in first.message  # the origin, not what follows it
    con.execute("INSERT INTO feed VALUES (3, 5)")  # it goes on failing for the same reason
    expect_error(con, "SELECT * FROM ratios", "VIEW_FAILED")
    states = {row[2]: row[3] for row in con.status().fetchall()}
    assert states == {
        "ratios": "failed", "above": "behind", "strict": "behind", "lenient": "behind",
    }  # fmt: skip
    commits = len(log(folder(con, "ratios")))
    con.close()
    con = connect()
    expect_error(con, "SELECT * FROM above", "VIEW_FAILED")
    assert len(log(folder(con, "ratios"))) == commits  # known after a restart, not written again
    con.execute("DELETE FROM feed WHERE k = 2")
    assert_rows(con.execute("SELECT * FROM above").fetchall(), [(1, 11), (3, 21)], "healed")
    failed = expect_error(con, "SELECT * FROM strict", "TASK_FAILED")
    assert failed.given["time"] == first.given["time"]
    assert 'view "ratios"' in failed.message
    assert "by zero" in failed.message
    expect_error(con, "ALTER CONTINUAL TASK strict RETRY", "TASK_FAILED")
    con.execute("ALTER CONTINUAL TASK strict SKIP")
    assert_rows(con.execute("SELECT * FROM strict").fetchall(), [(1, 11), (3, 21)], "what changed")
    assert_rows(con.execute("SELECT * FROM lenient").fetchall(), [(1, 10), (3, 20)], "by itself")
    past = f"SELECT * FROM ratios AS OF {first.given['time']}"
    expect_error(con, past, "VIEW_FAILED")  # what it was at that T stays


def test_a_null_is_an_error_where_the_view_asserts_that_there_is_none(con: Connection) -> None:
    """The message names column and view; dependants say the origin; mended data heals it."""
    con.execute(
        "CREATE TABLE people (id INT, name TEXT);"
        "CREATE MATERIALIZED VIEW named WITH (ASSERT NOT NULL name, REFRESH ON COMMIT)"
        " AS SELECT id, name FROM people;"
        "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM named;"
        "INSERT INTO people VALUES (1, 'Ada')"
    )
    assert con.execute("SELECT * FROM n").fetchall() == [(1,)]
    con.execute("INSERT INTO people VALUES (2, NULL)")
    for query in ("SELECT id FROM named", "SELECT * FROM n"):
        found = expect_error(con, query, "VIEW_FAILED")
        assert 'column "name" of materialized view "named" is NULL' in found.message
    con.execute("UPDATE people SET name = 'Bob' WHERE id = 2")
    assert con.execute("SELECT * FROM n").fetchall() == [(2,)]
    assert con.execute("DESCRIBE named").fetchall()[1][:3] == ("name", "string", "NOT NULL")
    shown = con.execute("SHOW CREATE named").fetchall()[0][1]
    assert "ASSERT NOT NULL name" in shown
    plan = con.execute("EXPLAIN MATERIALIZED VIEW named").fetchall()[0][0]
    assert plan.endswith("an error if NULL: name")
    con.execute("INSERT INTO people VALUES (3, NULL)")
    again = "CREATE MATERIALIZED VIEW a WITH (ASSERT NOT NULL (id, name)) AS SELECT * FROM people"
    expect_error(con, again, "VIEW_FAILED")
    expect_error(con, "SELECT * FROM a", "UNKNOWN_RELATION")
    unknown = again.replace("(id, name)", "(id, nam)")
    assert expect_error(con, unknown, "UNKNOWN_COLUMN").hint == 'Did you mean "name"?'
