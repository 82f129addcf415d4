"""What a task writes, commit by commit: one for each due T, whole, and nothing beside."""

from collections import Counter
from typing import Any

import pytest

from ctsql.api import Connection
from tests.helpers.table_folder import (
    data_files,
    folder,
    log,
    orphans,
    rows_at,
    versions,
)
from tests.scenarios.runner import assert_rows, multiset

pytestmark = pytest.mark.core

UPSERT = """CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k;
)"""


def _states(con: Connection, name: str) -> list[Counter[Any]]:
    """What readers of every version of an output see, without the version that made it."""
    table = folder(con, name)
    return [multiset(rows_at(con, table, v)) for v in versions(table)[1:]]


def test_a_reader_of_every_version_never_sees_half(con: Connection) -> None:
    """No version has the DELETE without its INSERT: the outputs are the model's, in order."""
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute(UPSERT)
    batches = [[(1, 5), (1, 6), (2, 1)], [(2, 9), (2, 9)], [(1, 0), (3, 3)], [(3, 4)]]
    held: dict[int, int] = {}
    wanted = [multiset([])]  # the first run found an empty input: an advance without rows
    for batch in batches:
        con.execute("INSERT INTO feed VALUES " + ", ".join(map(str, batch)))
        fresh = {k: max(v for key, v in batch if key == k) for k, _ in batch}
        held |= fresh
        wanted.append(multiset(held.items()))
    con.execute("SELECT * FROM latest").fetchall()
    assert _states(con, "latest") == wanted
    assert not orphans(folder(con, "latest"))


def test_nothing_proposed_writes_no_file(con: Connection) -> None:
    """A body that proposes nothing, or what cancels, leaves no data file."""
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute(
        "CREATE CONTINUAL TASK big (k INT) ON INPUT feed AS"
        " (INSERT INTO big SELECT k FROM feed WHERE v > 100)"
    )
    con.execute(
        "CREATE CONTINUAL TASK none (k INT) ON INPUT feed AS ("
        " INSERT INTO none SELECT k FROM feed; DELETE FROM none)"
    )
    con.execute("CREATE CONTINUAL TASK same (k INT) ON INPUT feed AS ("
                " DELETE FROM same; INSERT INTO same SELECT 7)")  # fmt: skip
    con.execute("INSERT INTO feed VALUES (1, 1)")
    assert con.execute("SELECT * FROM same").fetchall() == [(7,)]
    before = data_files(folder(con, "same"))
    con.execute("INSERT INTO feed VALUES (2, 2)")
    for name, rows in (("big", []), ("none", []), ("same", [(7,)])):
        assert con.execute(f"SELECT * FROM {name}").fetchall() == rows
    assert data_files(folder(con, "big")) == set()
    assert data_files(folder(con, "none")) == set()
    assert data_files(folder(con, "same")) == before


def test_statements_in_order_see_what_earlier_ones_proposed(con: Connection) -> None:
    """Five statements: each reads T - 1 and what came before it in the body."""
    con.execute("CREATE TABLE src (k INT)")
    con.execute("""CREATE CONTINUAL TASK t (k INT, note STRING) ON INPUT src AS (
        INSERT INTO t SELECT k, 'first' FROM src;
        INSERT INTO t SELECT k + 10, 'copy' FROM t WHERE note = 'first';
        DELETE FROM t WHERE note = 'first' AND k > 1;
        INSERT INTO t SELECT count(*), 'count' FROM t;
        DELETE FROM t WHERE note = 'count' AND k < (SELECT max(k) FROM t WHERE note = 'count');
    )""")
    con.execute("INSERT INTO src VALUES (1), (2), (2)")
    first = [(1, "first"), (11, "copy"), (12, "copy"), (12, "copy"), (4, "count")]
    assert_rows(con.execute("SELECT * FROM t").fetchall(), first, "first run")
    con.execute("INSERT INTO src VALUES (5)")
    # After insert: 1, 5 first; copies of both; 5 goes; then 8 rows are counted.
    second = [(1, "first"), (11, "copy"), (12, "copy"), (12, "copy"), (11, "copy"),
              (15, "copy"), (7, "count")]  # fmt: skip
    assert_rows(con.execute("SELECT * FROM t").fetchall(), second, "second run")


def test_restart_reads_no_history_again(connect: Any) -> None:
    """A new connection goes on from the output's own upper and writes nothing anew."""
    con = connect()
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute(UPSERT)
    con.execute("INSERT INTO feed VALUES (1, 1); INSERT INTO feed VALUES (2, 2)")
    con.execute("SELECT * FROM latest").fetchall()
    before = len(log(folder(con, "latest")))
    con.close()
    con = connect()
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), [(1, 1), (2, 2)], "restarted")
    assert len(log(folder(con, "latest"))) == before
    con.execute("INSERT INTO feed VALUES (1, 7)")
    con.close()
    con = connect()
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), [(1, 7), (2, 2)], "caught up")
    assert len(log(folder(con, "latest"))) == before + 1
