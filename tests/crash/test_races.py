"""Two processes on one warehouse: they create, mint and run the same tasks at once."""

import fcntl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.runtime.delta.stores.locks import JVM_LOCK_FILE, commit_lock, folder_lock
from tests.helpers.processes import race
from tests.helpers.sample_warehouse import latest_by_commits
from tests.helpers.table_folder import check_written_once, folder, orphans
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.core

BATCHES = 4


def _script(name: str, number: int) -> list[str]:
    """Writes a feed both write, and reads outputs both keep; creates objects meanwhile."""
    steps = [f"CREATE TABLE own_{name} (k INT)"]
    for batch in range(BATCHES):
        steps.append(f"INSERT INTO feed VALUES ({batch}, {number}), (100 + {number}, {batch})")
        steps.append("SELECT * FROM copy")
        steps.append("SELECT * FROM summed")
    return [*steps, f"CREATE MATERIALIZED VIEW view_{name} AS SELECT k, v FROM feed"]


def test_two_processes(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """Each T is written once whoever wins, nothing is lost, and no file is left over."""
    con = connect()
    con.execute("CREATE TABLE feed (k INT, v INT)")
    con.execute("CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT * FROM feed)")
    con.execute(
        "CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed AS ("
        "DELETE FROM latest WHERE k IN (SELECT k FROM feed);"
        "INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k)"
    )
    con.execute("CREATE MATERIALIZED VIEW summed AS SELECT k, sum(v) AS s FROM feed GROUP BY k")
    race(warehouse, [_script("a", 1), _script("b", 2)])
    feed = con.execute("SELECT k, v FROM feed").fetchall()
    assert len(feed) == 2 * 2 * BATCHES
    assert_rows(con.execute("SELECT * FROM copy").fetchall(), feed, "copy")
    for view in ("view_a", "view_b"):
        assert_rows(con.execute(f"SELECT * FROM {view}").fetchall(), feed, view)
    sums: dict[int, int] = {}
    for k, v in feed:
        assert isinstance(k, int)
        assert isinstance(v, int)
        sums[k] = sums.get(k, 0) + v
    assert_rows(con.execute("SELECT * FROM summed").fetchall(), sums.items(), "summed")
    latest = con.execute("SELECT * FROM latest").fetchall()
    assert_rows(latest, latest_by_commits(con).items(), "latest")
    names = {row[1] for row in con.execute("SHOW TABLES").fetchall()}
    assert {"own_a", "own_b"} <= names
    for name in ("copy", "latest", "summed"):
        table = folder(con, name)
        check_written_once(table)
        assert not orphans(table)


def test_one_at_a_time_makes_a_warehouse(warehouse: Path, tmp_path: Path) -> None:
    """Making its tables is a commit as well, and on a local disk two could both win it."""
    open_connection(str(tmp_path / "other"), master="local[2]").start()  # Spark is up
    con = open_connection(str(warehouse), master="local[2]")
    making = threading.Thread(target=con.start)
    with folder_lock(f"{warehouse}/_ctsql"):
        making.start()
        making.join(3)
        assert making.is_alive()
        assert not (warehouse / "_ctsql" / "catalog").exists()
    making.join()
    assert con.execute("SHOW OBJECTS").fetchall() == []
    con.close()


def test_the_jvm_of_a_killed_process(connect: Callable[[], Connection]) -> None:
    """It may still be in a commit: it holds a lock of its own, and other processes wait for it."""
    con = connect()
    con.execute("CREATE TABLE t (k INT)")
    table = folder(con, "t")
    lock = table / "_delta_log" / JVM_LOCK_FILE
    writing = threading.Thread(target=con.execute, args=["INSERT INTO t VALUES (1)"])
    with lock.open("a") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        writing.start()
        writing.join(3)
        assert writing.is_alive()
    writing.join()
    assert con.execute("SELECT * FROM t").fetchall() == [(1,)]
    with commit_lock(str(table)), lock.open("a") as file, pytest.raises(BlockingIOError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
