"""The cost of one more output: tasks on the same input, links of a chain, and 66 outputs at once.

    python -m benchmarks.fanout --rounds 9             python -m benchmarks.fanout --only links

tasks    1 and then --many upsert tasks on one input; one commit of 100 keys into 10,000 rows.
links    the same tasks, each on the output of the one before.
outputs  33 inputs, an upsert task and a materialized view on each; one commit to each input.
first    the same in a new process without plans, and again in that process.

A tick is ``ctsql run --once`` in a running process. The rival, in the same rounds and session, is
the same number of bare appends by Spark. "One more" is the additional time of a tick for each
additional output. Jobs, commits and calls into the JVM are exact; times are medians, to be compared
with the rival's.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import GatewayClient
from pyspark.sql import DataFrame, SparkSession

import ctsql
from benchmarks.measures import jobs_started
from benchmarks.tick import KEYS, changed_rows
from ctsql.runtime.spark.internals.sessions import active

PARTS = ("tasks", "links", "outputs", "first")
WARM_UP_ROUNDS = 4
INPUTS = 33
COUNTED = ("jobs", "calls", "commits")


class Calls:
    """Counts the calls of all threads into the JVM."""

    def __init__(self) -> None:
        self.count = 0
        send = GatewayClient.send_command

        def counted(client: Any, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return send(client, *args, **kwargs)

        GatewayClient.send_command = counted


class House:
    """A warehouse, with a number of inputs and the outputs over them."""

    def __init__(self, folder: str, calls: Calls, workers: int | None) -> None:
        self.folder, self.calls, self.workers = folder, calls, workers
        self.con = ctsql.connect(f"{folder}/warehouse")
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.rounds = 0

    @property
    def session(self) -> SparkSession:
        """The engine's session, which the rival uses too."""
        session: SparkSession = self.engine.session
        return session

    @property
    def engine(self) -> Any:
        """The connection's engine."""
        return self.con._engine

    def location(self, name: str) -> str:
        """The path of a table."""
        return str(next(i for i in self.engine.catalog if i.name.name == name).location)

    def add_input(self) -> str:
        """Create a table of all keys."""
        name = f"input{len(self.inputs)}"
        self.con.execute(f"CREATE TABLE {name} (k BIGINT, v BIGINT)")
        self.con.execute(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, id FROM range({KEYS})")
        self.inputs.append(name)
        return name

    def add_task(self, on: str) -> str:
        """Create an upsert task."""
        return self._add(
            f"CREATE CONTINUAL TASK {{name}} (k BIGINT, v BIGINT) ON INPUT {on} AS ("
            f"DELETE FROM {{name}} WHERE k IN (SELECT k FROM {on});"
            f"INSERT INTO {{name}} SELECT k, max(v) FROM {on} GROUP BY k;)"
        )

    def add_view(self, on: str) -> str:
        """Create a materialized view."""
        return self._add(
            "CREATE MATERIALIZED VIEW {name} AS SELECT k % 10 AS d, sum(v) AS v, count(*) AS n "
            f"FROM {on} GROUP BY k % 10"
        )

    def _add(self, text: str) -> str:
        name = f"output{len(self.outputs)}"
        self.con.execute(text.format(name=name))
        self.outputs.append(name)
        return name

    def commits(self) -> int:
        """The sum of the versions of the outputs and of the timeline."""
        tables = [self.engine.gateway.table(self.location(name)) for name in self.outputs]
        return sum(int(table.version()) for table in [*tables, self.engine.timeline.table])

    def round(self) -> dict[str, float]:
        """Run one commit to each input, one tick, and the rival's appends."""
        self.rounds += 1
        rows = changed_rows(self.session, self.rounds)
        with active(self.session):
            for name in self.inputs:
                rows.write.format("delta").mode("append").save(self.location(name))
        before = self.commits()
        figures = self._measured(lambda: self.con.run(once=True, workers=self.workers))
        figures["commits"] = self.commits() - before
        with active(self.session):
            figures["rival"] = self._measured(lambda: self._append(rows))["ms"]
        return figures

    def _append(self, rows: DataFrame) -> None:
        for name in self.outputs:
            rows.write.format("delta").mode("append").save(f"{self.folder}/rival/{name}")

    def _measured(self, act: Callable[[], object]) -> dict[str, float]:
        jobs, calls, start = jobs_started(self.session), self.calls.count, time.perf_counter()
        act()
        ms = (time.perf_counter() - start) * 1000
        calls = self.calls.count - calls
        return {"ms": ms, "jobs": jobs_started(self.session) - jobs, "calls": calls}

    def measure(self, rounds: int) -> dict[str, float]:
        """The medians of some rounds, after a warm-up."""
        for _ in range(WARM_UP_ROUNDS):
            self.round()
        return _medians([self.round() for _ in range(rounds)])


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def report(name: str, one: dict[str, float], many: dict[str, float], more: int) -> None:
    """Print the tick of one output, of many, and the time for one more."""
    each = {key: (many[key] - one[key]) / more for key in one}
    print(f"\n{name:<22}{'ms':>9}{'jobs':>8}{'calls':>9}{'commits':>9}{'rival ms':>10}{'ratio':>7}")
    for title, figures in (("1", one), (f"{more + 1}", many), ("one more", each)):
        counts = "".join(f"{figures[c]:>{w}.1f}" for c, w in zip(COUNTED, (8, 9, 9), strict=True))
        ratio = figures["ms"] / figures["rival"]
        print(f"  {title:<20}{figures['ms']:>9.0f}{counts}{figures['rival']:>10.0f}{ratio:>7.2f}")


def bench_tasks(house: House, many: int, rounds: int, *, chained: bool) -> None:
    """Tasks on one input, or on each other's outputs."""
    last = house.add_input()
    first = last
    last = house.add_task(last)
    one = house.measure(rounds)
    for _ in range(many - 1):
        last = house.add_task(last if chained else first)
    report(
        "links of a chain" if chained else "tasks on one input",
        one,
        house.measure(rounds),
        many - 1,
    )
    _check(house)


def _check(house: House) -> None:
    """Check that all outputs have the newest value of each key."""
    sums = {
        house.con.execute(f"SELECT sum(k), sum(v), count(*) FROM {n}").fetchone()
        for n in house.outputs
    }
    if len(sums) != 1 or next(iter(sums))[2] != KEYS:  # type: ignore[index]
        raise SystemExit(f"The results differ: {sums}")


def _add_outputs(house: House) -> None:
    """A task and a view over each of many inputs."""
    for _ in range(INPUTS):
        name = house.add_input()
        house.add_task(name)
        house.add_view(name)


def bench_first(house: House, rounds: int) -> None:
    """Ticks of new processes, in one warehouse."""
    _add_outputs(house)
    house.round()
    house.con.close()
    workers = [] if house.workers is None else ["--workers", str(house.workers)]
    command = [sys.executable, "-m", "benchmarks.fanout", "--in", house.folder, *workers]
    for _ in range(rounds):
        subprocess.run(command, check=True)


def first_ticks(house: House) -> None:
    """Measure the first and the second tick of this process over an existing warehouse."""
    names = [str(item.name) for item in house.engine.refresh_catalog()]
    house.inputs = [name for name in names if name.startswith("input")]
    house.outputs = [name for name in names if name.startswith("output")]
    house.rounds = time.time_ns() % 1_000_000
    for which in ("first", "second"):
        before = time.process_time()
        figures = house.round()
        print(
            f"{which} tick: {figures['ms'] / 1000:.1f} s, {figures['jobs']:.0f} jobs, "
            f"{figures['calls']:.0f} calls, "
            f"{figures['ms'] / figures['rival']:.2f} of as many appends; "
            f"with these {time.process_time() - before:.1f} s of Python's CPU",
            flush=True,
        )


def bench_outputs(house: House, rounds: int) -> None:
    """A task and a view over each of many inputs."""
    _add_outputs(house)
    medians = house.measure(rounds)
    counts = ", ".join(f"{medians[name]:.0f} {name}" for name in COUNTED)
    print(
        f"\n{2 * INPUTS} outputs with one change each: {medians['ms'] / 1000:.2f} s, {counts}; ",
        end="",
    )
    print(f"as many bare appends: {medians['rival'] / 1000:.2f} s")


def main() -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--many", type=int, default=9, help="tasks, or links of the chain")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--workers", type=int, help="of the service; default: its own")
    parser.add_argument("--in", dest="folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    calls = Calls()
    if options.folder is not None:
        house = House(options.folder, calls, options.workers)
        house.con.start()
        first_ticks(house)
        house.con.close()
        return
    for part in options.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="ctsql-bench-") as folder:
            house = House(folder, calls, options.workers)
            if part == "first":
                bench_first(house, min(options.rounds, 3))
            elif part == "outputs":
                bench_outputs(house, min(options.rounds, 3))
            else:
                bench_tasks(house, options.many, options.rounds, chained=part == "links")
            house.con.close()


if __name__ == "__main__":
    main()
