"""The cost of a tick of a task with UNIQUE, over a small and a large output.

    python -m benchmarks.constraints --rows 1000000 10000000 --ticks 9 --change 100

A task copies a feed. Its output has --rows rows; then each tick inserts a few new ones, and one of
these has a stored key. Prints the median seconds of a tick with and without the constraint, and the
ratios of the large to the small output. The cost should depend on the change only: at most 1.2.
"""

import argparse
import random
import statistics
import tempfile
import time

import ctsql
from ctsql.api import Connection

UNIQUE = "ALTER CONTINUAL TASK copy ADD CONSTRAINT u UNIQUE (id) ON VIOLATION DROP"


def make(con: Connection, rows: int) -> None:
    """Create the feed and the output with a number of rows each."""
    con.execute("CREATE TABLE feed (id BIGINT, note STRING)")
    con.execute(f"INSERT INTO feed SELECT id, concat('row ', id) FROM range({rows})")
    con.execute("CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT * FROM feed)")


def tick(con: Connection, first: int, rows: int, change: int) -> float:
    """Insert new rows, one with a stored key; returns the seconds."""
    new = [*range(first, first + change - 1), random.Random(first).randrange(rows)]
    texts = ", ".join(f"({key}, 'new')" for key in new)
    con.execute(f"INSERT INTO feed VALUES {texts}")
    start = time.monotonic()
    con.run(once=True)
    return time.monotonic() - start


def measure(rows: int, ticks: int, change: int) -> dict[str, float]:
    """The median seconds of a tick without the constraint, and with it."""
    with tempfile.TemporaryDirectory(prefix="ctsql-constraints-") as folder:
        con = ctsql.connect(folder)
        make(con, rows)
        first, medians = rows, {}
        for name in ("without", "with"):
            if name == "with":
                con.execute(UNIQUE)
            seconds = []
            for _ in range(ticks + 2):
                seconds.append(tick(con, first, rows, change))
                first += 2 * change
            medians[name] = statistics.median(seconds[2:])
        counts = {r[2]: int(r[5]) for r in con.execute("SHOW CONSTRAINTS FOR copy").fetchall()}
        assert counts == {"u": ticks + 2}, counts
        con.close()
    return medians


def main() -> None:
    """Print the medians and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs=2, default=[1_000_000, 10_000_000])
    parser.add_argument("--ticks", type=int, default=9)
    parser.add_argument("--change", type=int, default=100)
    options = parser.parse_args()
    medians = {}
    for rows in options.rows:
        medians[rows] = measure(rows, options.ticks, options.change)
        times = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in medians[rows].items())
        print(f"{rows:>12,} rows: {times}", flush=True)
    small, large = (medians[rows] for rows in options.rows)
    for name in small:
        print(f"ratio {name}: {large[name] / small[name]:.2f}")


if __name__ == "__main__":
    main()
