"""BEGIN ... COMMIT over several tables: one T, all or none."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CommitLost, CtsqlError
from tests.helpers.processes import Process
from tests.helpers.table_folder import folder, log
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.spark

SET_UP = """
    CREATE TABLE account (id INT, balance INT);
    CREATE TABLE entry (id INT, amount INT);
    INSERT INTO account VALUES (1, 100), (2, 50), (3, 0);
    CREATE CONTINUAL TASK log (kind STRING, id INT) ON INPUT account, entry AS (
        INSERT INTO log SELECT 'account', id FROM account;
        INSERT INTO log SELECT 'entry', id FROM entry);
    CREATE MATERIALIZED VIEW total AS SELECT sum(balance) AS balance FROM account;
"""
MOVE = [
    "UPDATE account SET balance = balance - 30 WHERE id = 1",
    "UPDATE account SET balance = balance + 30 WHERE id = 2",
    "INSERT INTO entry VALUES (1, -30), (2, 30)",
]


def rows(con: Connection, sql: str) -> list[tuple[object, ...]]:
    """All rows of a query."""
    return con.execute(sql).fetchall()


def times(con: Connection, name: str) -> list[int]:
    """The Ts bound to a table."""
    return [commit.t for commit in con.commits(name)]


def test_all_changes_get_one_time(connect: Callable[[], Connection]) -> None:
    """Own writes are seen inside, nothing outside until COMMIT, and then all at one T."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    assert rows(con, "SELECT balance FROM total") == [(150,)]
    con.execute("BEGIN")
    for statement in MOVE:
        con.execute(statement)
    merged = con.execute(
        "MERGE INTO entry USING (SELECT 2 AS id) AS s ON entry.id = s.id "
        "WHEN MATCHED THEN UPDATE SET amount = 31 "
        "WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, 0)"
    )
    assert merged.rowcount == 1
    con.execute("DELETE FROM account WHERE id = 3")
    inside = rows(con, "SELECT id, balance, amount FROM account LEFT JOIN entry USING (id)")
    assert_rows(inside, [(1, 70, -30), (2, 80, 31)], "inside")
    assert rows(con, "SELECT balance FROM total") == [(150,)], "views show what they held"
    assert_rows(
        rows(other, "SELECT * FROM account"), [(1, 100), (2, 50), (3, 0)], "outside, before"
    )
    assert rows(other, "SELECT * FROM entry") == []
    assert con.execute("COMMIT").status == "COMMIT"
    for one in (con, other):
        assert_rows(rows(one, "SELECT * FROM account"), [(1, 70), (2, 80)], "after")
        assert_rows(rows(one, "SELECT * FROM entry"), [(1, -30), (2, 31)], "after")
        assert rows(one, "SELECT balance FROM total") == [(150,)]
    assert times(other, "entry")[-1] == times(other, "account")[-1]
    (at,) = set(times(other, "entry")[1:])
    before = f"SELECT * FROM account AS OF {at - 1}"
    assert_rows(rows(con, before), [(1, 100), (2, 50), (3, 0)], "as of before")
    logged = [("account", i) for i in (1, 2, 3, 1, 2)] + [("entry", 1), ("entry", 2)]
    assert_rows(rows(con, "SELECT * FROM log"), logged, "the task ran once at that T")
    con.execute("INSERT INTO entry VALUES (9, 9); DELETE FROM account WHERE id = 1")
    assert_rows(rows(con, "SELECT id FROM entry"), [(1,), (2,), (9,)], "and on")


def test_rollback_and_conflicts(connect: Callable[[], Connection]) -> None:
    """ROLLBACK leaves nothing; of two that write one table the first to commit wins."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    con.begin()
    for statement in MOVE:
        con.execute(statement)
    with pytest.raises(CtsqlError, match="TRANSACTION_OPEN"):
        con.execute("CREATE TABLE more (a INT)")
    with pytest.raises(CtsqlError, match="TRANSACTION_OPEN"):
        con.execute("BEGIN")
    with pytest.raises(CtsqlError):
        con.execute("INSERT INTO account VALUES ('no number', 1)")
    assert_rows(rows(con, "SELECT id FROM entry"), [(1,), (2,)], "the failed one did nothing")
    con.rollback()
    assert not con.in_transaction
    assert rows(con, "SELECT * FROM entry") == []
    with pytest.raises(CtsqlError, match="TRANSACTION_NOT_OPEN"):
        con.execute("COMMIT")
    con.execute("BEGIN")
    other.execute("BEGIN")
    for statement in MOVE:
        con.execute(statement)
    other.execute("INSERT INTO entry VALUES (7, 7)")
    other.execute("INSERT INTO account VALUES (7, 7)")
    other.execute("COMMIT")
    with pytest.raises(CommitLost, match="TRANSACTION_CONFLICT"):
        con.execute("COMMIT")
    assert rows(con, "SELECT * FROM entry") == [(7, 7)]
    held = [(1, 100), (2, 50), (3, 0), (7, 7)]
    assert_rows(rows(con, "SELECT * FROM account"), held, "the loser left nothing")
    con.execute("BEGIN; SELECT 1; COMMIT")


@pytest.mark.slow
def test_killed_in_the_middle_and_overtaken(
    warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """A foreign commit before the rest can be committed: both parts are taken back."""
    first = connect()
    first.execute(SET_UP)
    assert rows(first, "SELECT balance FROM total") == [(150,)]
    first.close()
    process = Process(warehouse, ["BEGIN", *MOVE, "COMMIT"], fault="transaction_table_committed")
    process.wait_ready()
    process.go()
    status, problems = process.finish()
    assert status == -signal.SIGKILL, problems
    con = connect()
    con.start()
    folders = {name: folder(con, name) for name in ("account", "entry")}
    held = {
        name: any(
            "transaction" in json.loads(a["commitInfo"].get("userMetadata", "{}"))
            for commit in log(at)
            for a in commit
            if "commitInfo" in a
        )
        for name, at in folders.items()
    }
    assert sorted(held.values()) == [False, True], "one table holds its part"
    other = next(name for name, is_in in held.items() if not is_in)
    con.spark.sql(f"INSERT INTO delta.`{folders[other]}` VALUES (5, 5)")
    account, entry = [(1, 100), (2, 50), (3, 0)], list[tuple[int, int]]()
    (account if other == "account" else entry).append((5, 5))
    assert_rows(rows(con, "SELECT * FROM account"), account, "taken back, or never in")
    assert_rows(rows(con, "SELECT * FROM entry"), entry, "taken back, or never in")
    assert rows(con, "SELECT balance FROM total") == [(155 if other == "account" else 150,)]
    logged = [("account", i) for i in (1, 2, 3)] + [(other, 5)]
    assert_rows(rows(con, "SELECT * FROM log"), logged, "no T was bound to what was undone")
    con.execute("BEGIN; INSERT INTO account VALUES (8, 8); INSERT INTO entry VALUES (8, 8); COMMIT")
    assert_rows(rows(con, "SELECT * FROM account"), [*account, (8, 8)], "and on")


@pytest.mark.parametrize(
    "meanwhile",
    [
        "DROP TABLE account",
        pytest.param(
            "DROP TABLE account; CREATE TABLE account (id INT, balance INT)",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_table_is_dropped_meanwhile(connect: Callable[[], Connection], meanwhile: str) -> None:
    """COMMIT names the table, also when another one has its name now; nothing is in."""
    con, other = connect(), connect()
    con.execute("CREATE TABLE account (id INT, balance INT); CREATE TABLE entry (id INT)")
    con.execute("BEGIN; INSERT INTO account VALUES (1, 2); INSERT INTO entry VALUES (1)")
    other.execute(meanwhile)
    with pytest.raises(CommitLost) as caught:
        con.execute("COMMIT")
    assert caught.value.condition == "TRANSACTION_CONFLICT"
    assert "account" in caught.value.message
    assert "dropped" in (caught.value.detail or "")
    assert rows(other, "SELECT * FROM entry") == []
    if "CREATE" in meanwhile:
        assert rows(other, "SELECT * FROM account") == []
    con.execute("BEGIN; INSERT INTO entry VALUES (2); COMMIT")
    assert rows(other, "SELECT * FROM entry") == [(2,)]
