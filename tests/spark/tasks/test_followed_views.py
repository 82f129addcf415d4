"""A task sees every T of what it reads, each by the query that was there then."""

from collections.abc import Callable

import pytest

from ctsql.api import Connection
from tests.helpers.opened import check_rows, engine_of, item_of
from tests.helpers.turns import beside, turn_at


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
