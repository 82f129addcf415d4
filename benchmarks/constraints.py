"""What a tick costs whose task keeps UNIQUE and REFERENCES, over a small and a large output.

    python -m benchmarks.constraints --rows 1000000 10000000 --ticks 9 --change 100

A task copies a feed. Its output and the table that it refers to hold so many rows; then each tick
inserts a few new ones, with new keys, that refer to keys anywhere. Printed are the median seconds
of a tick with both constraints and without any, and the ratios of the large to the small output:
keeping them should cost what the change costs, so at most 1.2.
"""

import argparse
import random
import statistics
import tempfile
import time

import ctsql
from ctsql.api import Connection

CONSTRAINTS = (
    "ALTER CONTINUAL TASK copy ADD CONSTRAINT u UNIQUE (id) ON VIOLATION DROP",
    "ALTER CONTINUAL TASK copy ADD CONSTRAINT r FOREIGN KEY (ref) REFERENCES known (id)"
    " ON VIOLATION DROP",
)


def make(con: Connection, rows: int) -> None:
    """The feed, the output and the table that it refers to, each with so many rows."""
    con.execute("CREATE TABLE feed (id BIGINT, ref BIGINT, note STRING)")
    con.execute("CREATE TABLE known (id BIGINT, note STRING)")
    con.execute(f"INSERT INTO known SELECT id, concat('known ', id) FROM range({rows})")
    con.execute(
        f"INSERT INTO feed SELECT id, (id * 7919) % {rows}, concat('row ', id) FROM range({rows})"
    )
    con.execute("CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT * FROM feed)")


def tick(con: Connection, first: int, rows: int, change: int) -> float:
    """Insert new rows, of which one has a key that is there and one refers to nothing; seconds."""
    chance = random.Random(first)
    new = [(first + n, chance.randrange(rows)) for n in range(change - 2)]
    new += [(chance.randrange(rows), 0), (first + change, 10 * rows)]
    texts = ", ".join(f"({key}, {ref}, 'new')" for key, ref in new)
    con.execute(f"INSERT INTO feed VALUES {texts}")
    start = time.monotonic()
    con.run(once=True)
    return time.monotonic() - start


def measure(rows: int, ticks: int, change: int) -> dict[str, float]:
    """The median seconds of a tick without constraints, and with them."""
    with tempfile.TemporaryDirectory(prefix="ctsql-constraints-") as folder:
        con = ctsql.connect(folder)
        make(con, rows)
        first, medians = rows, {}
        for name in ("without", "with"):
            if name == "with":
                for text in CONSTRAINTS:
                    con.execute(text)
            seconds = []
            for _ in range(ticks + 2):
                seconds.append(tick(con, first, rows, change))
                first += 2 * change
            medians[name] = statistics.median(seconds[2:])
        counts = {r[2]: int(r[5]) for r in con.execute("SHOW CONSTRAINTS FOR copy").fetchall()}
        assert counts == {"u": ticks + 2, "r": ticks + 2}, counts
        con.close()
    return medians


def main() -> None:
    """Print what was measured, and the ratios."""
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
