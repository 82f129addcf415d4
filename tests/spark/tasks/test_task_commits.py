"""What a task writes, commit by commit: one for each due T, whole, and nothing beside."""

from collections import Counter
from typing import Any

import pytest

from ctsql.api import Connection
from tests.helpers.table_folder import (
    check_written_once,
    data_files,
    folder,
    log,
    named_files,
    orphans,
    rows_at,
    versions,
)
from tests.scenarios.runner import assert_rows, multiset

pytestmark = [pytest.mark.spark, pytest.mark.core]

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


def test_uppers_strictly_increase_and_stand_at_bound_times(con: Connection) -> None:
    """Each commit of an output carries T + 1 of the input's own T."""
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute(UPSERT)
    for value in range(3):
        con.execute(f"INSERT INTO feed VALUES (1, {value})")
    con.execute("SELECT * FROM latest").fetchall()
    uppers = check_written_once(folder(con, "latest"))
    source = [
        next(a["commitInfo"]["inCommitTimestamp"] for a in c if "commitInfo" in a)
        for c in log(folder(con, "feed"))
    ]
    assert len(uppers) == 4, "one at creation, and one for each commit of the input"
    assert all(upper - 1 >= stamp for upper, stamp in zip(uppers[1:], source[-3:], strict=True))


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


def test_every_file_is_named_by_a_commit(con: Connection) -> None:
    """Ordinary work leaves no file that no commit knows, in sources' and outputs' folders."""
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute(UPSERT)
    con.execute("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(v) AS s FROM latest")
    con.execute("INSERT INTO feed SELECT id % 40, id FROM range(100)")
    con.execute("INSERT INTO feed SELECT id, 0 FROM range(10)")
    con.execute("DELETE FROM feed WHERE k = 3; INSERT INTO feed VALUES (3, 3), (3, 4)")
    assert con.execute("SELECT * FROM total").fetchall()
    for name in ("feed", "latest", "total"):
        table = folder(con, name)
        assert named_files(table)
        assert not orphans(table), name


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


def test_duplicates_are_kept_and_deleted_as_a_multiset(con: Connection) -> None:
    """Equal rows are as many as were proposed; a DELETE that matches takes all of them once."""
    con.execute("CREATE TABLE src (k INT)")
    con.execute("""CREATE CONTINUAL TASK t (k INT) ON INPUT src AS (
        DELETE FROM t WHERE k = 1 AND (SELECT count(*) FROM src) > 2;
        DELETE FROM t WHERE k < 2 AND (SELECT count(*) FROM src) > 2;
        INSERT INTO t SELECT k FROM src;
        INSERT INTO t SELECT k FROM src WHERE k = 5;
    )""")
    con.execute("INSERT INTO src VALUES (1), (1); INSERT INTO src VALUES (1), (5)")
    assert_rows(con.execute("SELECT * FROM t").fetchall(), [(1,), (1,), (1,), (5,), (5,)], "built")
    con.execute("INSERT INTO src VALUES (0), (0), (1)")
    wanted = [(5,), (5,), (0,), (0,), (1,)]
    assert_rows(con.execute("SELECT * FROM t").fetchall(), wanted, "three equal rows are gone")
    assert not orphans(folder(con, "t"))


def test_optimize_on_input_and_output_is_no_change(con: Connection) -> None:
    """Compaction moves rows between files and nothing else; the task goes on after it."""
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute("CREATE CONTINUAL TASK copy (k INT, v INT) ON INPUT feed AS"
                " (INSERT INTO copy SELECT * FROM feed)")  # fmt: skip
    con.execute(UPSERT)
    wanted = []
    for value in range(3):
        con.execute(f"INSERT INTO feed VALUES (1, {value})")
        wanted.append((1, value))
        con.execute("SELECT * FROM copy; SELECT * FROM latest").fetchall()
    for name in ("feed", "copy", "latest"):
        con.spark.sql(f"OPTIMIZE delta.`{folder(con, name)}`")
    commits = {name: len(log(folder(con, name))) for name in ("copy", "latest")}
    assert_rows(con.execute("SELECT * FROM copy").fetchall(), wanted, "after OPTIMIZE")
    assert con.execute("SELECT * FROM latest").fetchall() == [(1, 2)]
    assert {name: len(log(folder(con, name))) for name in commits} == commits
    con.execute("INSERT INTO feed VALUES (1, 9)")
    assert_rows(con.execute("SELECT * FROM copy").fetchall(), [*wanted, (1, 9)], "and on")
    assert con.execute("SELECT * FROM latest").fetchall() == [(1, 9)]


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
