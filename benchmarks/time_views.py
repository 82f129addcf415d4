"""The cost of a view with now() when time passes: 1,000 rows enter or leave, of tables of any size.

    python -m benchmarks.time_views                     of 100,000, 1,000,000 and 10,000,000 rows
    python -m benchmarks.time_views --rows 1000000      of this number of rows
    python -m benchmarks.time_views --views entering    one of the views

Rows *leave* a view of the last day that shows their time, *enter* a view of the past, leave
*groups* that do not show the time, or *pass* through a view that does not show it: 1,000 enter and
1,000 leave, of half the table. No table changes unless ``--changes`` is given: then 100 rows are
inserted before each refresh. The clock is set by the benchmark. A table is *in order* if rows of
about the same time are near each other, as events arrive; or *shuffled*. Prints a line each: the
seconds of a refresh, Spark's jobs, the rows that it read, and the strategy. The first rounds are a
warm-up; the others are medians. The last lines are the ratios of each size to the one before.
"""

import argparse
import tempfile
import time
from itertools import product
from typing import Any

from benchmarks.measures import Cost, Series
from ctsql.api import Connection, connect
from ctsql.runtime.log import clock

ROWS = (100_000, 1_000_000, 10_000_000)
TURNING = 1_000
CHANGED = 100
ROUNDS, ROUNDS_FIRST = 4, 2
STEP_MS = 5
"""The time between two events."""
DAY_MS = 86_400_000
AHEAD_MS = 3_600_000
ORDERS = {"in order": "id", "shuffled": "hash(id)"}
VIEWS = {
    "leaving": "SELECT id, at, v FROM events WHERE at > now() - {lasting}",
    "entering": "SELECT id, v FROM events WHERE at + {lasting} <= now()",
    "groups": "SELECT v, count(*) AS n FROM events WHERE at > now() - {lasting} GROUP BY v",
    "passing": "SELECT id, v FROM events WHERE at <= now() AND at > now() - {lasting}",
}
COUNTS = {
    "leaving": "count(*)",
    "entering": "-count(*)",
    "groups": "sum(n)",
    "passing": "-min(id)",
}
"""The query whose value falls by one with each expired row."""
SAID = ("strategy", "why", "phases", "expiries_by")


def prepare(con: Connection, rows: int, order: str, now_ms: int, view: str) -> None:
    """Create a table and a view of it, in which the first row expires in a second."""
    con.execute("CREATE TABLE events (id BIGINT, at TIMESTAMP, v INT)")
    lasting_ms = rows * STEP_MS // 2 if view == "passing" else DAY_MS
    first = now_ms - lasting_ms + 1_000
    con.execute(
        f"INSERT INTO events SELECT id, timestamp_millis({first} + id * {STEP_MS}), "
        f"CAST(id % 97 AS INT) FROM range({rows}) ORDER BY {order}"
    )
    query = VIEWS[view].format(lasting=f"INTERVAL {lasting_ms // 1_000} SECONDS")
    clause = "WITH (REFRESH POLICY = incremental)"  # what recomputing costs is known
    con.execute(
        f"CREATE MATERIALIZED VIEW seen {clause} AS {query}; REFRESH MATERIALIZED VIEW seen"
    )


def measure(
    con: Connection, clock_at: "Clock", view: str, *, changes: bool
) -> tuple[Cost, dict[str, Any]]:
    """Let rows expire several times; the median cost, and the metadata of the last commit."""
    count = f"SELECT {COUNTS[view]} FROM seen"
    clock_at.now += 1_000 - STEP_MS
    engine: Any = con._engine
    (item,) = (i for i in engine.catalog if i.name.name == "seen")
    series = Series(con.spark, view, ())
    (count_before,) = con.execute(count).fetchone() or (0,)
    for turn in range(ROUNDS_FIRST + ROUNDS):
        clock_at.now += TURNING * STEP_MS
        if changes:
            at = f"timestamp_millis({clock_at.now - DAY_MS // 2})"
            con.execute(f"INSERT INTO events SELECT id + 1000000000, {at}, 1 FROM range({CHANGED})")
        series.measure(lambda: con.execute("REFRESH MATERIALIZED VIEW seen"))
        if turn < ROUNDS_FIRST:
            series.costs.clear()
        (count_after,) = con.execute(count).fetchone() or (0,)
        insert_count = CHANGED if changes and view in ("leaving", "groups") else 0
        if count_before + insert_count - count_after != TURNING:
            raise SystemExit(
                f"{count_before + insert_count - count_after} rows have turned, not {TURNING}"
            )
        count_before = count_after
    table = engine.relations.table(item)
    return series.median, dict(table.commit_at(table.version()).metadata)


class Clock:
    """A clock that moves only when it is set, ahead of the clock of commit timestamps."""

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
    parser.add_argument("--views", nargs="*", default=list(VIEWS), choices=list(VIEWS))
    parser.add_argument("--changes", action="store_true")
    options = parser.parse_args()
    ratios = []
    for view, order in product(options.views, options.orders):
        before: tuple[int, Cost] | None = None
        for rows in options.rows:
            with tempfile.TemporaryDirectory() as folder, connect(f"{folder}/warehouse") as con:
                clock_at = Clock()
                clock.now_ms = clock_at.now_ms
                prepare(con, rows, ORDERS[order], clock_at.now, view)
                cost, metadata = measure(con, clock_at, view, changes=options.changes)
            phases = {k: v for k, v in metadata.items() if k in SAID}
            print(
                f"{rows:>12,} rows, {view}, {order}: {cost.seconds:6.2f} s {cost.jobs:4.0f} jobs "
                f"{cost.rows_read:12,.0f} rows read  {phases}",
                flush=True,
            )
            if before is not None:
                ratio = cost.seconds / before[1].seconds
                ratios.append(f"{view}, {order}, {rows:,} to {before[0]:,}: {ratio:.2f}")
            before = rows, cost
    print("\n".join(ratios))


if __name__ == "__main__":
    main()
