"""A task sees every T of what it reads, each by the query that was there then."""

from collections.abc import Callable

import pytest

from ctsql.api import Connection
from tests.helpers.opened import check_rows, engine_of, item_of
from tests.helpers.turns import beside, turn_at
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark


def test_no_t_is_passed_over_while_a_follower_is_made(
    connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service writes a view that nobody follows at the newest T, but not while one is made."""
    con, service = connect(), connect()
    con.execute("""
        CREATE TABLE t (k INT);
        INSERT INTO t VALUES (1);
        CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t;
        CREATE MATERIALIZED VIEW twice AS SELECT 2 * n AS n FROM m;
        INSERT INTO t VALUES (2);
        INSERT INTO t VALUES (3)""")
    view, known = item_of(service, "twice"), service.now()

    def go_on() -> None:
        engine_of(service).advance([view], known)  # of which the T was bound before
        service.execute("INSERT INTO t VALUES (4)")
        service.execute("INSERT INTO t VALUES (5)")
        service.execute("SELECT * FROM twice").fetchall()

    # The service's turn comes when the task has a table, and no entry in the catalog.
    turn = turn_at(monkeypatch, "catalog_table_made", beside(go_on))
    con.execute(
        "CREATE CONTINUAL TASK seen (n BIGINT) ON INPUT twice"
        " AS (INSERT INTO seen SELECT n FROM twice)"
    )
    assert turn.has_come, "else nothing came between"
    check_rows(con, "SELECT * FROM seen", (6,), (8,), (10,))


def test_what_was_committed_before_is_of_the_query_from_before(con: Connection) -> None:
    """A view that a task follows has the waiting Ts by its old query when it gets another one."""
    con.execute("""
        CREATE TABLE t (k INT);
        CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t;
        CREATE CONTINUAL TASK seen (n BIGINT) ON INPUT m AS (INSERT INTO seen SELECT n FROM m);
        INSERT INTO t VALUES (1);
        INSERT INTO t VALUES (2);
        CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT -count(*) AS n FROM t;
        INSERT INTO t VALUES (3)""")
    check_rows(con, "SELECT * FROM seen", (0,), (1,), (2,), (-2,), (-3,))


def test_a_task_runs_what_waits_by_the_plain_view_from_before(con: Connection) -> None:
    """So has a task that reads a plain view, and a view over it that a task follows."""
    con.execute("""
        CREATE TABLE t (k INT);
        CREATE VIEW factor AS SELECT 1 AS f;
        CREATE CONTINUAL TASK x (k INT) ON INPUT t AS (INSERT INTO x SELECT k * f FROM t, factor);
        CREATE MATERIALIZED VIEW m AS SELECT sum(k * f) AS s FROM t, factor;
        CREATE CONTINUAL TASK seen (s BIGINT) ON INPUT m AS (INSERT INTO seen SELECT s FROM m);
        INSERT INTO t VALUES (1);
        INSERT INTO t VALUES (2);
        CREATE OR REPLACE VIEW factor AS SELECT -1 AS f;
        INSERT INTO t VALUES (4)""")
    check_rows(con, "SELECT * FROM x", (1,), (2,), (-4,))
    check_rows(con, "SELECT * FROM seen", (None,), (1,), (3,), (-7,))


def test_a_plain_view_stays_while_a_task_that_reads_it_is_suspended(con: Connection) -> None:
    """The Ts that it has missed, and those of what it holds up, are of the query from before."""
    con.execute("""
        CREATE TABLE t (k INT);
        CREATE VIEW factor AS SELECT 1 AS f;
        CREATE CONTINUAL TASK x (k INT) ON INPUT t AS (INSERT INTO x SELECT k * f FROM t, factor);
        CREATE CONTINUAL TASK copy (k INT) ON INPUT t AS (INSERT INTO copy SELECT k FROM t);
        CREATE MATERIALIZED VIEW m AS SELECT sum(k * f) AS s FROM copy, factor;
        CREATE CONTINUAL TASK seen (s BIGINT) ON INPUT m AS (INSERT INTO seen SELECT s FROM m)""")
    other = "CREATE OR REPLACE VIEW factor AS SELECT -1 AS f"
    for suspended in ("x", "copy"):
        con.execute(f"ALTER CONTINUAL TASK {suspended} SUSPEND; INSERT INTO t VALUES (1)")
        told = expect_error(con, other, "TASK_SUSPENDED")
        assert f"ALTER CONTINUAL TASK {suspended} RESUME" in str(told)
        con.execute(f"ALTER CONTINUAL TASK {suspended} RESUME")
    con.execute(f"{other}; INSERT INTO t VALUES (4)")
    check_rows(con, "SELECT * FROM x", (1,), (1,), (-4,))
    check_rows(con, "SELECT * FROM seen", (None,), (1,), (2,), (-6,))
