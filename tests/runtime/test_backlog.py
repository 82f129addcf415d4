"""Commits that wait are worked off in their order, with the result of one by one."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from ctsql.api import Connection
from tests.runtime.disk import folder, log, transaction
from tests.scenarios.play import assert_rows

pytestmark = pytest.mark.spark

SET_UP = """
    CREATE TABLE feed (k INT, v INT);
    CREATE CONTINUAL TASK audit (k INT, w STRING) ON INPUT feed AS (
        INSERT INTO audit SELECT k, concat('v', CAST(v AS STRING)) FROM feed WHERE v > 0;
        INSERT INTO audit SELECT -k, 'all' FROM feed);
    CREATE CONTINUAL TASK follower (k INT, n INT8) ON INPUT audit AS (
        INSERT INTO follower SELECT k, count(*) FROM audit GROUP BY k);
    CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed AS (
        DELETE FROM latest WHERE k IN (SELECT k FROM feed);
        INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k);
"""


def foreign_commits(con: Connection, count: int) -> list[list[tuple[int, int]]]:
    """Commits of a few rows that nobody has looked at; gives the rows of each."""
    chance = random.Random(5)
    table = con._opened().gateway.table(f"file:{folder(con, 'feed')}")
    made = []
    for i in range(count):
        rows = [(chance.randrange(5), chance.randrange(-2, 9)) for _ in range(1 + i % 3)]
        frame = con._opened().session.createDataFrame(rows, "k INT, v INT").coalesce(1)
        txn = table.begin()
        txn.add_files(txn.stage(frame))
        txn.commit(label="a test", epoch=i, metadata="{}")
        made.append(rows)
    return made


def check_worked_off(con: Connection, count: int) -> None:
    """The three tasks after a backlog hold what one by one would have given."""
    con.execute(SET_UP)
    commits = foreign_commits(con, count)
    audit: Counter[tuple[object, ...]] = Counter()
    follower: Counter[tuple[object, ...]] = Counter()
    latest: dict[int, int] = {}
    for rows in commits:
        made = [(k, f"v{v}") for k, v in rows if v > 0] + [(-k, "all") for k, _ in rows]
        audit.update(made)
        follower.update(Counter(k for k, _ in made).items())
        latest |= {k: max(v for j, v in rows if j == k) for k, _ in rows}
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), latest.items(), "latest")
    assert_rows(con.execute("SELECT * FROM audit").fetchall(), audit.elements(), "audit")
    assert_rows(con.execute("SELECT * FROM follower").fetchall(), follower.elements(), "follower")
    uppers = [u for c in log(folder(con, "audit")) if (u := transaction(c)) is not None]
    assert uppers == sorted(set(uppers))
    assert len(uppers) == count, "a commit for each T"
    half = uppers[count // 2]
    seen = con.execute(f"SELECT count(*) FROM audit AS OF {half - 1}").fetchall()
    wanted = sum(1 + (v > 0) for rows in commits[: count // 2 + 1] for _, v in rows)
    assert seen == [(wanted,)], "each T is there to be read"


def test_a_backlog(con: Connection) -> None:
    """Some commits wait, of inserts alone."""
    check_worked_off(con, 12)


@pytest.mark.slow
def test_a_long_backlog(con: Connection) -> None:
    """A thousand wait."""
    check_worked_off(con, 1_000)


def test_an_error_stops_at_its_time(con: Connection) -> None:
    """Computed together or not, the T at fault is the one that fails; those before are in."""
    con.execute(
        """
        CREATE TABLE feed (k INT, v INT);
        CREATE CONTINUAL TASK part (k INT) ON INPUT feed AS (
            INSERT INTO part SELECT 10 / v FROM feed WHERE k > 0)""".replace("10 / v", "10 % v")
    )
    table = con._opened().gateway.table(f"file:{folder(con, 'feed')}")
    for k, v in ((1, 3), (2, 4), (3, 0), (4, 6)):
        frame = con._opened().session.createDataFrame([(k, v)], "k INT, v INT").coalesce(1)
        txn = table.begin()
        txn.add_files(txn.stage(frame))
        txn.commit(label="a test", epoch=k, metadata="{}")
    with pytest.raises(Exception, match="TASK_FAILED"):
        con.execute("SELECT * FROM part")
    con.execute("SET isolation = 'serializable'")
    con.execute("RESET isolation; ALTER CONTINUAL TASK part SKIP")
    assert_rows(con.execute("SELECT * FROM part").fetchall(), [(1,), (2,), (4,)], "10 % v")


def test_a_tick_shares_a_time(connect: Callable[[], Connection]) -> None:
    """With a tick interval the commits of the same interval are one T."""
    con = connect()
    con.execute("CREATE TABLE feed (k INT, v INT); SET tick_interval = '1 hour'")
    con.execute("""CREATE CONTINUAL TASK runs (n INT8) ON INPUT feed AS (
        INSERT INTO runs SELECT count(*) FROM feed)""")
    con.execute("SELECT * FROM runs")
    foreign_commits(con, 4)
    assert con.execute("SELECT * FROM runs").fetchall() in ([(7,)], [(1,), (6,)], [(3,), (4,)],
                                                            [(6,), (1,)])  # fmt: skip
