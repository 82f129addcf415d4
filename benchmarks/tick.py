"""The time of one small upsert tick, against a bare append and a MERGE; and of a restart.

    make bench                                  python -m benchmarks.tick --rounds 15
                                                python -m benchmarks.tick --ticks 1000

Tick: 100 changed keys are upserted into an output of 10,000 rows. Its time is from the input's
commit to the output's commit; a second number is until a row of it has been read. Rivals, in the
same session, on tables with the same properties and rows, in the same rounds:

  append   one bare Delta append of the same 100 rows
  merge    a foreachBatch-style handler: the largest value a key, MERGE with txnAppId/txnVersion

Restart: the time from opening a connection (Delta's caches emptied, the JVM warm) to the first
possible write of the task, with inputs of 10,000 and of 3,000,000 rows and equal outputs.

Many ticks (--ticks): the same tick and append many times, with their slowest percentiles.

Numbers are medians unless they say otherwise; read them as ratios of one run.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F

import ctsql
from benchmarks.hooks import Clock, tick_clock
from benchmarks.measures import jobs_started
from ctsql.runtime.log import write_handle
from ctsql.runtime.spark.internals.sessions import active

KEYS = 10_000
CHANGED = 100
WARM_UP_ROUNDS = 3
UPSERT = """
CREATE CONTINUAL TASK latest (k BIGINT, v BIGINT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k;
);
"""
ROUNDS_MIN = 9


class Warehouse:
    """A warehouse with a feed and an upsert task over it."""

    def __init__(self, folder: str, rows: int) -> None:
        self.folder = folder
        con = self.con = ctsql.connect(folder, maintenance=True)
        con.execute("CREATE TABLE feed (k BIGINT, v BIGINT)")
        con.execute(f"INSERT INTO feed SELECT id % {KEYS}, id FROM range({rows})")
        con.execute(UPSERT)
        con.run(once=True)

    @property
    def engine(self) -> Any:
        """The connection's engine."""
        return self.con._engine

    def item(self, name: str) -> Any:
        """A catalog object by name."""
        return next(i for i in self.engine.catalog if i.name.name == name)

    def append(self, rows: DataFrame) -> None:
        """Append to the feed, as any Spark job may."""
        rows.write.format("delta").mode("append").save(self.item("feed").location)

    def versions(self) -> int:
        """The sum of the versions of the tables that a tick commits to."""
        engine = self.engine
        output = engine.gateway.table(self.item("latest").location)
        return int(output.version()) + int(engine.timeline.table.version())


def changed_rows(session: SparkSession, turn: int) -> DataFrame:
    """A hundred keys, spread over all, with new values; already materialized."""
    step = KEYS // CHANGED
    rows = [(turn % step + step * i, 10_000_000_000 + turn) for i in range(CHANGED)]
    return session.createDataFrame(rows, "k BIGINT, v BIGINT").coalesce(1)


def merge_handler(session: SparkSession, path: str) -> Callable[[DataFrame, int], None]:
    """The usual hand-written upsert from a stream, exactly once."""
    from delta.tables import DeltaTable

    def handle(batch: DataFrame, batch_id: int) -> None:
        session.conf.set("spark.databricks.delta.write.txnAppId", "bench")
        session.conf.set("spark.databricks.delta.write.txnVersion", str(batch_id))
        newest = batch.groupBy("k").agg(F.max("v").alias("v"))
        target = DeltaTable.forPath(session, path).alias("t")
        merge = target.merge(newest.alias("s"), "t.k = s.k")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        session.conf.unset("spark.databricks.delta.write.txnAppId")
        session.conf.unset("spark.databricks.delta.write.txnVersion")

    return handle


class Series:
    """Times, jobs and commits of one contestant."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.seconds: list[float] = []
        self.jobs: list[int] = []
        self.commits: list[int] = []

    def measure(self, act: Callable[[], object]) -> None:
        """Run it once and record its time, jobs and commits."""
        jobs = jobs_started(self.session)
        start = time.perf_counter()
        act()
        self.seconds.append(time.perf_counter() - start)
        self.jobs.append(jobs_started(self.session) - jobs)

    def line(self, name: str, base: float) -> str:
        """A line of the table; ``base`` is the time that is 1.00."""
        middle = statistics.median(self.seconds)
        jobs = statistics.median(self.jobs)
        commits = statistics.median(self.commits) if self.commits else 1
        return (
            f"{name:<34}{middle * 1000:8.0f} ms {min(self.seconds) * 1000:8.0f} ms"
            f"{middle / base:8.2f}{jobs:7.0f}{commits:9.0f}"
        )


def bench_tick(folder: str, rounds: int, settings: list[str]) -> None:
    """The tick against its rivals."""
    warehouse = Warehouse(f"{folder}/tick", KEYS)
    session: SparkSession = warehouse.engine.session
    for setting in settings:
        session.conf.set(*setting.split("=", 1))
    clock = tick_clock()
    append_to, merge_into = f"{folder}/append", f"{folder}/merge"
    with active(session):
        for path in (append_to, merge_into):
            seed = session.range(KEYS).select(F.col("id").alias("k"), F.col("id").alias("v"))
            seed.coalesce(1).write.format("delta").save(path)
        handle = merge_handler(session, merge_into)
        for turn in range(WARM_UP_ROUNDS):
            warehouse.append(changed_rows(session, turn))
            warehouse.con.run(once=True)
            warehouse.con.execute("SELECT v FROM latest WHERE k = 7").fetchall()
            changed_rows(session, turn).write.format("delta").mode("append").save(append_to)
            handle(changed_rows(session, turn), turn)
        tick, read, append, merge = (Series(session) for _ in range(4))
        laps: list[dict[str, float]] = []
        for turn in range(WARM_UP_ROUNDS, WARM_UP_ROUNDS + rounds):
            rows = changed_rows(session, turn)
            warehouse.append(rows)
            before = warehouse.versions()
            clock.lap()
            tick.measure(lambda: warehouse.con.run(once=True))
            laps.append(clock.lap())
            tick.commits.append(warehouse.versions() - before)
            key = turn % CHANGED
            read.measure(
                lambda k=key: warehouse.con.execute(
                    f"SELECT v FROM latest WHERE k = {k}"
                ).fetchall()
            )
            append.measure(lambda r=rows: r.write.format("delta").mode("append").save(append_to))
            merge.measure(lambda r=rows, n=turn: handle(r, n))
    check(warehouse, session, merge_into)
    report_tick(tick, read, append, merge, laps)


def bench_ticks(folder: str, ticks: int) -> None:
    """Many ticks, each followed by a bare append."""
    warehouse = Warehouse(f"{folder}/ticks", KEYS)
    session: SparkSession = warehouse.engine.session
    append_to = f"{folder}/appended"
    tick, append = Series(session), Series(session)
    with active(session):
        changed_rows(session, 0).write.format("delta").save(append_to)
        for turn in range(WARM_UP_ROUNDS + ticks):
            rows = changed_rows(session, turn)
            warehouse.append(rows)
            tick.measure(lambda: warehouse.con.run(once=True))
            append.measure(lambda r=rows: r.write.format("delta").mode("append").save(append_to))
    print(f"\n{ticks:,} upsert ticks, {CHANGED} keys into {KEYS} rows (ms)")
    print(f"{'':<34}{'p50':>8}{'p99':>8}{'p99.9':>8}{'slowest':>9}{'jobs':>6}")
    for name, series in (("bare append", append), ("ctsql, until it is committed", tick)):
        cuts = statistics.quantiles(series.seconds[WARM_UP_ROUNDS:], n=1_000, method="inclusive")
        cells = "".join(f"{cuts[n] * 1000:8.0f}" for n in (499, 989, 998))
        slowest = max(series.seconds[WARM_UP_ROUNDS:]) * 1000
        most = max(series.jobs[WARM_UP_ROUNDS:])
        print(f"{name:<34}{cells}{slowest:9.0f}{most:6}")


def check(warehouse: Warehouse, session: SparkSession, merge_into: str) -> None:
    """Check that the contestants' tables have the same rows."""
    ours = warehouse.con.execute("SELECT sum(k), sum(v), count(*) FROM latest").fetchall()
    theirs = session.read.format("delta").load(merge_into)
    expected = theirs.agg(F.sum("k"), F.sum("v"), F.count("*")).collect()
    if [tuple(r) for r in expected] != ours:
        raise SystemExit(f"The results differ: {ours} and {expected}")


def report_tick(
    tick: Series, read: Series, append: Series, merge: Series, laps: list[dict[str, float]]
) -> None:
    base = statistics.median(append.seconds)
    print(f"\nUpsert tick, {CHANGED} keys into {KEYS} rows, {len(tick.seconds)} rounds")
    print(f"{'':<34}{'median':>11}{'fastest':>12}{'ratio':>7}{'jobs':>7}{'commits':>9}")
    read.commits = [0]
    print(append.line("(a) bare append", base))
    print(merge.line("(b) MERGE with txnAppId", base))
    print(tick.line("ctsql, until it is committed", base))
    print(read.line("ctsql, and then SELECT a row", base))
    ours = statistics.median(tick.seconds)
    print(f"ctsql / (a) = {ours / base:.2f}    (aim: at most 3)")
    print(f"(b) / ctsql = {statistics.median(merge.seconds) / ours:.2f}    (aim: at least 3)")
    print("\nWhere the tick's time goes (median ms)")
    labels = {label for lap in laps for label in lap}
    medians = {x: statistics.median(lap.get(x, 0.0) for lap in laps) for x in labels}
    for label, seconds in sorted(medians.items(), key=lambda pair: -pair[1]):
        print(f"  {label:<32}{seconds * 1000:8.1f}")
    print(f"  {'(everything else)':<32}{(ours - sum(medians.values())) * 1000:8.1f}")


class FirstOpen(Clock):
    """Records when the task's output was first opened for writing."""

    def __init__(self) -> None:
        super().__init__()
        self.app = ""
        self.at: float | None = None
        original = write_handle.Output.open

        def opened(output: Any, expected: int) -> Any:
            attempt = original(output, expected)
            if output.app == self.app and self.at is None:
                self.at = time.perf_counter()
            return attempt

        write_handle.Output.open = opened  # type: ignore[method-assign]


def bench_restart(folder: str, rounds: int, sizes: tuple[int, int]) -> None:
    """Reopen warehouses that differ only in the size of the input."""
    houses = [Warehouse(f"{folder}/restart{rows}", rows) for rows in sizes]
    session: SparkSession = houses[0].engine.session
    note = FirstOpen()
    possible: list[list[float]] = [[], []]
    commit_times: list[list[float]] = [[], []]
    for turn in range(rounds + 1):
        # In turns, so that neither always comes second.
        for i, house in sorted(enumerate(houses), key=lambda pair: pair[0] ^ (turn % 2)):
            with active(house.engine.session):
                house.append(changed_rows(house.engine.session, turn))
            note.app, note.at = house.item("latest").app, None
            house.con.close()
            session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
            start = time.perf_counter()
            house.con = ctsql.connect(house.folder, maintenance=True)
            house.con.run(once=True)
            if turn and note.at is not None:  # the first round warms up
                possible[i].append(note.at - start)
                commit_times[i].append(time.perf_counter() - start)
    print(f"\nRestart with inputs of {sizes[0]:,} and {sizes[1]:,} rows, {rounds} rounds (ms)")
    for name, pair in (("first write possible", possible), ("first write committed", commit_times)):
        small, large = (statistics.median(times) * 1000 for times in pair)
        print(f"  {name:<24}{small:8.0f}{large:8.0f}   ratio {large / small:.2f}  (aim: 1.2)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=["tick", "restart"])
    parser.add_argument("--ticks", type=int, help="so many ticks, and nothing else")
    parser.add_argument("--large", type=int, default=3_000_000, help="rows of the large input")
    parser.add_argument("--set", action="append", default=[], help="a Spark setting, key=value")
    options = parser.parse_args()
    if options.rounds < ROUNDS_MIN:
        print(f"(fewer than {ROUNDS_MIN} rounds: take the medians lightly)")
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-") as folder:
        if options.ticks is not None:
            bench_ticks(folder, options.ticks)
            return
        if options.only != "restart":
            bench_tick(folder, options.rounds, options.set)
        if options.only != "tick":
            bench_restart(folder, max(options.rounds, ROUNDS_MIN), (KEYS, options.large))


if __name__ == "__main__":
    main()
