"""Errors of views as they are stored and shown; the rest is the scenario errors_of_views."""

from collections.abc import Callable

import pytest

from ctsql.api import Connection
from tests.helpers.table_folder import folder, log
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark


def test_an_error_is_stored_once_and_keeps_its_time(connect: Callable[[], Connection]) -> None:
    """It is known after a restart; what follows the view fails at the T of the error."""
    con = connect()
    con.execute(
        "CREATE TABLE feed (k INT, v INT);"
        "CREATE MATERIALIZED VIEW ratios AS SELECT k, 100 DIV v AS r FROM feed;"
        "CREATE MATERIALIZED VIEW above AS SELECT k, r + 1 AS r FROM ratios;"
        "CREATE CONTINUAL TASK strict (k INT, r BIGINT) ON INPUT above"
        " AS (INSERT INTO strict SELECT k, r FROM above);"
        "INSERT INTO feed VALUES (1, 10); SELECT * FROM strict; INSERT INTO feed VALUES (2, 0)"
    )
    first = expect_error(con, "SELECT * FROM strict", "VIEW_FAILED")
    expect_error(con, "SELECT * FROM ratios", "VIEW_FAILED")
    states = {row[2]: row[3] for row in con.status().fetchall()}
    assert states == {"ratios": "failed", "above": "behind", "strict": "behind"}
    commits = len(log(folder(con, "ratios")))
    con.close()
    con = connect()
    expect_error(con, "SELECT * FROM above", "VIEW_FAILED")
    assert len(log(folder(con, "ratios"))) == commits
    con.execute("DELETE FROM feed WHERE k = 2")
    failed = expect_error(con, "SELECT * FROM strict", "TASK_FAILED")
    assert failed.given["time"] == first.given["time"]
    assert "by zero" in failed.message


def test_asserted_columns_are_shown(con: Connection) -> None:
    """By DESCRIBE and EXPLAIN."""
    con.execute("CREATE TABLE people (id INT, name TEXT)")
    view = "CREATE MATERIALIZED VIEW named WITH (ASSERT NOT NULL name) AS SELECT * FROM people"
    con.execute(view)
    assert con.execute("DESCRIBE named").fetchall()[1][:3] == ("name", "string", "NOT NULL")
    plan = con.execute("EXPLAIN MATERIALIZED VIEW named").fetchall()[0][0]
    assert plan.endswith("an error if NULL: name")
