"""BEGIN ... COMMIT over several tables: one T, all or none."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CommitLost, CtsqlError
from ctsql.runtime.spark.job_metrics import Meter
from tests.helpers.processes import run_killed
from tests.helpers.table_folder import folder, log
from tests.scenarios.runner import assert_rows

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


def _data_files(con: Connection, name: str) -> list[str]:
    """The files with rows below a table's folder; Delta leaves those of empty partitions."""
    at = folder(con, name)
    found = (p for p in at.rglob("*.parquet") if "_delta_log" not in p.parts)
    return sorted(str(p.relative_to(at)) for p in found if pq.read_metadata(p).num_rows)


def test_inserts_make_no_copy_and_start_no_job(con: Connection) -> None:
    """Rows in the text of INSERTs cost no job, neither in the transaction nor at its COMMIT."""
    con.execute("CREATE TABLE a (k INT, v STRING COMMENT 'text'); CREATE TABLE b (k INT)")
    con.execute("INSERT INTO a VALUES (0, 'zero')")
    meter = Meter(con.spark)
    con.execute("BEGIN")
    assert con.execute("INSERT INTO a VALUES (1, 'one'), (2, 'two')").rowcount == 2
    assert con.execute("INSERT INTO a (v) VALUES ('none')").rowcount == 1
    assert con.execute("INSERT INTO b VALUES (?)", [7]).rowcount == 1
    con.execute("COMMIT")
    assert meter.work().jobs == 0
    assert not list(folder(con, "a").glob("txn-*"))
    assert len(log(folder(con, "a"))) == 3
    held = [(0, "zero"), (1, "one"), (2, "two"), (None, "none")]
    assert_rows(rows(con, "SELECT * FROM a"), held, "after")
    assert rows(con, "SELECT * FROM b") == [(7,)]


def test_inserts_and_other_statements_of_one_transaction(connect: Callable[[], Connection]) -> None:
    """What was inserted is read, changed and deleted by what follows; nothing is left over."""
    con, other = connect(), connect()
    con.execute("CREATE TABLE t (k INT, v STRING); CREATE TABLE u (k INT, v STRING)")
    con.execute("INSERT INTO t VALUES (0, 'zero')")
    con.execute("BEGIN")
    con.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    con.execute("INSERT INTO t SELECT k + 10, uuid() FROM t WHERE k > 0")
    inside = rows(con, "SELECT k, v FROM t WHERE k > 10")
    con.execute("INSERT INTO u SELECT * FROM t WHERE k > 10")
    con.execute("INSERT INTO t VALUES (4, 'four')")
    con.execute("UPDATE t SET v = 'II' WHERE k = 2")
    con.execute("DELETE FROM t WHERE k IN (0, 4)")
    con.execute("INSERT INTO t VALUES (5, 'five')")
    kept = [(1, "one"), (2, "II"), (3, "three"), (5, "five"), *inside]
    assert_rows(rows(con, "SELECT * FROM t"), kept, "inside")
    assert rows(other, "SELECT * FROM t") == [(0, "zero")]
    con.execute("COMMIT")
    for one in (con, other):
        assert_rows(rows(one, "SELECT * FROM t"), kept, "after")
        assert_rows(rows(one, "SELECT * FROM u"), inside, "the same ids")
    for name in ("t", "u"):
        commits = log(folder(con, name))
        named = {unquote(a["add"]["path"]) for commit in commits for a in commit if "add" in a}
        assert set(_data_files(con, name)) <= named, "no file is left that no version names"
    before = _data_files(con, "t")
    con.execute("BEGIN; INSERT INTO t VALUES (6, 'six'); INSERT INTO u VALUES (6, 'six')")
    con.execute("UPDATE t SET v = 'VI' WHERE k = 6; ROLLBACK")
    assert _data_files(con, "t") == before
    assert_rows(rows(con, "SELECT * FROM t"), kept, "rolled back")


def test_what_a_table_demands_of_rows_holds_in_transactions(con: Connection) -> None:
    """NOT NULL, CHECK, lengths, padding, defaults, partitions: as by the statement alone."""
    tables = {
        "demanding": "k INT NOT NULL, v INT",
        "narrow": "c CHAR(3), s VARCHAR(3)",
        "parted": "k INT, p STRING) PARTITIONED BY (p",
    }
    for name, columns in tables.items():
        con.execute(f"CREATE TABLE {name} ({columns})")
    checked = folder(con, "demanding")
    con.spark.sql(f"ALTER TABLE delta.`{checked}` ADD CONSTRAINT small CHECK (v < 10)")
    con.execute("INSERT INTO demanding VALUES (0, 0)")
    con.execute("BEGIN")
    for refused in (
        "INSERT INTO demanding VALUES (NULL, 1)",
        "INSERT INTO demanding VALUES (1, 11)",
        "INSERT INTO demanding (v) VALUES (1)",
        "INSERT INTO narrow VALUES ('x', 'long')",
        "INSERT INTO parted VALUES ('no number', 'a')",
        "INSERT INTO parted VALUES (1)",
    ):
        with pytest.raises(CtsqlError) as caught:
            con.execute(refused)
        assert caught.value.condition != "SPARK_ERROR", refused
    con.execute("INSERT INTO demanding VALUES (1, 9)")
    con.execute("INSERT INTO narrow VALUES ('x', 'y')")
    con.execute("INSERT INTO parted BY NAME SELECT 'a b' AS p, 1L AS k")
    con.execute("INSERT INTO parted VALUES (2, 'ü/%'), (3, NULL)")
    assert rows(con, "SELECT k FROM parted WHERE p = 'ü/%'") == [(2,)]
    con.execute("COMMIT")
    assert rows(con, "SELECT * FROM demanding WHERE k > 0") == [(1, 9)]
    assert rows(con, "SELECT concat(c, '|', s) FROM narrow") == [("x  |y",)]
    assert_rows(rows(con, "SELECT * FROM parted"), [(1, "a b"), (2, "ü/%"), (3, None)], "after")
    con.execute("BEGIN; INSERT INTO parted VALUES (4, 'ü/%'); DELETE FROM parted WHERE k IN (2, 4)")
    con.execute("INSERT INTO parted VALUES (5, 'ü/%'); COMMIT")
    left = [(1, "a b"), (3, None), (5, "ü/%")]
    assert_rows(rows(con, "SELECT * FROM parted"), left, "files with odd names")


@pytest.mark.slow
def test_killed_in_the_middle_and_overtaken(
    warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """A foreign commit before the rest can be committed: both parts are taken back."""
    first = connect()
    first.execute(SET_UP)
    assert rows(first, "SELECT balance FROM total") == [(150,)]
    first.close()
    run_killed(warehouse, ["BEGIN", *MOVE, "COMMIT"], "transaction_table_committed")
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
