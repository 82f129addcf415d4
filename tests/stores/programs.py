"""What the processes on a store run; each line they print is an event, as JSON.

python -m tests.stores.programs <program> <warehouse> [more]
"""

import sys
import threading
from collections.abc import Callable

from ctsql.api import Connection, connect
from tests.crash.programs import say
from tests.helpers.opened import table_of

SET_UP = """
CREATE TABLE feed (w BIGINT, n BIGINT, i BIGINT);
CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT * FROM feed);
CREATE CONTINUAL TASK newest (w BIGINT, n BIGINT) ON INPUT feed AS (
    DELETE FROM newest WHERE w IN (SELECT w FROM feed);
    INSERT INTO newest SELECT w, max(n) FROM feed GROUP BY w);
CREATE MATERIALIZED VIEW per_writer WITH (REFRESH POLICY = incremental) AS
    SELECT w, n, count(*) AS c, sum(i) AS s FROM feed GROUP BY w, n;
"""
ROWS = 5


def insert(con: Connection, w: int, n: int) -> None:
    """One batch, and the outputs brought up to it."""
    values = ", ".join(f"({w}, {n}, {i})" for i in range(ROWS))
    say("try", w, n)
    con.execute(f"INSERT INTO feed VALUES {values}")
    say("ack", w, n)
    con.execute("SELECT * FROM copy, newest, per_writer LIMIT 0")


def set_up(warehouse: str) -> None:
    """The objects."""
    connect(warehouse, master="local[1]").execute(SET_UP)


def write(warehouse: str, w: str, first: str, last: str) -> None:
    """Batches first to last - 1 of a writer."""
    with connect(warehouse, master="local[1]") as con:
        con.start()
        say("ready")
        for n in range(int(first), int(last)):
            insert(con, int(w), n)


def race(warehouse: str, batches: str) -> None:
    """Two writers in one process, each with a connection of its own."""
    problems: list[BaseException] = []

    def one(w: int) -> None:
        try:
            with connect(warehouse) as con:
                for n in range(int(batches)):
                    insert(con, w, n)
        except BaseException as problem:
            problems.append(problem)
            raise

    threads = [threading.Thread(target=one, args=(w,)) for w in (1, 2)]
    connect(warehouse, master="local[2]").start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def tell(warehouse: str) -> None:
    """All rows, and what VERIFY finds wrong."""
    with connect(warehouse, master="local[1]") as con:
        for name in ("feed", "copy", "newest", "per_writer"):
            say("rows", name, con.execute(f"SELECT * FROM {name}").fetchall())
        say("wrong", con.execute("VERIFY per_writer").fetchall())


def jobs(warehouse: str) -> None:
    """Spark's jobs of small refreshes, and how this process reaches the store."""
    with connect(warehouse, master="local[1]") as con:
        for n in range(100, 104):
            insert(con, 9, n)
            con.execute("REFRESH MATERIALIZED VIEW per_writer")
        store = table_of(con, "per_writer").store
        say("store", type(store).__name__)
        said = con.commits("per_writer")[-1].said
        say("jobs", said["work"]["jobs"])


PROGRAMS: dict[str, Callable[..., None]] = {
    "set_up": set_up,
    "write": write,
    "race": race,
    "tell": tell,
    "jobs": jobs,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
