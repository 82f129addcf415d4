"""CREATE OR REPLACE of a view that is read: columns go, move and get other types."""

from collections import Counter
from collections.abc import Callable

import pytest

from ctsql.api import Connection
from ctsql.catalog.catalog import Catalog
from ctsql.runtime.pipelines.plan import PlannedStatus
from tests.helpers.opened import check_rows, engine_of
from tests.helpers.sql_folder import applied, change_of, planned
from tests.helpers.table_folder import folder, log
from tests.scenarios.runner import expect_error

OLD = "SELECT k, sum(v) AS s, count(*) AS n, max(w) AS w FROM t GROUP BY k"
NEW = (
    "CREATE OR REPLACE MATERIALIZED VIEW m AS "
    "SELECT length(max(w)) AS w, sum(v) AS s, k FROM t GROUP BY k"
)
ROWS = "INSERT INTO t VALUES (1, 10, 'a'), (1, 5, 'bb'), (2, 20, 'c')"
TABLE = f"CREATE TABLE t (k INT, v INT, w STRING); {ROWS};"
LOG = """
CREATE CONTINUAL TASK log ON INPUT m AS
    (INSERT INTO log SELECT k, s, '+' AS d FROM m;
     INSERT INTO log SELECT k, s, '-' FROM deletes(m))
"""
SET_UP = f"{TABLE} CREATE MATERIALIZED VIEW m AS {OLD}; {LOG}"
FIRST = [(1, 15), (2, 20)]


def test_what_is_read_stays(con: Connection) -> None:
    """A column that somebody reads is refused by its name, and so is a change below SELECT *."""
    con.execute(SET_UP)
    table = folder(con, "m")
    for query, column in (
        ("SELECT k, count(*) AS n FROM t GROUP BY k", "s would be dropped"),
        ("SELECT k, CAST(sum(v) AS INT) AS s FROM t GROUP BY k", "s would no longer be BIGINT"),
    ):
        commits = len(log(table))
        text = f"CREATE OR REPLACE MATERIALIZED VIEW m AS {query}"
        refused = expect_error(con, text, "COLUMNS_IN_USE")
        assert column in (refused.detail or ""), refused.detail
        assert (refused.detail or "").endswith("Its readers: log."), refused.detail
        assert "Column w" not in (refused.detail or "")
        assert len(log(table)) == commits
    con.execute("CREATE MATERIALIZED VIEW whole AS SELECT * FROM m")
    refused = expect_error(con, NEW, "COLUMNS_IN_USE")
    assert (refused.detail or "").endswith("Its readers: whole."), refused.detail


def test_a_task_that_is_behind(con: Connection, connect: Callable[[], Connection]) -> None:
    """It gets each T's change, from before the columns changed, at it and after it."""
    con.execute(SET_UP)
    con.execute("SELECT * FROM log; ALTER CONTINUAL TASK log SUSPEND")
    for text in ("(1, 1, 'a')", "(3, 7, 'q')"):
        con.execute(f"INSERT INTO t VALUES {text}; SELECT * FROM m")
    con.execute(NEW)
    con.execute("DELETE FROM t WHERE k = 2; SELECT * FROM m")
    con.close()
    other = connect()
    other.execute("ALTER CONTINUAL TASK log RESUME")
    moved = [(1, 15, "-"), (1, 16, "+"), (3, 7, "+"), (2, 20, "-")]
    check_rows(other, "SELECT * FROM log", (1, 15, "+"), (2, 20, "+"), *moved)
    check_rows(other, "VERIFY MATERIALIZED VIEW m")


def test_a_subscription_to_all_columns(con: Connection) -> None:
    """A column that was another one meanwhile is NULL for that time; what is told adds up."""
    con.execute(SET_UP)
    told: Counter[tuple[object, ...]] = Counter()

    def follow() -> None:
        for row in con.execute("SUBSCRIBE TO m UP TO NOW AS 'whole'").fetchall():
            told[tuple(row[2:])] += row[1]
        held = con.execute("SELECT * FROM m").fetchall()
        assert {x: n for x, n in told.items() if n} == Counter(held)

    follow()
    con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW m AS {OLD.replace('max(w)', 'max(v)')}")
    con.execute("INSERT INTO t VALUES (1, 1, 'x'); SELECT * FROM m")
    con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW m AS {OLD}")
    con.execute("INSERT INTO t VALUES (3, 1, 'x')")
    follow()


def test_a_body_from_before(con: Connection) -> None:
    """A suspended task runs what it has missed by its body of then, so that is asked, too."""
    con.execute(SET_UP)
    con.execute(
        "CREATE TABLE f (k INT); CREATE CONTINUAL TASK told (k INT, w STRING) ON INPUT f AS"
        " (INSERT INTO told SELECT f.k, m.w FROM f JOIN m ON f.k = m.k)"
    )
    con.execute("ALTER CONTINUAL TASK told SUSPEND; INSERT INTO f VALUES (1)")
    con.execute(
        "ALTER CONTINUAL TASK told AS"
        " (INSERT INTO told SELECT f.k, 'new' FROM f JOIN m ON f.k = m.k); INSERT INTO f VALUES (2)"
    )
    refused = expect_error(con, NEW, "COLUMNS_IN_USE")
    assert "told" in (refused.detail or ""), refused.detail
    assert "RESUME" in (refused.hint or ""), refused.hint
    task = "CREATE TABLE f (k INT); CREATE CONTINUAL TASK told (k INT, w STRING) ON INPUT f AS"
    task += " (INSERT INTO told SELECT f.k, 'newer' FROM f JOIN m ON f.k = m.k)"
    made = planned(con, TABLE.split(";")[0], NEW.replace("OR REPLACE ", ""), LOG, task)
    refusal = change_of(made, "m").refusal
    assert refusal is not None
    assert refusal.detail.endswith("Its readers: told.")
    assert "RESUME" in refusal.hint
    con.execute("ALTER CONTINUAL TASK told RESUME")
    check_rows(con, "SELECT * FROM told", (1, "bb"), (2, "new"))
    con.execute(NEW)
    con.execute("INSERT INTO f VALUES (1)")
    check_rows(con, "SELECT * FROM told", (1, "bb"), (2, "new"), (1, "new"))


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW r AS SELECT k, w FROM m",
        pytest.param("CREATE OR REPLACE VIEW p AS SELECT k, s, w FROM m", marks=pytest.mark.slow),
        pytest.param("CREATE MATERIALIZED VIEW r AS SELECT k, w FROM m", marks=pytest.mark.slow),
        "CREATE CONTINUAL TASK r ON INPUT m AS (INSERT INTO r SELECT k, w FROM m)",
    ],
)
def test_a_reader_that_is_made_meanwhile(
    text: str, connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was bound to a column that another process takes away before it is in the catalog."""
    con, other = connect(), connect()
    con.execute(f"{TABLE} CREATE MATERIALIZED VIEW m AS {OLD}; CREATE VIEW p AS SELECT k, s FROM m")
    store = engine_of(other).catalog_store
    late = store.change

    def after_the_other(change: Callable[[Catalog], Catalog]) -> None:
        monkeypatch.undo()
        con.execute(NEW)
        late(change)

    monkeypatch.setattr(store, "change", after_the_other)
    expect_error(other, text, "ALTERED_MEANWHILE")
    check_rows(other, "SELECT * FROM p", *FIRST)
    expect_error(other, "SELECT * FROM r", "UNKNOWN_RELATION")


FAILING = "SELECT sum(v) AS s, k, sum(1 DIV (v - 10)) AS q FROM t GROUP BY k"


@pytest.mark.slow
def test_a_query_that_fails_at_first(con: Connection) -> None:
    """Once it can be computed the view and who follows it go on, past the Ts at which it failed."""
    con.execute(SET_UP)
    con.execute("SELECT * FROM log")
    expect_error(con, f"CREATE OR REPLACE MATERIALIZED VIEW m AS {FAILING}", "VIEW_FAILED")
    con.execute("INSERT INTO t VALUES (3, 7, 'q')")
    expect_error(con, "SELECT * FROM m", "VIEW_FAILED")
    failed = con.now()
    con.execute("DELETE FROM t WHERE v = 10")
    con.execute("INSERT INTO t VALUES (2, 2, 'q')")
    check_rows(con, "SELECT s, k FROM m", (5, 1), (22, 2), (7, 3))
    steps = [(2, 20, "-"), (2, 22, "+"), (1, 15, "-"), (1, 5, "+"), (3, 7, "+")]
    check_rows(con, "SELECT * FROM log", *((*row, "+") for row in FIRST), *steps)
    expect_error(con, f"SELECT * FROM m AS OF {failed}", "DATA_ERROR")


@pytest.mark.slow
def test_replaced_again_before_it_was_written(con: Connection) -> None:
    """A view that began anew, and was read before its query could be computed, is replaced."""
    con.execute(f"{TABLE} CREATE MATERIALIZED VIEW m AS {OLD}; SELECT * FROM m")
    expect_error(con, f"CREATE OR REPLACE MATERIALIZED VIEW m AS {FAILING}", "VIEW_FAILED")
    con.execute("CREATE VIEW p AS SELECT k, s FROM m")
    con.execute(NEW)
    check_rows(con, "SELECT * FROM p", *FIRST)
    told = con.execute("SUBSCRIBE TO p FROM 0 UP TO NOW").fetchall()
    assert sorted(row[1:] for row in told) == [(1, *row) for row in FIRST]
    con.execute(
        "CREATE CONTINUAL TASK log (k INT, s BIGINT, d BIGINT) ON INPUT m AS"
        " (INSERT INTO log SELECT k, s, diff FROM changes(m))"
    )
    con.execute("INSERT INTO t VALUES (2, 1, 'ddd')")
    check_rows(con, "SELECT * FROM log", (1, 15, 1), (2, 20, 1), (2, 20, -1), (2, 21, 1))
    check_rows(con, "VERIFY MATERIALIZED VIEW m")


def test_a_folder_applies_it(con: Connection) -> None:
    """Plan and apply say and do the same; a reader that the folder changes, too, is no obstacle."""
    table = "CREATE TABLE t (k INT, v INT, w STRING)"
    view = f"CREATE MATERIALIZED VIEW m AS {OLD}"
    whole = "CREATE MATERIALIZED VIEW whole AS SELECT {} FROM m"
    applied(con, table, view, LOG, whole.format("*"))
    con.execute(ROWS)
    check_rows(con, "SELECT * FROM log", *((*r, "+") for r in FIRST))
    new = NEW.replace("OR REPLACE ", "")
    con.execute("CREATE MATERIALIZED VIEW mine AS SELECT n FROM m")
    refused = change_of(planned(con, table, new, LOG, whole.format("*")), "m")
    assert refused.status is PlannedStatus.REFUSED
    assert refused.refusal is not None
    assert refused.refusal.detail.endswith("Its readers: mine.")
    con.execute("DROP MATERIALIZED VIEW mine")
    applied(con, table, new, LOG, whole.format("k, w"))
    check_rows(con, "SELECT * FROM m", (2, 15, 1), (1, 20, 2))
    con.execute("INSERT INTO t VALUES (2, 1, 'ddd')")
    check_rows(con, "SELECT * FROM log", *((*r, "+") for r in FIRST), (2, 20, "-"), (2, 21, "+"))
    check_rows(con, "SELECT * FROM whole", (1, 2), (2, 3))
    check_rows(con, "VERIFY MATERIALIZED VIEW m")
