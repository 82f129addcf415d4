"""Views kept by a state table beside them hold what recomputing gives, round for round."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.views import refresh_policy, state_table
from ctsql.runtime.views.refresh_policy import Costs, Strategy
from ctsql.runtime.views.side_table import side_tables_of
from ctsql.runtime.views.time_limit import TimeLimit
from tests.crash.test_faults import STATE_COMMITTED
from tests.helpers.opened import engine_of
from tests.helpers.processes import run_killed
from tests.helpers.view_reports import rows, said

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
)
VIEWS = {
    "averages": "SELECT k, avg(v) AS a, avg(d) AS b FROM t GROUP BY k",
    "best": "WITH g AS (SELECT k, sum(d) AS s, avg(v) AS a FROM t GROUP BY k) "
    "SELECT u.w, g.s, g.a FROM u JOIN g ON u.k = g.k WHERE g.s >= (SELECT avg(s) FROM g)",
    "ranked": "WITH g AS (SELECT k, sum(d) AS s FROM t GROUP BY k) "
    "SELECT s, rank() OVER (ORDER BY s) AS r FROM g WHERE s <= (SELECT max(s) FROM g)",
}
GIVEN = "WITH (REFRESH POLICY = incremental)"


FILLED, ADDED = "it was filled from all rows", "the change was added to its groups"


def folder(con: Connection, view: str = "averages") -> str:
    """Where the state table of a view is."""
    warehouse = engine_of(con).warehouse
    item = next(i for i in warehouse.catalog if i.name.name == view)
    (found,) = side_tables_of(warehouse, item)
    return found.table.location


def create(con: Connection, *names: str) -> None:
    """Make views that follow wherever they can."""
    for name in names:
        con.execute(f"CREATE MATERIALIZED VIEW {name} {GIVEN} AS {VIEWS[name]}")


def check(con: Connection, name: str, query: str | None = None) -> dict[str, Any]:
    """A view equals its query; what its commit says."""
    assert rows(con, f"SELECT * FROM {name}") == rows(con, query or VIEWS[name]), name
    return said(con, name)


def test_groups_follow_from_their_state(con: Connection) -> None:
    """The groups change, then only what they are joined with, then the groups again.

    They come and lose rows; they are shown, with averages of integers and of decimals, or compared.
    """
    con.execute(f"{TABLES}; CREATE TABLE u (k INT, w INT); INSERT INTO u VALUES (1, 1), (2, 2)")
    create(con, *VIEWS)
    of_others = "INSERT INTO u VALUES (1, 3), (9, 9)"
    for statement in (ROUNDS[0], of_others, ROUNDS[1], ROUNDS[4]):
        con.execute(statement)
        shown = {of_others: ("best",), ROUNDS[4]: ("best", "ranked")}.get(statement, VIEWS)
        for name in shown:
            told = check(con, name)
            assert told["strategy"] == Strategy.STATE_TABLE.value, (statement, name, told)


def test_large_groups_are_read_once(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view's rows and its state come of one reading of the table."""
    monkeypatch.setattr(Costs, "of", lambda _: Costs())  # what either way took is not the point
    con.execute("CREATE TABLE t (k INT, v BIGINT)")
    con.execute("INSERT INTO t SELECT id % 3, id FROM range(400000)")
    query = "SELECT k, sum(v) AS s FROM t WHERE v >= 0 GROUP BY k"
    con.execute(f"CREATE MATERIALIZED VIEW sums AS {query}; REFRESH MATERIALIZED VIEW sums")
    told = check(con, "sums", query)
    assert (told["why"], told["state_did"]) == ("FIRST_WRITE", FILLED)
    assert told["work"]["rows_read"] < 2 * 400_000
    con.execute("DELETE FROM t WHERE v < 9")
    told = check(con, "sums", query)
    assert (told["strategy"], told["state_did"]) == (Strategy.STATE_TABLE.value, ADDED)
    monkeypatch.setattr(Costs, "of", lambda _: Costs(full_ms=1, is_followed=True, fulls=1))
    monkeypatch.setattr(refresh_policy, "GRACE_MS", 0)
    con.execute("DELETE FROM t WHERE v < 99")
    told = check(con, "sums", query)
    assert (told["why"], told["state_did"]) == ("TOOK_LONGER", FILLED)


def test_groups_that_are_too_many(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that would be read whole at each refresh have no state table above a number."""
    con.execute(TABLES)
    query = "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 2"
    for count, refused in ((4, None), (3, "STATE_LARGE")):
        monkeypatch.setattr(state_table, "GROUPS_MAX", count)
        con.execute(f"CREATE MATERIALIZED VIEW upto_{count} {GIVEN} AS {query}")
        assert check(con, f"upto_{count}", query)["state"].get("refused") == refused
    con.execute("INSERT INTO t VALUES (2, 1, 2), (2, 1, 2)")
    assert check(con, "upto_4", query)["state_did"] == ADDED
    assert check(con, "upto_3", query)["strategy"] == Strategy.FIRST_ROWS.value


WITHOUT_ROWS = {
    "shown": "SELECT k, 10 / sum(v) AS r FROM t GROUP BY k",
    "kept": "SELECT k, sum(v) AS r FROM t GROUP BY k HAVING 10 / sum(v) > 0",
    "of_all": "SELECT 10 / sum(v) AS r FROM t WHERE k = 1",
    "not_null": "SELECT k, nullif(sum(v), 0) AS r FROM t GROUP BY k",
}


def test_groups_of_which_no_rows_can_be_made(con: Connection) -> None:
    """The groups can be stored, but the view is an error until the data is mended."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 5), (1, -5), (2, 4)")
    rules = {"not_null": "(NOT NULL (r))"}
    made = {
        name: f"CREATE MATERIALIZED VIEW {name} {rules.get(name, '')} "
        f"WITH (REFRESH POLICY = strict) AS {query}"
        for name, query in WITHOUT_ROWS.items()
    }
    for statement in made.values():
        with pytest.raises(CtsqlError, match="VIEW_FAILED"):
            con.execute(statement)
    con.execute("INSERT INTO t VALUES (1, 2)")
    for name, query in WITHOUT_ROWS.items():
        con.execute(made[name])
        assert check(con, name, query)["state_did"] == FILLED, name
    con.execute("INSERT INTO t VALUES (1, -2)")
    for name in WITHOUT_ROWS:
        with pytest.raises(CtsqlError, match="VIEW_FAILED"):
            con.execute(f"SELECT * FROM {name}")
    con.execute("INSERT INTO t VALUES (1, 3)")
    for name, query in WITHOUT_ROWS.items():
        check(con, name, query)
    con.execute("INSERT INTO t VALUES (1, 4)")
    for name, query in WITHOUT_ROWS.items():
        assert check(con, name, query)["strategy"] == Strategy.STATE_TABLE.value, name


def test_a_long_job_is_given_up(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark job of a refresh beyond its limit is cancelled, and the view recomputed."""
    con.execute(
        "CREATE TABLE t (k INT, v BIGINT); INSERT INTO t SELECT id % 9, id FROM range(20000);"
        "CREATE TABLE u (k INT, w BIGINT); INSERT INTO u SELECT id % 9, id FROM range(20000)"
    )
    query = "SELECT t.k, max(v % 7 + w % 5) AS m FROM t JOIN u ON t.k = u.k GROUP BY t.k"
    con.execute(f"CREATE MATERIALIZED VIEW most AS {query}; REFRESH MATERIALIZED VIEW most")
    monkeypatch.setattr(Costs, "of", lambda _: Costs(full_ms=1, is_followed=True, fulls=2))
    monkeypatch.setattr(TimeLimit, "check", lambda _: None)  # of what is not begun yet
    con.execute("INSERT INTO u SELECT id % 9, id * 11 FROM range(1000)")
    told = check(con, "most", query)
    assert (told["strategy"], told["why"]) == (Strategy.RECOMPUTE.value, "TOOK_LONGER")


def test_averages_that_are_not_exact_are_not_kept(con: Connection) -> None:
    """Spark adds integers as doubles: above 2^53 the order counts, so there is no state."""
    con.execute("CREATE TABLE t (k INT, v BIGINT); INSERT INTO t VALUES (1, 0), (2, 6)")
    query = "SELECT k, avg(v) AS a FROM t GROUP BY k"
    con.execute(f"CREATE MATERIALIZED VIEW m {GIVEN} AS {query}")
    assert said(con, "m")["state_did"] == FILLED
    con.execute(f"INSERT INTO t VALUES (1, {2**60}), (1, {2**60})")
    told = check(con, "m", query)
    assert told["strategy"] == Strategy.AFFECTED_KEYS.value
    assert told["state"]["refused"] == "STATE_ROUNDS"
    con.execute("INSERT INTO t VALUES (2, 7)")
    assert check(con, "m", query)["state"]["refused"] == "STATE_ROUNDS"
    shown = "\n".join(row[0] for row in con.execute("EXPLAIN ANALYZE m").fetchall())
    assert "no state table because STATE_ROUNDS" in shown
    con.execute("DELETE FROM t WHERE v > 100 OR v < 0; REFRESH MATERIALIZED VIEW m FULL")
    con.execute("INSERT INTO t VALUES (2, 8)")
    assert check(con, "m", query)["state_did"] == FILLED


@pytest.mark.slow
def test_statements_about_the_view(con: Connection) -> None:
    """RENAME keeps the state, REPLACE has another, REPAIR compares it, DROP takes it away."""
    con.execute(TABLES)
    create(con, "averages")
    first = folder(con)
    con.execute("ALTER MATERIALIZED VIEW averages RENAME TO renamed")
    con.execute(ROUNDS[0])
    told = check(con, "renamed", VIEWS["averages"])
    assert told["strategy"] == Strategy.STATE_TABLE.value
    con.execute("ALTER MATERIALIZED VIEW renamed RENAME TO averages")
    other = "SELECT k, avg(v) AS a, avg(d) AS b FROM t WHERE v > 0 GROUP BY k"
    con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW averages {GIVEN} AS {other}")
    check(con, "averages", other)
    con.execute("INSERT INTO t VALUES (3, 1, 2.5)")
    assert check(con, "averages", other)["state_did"] == FILLED
    second = folder(con)
    assert first != second
    assert not Path(first.removeprefix("file:")).exists()
    table = second.split("/_state/")[0]
    con.spark.sql(f"DELETE FROM delta.`{table}` WHERE k = 1")
    con.execute("VERIFY averages REPAIR")
    check(con, "averages", other)
    con.execute(ROUNDS[1])
    told = check(con, "averages", other)
    assert (told["strategy"], told["state_did"]) == (Strategy.STATE_TABLE.value, FILLED)
    kinds = [row[2] for row in con.execute("MAINTAIN averages").fetchall()]
    assert kinds == ["materialized view", "state table"]
    con.execute(ROUNDS[3])
    assert check(con, "averages", other)["strategy"] == Strategy.STATE_TABLE.value
    con.execute("DROP MATERIALIZED VIEW averages PURGE")
    assert not Path(table.removeprefix("file:")).exists()


@pytest.mark.slow
def test_killed_between_the_state_and_the_view(
    warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """The view names what belongs to its own T; what was written for the next one is found."""
    first = connect()
    first.execute(TABLES)
    create(first, "averages")
    first.execute(ROUNDS[0])
    assert check(first, "averages")["state_did"] == ADDED
    first.close()
    script = [ROUNDS[1], "SELECT * FROM averages"]
    run_killed(warehouse, script, STATE_COMMITTED)
    con = connect()
    told = check(con, "averages")
    assert told["strategy"] == Strategy.AFFECTED_KEYS.value
    assert "state_did" not in told, "it was written for this T already"
    con.execute(ROUNDS[2])
    assert check(con, "averages")["strategy"] == Strategy.STATE_TABLE.value
