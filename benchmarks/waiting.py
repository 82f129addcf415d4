"""Waiting changes of an upsert task, one commit each, processed one T after the other.

    python -m benchmarks.waiting --waiting 300                  of two columns
    python -m benchmarks.waiting --waiting 60 --columns 200     of many

Each commit has ten rows of 10,000 keys. For comparison, the same rounds time the INSERTs that wrote
them, and bare appends of the same rows by Spark. Jobs and calls into the JVM are exact.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

import ctsql
from benchmarks.fanout import Calls
from benchmarks.measures import jobs_started
from ctsql.runtime.spark.internals.sessions import active

KEYS = 10_000
ROWS = 10
APPENDS = 10
WARM_UP = 5


class House:
    """A warehouse with an upsert task over a table."""

    def __init__(self, folder: str, columns: int) -> None:
        self.con = ctsql.connect(f"{folder}/warehouse")
        self.rival = f"{folder}/rival"
        self.more = [f"c{n}" for n in range(columns - 2)]
        column_list = ", ".join(f"{name} BIGINT" for name in ("k", "v", *self.more))
        newest = ", ".join(f"max({name})" for name in ("v", *self.more))
        self.con.execute(f"CREATE TABLE given ({column_list})")
        values = ", ".join(["id"] * columns)
        self.con.execute(f"INSERT INTO given SELECT /*+ COALESCE(1) */ {values} FROM range({KEYS})")
        self.con.execute(
            f"CREATE CONTINUAL TASK kept ({column_list}) ON INPUT given AS ("
            "DELETE FROM kept WHERE k IN (SELECT k FROM given);"
            f"INSERT INTO kept SELECT k, {newest} FROM given GROUP BY k;)"
        )
        engine = self.con._engine
        assert engine is not None  # it has run statements
        self.session: SparkSession = engine.session

    def rows(self, number: int) -> list[tuple[int, ...]]:
        """The rows of a commit."""
        keys = ((number * 37 + n) % KEYS for n in range(ROWS))
        return [(key, number, *(key + n for n in range(len(self.more)))) for key in keys]

    def insert(self, number: int) -> None:
        """Commit rows to the input."""
        rows = ", ".join(f"({', '.join(map(str, row))})" for row in self.rows(number))
        self.con.execute(f"INSERT INTO given VALUES {rows}")

    def append(self, number: int) -> None:
        """Append the same rows by Spark to another table."""
        with active(self.session):
            rows = self.session.createDataFrame(self.rows(number), ["k", "v", *self.more])
            rows.coalesce(1).write.format("delta").mode("append").save(self.rival)


def _ms(act: Callable[[int], None], numbers: Sequence[int]) -> float:
    start = time.perf_counter()
    for number in numbers:
        act(number)
    return (time.perf_counter() - start) * 1000 / len(numbers)


def measure(house: House, calls: Calls, waiting: int, rounds: int) -> None:
    """Let changes wait, then process them; the first round is a warm-up."""
    end = 0
    for turn in range(rounds + 1):
        numbers = range(end, end + (waiting if turn else WARM_UP))
        end = numbers.stop
        inserts = _ms(house.insert, numbers)
        appends = _ms(house.append, numbers[:APPENDS])
        before, start = (jobs_started(house.session), calls.count), time.perf_counter()
        house.con.run(once=True)
        ms = (time.perf_counter() - start) * 1000 / len(numbers)
        jobs = (jobs_started(house.session) - before[0]) / len(numbers)
        jvm_calls = (calls.count - before[1]) / len(numbers)
        if turn:
            print(
                f"{len(numbers)} waiting: {ms:.0f} ms a T, {jobs:.2f} jobs, "
                f"{jvm_calls:.0f} calls; ",
                end="",
            )
            print(
                f"an INSERT {inserts:.0f} ms, a bare append by Spark {appends:.0f} ms", flush=True
            )


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--waiting", type=int, default=300)
    parser.add_argument("--columns", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    calls = Calls()
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-", ignore_cleanup_errors=True) as folder:
        house = House(folder, options.columns)
        measure(house, calls, options.waiting, options.rounds)
        house.con.close()


if __name__ == "__main__":
    main()
