"""How the cost of a tick grows with the number of ticks, on one embedded connection.

    python -m benchmarks.growth --ticks 10000
    python -m benchmarks.growth --ticks 5000 --warehouse kept    begin there, or continue

A tick is an INSERT of ten rows with random keys into a feed, and a read that refreshes the upsert
output over it. The connection maintains the output; MAINTAIN is not run. Prints a line for each
block of ticks: median, 99th and 99.9th percentile and slowest in milliseconds, the number of the
slowest tick, and its ratio to the median; CPU milliseconds a tick of Python and of the JVM,
background maintenance included; live files of the output. The last line compares the last block
with the second: the first is a warm-up.

Wall times of a busy machine are inflated; CPU times and ratios within one run are not. Linux only.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import ctsql

KEYS = 10_000
ROWS = 10
UPSERT = """
CREATE CONTINUAL TASK IF NOT EXISTS latest (k BIGINT, v BIGINT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k;
);
"""


def measure_block(con: ctsql.Connection, ticks: int, number: int) -> dict[str, float]:
    """Run a block of ticks and return its figures."""
    walls = []
    python, java = time.process_time(), _java_cpu_ms(con)
    for _ in range(ticks):
        rows = ", ".join(f"({random.randrange(KEYS)}, {number})" for _ in range(ROWS))
        start = time.perf_counter()
        con.execute(f"INSERT INTO feed VALUES {rows}")
        con.execute("SELECT * FROM latest LIMIT 1").fetchall()
        walls.append((time.perf_counter() - start) * 1000)
    median = statistics.median(walls)
    return {
        "median": median,
        "p99": statistics.quantiles(walls, n=100, method="inclusive")[98],
        "p99.9": statistics.quantiles(walls, n=1000, method="inclusive")[998],
        "max": max(walls),
        "of tick": number * ticks + walls.index(max(walls)),
        "max/med": max(walls) / median,
        "python": (time.process_time() - python) * 1000 / ticks,
        "jvm": (_java_cpu_ms(con) - java) / ticks,
        "files": _live_files(con),
    }


def _java_cpu_ms(con: ctsql.Connection) -> float:
    gateway: Any = con.spark.sparkContext._gateway
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) * 1000 / os.sysconf("SC_CLK_TCK")


def _live_files(con: ctsql.Connection) -> int:
    engine: Any = con._engine
    item = next(i for i in engine.catalog if i.name.name == "latest")
    table = engine.relations.table(item)
    return len(table.files(table.version()))


def main() -> None:
    """Run the blocks and print the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ticks", type=int, default=1_000)
    parser.add_argument("--block", type=int, default=100)
    parser.add_argument("--warehouse", help="a folder to keep; ticks that it has are counted")
    parser.add_argument("--no-maintenance", action="store_true", help="leave the output as it is")
    options = parser.parse_args()
    if options.ticks < 2 * options.block or options.block < 2:
        parser.error("there are at least two blocks, of two ticks")
    with (
        tempfile.TemporaryDirectory() as folder,
        ctsql.connect(
            options.warehouse or f"{folder}/warehouse", maintenance=not options.no_maintenance
        ) as con,
    ):
        con.execute("CREATE TABLE IF NOT EXISTS feed (k BIGINT, v BIGINT)")
        con.execute(UPSERT)
        rows = con.execute("SELECT count(*) FROM feed").scalar() or 0
        first_block = rows // ROWS // options.block
        blocks: list[dict[str, float]] = []
        for number in range(options.ticks // options.block):
            block = measure_block(con, options.block, first_block + number)
            if not blocks:
                print(f"{'ticks':>12}" + "".join(f"{name:>9}" for name in block))
            first = (first_block + number) * options.block
            cells = "".join(f"{value:9.{0 if value >= 20 else 1}f}" for value in block.values())
            print(f"{first:>6}-{first + options.block - 1:<5}{cells}", flush=True)
            blocks.append(block)
        names = ("median", "p99.9", "python", "jvm")
        ratios = {name: blocks[-1][name] / blocks[1][name] for name in names}
        print("last block over the second: ", end="")
        print(", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))


if __name__ == "__main__":
    main()
