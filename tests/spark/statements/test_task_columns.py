"""CREATE OR REPLACE CONTINUAL TASK with columns added at the end, over processes and kills."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.runtime.statements.definitions import task_redefinition
from tests.helpers.opened import check_rows
from tests.helpers.processes import run_killed
from tests.scenarios.runner import assert_rows, expect_error

pytestmark = pytest.mark.spark

OLD = """CREATE OR REPLACE CONTINUAL TASK t (k INT, v INT) ON INPUT f AS (
    DELETE FROM t WHERE k IN (SELECT k FROM f); INSERT INTO t SELECT k, v FROM f)"""
NEW = """CREATE OR REPLACE CONTINUAL TASK t (k INT, v INT, n STRING) ON INPUT f AS (
    DELETE FROM t WHERE k IN (SELECT k FROM f); INSERT INTO t SELECT k, v, 'n' || v FROM f)"""
SET_UP = f"""
CREATE TABLE f (k INT NOT NULL, v INT);
INSERT INTO f VALUES (1, 10), (2, 20);
{OLD};
CREATE MATERIALIZED VIEW m AS SELECT count(*) AS c, sum(v) AS s FROM t;
CREATE VIEW p AS SELECT * FROM t;
CREATE CONTINUAL TASK log ON INPUT t AS
    (INSERT INTO log SELECT k, v, '+' AS d FROM t; INSERT INTO log SELECT k, v, '-' FROM deletes(t))
"""


def test_columns_come_at_the_end(connect: Callable[[], Connection]) -> None:
    """From one T on rows have them; before it they are NULL, whichever way one looks."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    check_rows(other, "SELECT * FROM t", (1, 10), (2, 20))
    begun = con.now()
    told = other.execute("SUBSCRIBE TO t FROM 0 UP TO NOW AS 'old'").fetchall()
    con.execute("INSERT INTO f VALUES (2, 21); SELECT * FROM f")
    before = con.now()
    assert con.execute(NEW).status == "CREATE CONTINUAL TASK (replaced)"
    assert con.execute(NEW).status == "CREATE CONTINUAL TASK (unchanged)"
    check_rows(con, "SELECT * FROM t", (1, 10, None), (2, 21, None))
    other.execute("INSERT INTO f VALUES (2, 22), (3, 30)")
    rows = [(1, 10, None), (2, 22, "n22"), (3, 30, "n30")]
    check_rows(other, "SELECT * FROM t", *rows)
    check_rows(con, "SELECT n, v FROM t WHERE k = 2", ("n22", 22))
    check_rows(con, f"SELECT * FROM t AS OF {before}", (1, 10, None), (2, 21, None))
    check_rows(
        con, f"SELECT n, k, v FROM t WHERE n IS NULL AS OF {begun}", (None, 1, 10), (None, 2, 20)
    )
    check_rows(con, "SELECT * FROM p", *(row[:2] for row in rows))
    check_rows(con, "SELECT * FROM m", (3, 62))
    changes = [(1, 10, "+"), (2, 20, "+"), (2, 21, "+"), (2, 20, "-"), (2, 22, "+"), (2, 21, "-")]
    check_rows(con, "SELECT * FROM log", *changes, (3, 30, "+"))
    again = other.execute("SUBSCRIBE TO t UP TO NOW AS 'old'").fetchall()
    assert_rows(
        [row[1:4] for row in told + again],
        [({"+": 1, "-": -1}[sign], k, v) for k, v, sign in [*changes, (3, 30, "+")]],
        "told",
    )
    whole = other.execute("SUBSCRIBE TO t FROM 0 UP TO NOW").fetchall()
    assert sorted(row[2:] for row in whole if row[1] == 1 and row[4]) == rows[1:]
    assert len(whole) == len(told) + len(again)
    assert con.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []


def test_outputs_get_columns(con: Connection) -> None:
    """Each of several outputs, and one whose columns the body tells; a failed body goes on."""
    con.execute(
        "CREATE TABLE f (k INT, v STRING);"
        "CREATE CONTINUAL TASK b OUTPUTS (x (k INT), y (v STRING)) ON INPUT f AS"
        " (INSERT INTO x SELECT k FROM f; INSERT INTO y SELECT v FROM f);"
        "CREATE CONTINUAL TASK c ON INPUT f AS (INSERT INTO c SELECT CAST(v AS INT) AS n FROM f);"
        "INSERT INTO f VALUES (1, '1'); SELECT * FROM x; SELECT * FROM c;"
        "INSERT INTO f VALUES (2, 'two')"
    )
    expect_error(con, "SELECT * FROM c", "TASK_FAILED")
    con.execute(
        "CREATE OR REPLACE CONTINUAL TASK b OUTPUTS (x (k INT), y (v STRING, k INT)) ON INPUT f AS"
        " (INSERT INTO x SELECT k FROM f; INSERT INTO y SELECT v, k FROM f);"
        "CREATE OR REPLACE CONTINUAL TASK c ON INPUT f AS"
        " (INSERT INTO c SELECT try_cast(v AS INT) AS n, v FROM f)"
    )
    con.execute("INSERT INTO f VALUES (3, '3')")
    check_rows(con, "SELECT * FROM y", ("1", None), ("two", None), ("3", 3))
    check_rows(con, "SELECT * FROM x", (1,), (2,), (3,))
    check_rows(con, "SELECT * FROM c", (1, None), (None, "two"), (3, "3"))
    assert "(n int, v string)" in con.execute("SHOW CREATE c").fetchall()[0][1]


def test_two_at_once(connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is told, and what it did to the table costs no row."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    late = task_redefinition.ensure_columns

    def after_the_other(*given: Any) -> None:
        monkeypatch.undo()
        other.execute(NEW.replace("n STRING", "m INT").replace("'n' || v", "-v"))
        late(*given)

    monkeypatch.setattr(task_redefinition, "ensure_columns", after_the_other)
    expect_error(con, NEW, "ALTERED_MEANWHILE")
    check_rows(con, "SELECT * FROM t", (1, 10, None), (2, 20, None))
    con.execute("INSERT INTO f VALUES (2, 21)")
    check_rows(other, "SELECT k, v, m FROM t", (1, 10, None), (2, 21, -21))
    expect_error(con, "SELECT n FROM t", "UNKNOWN_COLUMN")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "taken_over"),
    [("catalog_committed", False), ("columns_added", False), ("timeline_committed", True)],
)
def test_killed_in_the_middle(
    point: str, taken_over: bool, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """Until the T is bound nobody sees the columns; then all do, and the new body runs."""
    con = connect()
    con.execute(SET_UP)
    con.execute("SELECT * FROM log")
    run_killed(warehouse, [NEW], point)
    con.execute("INSERT INTO f VALUES (2, 21)")
    first = [(1, 10), (2, 21)]
    if taken_over:
        first = [(1, 10, None), (2, 21, "n21")]
    with open_connection(str(warehouse), read_only=True) as reading:
        check_rows(reading, "SELECT * FROM t", *first)
    check_rows(con, "SELECT * FROM t", *first)
    other_type = NEW.replace("n STRING", "n INT").replace("'n' || v", "-v")
    if taken_over:
        expect_error(con, other_type, "NOT_SUPPORTED")
    else:
        con.execute(other_type)
        con.execute("INSERT INTO f VALUES (3, 30)")
        check_rows(connect(), "SELECT * FROM t", (1, 10, None), (2, 21, None), (3, 30, -30))
    check_rows(con, "SELECT count(*) FROM log", (4 if taken_over else 5,))
