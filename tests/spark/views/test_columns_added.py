"""CREATE OR REPLACE MATERIALIZED VIEW with columns added at the end, while others read the view."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection, connect as open_connection
from tests.helpers.opened import check_rows
from tests.helpers.processes import run_killed
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark

OLD = "SELECT k, sum(v) AS s FROM t GROUP BY k"
NEW = f"CREATE OR REPLACE MATERIALIZED VIEW m AS {OLD.replace(' FROM', ', count(*) AS n FROM')}"
SET_UP = f"""
CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 10), (1, 5), (2, 20);
CREATE MATERIALIZED VIEW m AS {OLD};
CREATE VIEW p AS SELECT k, s FROM m;
CREATE MATERIALIZED VIEW above AS SELECT s, count(*) AS c FROM m GROUP BY s;
CREATE MATERIALIZED VIEW daily WITH (REFRESH EVERY '1 day') AS SELECT * FROM m;
CREATE CONTINUAL TASK log ON INPUT m AS
    (INSERT INTO log SELECT *, '+' AS d FROM m; INSERT INTO log SELECT *, '-' FROM deletes(m))
"""


def test_readers_go_on(connect: Callable[[], Connection]) -> None:
    """What the columns that they know hold has not changed, so nothing has for them."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    told = {x: other.execute(f"SUBSCRIBE TO {x} UP TO NOW AS '{x}'").fetchall() for x in "mp"}
    assert [len(rows) for rows in told.values()] == [2, 2]
    live = iter(other.subscribe("p", begin=0))
    assert {next(live).row for _ in range(2)} == {(1, 15), (2, 20)}
    before = con.now()
    con.execute(NEW)
    rows = [(1, 15, 2), (2, 20, 1)]
    check_rows(con, "SELECT * FROM m", *rows)
    check_rows(other, "SELECT * FROM m", *rows)
    check_rows(other, f"SELECT k, s FROM m AS OF {before}", (1, 15), (2, 20))
    check_rows(other, f"SELECT * FROM above AS OF {before}", (15, 1), (20, 1))
    for x in "p":
        assert other.execute(f"SUBSCRIBE TO {x} UP TO NOW AS '{x}'").fetchall() == [], x
    other.execute("INSERT INTO t VALUES (2, 1), (3, 3)")
    check_rows(other, "SELECT * FROM m", (1, 15, 2), (2, 21, 2), (3, 3, 1))
    check_rows(con, "SELECT * FROM above", (15, 1), (21, 1), (3, 1))
    check_rows(con, "SELECT * FROM p", (1, 15), (2, 21), (3, 3))
    whole = [(1, 15, "+"), (2, 20, "+"), (2, 20, "-"), (2, 21, "+"), (3, 3, "+")]
    check_rows(con, "SELECT * FROM log", *whole)
    assert sorted((c.diff, c.row) for c in (next(live) for _ in range(3))) == [
        (-1, (2, 20)),
        (1, (2, 21)),
        (1, (3, 3)),
    ]
    again = other.execute("SUBSCRIBE TO p UP TO NOW AS 'p'").fetchall()
    assert sorted(row[1:] for row in again) == [(-1, 2, 20), (1, 2, 21), (1, 3, 3)]
    con.execute("REFRESH MATERIALIZED VIEW daily")
    check_rows(con, "SELECT * FROM daily", (1, 15), (2, 21), (3, 3))
    check_rows(con, "VERIFY MATERIALIZED VIEW m")
    check_rows(con, "VERIFY MATERIALIZED VIEW above")
    less = NEW.replace("sum(v) AS s, ", "")
    refused = expect_error(con, less, "COLUMNS_IN_USE")
    assert "Column s would be gone." in (refused.detail or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "replaced"), [("columns_added", False), ("catalog_committed", True)]
)
def test_killed_in_the_middle(
    point: str, replaced: bool, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """The old definition, or the new one, which the next read writes."""
    con = connect()
    con.execute(SET_UP)
    con.execute("SELECT * FROM above; SELECT * FROM log")
    run_killed(warehouse, [NEW], point)
    con.execute("INSERT INTO t VALUES (2, 1)")
    wanted = [(1, 15, 2), (2, 21, 2)] if replaced else [(1, 15), (2, 21)]
    with open_connection(str(warehouse), read_only=True) as reading:
        check_rows(reading, "SELECT * FROM m", *wanted)
    check_rows(con, "SELECT * FROM m", *wanted)
    check_rows(con, "SELECT * FROM above", (15, 1), (21, 1))
    other_type = NEW.replace("count(*) AS n", "'x' AS n")
    if replaced:
        read = NEW.replace("sum(v) AS s", "'x' AS s")
        expect_error(con, read, "COLUMNS_IN_USE")
    else:
        con.execute(other_type)
        check_rows(connect(), "SELECT * FROM m", (1, 15, "x"), (2, 21, "x"))
    check_rows(con, "VERIFY MATERIALIZED VIEW above")
