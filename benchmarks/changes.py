"""The cost of a refresh by the size of the change: incremental, full, and chosen by ``auto``.

    python -m benchmarks.changes                            0.01 to 20 % at scale 1
    python -m benchmarks.changes --parts 0.5 --rounds 2     of this part
    python -m benchmarks.changes --scale 0.1 --commits 10   each change in ten parts

Five views over TPC-H's orders and their lines: a join, an aggregate, a window, an aggregate over an
aggregate over a LEFT JOIN, and the first groups of an order. Each exists with the policies
``incremental``, ``full`` and ``auto``. In each round this part of the orders and all their lines
change, as in benchmarks/views.py, and the views are refreshed in turns. The first round of all is a
warm-up. At the end all three must have the same rows.

Each line has the seconds of the first round, or the medians from the third round on, and the way of
``auto`` in the first or last round. The ratio is ``auto`` to the cheaper of the two others. The
first incremental refresh after a change of some size is slower than the next one, so in the first
round the slower of ``incremental`` and ``auto`` counts. From the third round on 0.3 s are free.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.views import Warehouse
from ctsql.runtime.spark.internals.sessions import active

PARTS = (0.0001, 0.01, 0.1, 0.2)  # times the rounds less than 1: no order changes twice
FREE_SECONDS = 0.3
POLICIES = ("incremental", "full", "auto")
VIEWS = {
    "join": """
        SELECT o_orderkey, o_orderdate, c_name, c_mktsegment, l_linenumber, l_extendedprice
        FROM lineitem JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey
        WHERE c_mktsegment = 'BUILDING'""",
    "aggregate": """
        SELECT l_suppkey, l_returnflag, count(*) AS n, sum(l_quantity) AS quantity,
            sum(l_extendedprice * (1 - l_discount)) AS price, max(l_shipdate) AS last
        FROM lineitem GROUP BY l_suppkey, l_returnflag""",
    "window": """
        SELECT o_orderkey, o_custkey, o_totalprice,
            row_number() OVER (
                PARTITION BY o_custkey ORDER BY o_totalprice DESC, o_orderkey
            ) AS place
        FROM orders""",
    "nested": """
        SELECT n, count(*) AS customers, sum(price) AS price
        FROM (
            SELECT c_custkey, count(o_orderkey) AS n, sum(o_totalprice) AS price
            FROM customer LEFT JOIN orders ON c_custkey = o_custkey GROUP BY c_custkey
        )
        GROUP BY n""",
    "first": """
        SELECT o_custkey, count(*) AS n, sum(o_totalprice) AS price
        FROM orders GROUP BY o_custkey ORDER BY price DESC, o_custkey LIMIT 100""",
}


def measure(scale: float, parts: list[float], rounds: int, commits: int) -> None:
    """Print two lines for each view and part, and the worst ratios."""
    worst = {"first": 0.0, "from the third": 0.0}
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-") as root:
        house = Warehouse(Path(root), policy="auto")
        with active(house.spark):
            house.load(scale)
            for view, query in VIEWS.items():
                for policy in POLICIES:
                    house.policy = policy
                    house.make(f"{view}_{policy}", query)
            _turn(house, parts[0], 1, 0)  # warms up
            number = 1
            for part in parts:
                took: dict[str, list[float]] = {}
                ways: dict[str, list[str]] = {}
                for _ in range(rounds):
                    for name, seconds in _turn(house, part, commits, number).items():
                        took.setdefault(name, []).append(seconds)
                        ways.setdefault(name, []).append(house.how(name))
                    number += 1
                for view in VIEWS:
                    times = [took[f"{view}_{policy}"] for policy in POLICIES]
                    how = ways[f"{view}_auto"]
                    follows, anew, auto = (seconds[0] for seconds in times)
                    if how[0] == ways[f"{view}_incremental"][0]:
                        follows = max(follows, auto)
                    later = [statistics.median(seconds[2:] or seconds) for seconds in times]
                    for when, three, free, way in (
                        ("first", [follows, anew, auto], 0.0, how[0]),
                        ("from the third", later, FREE_SECONDS, how[-1]),
                    ):
                        ratio = _show(f"{part:7.2%} {view:<10} {when:<15}", three, free, way)
                        worst[when] = max(worst[when], ratio)
            for view in VIEWS:
                _check(house, view)
        house.con.close()
    for when, ratio in worst.items():
        print(f"auto to the cheaper, worst, {when}: {ratio:.2f}")


def _turn(house: Warehouse, part: float, commits: int, number: int) -> dict[str, float]:
    """One round: the seconds of each view's refresh."""
    for _ in range(commits):
        house.change(part / commits)
    first = number % len(POLICIES)
    order = POLICIES[first:] + POLICIES[:first]
    return {f"{v}_{p}": house.refresh(f"{v}_{p}")[0] for v in VIEWS for p in order}


def _show(name: str, seconds: list[float], free: float, how: str) -> float:
    """Print the times of a view's refreshes; returns the ratio of ``auto`` to the cheaper."""
    follows, anew, auto = seconds
    ratio = (auto - free) / min(follows, anew)
    print(
        f"{name} incremental {follows:7.2f} s  full {anew:7.2f} s  auto {auto:7.2f} s"
        f" {ratio:6.2f}x  {how}",
        flush=True,
    )
    return ratio


def _check(house: Warehouse, view: str) -> None:
    """Compare the rows of the three views."""
    load = house.spark.read.format("delta").load
    whole = load(house.location(f"{view}_full"))
    for policy in ("incremental", "auto"):
        rows = load(house.location(f"{view}_{policy}"))
        wrong = rows.exceptAll(whole).count() + whole.exceptAll(rows).count()
        assert wrong == 0, f"{view}: {wrong} rows differ with policy {policy}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--parts", type=float, nargs="*", default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--commits", type=int, default=1, help="in so many parts, one after another"
    )
    options = parser.parse_args()
    measure(options.scale, options.parts, options.rounds, options.commits)


if __name__ == "__main__":
    main()
