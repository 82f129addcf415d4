"""Commits that wait are worked off in their order, with the result of one by one."""

import random
from collections import Counter

import pytest
from pyspark.sql import functions as F

from ctsql.api import Connection
from ctsql.runtime.log import clock
from ctsql.runtime.log.table_changes import parse_partition
from ctsql.runtime.tasks import runs
from tests.helpers.opened import engine_of
from tests.helpers.table_folder import folder, log, transaction
from tests.scenarios.runner import assert_rows

SET_UP = """
    CREATE TABLE feed (k INT, v INT);
    CREATE CONTINUAL TASK audit (k INT, w STRING) ON INPUT feed AS (
        INSERT INTO audit SELECT k, concat('v', CAST(v AS STRING)) FROM feed WHERE v > 0;
        INSERT INTO audit SELECT -k, 'all' FROM feed WHERE k <> 3);
    CREATE CONTINUAL TASK second (k INT) ON INPUT audit AS (
        INSERT INTO second SELECT k FROM audit WHERE w = 'all');
    CREATE CONTINUAL TASK timed (k INT, v INT, at TIMESTAMP, second INT8) ON INPUT feed AS (
        INSERT INTO timed SELECT *, now(), unix_timestamp() FROM feed);
"""
Row = tuple[object, ...]


def commit(con: Connection, rows: list[tuple[int, int]]) -> None:
    """A commit to ``feed`` that nobody has looked at."""
    table = engine_of(con).gateway.table(f"file:{folder(con, 'feed')}")
    frame = engine_of(con).session.createDataFrame(rows, "k INT, v INT").coalesce(1)
    txn = table.begin()
    txn.add_files(txn.stage(frame))
    txn.commit(label="a test", epoch=0, metadata="{}")


def foreign_commits(con: Connection, count: int) -> list[list[tuple[int, int]]]:
    """Commits of a few rows, written in one job; gives the rows of each."""
    chance = random.Random(5)
    made = [
        [(chance.randrange(5), chance.randrange(-2, 9)) for _ in range(1 + i % 3)]
        for i in range(count)
    ]
    table = engine_of(con).gateway.table(f"file:{folder(con, 'feed')}")
    frame = engine_of(con).session.createDataFrame(
        [(i, *row) for i, rows in enumerate(made) for row in rows], "i INT, k INT, v INT"
    )
    staged = table.begin().stage(frame.repartitionById(count, F.col("i")).drop("i"))
    for file in sorted(staged, key=parse_partition):
        txn = table.begin()
        txn.add_files([file])
        txn.commit(label="a test", epoch=0, metadata="{}")
    assert len(staged) == count
    return made


def audited(rows: list[tuple[int, int]]) -> list[Row]:
    """What the body of ``audit`` makes of the rows of one commit."""
    return [(k, f"v{v}") for k, v in rows if v > 0] + [(-k, "all") for k, _ in rows if k != 3]


def rows_of(con: Connection, sql: str) -> list[Row]:
    """All rows of a query."""
    return con.execute(sql).fetchall()


def written(con: Connection, name: str) -> int:
    """How many commits have moved the upper of an output."""
    return sum(transaction(c) is not None for c in log(folder(con, name)))


def check_together(con: Connection, commits: list[list[tuple[int, int]]], looked_at: int) -> None:
    """The tasks whose Ts share commits hold, at every T, what one by one would have given."""
    count = len(commits)
    made = [audited(rows) for rows in commits]
    everything = [row for rows in made for row in rows]
    assert_rows(
        rows_of(con, "SELECT * FROM second"), [(k,) for k, w in everything if w == "all"], "second"
    )
    assert written(con, "audit") <= 1 + -(-count // runs.RUNS_MAX)
    assert written(con, "second") <= 1 + -(-count // runs.RUNS_MAX)
    assert_rows(rows_of(con, "SELECT * FROM audit"), everything, "audit")
    engine = engine_of(con)
    feed = next(i for i in engine.refresh_catalog() if i.name.name == "feed")
    times = [b.time for b in engine.timeline.bindings_between(feed.id, -1, engine.timeline.now)][
        -count:
    ]
    assert len(times) == count
    assert written(con, "timed") <= 1 + -(-count // runs.RUNS_MAX)
    clocks = [
        (*row, time, time // 1000)
        for time, rows in zip(times, commits, strict=True)
        for row in rows
    ]
    seen = rows_of(con, "SELECT k, v, unix_millis(at), second FROM timed")
    assert_rows(seen, clocks, "now() is the T of each row")
    told = [(t, d, *r) for t, d, *r in rows_of(con, "SUBSCRIBE TO audit FROM 0 UP TO NOW")]
    wanted = [
        (time, n, *row)
        for time, rows in zip(times, made, strict=True)
        for row, n in Counter(rows).items()
    ]
    assert_rows([row[:4] for row in told], wanted, "each change at its T")
    for i in random.Random(1).sample(range(count), looked_at):
        seen = rows_of(con, f"SELECT * FROM audit AS OF {times[i]}")
        assert_rows(seen, [row for rows in made[: i + 1] for row in rows], f"as of {i}")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_long_backlog(con: Connection) -> None:
    """A thousand commits wait, of inserts alone: few commits of each task that reads one row."""
    con.execute(SET_UP)
    explained = rows_of(con, "EXPLAIN CONTINUAL TASK audit")
    assert "waiting Ts share a job and a commit" in str(explained[0])
    check_together(con, foreign_commits(con, 1_000), looked_at=20)


def test_a_tick_shares_a_time(con: Connection) -> None:
    """With a tick interval the commits of the same interval are one T."""
    con.execute("CREATE TABLE feed (k INT, v INT); SET tick_interval = '1 day'")
    con.execute("""CREATE CONTINUAL TASK runs (n INT8) ON INPUT feed AS (
        INSERT INTO runs SELECT count(*) FROM feed)""")
    con.execute("SELECT * FROM runs")
    for n in range(4):
        commit(con, [(n, n)] * (n + 1))
    found = rows_of(con, "SELECT * FROM runs")
    assert sum(int(str(n)) for (n,) in found) == 10
    assert len(found) <= 2, "two when midnight came in between"


def test_coalesced(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """COALESCE: one run at the end of each interval, with its net change."""
    real, ahead = clock.now_ms, 0
    monkeypatch.setattr(clock, "now_ms", lambda: real() + ahead)
    con.execute(SET_UP)
    con.execute("""
        CREATE CONTINUAL TASK daily (n INT8, total INT8) ON INPUT feed
            WITH (COALESCE = '1 day', SNAPSHOT = false) AS (
            INSERT INTO daily SELECT count(*), sum(v) FROM feed);
        CREATE CONTINUAL TASK heard (n INT8) ON INPUT audit WITH (COALESCE = '1 day') AS (
            INSERT INTO heard SELECT count(*) FROM audit);
        CREATE CONTINUAL TASK after (n INT8) ON INPUT daily AS (
            INSERT INTO after SELECT n FROM daily)""")
    con.execute("INSERT INTO feed VALUES (1, 1), (2, 2)")
    con.execute("DELETE FROM feed WHERE k = 2")
    for v in (3, 4, 5):
        commit(con, [(3, v)])
    assert rows_of(con, "SELECT * FROM daily") == [], "it waits"
    assert len(rows_of(con, "SELECT * FROM audit")) == 7
    con.execute("SELECT * FROM heard")
    ahead = 86_400_000
    assert rows_of(con, "SELECT * FROM daily") == [(4, 13)], "net: the deleted row is none"
    assert rows_of(con, "SELECT * FROM after") == [(4,)]
    assert rows_of(con, "SELECT n FROM heard WHERE n > 0") == [(7,)], "out of a shared commit"
    assert rows_of(con, "SELECT * FROM daily") == [(4, 13)], "once"
