"""The cost of a refresh by the size of the change: incremental, full, and chosen by ``auto``.

    python -m benchmarks.changes                       0.01, 0.1, 1, 5 and 20 % at scale 1
    python -m benchmarks.changes --parts 0.001 0.2     of these parts
    python -m benchmarks.changes --scale 0.1           the quick form

Three views over TPC-H's orders and their lines: a join, an aggregate, and a window. Each exists
with the policies ``incremental``, ``full`` and ``auto``. In each round this part of the orders and
all their lines change, as in benchmarks/views.py, and the views are refreshed in turns. The first
round of the first part is a warm-up; the medians of the others are printed. At the end all three
must have the same rows.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.views import Warehouse
from ctsql.runtime.spark.internals.sessions import active

PARTS = (0.0001, 0.001, 0.01, 0.05, 0.2)
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
}


def measure(scale: float, parts: list[float], rounds: int) -> None:
    """Print a line for each view and part."""
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-") as root:
        house = Warehouse(Path(root), policy="auto")
        with active(house.spark):
            house.load(scale)
            for view, query in VIEWS.items():
                for policy in POLICIES:
                    house.policy = policy
                    house.make(f"{view}_{policy}", query)
            _turn(house, parts[0], 0)  # warms up
            number = 1
            for part in parts:
                took: dict[str, list[float]] = {}
                for _ in range(rounds):
                    for name, seconds in _turn(house, part, number).items():
                        took.setdefault(name, []).append(seconds)
                    number += 1
                for view in VIEWS:
                    _show(house, view, part, {p: took[f"{view}_{p}"] for p in POLICIES})
            for view in VIEWS:
                _check(house, view)
        house.con.close()


def _turn(house: Warehouse, part: float, number: int) -> dict[str, float]:
    """One round: the seconds of each view's refresh."""
    house.change(part)
    first = number % len(POLICIES)
    order = POLICIES[first:] + POLICIES[:first]
    return {f"{v}_{p}": house.refresh(f"{v}_{p}")[0] for v in VIEWS for p in order}


def _show(house: Warehouse, view: str, part: float, took: dict[str, list[float]]) -> None:
    """Print the times of a view's refreshes."""
    follows, anew, auto = (statistics.median(took[p]) for p in POLICIES)
    print(
        f"{part:7.2%} {view:<10} follows {follows:7.2f} s  anew {anew:7.2f} s"
        f" {anew / follows:6.2f}x  auto {auto:7.2f} s  {house.how(f'{view}_auto')}",
        flush=True,
    )


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
    options = parser.parse_args()
    measure(options.scale, options.parts, options.rounds)


if __name__ == "__main__":
    main()
