"""What the processes of a crash test run; each line they print is an event of theirs, as JSON.

    python -m tests.crash.programs <program> <warehouse> <seed> <seconds> [more]

``try`` comes before a statement that writes and ``ack`` after it: what was acknowledged must be
in, what was only tried is in whole or not at all.
"""

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError

ACCOUNTS = 6
OPENING = 1000
SET_UP = f"""
CREATE TABLE feed (w BIGINT, n BIGINT, i BIGINT);
CREATE TABLE left_side (id BIGINT, amount BIGINT);
CREATE TABLE right_side (id BIGINT, amount BIGINT);
CREATE TABLE moves (w BIGINT, n BIGINT, amount BIGINT);
INSERT INTO left_side SELECT id, {OPENING} FROM range({ACCOUNTS});
INSERT INTO right_side SELECT id, {OPENING} FROM range({ACCOUNTS});
CREATE MATERIALIZED VIEW total WITH (REFRESH POLICY = incremental) AS
    SELECT sum(amount) AS amount FROM (
        SELECT amount FROM left_side UNION ALL SELECT amount FROM right_side);
CREATE MATERIALIZED VIEW per_writer WITH (REFRESH POLICY = incremental) AS
    SELECT w, n, count(*) AS c, sum(i) AS s FROM feed GROUP BY w, n;
CREATE MATERIALIZED VIEW now_and_then WITH (REFRESH EVERY '2 seconds') AS
    SELECT w, count(*) AS c FROM feed GROUP BY w;
CREATE VIEW moved AS SELECT w, sum(amount) AS amount FROM moves GROUP BY w;
CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT * FROM feed);
CREATE CONTINUAL TASK newest (w BIGINT, n BIGINT) ON INPUT feed AS (
    DELETE FROM newest WHERE w IN (SELECT w FROM feed);
    INSERT INTO newest SELECT w, max(n) FROM feed GROUP BY w);
CREATE CONTINUAL TASK gathered ON INPUT feed WITH (COALESCE = '1 second') AS (
    INSERT INTO gathered SELECT * FROM feed);
CREATE CONTINUAL TASK parted OUTPUTS (even (w BIGINT, n BIGINT, i BIGINT),
        odd (w BIGINT, n BIGINT, i BIGINT)) ON INPUT feed AS (
    INSERT INTO even SELECT * FROM feed WHERE i % 2 = 0;
    INSERT INTO odd SELECT * FROM feed WHERE i % 2 = 1);
CREATE CONTINUAL TASK ledger ON INPUT moves AS (INSERT INTO ledger SELECT * FROM changes(moves));
"""
# Everything that must agree within one read, whatever is under way.
CUT = f"""
SELECT (SELECT sum(amount) FROM left_side) + (SELECT sum(amount) FROM right_side) AS both,
    (SELECT amount FROM total) AS total,
    (SELECT sum(amount) FROM right_side) - {ACCOUNTS * OPENING} AS gone,
    (SELECT coalesce(sum(amount), 0) FROM moves) AS moved,
    (SELECT coalesce(sum(amount), 0) FROM moved) AS viewed,
    (SELECT coalesce(sum(amount), 0) FROM ledger) AS ledger,
    (SELECT count(*) FROM feed) AS feed,
    (SELECT count(*) FROM copy) AS copied,
    (SELECT coalesce(sum(c), 0) FROM per_writer) AS counted,
    (SELECT count(*) FROM even) + (SELECT count(*) FROM odd) AS parted,
    (SELECT count(*) FROM (SELECT w, n FROM feed GROUP BY w, n HAVING count(*) <> max(i) + 1)
        AS t) AS torn,
    (SELECT count(*) FROM (SELECT w, n FROM newest EXCEPT SELECT w, max(n) FROM feed GROUP BY w)
        AS t) AS old
"""
# A lost race is no defect; whatever else a statement says is.
PASSING = ("TRANSACTION_CONFLICT",)
_lock = threading.Lock()


def say(event: str, *told: Any) -> None:
    """Print an event, whole."""
    with _lock:
        print(json.dumps([event, *told]), flush=True)


def insert(con: Connection, draw: random.Random, w: int, n: int) -> None:
    """One batch: rows 0 to m - 1, all of them or none."""
    write(con, w, n, draw.choice([1, 2, 3, 40, 400]))


def big(con: Connection, draw: random.Random, w: int, n: int) -> None:
    """A batch that is no small change for anybody, and a refresh that compares all rows."""
    write(con, w, n, draw.choice([20_000, 60_000]))
    con.execute("REFRESH MATERIALIZED VIEW per_writer FULL")


def write(con: Connection, w: int, n: int, rows: int) -> None:
    """Insert a batch, and say so before and after."""
    say("try", "feed", w, n, rows)
    con.execute(f"INSERT INTO feed SELECT {w}, {n}, id FROM range({rows})")
    say("ack", "feed", w, n, rows)


def move(con: Connection, draw: random.Random, w: int, n: int) -> None:
    """Some amount from left to right, and a note of it: three tables, one transaction."""
    amount = draw.randrange(-20, 21)
    a, b = draw.randrange(ACCOUNTS), draw.randrange(ACCOUNTS)
    con.execute("BEGIN")
    try:
        con.execute(f"UPDATE left_side SET amount = amount - {amount} WHERE id = {a}")
        con.execute(f"UPDATE right_side SET amount = amount + {amount} WHERE id = {b}")
        con.execute(f"INSERT INTO moves VALUES ({w}, {n}, {amount})")
        say("try", "moves", w, n, amount)
        con.execute("COMMIT")
    except CtsqlError as problem:
        say("lost", "moves", w, n, problem.condition)
        con.rollback()  # a COMMIT that was refused has ended it
        raise
    say("ack", "moves", w, n, amount)


def look(con: Connection, _draw: random.Random, _w: int, _n: int) -> None:
    """One cut of everything."""
    result = con.execute(CUT)
    say("cut", dict(zip(result.columns, result.fetchone() or (), strict=True)))


def maintain(con: Connection, draw: random.Random, _w: int, _n: int) -> None:
    """What runs beside it now and then."""
    con.execute(draw.choice(["MAINTAIN", "REFRESH MATERIALIZED VIEW per_writer FULL"]))


def load(warehouse: str, seed: str, seconds: float, number: int, jobs: str) -> None:
    """Threads with connections of their own; ``jobs`` is one letter for each."""
    doing: dict[str, Callable[[Connection, random.Random, int, int], None]] = {
        "i": insert, "m": move, "l": look, "x": maintain, "b": big,
    }  # fmt: skip
    first = connect(warehouse, master="local[1]")
    first.start()
    until = time.monotonic() + seconds

    def work(place: int, job: str) -> None:
        draw, w, n = random.Random(f"{seed}/{number}/{place}"), number * 10 + place, 0
        con = connect(warehouse)
        while time.monotonic() < until:
            n += 1
            try:
                doing[job](con, draw, w, n)
            except CtsqlError as problem:
                if problem.condition not in PASSING:
                    say("problem", job, w, n, str(problem))
            time.sleep(draw.choice([0, 0, 0.05, 0.3]))

    say("ready")
    threads = [threading.Thread(target=work, args=job) for job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("done")


def set_up(warehouse: str, *_: Any) -> None:
    """Make the objects."""
    connect(warehouse, master="local[1]").execute(SET_UP)
    say("done")


def settle(warehouse: str, *_: Any) -> None:
    """Bring all up to now and tell what is held; views are compared with their queries."""
    con = connect(warehouse, master="local[1]")
    time.sleep(2.5)  # past the end of a COALESCE interval and a refresh time
    con.execute("REFRESH MATERIALIZED VIEW now_and_then")
    look(con, random.Random(0), 0, 0)
    for name in ("total", "per_writer", "now_and_then"):
        say("verify", name, con.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall())
    for name in ("gathered", "copy", "even", "odd", "ledger", "newest"):
        con.execute(f"SELECT count(*) FROM {name}").fetchall()
    for row in con.execute("SHOW CONTINUAL TASKS").fetchall():
        say("task", [value.isoformat() if isinstance(value, datetime) else value for value in row])
    say("done")


def told(warehouse: str, _seed: str, _seconds: float, names: str) -> None:
    """All changes of some objects from the beginning, as new subscriptions tell them."""
    con = connect(warehouse, master="local[1]")
    for name in names.split(","):
        for t, diff, *row in con.execute(f"SUBSCRIBE TO {name} FROM 0 UP TO NOW").fetchall():
            say("row", name, t, diff, *row)
    say("done")


def follow(warehouse: str, _seed: str, seconds: float, names: str, into: str) -> None:
    """Named readers in threads; each batch goes to a file of its reader's, then is acknowledged."""
    first = connect(warehouse, master="local[1]")
    first.start()
    until = time.monotonic() + seconds

    def read(name: str) -> None:
        con = connect(warehouse)
        with (Path(into) / f"{name}.jsonl").open("a") as file:
            file.write("\n")  # the last line may have been cut by a kill
            kept = con.subscribe(name, begin=0, reader=f"of {name}", auto_commit=False)
            threading.Timer(max(0.0, until - time.monotonic()), kept.stop).start()
            for batch in kept.batches():
                say("given", name, batch.t)
                rows = [list(row) for row in batch.rows()]
                file.write(json.dumps([batch.t, rows]) + "\n")
                file.flush()
                kept.commit()
                file.write(json.dumps([batch.t, None]) + "\n")
                file.flush()
                say("taken", name, batch.t)

    say("ready")
    threads = [threading.Thread(target=read, args=(name,)) for name in names.split(",")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("done")


def attach(warehouse: str, _seed: str, _seconds: float, *tables: str) -> None:
    """Objects over tables of others: for each a copy, a log of its changes, and a view."""
    con = connect(warehouse, master="local[1]")
    for name, table in (pair.split("=") for pair in tables):
        con.execute(f"""
            CREATE TABLE {name} LOCATION '{table}';
            CREATE CONTINUAL TASK {name}_log (n BIGINT, i BIGINT, d BIGINT) ON INPUT {name} AS (
                INSERT INTO {name}_log SELECT n, i, diff FROM changes({name}));
            CREATE MATERIALIZED VIEW {name}_seen WITH (REFRESH POLICY = incremental) AS
                SELECT n, count(*) AS c, sum(i) AS s FROM {name} GROUP BY n""")
    say("done")


def beside(warehouse: str, seed: str, seconds: float, *names: str) -> None:
    """Reads of what others write, and an INSERT of one's own that reads it too; then the end."""
    con = connect(warehouse, master="local[1]")
    con.execute("CREATE TABLE IF NOT EXISTS mine (d BIGINT, n BIGINT)")
    until, draw = time.monotonic() + seconds, random.Random(seed)
    say("ready")
    while True:
        is_last = time.monotonic() > until
        for name in names:
            held, logged, seen = (
                con.execute(
                    f"SELECT (SELECT count(*) FROM {name}),"
                    f" (SELECT coalesce(sum(d), 0) FROM {name}_log),"
                    f" (SELECT coalesce(sum(c), 0) FROM {name}_seen)"
                ).fetchone()
                or ()
            )
            say("seen", name, held, logged, seen)
        if is_last:
            break
        name = draw.choice(names)
        con.execute(f"INSERT INTO mine SELECT (SELECT count(*) FROM {name}), c.n FROM"
                    f" (SELECT coalesce(sum(d), 0) AS n FROM {name}_log) AS c")  # fmt: skip
    for name in names:
        say("verify", name, con.execute(f"VERIFY MATERIALIZED VIEW {name}_seen").fetchall())
    say("mine", [list(row) for row in con.execute("SELECT * FROM mine").fetchall()])
    say("done")


def spark_writer(table: str, seed: str, seconds: float) -> None:
    """A foreign writer: plain Spark and Delta, without ctsql; appends, deletes and rewrites."""
    from ctsql.runtime.spark.start.session import (
        process_session,  # its JARs and settings, no warehouse
    )

    spark = process_session("local[1]")
    draw, until, n = random.Random(seed), time.monotonic() + seconds, 0
    say("ready")
    while time.monotonic() < until:
        n += 1
        rows = draw.choice([1, 3, 50])
        say("try", "foreign", n, rows)
        frame = spark.sql(f"SELECT CAST({n} AS BIGINT) AS n, id AS i FROM range({rows})")
        frame.write.format("delta").mode("append").save(table)
        say("ack", "foreign", n, rows)
        if draw.random() < 0.3:
            spark.sql(f"DELETE FROM delta.`{table}` WHERE n = {draw.randrange(1, n + 1)} AND i > 0")
        if draw.random() < 0.2:
            spark.sql(f"OPTIMIZE delta.`{table}`")
    say("done")


def import_files(warehouse: str, _seed: str, _seconds: float, how: str, folder: str) -> None:
    """Bring the files of a folder into the table ``t``, each once, whatever killed the last try.

    COPY remembers no files, so the table is asked what is there; a writer counts them.
    """
    con = connect(warehouse, master="local[2]")
    con.execute("CREATE TABLE IF NOT EXISTS t (file BIGINT, i BIGINT)")
    paths = sorted(Path(folder).iterdir())
    writer = con.writer("t", job="import")
    say("ready")
    for n in range(writer.fetch_recent_upper() if how == "writer" else 0, len(paths)):
        if how == "writer":
            rows = con.execute(f"SELECT * FROM '{paths[n]}'").to_spark()
            say("try", n)
            writer.compare_and_append(rows, expected_upper=n, new_upper=n + 1)
        elif con.execute("SELECT 1 FROM t WHERE file = ? LIMIT 1", [n]).scalar() == 1:
            continue
        else:
            say("try", n)
            con.execute(f"COPY t FROM '{paths[n]}'")
        say("ack", n)
    say("done")


TIME_SET_UP = """
CREATE TABLE t (k BIGINT, g BIGINT, until TIMESTAMP);
INSERT INTO t SELECT -id, 0, TIMESTAMP '2020-01-01' FROM range({past});
CREATE MATERIALIZED VIEW live WITH (REFRESH POLICY = incremental) AS
    SELECT k, g FROM t WHERE until > now();
CREATE MATERIALIZED VIEW sums WITH (REFRESH POLICY = incremental) AS
    SELECT g, count(*) AS c, sum(k) AS s FROM t WHERE until > now() GROUP BY g;
CREATE CONTINUAL TASK seen (at TIMESTAMP, k BIGINT, d BIGINT) ON INPUT live AS (
    INSERT INTO seen SELECT now(), k, diff FROM changes(live));
CREATE CONTINUAL TASK summed (at TIMESTAMP, g BIGINT, c BIGINT, s BIGINT, d BIGINT) ON INPUT sums
    AS (INSERT INTO summed SELECT now(), g, c, s, diff FROM changes(sums))
"""


def set_up_time(warehouse: str, _seed: str, _seconds: float, past: int) -> None:
    """Two views that rows leave as time passes, and a log of the changes of each.

    Args:
        past: rows that have left long ago.
    """
    connect(warehouse, master="local[1]").execute(TIME_SET_UP.format(past=past))
    say("done")


def let_expire(warehouse: str, seed: str, seconds: float) -> None:
    """Rows that leave some seconds after they came, a few of them at the same millisecond."""
    con = connect(warehouse, master="local[1]")
    con.start()
    draw, until, k = random.Random(seed), time.monotonic() + seconds, 0
    say("ready")
    while time.monotonic() < until:
        leaves_us = time.time_ns() // 1_000 + draw.randrange(3_000_000, 15_000_000)
        rows = [(k + i, draw.randrange(3), leaves_us + draw.choice([0, 0, 7, 400_000]))
                for i in range(draw.randrange(1, 4))]  # fmt: skip
        k += len(rows)
        say("try", rows)
        values = ", ".join(f"({r}, {g}, timestamp_micros({us}))" for r, g, us in rows)
        con.execute(f"INSERT INTO t VALUES {values}")
        say("ack", rows, time.time_ns() // 1_000_000)
        time.sleep(draw.choice([0, 0.3, 1]))
    say("done")


def settle_time(warehouse: str, _seed: str, _seconds: float) -> None:
    """Bring all up to now; every row has left by then."""
    con = connect(warehouse, master="local[1]")
    con.run(once=True)
    for name in ("live", "sums"):
        say("verify", name, con.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall())
        say("held", name, con.execute(f"SELECT * FROM {name}").fetchall())
    for name in ("seen", "summed"):
        con.execute(f"SELECT * FROM {name} LIMIT 1").fetchall()
    say("done")


PROGRAMS = {
    program.__name__: program
    for program in (
        set_up,
        load,
        settle,
        told,
        follow,
        attach,
        beside,
        spark_writer,
        import_files,
        set_up_time,
        let_expire,
        settle_time,
    )
}

if __name__ == "__main__":
    chosen, place, given_seed, given_seconds, *rest = sys.argv[1:]
    more = [int(r) if r.isdigit() else r for r in rest]
    PROGRAMS[chosen](place, given_seed, float(given_seconds), *more)  # type: ignore[operator]
