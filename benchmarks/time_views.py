"""What a view over the clock costs when time passes: 1,000 rows leave, of more and more.

    python -m benchmarks.time_views                     of 100,000, 1,000,000 and 10,000,000 rows
    python -m benchmarks.time_views --rows 1000000      of so many

The view is ``SELECT id, at, v FROM events WHERE at > now() - INTERVAL 1 DAY``; no table changes,
the clock is moved. In a table that is *in order* a row is near those of about the same time, as
events come; in a *shuffled* one it may be anywhere. One line each: seconds of a refresh, Spark's
jobs and the rows that it read, and what the refresh did. The first round warms up and is not
counted; of the others the median. The last lines are the ratios of each size to the one before.
"""

import argparse
import tempfile
import time
from typing import Any

from benchmarks.measures import Cost, Series
from ctsql.api import Connection, connect
from ctsql.runtime.log import clock

ROWS = (100_000, 1_000_000, 10_000_000)
LEAVING = 1_000
ROUNDS = 4
STEP_MS = 5
"""The time between two events."""
DAY_MS = 86_400_000
AHEAD_MS = 3_600_000
ORDERS = {"in order": "id", "shuffled": "hash(id)"}


def prepare(con: Connection, name: str, rows: int, order: str, now_ms: int) -> None:
    """Make a table of which all rows are in the view, the first of them for a second."""
    con.execute(f"CREATE TABLE {name} (id BIGINT, at TIMESTAMP, v INT)")
    first = now_ms - DAY_MS + 1_000
    con.execute(
        f"INSERT INTO {name} SELECT id, timestamp_millis({first} + id * {STEP_MS}), "
        f"CAST(id % 97 AS INT) FROM range({rows}) ORDER BY {order}"
    )
    con.execute(
        f"CREATE MATERIALIZED VIEW {name}_day AS "
        f"SELECT id, at, v FROM {name} WHERE at > now() - INTERVAL 1 DAY"
    )


def measure(con: Connection, name: str, clock_at: "Clock") -> tuple[Cost, dict[str, Any]]:
    """Let rows leave, several times; the median cost, and what the last commit says."""
    view = f"{name}_day"
    count = f"SELECT count(*) FROM {view}"
    clock_at.now += 1_000 - STEP_MS
    engine: Any = con._engine
    (item,) = (i for i in engine.catalog if i.name.name == view)
    series = Series(con.spark, name, ())
    (held,) = con.execute(count).fetchone() or (0,)
    for turn in range(ROUNDS + 1):
        clock_at.now += LEAVING * STEP_MS
        series.measure(lambda: con.execute(f"REFRESH MATERIALIZED VIEW {view}"))
        if not turn:
            series.costs.clear()
        (left,) = con.execute(count).fetchone() or (0,)
        if held - left != LEAVING:
            raise SystemExit(f"{held - left} rows have left {view}, not {LEAVING}")
        held = left
    table = engine.relations.table(item)
    return series.median, dict(table.commit_at(table.version()).metadata)


class Clock:
    """A clock that stands until it is moved, ahead of the one that commits are stamped by."""

    def __init__(self) -> None:
        self.now = time.time_ns() // 1_000_000 + AHEAD_MS

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.now


def main() -> None:
    """Print a line each, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--orders", nargs="*", default=list(ORDERS), choices=list(ORDERS))
    given = parser.parse_args()
    ratios = []
    for order in given.orders:
        before: tuple[int, Cost] | None = None
        for rows in given.rows:
            with tempfile.TemporaryDirectory() as folder, connect(f"{folder}/warehouse") as con:
                clock_at = Clock()
                clock.now_ms = clock_at.now_ms
                prepare(con, "events", rows, ORDERS[order], clock_at.now)
                cost, said = measure(con, "events", clock_at)
            phases = {k: v for k, v in said.items() if k in ("strategy", "why", "phases")}
            print(
                f"{rows:>12,} rows, {order}: {cost.seconds:6.2f} s {cost.jobs:4.0f} jobs "
                f"{cost.read:12,.0f} rows read  {phases}",
                flush=True,
            )
            if before is not None:
                ratio = cost.seconds / before[1].seconds
                ratios.append(f"{order}, {rows:,} to {before[0]:,}: {ratio:.2f}")
            before = rows, cost
    print("\n".join(ratios))


if __name__ == "__main__":
    main()
