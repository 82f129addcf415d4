"""Continual tasks against hand-written jobs: MERGE, and foreachBatch with MERGE.

    make bench                                  python -m benchmarks.tasks --only upsert
                                                python -m benchmarks.tasks --rows 10000000

upsert   1,000 random keys into 1,000,000 rows: one commit of the input, then one tick of an
         upsert task, DELETE and INSERT. Rivals: MERGE, run at once on the same rows in memory; and
         foreachBatch + MERGE, which streams from the same Delta input (availableNow trigger). Their
         targets are copies of the task's output, files and properties alike. For comparison also
         one scan of the output's key column.
bulk     --new new rows in one commit.
idle     a tick without new commits.
restart  a new connection (Delta's caches emptied, the JVM warm) processes one new commit, with
         inputs of 10,000 rows and of --rows, and equal outputs.
backlog  an audit log with --waiting commits of 1,000 rows, against foreachBatch with an append,
         one micro batch a commit.

All in one process and session, warm, in turns. Numbers are medians; read them as ratios of one
run. At the end all must have the same rows, otherwise the process fails.
"""

import argparse
import random
import shutil
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F

import ctsql
from benchmarks.measures import Series, table
from ctsql.runtime.spark.internals.sessions import active

PARTS = ("upsert", "bulk", "idle", "restart", "backlog")
SCHEMA = "key BIGINT, val BIGINT"
UPSERT = """
CREATE CONTINUAL TASK upsert (key BIGINT, val BIGINT) ON INPUT append_only AS (
    DELETE FROM upsert WHERE key IN (SELECT key FROM append_only);
    INSERT INTO upsert SELECT key, max(val) FROM append_only GROUP BY key;
);
"""
AUDIT = """
CREATE CONTINUAL TASK audit_log (key BIGINT, val BIGINT) ON INPUT append_only AS (
    INSERT INTO audit_log SELECT * FROM append_only;
);
"""
SCATTER = 2_654_435_761
"""Coprime to every size used: spreads the keys over all files, in no order."""
WARM_UP_ROUNDS = 2
RESTART_KEYS = 10_000


class Warehouse:
    """A warehouse with an input of distinct keys, and a task on it."""

    def __init__(self, folder: str, task: str, rows: int, keys: int = 0) -> None:
        self.folder = folder
        self.con = ctsql.connect(folder)
        self.con.execute(f"CREATE TABLE append_only ({SCHEMA})")
        keys = keys or rows
        if rows:
            self.con.execute(
                "INSERT INTO append_only "
                f"SELECT (id % {keys}) * {SCATTER} % {keys}, id FROM range({rows})"
            )
        self.con.execute(task)
        self.tick()

    @property
    def engine(self) -> Any:
        """The connection's engine."""
        return self.con._engine

    @property
    def session(self) -> SparkSession:
        """The engine's session, which the rivals use too."""
        session: SparkSession = self.engine.session
        return session

    def location(self, name: str) -> str:
        """The path of a table."""
        item = next(i for i in self.engine.catalog if i.name.name == name)
        return str(item.location).removeprefix("file:")

    def append(self, rows: DataFrame) -> None:
        """Append to the input, as any Spark job may."""
        rows.write.format("delta").mode("append").save(self.location("append_only"))

    def tick(self) -> None:
        """Advance all outputs, as ``ctsql run --once`` does."""
        self.con.run(once=True)


class Merging:
    """A target that is updated by MERGE, directly or in foreachBatch."""

    def __init__(self, house: Warehouse, target: str) -> None:
        self.house, self.target = house, target
        self.checkpoint = f"{target}-checkpoint"
        shutil.copytree(house.location("upsert"), target)

    def merge(self, rows: DataFrame) -> None:
        """Merge the newest value of each key."""
        from delta.tables import DeltaTable

        newest = rows.groupBy("key").agg(F.max("val").alias("val"))
        target = DeltaTable.forPath(rows.sparkSession, self.target).alias("t")
        merge = target.merge(newest.alias("s"), "t.key = s.key")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def stream(self) -> None:
        """Process the new commits of the input; the first time only its newest one."""
        source = self.house.engine.gateway.table(f"file:{self.house.location('append_only')}")
        stream_into(
            self.house,
            self.checkpoint,
            lambda rows, _: self.merge(rows),
            startingVersion=str(source.version()),
        )


def stream_into(
    house: Warehouse, checkpoint: str, handle: Callable[[DataFrame, int], None], **options: str
) -> None:
    """Stream the new commits of the input through a foreachBatch handler, and stop.

    A starting version has an effect only if the checkpoint is new.
    """
    source = house.location("append_only")
    rows = house.session.readStream.format("delta").options(**options).load(source)
    writer = rows.writeStream.foreachBatch(handle).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def sums(session: SparkSession, location: str) -> tuple[int, ...]:
    """Numbers that differ when two tables hold different rows."""
    rows = session.read.format("delta").load(location)
    (row,) = rows.agg(F.count("*"), F.sum("key"), F.sum(F.hash("key", "val"))).collect()
    return tuple(row)


def check_equal(session: SparkSession, *locations: str) -> None:
    """Check that the tables have the same rows."""
    totals = {at: sums(session, at) for at in locations}
    if len(set(totals.values())) > 1:
        raise SystemExit(f"The results differ: {totals}")


def random_rows(session: SparkSession, rows: int, keys: int, turn: int) -> DataFrame:
    """Materialized rows of random keys below ``rows``, with new values."""
    sample = random.Random(turn).sample(range(rows), keys)
    pairs = [(key, 10_000_000_000 + turn * keys + i) for i, key in enumerate(sample)]
    return session.createDataFrame(pairs, SCHEMA).coalesce(1)


def bench_upsert(folder: str, rows: int, keys: int, rounds: int) -> None:
    """Random keys into many rows."""
    house = Warehouse(f"{folder}/upsert", UPSERT, rows)
    with active(house.session):
        by_hand = Merging(house, f"{folder}/by-hand")
        streaming = Merging(house, f"{folder}/streaming")
        output = house.location("upsert")
        series = {
            name: Series(house.session, label, folders)
            for name, label, folders in (
                ("task", "ctsql tick", [house.folder]),
                ("merge", "MERGE", [by_hand.target]),
                ("stream", "foreachBatch + MERGE", [streaming.target, streaming.checkpoint]),
                ("scan", "one scan of the key column", []),
            )
        }
        for turn in range(WARM_UP_ROUNDS + rounds):
            if turn == WARM_UP_ROUNDS:
                for one in series.values():
                    one.costs.clear()
            fresh = random_rows(house.session, rows, keys, turn)
            house.append(fresh)
            series["task"].measure(house.tick)
            series["merge"].measure(lambda r=fresh: by_hand.merge(r))
            series["stream"].measure(streaming.stream)
            delta_table = house.engine.gateway.table(f"file:{output}")
            frame = delta_table.frame(delta_table.version()).agg(F.sum("key"))
            series["scan"].measure(frame.collect)
        check_equal(house.session, output, by_hand.target, streaming.target)
    table(f"Upsert of {keys:,} random keys into {rows:,} rows, {rounds} rounds", [*series.values()])
    ours, scan = series["task"].median.seconds, series["scan"].median.seconds
    print(f"  MERGE / ctsql = {series['merge'].median.seconds / ours:.2f}    (aim: at least 5)")
    stream = series["stream"].median.seconds
    print(f"  foreachBatch / ctsql = {stream / ours:.2f}    (aim: at least 5)")
    aim = "    (aim: at most 1.5)" if rows >= 10_000_000 else ""
    print(f"  ctsql / scan of the keys = {ours / scan:.2f}{aim}")
    house.con.close()


def bench_bulk(folder: str, rows: int, new: int, rounds: int) -> None:
    """Many new rows in one commit."""
    house = Warehouse(f"{folder}/bulk", UPSERT, rows)
    with active(house.session):
        by_hand = Merging(house, f"{folder}/bulk-by-hand")
        task = Series(house.session, "ctsql tick", [house.folder])
        merge = Series(house.session, "MERGE", [by_hand.target])
        for turn in range(1 + rounds):
            if turn == 1:
                task.costs.clear()
                merge.costs.clear()
            first = rows + turn * new
            fresh = house.session.range(first, first + new).selectExpr("id AS key", "id AS val")
            house.append(fresh)
            source = house.engine.gateway.table(f"file:{house.location('append_only')}")
            new_rows = source.added_rows([source.version()])
            task.measure(house.tick)
            merge.measure(lambda r=new_rows: by_hand.merge(r))
        check_equal(house.session, house.location("upsert"), by_hand.target)
    table(f"Upsert of {new:,} new rows in one commit, into {rows:,} rows and more", [task, merge])
    ratio = merge.median.seconds / task.median.seconds
    print(f"  MERGE / ctsql = {ratio:.2f}    (aim: at least 1)")
    house.con.close()


def bench_idle(folder: str, rounds: int) -> None:
    """A tick without new commits."""
    house = Warehouse(f"{folder}/idle", UPSERT, 1_000)
    with active(house.session):
        idle = Series(house.session, "ctsql tick, nothing new", [house.folder])
        for _ in range(rounds):
            idle.measure(house.tick)
    table("Nothing to do", [idle])
    worst = max(c.jobs + c.commits + c.files for c in idle.costs)
    print(f"  most jobs, commits and files of a tick: {worst:.0f}    (aim: 0)")
    house.con.close()


def bench_restart(folder: str, rows: int, rounds: int) -> None:
    """Connections that find one new commit; the inputs differ in size, the outputs do not."""
    sizes = (RESTART_KEYS, rows)
    houses = [Warehouse(f"{folder}/restart{n}", UPSERT, n, RESTART_KEYS) for n in sizes]
    series = [
        Series(h.session, f"input of {n:,} rows", [h.folder])
        for h, n in zip(houses, sizes, strict=True)
    ]
    for turn in range(WARM_UP_ROUNDS + rounds):
        # In turns, so that neither always comes second.
        for i in (0, 1) if turn % 2 else (1, 0):
            house = houses[i]
            with active(house.session):
                house.append(random_rows(house.session, RESTART_KEYS, 100, turn))
            house.con.close()
            series[i].session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]

            def restarted(again: Warehouse = house) -> None:
                again.con = ctsql.connect(again.folder)
                again.tick()

            series[i].measure(restarted)
            if turn < WARM_UP_ROUNDS:
                series[i].costs.clear()
    table("Restart: connect, and work off one commit of 100 rows", series)
    small, large = (one.median.seconds for one in series)
    print(f"  large / small = {large / small:.2f}    (aim: at most 1.1)")
    for house in houses:
        house.con.close()


def bench_backlog(folder: str, waiting: int, rows: int, rounds: int) -> None:
    """Many waiting commits, for a task that appends their rows to its output."""
    seconds: dict[str, list[float]] = {"task": [], "stream": []}
    for turn in range(1 + rounds):
        house = Warehouse(f"{folder}/backlog{turn}", AUDIT, 0)
        target = f"{folder}/backlog{turn}-streaming"
        count = waiting if turn else 3  # the first round warms up

        def appended(batch: DataFrame, batch_id: int, to: str = target) -> None:
            writer = batch.write.format("delta").mode("append")
            exactly_once = {"txnAppId": "audit", "txnVersion": str(batch_id)}
            writer.options(**exactly_once).save(to)

        with active(house.session):
            empty = house.session.createDataFrame([], SCHEMA)
            empty.write.format("delta").save(target)
            checkpoint = f"{target}-checkpoint"
            for i in range(count):
                house.append(
                    house.session.range(rows)
                    .selectExpr("id", f"{i}L")
                    .toDF("key", "val")
                    .coalesce(1)
                )
            task = Series(house.session, "ctsql tick", [house.folder])
            stream = Series(house.session, "foreachBatch, one commit a batch", [target, checkpoint])
            task.measure(house.tick)
            stream.measure(
                lambda h=house, c=checkpoint, a=appended: stream_into(
                    h, c, a, maxFilesPerTrigger="1", startingVersion="0"
                )
            )
            check_equal(house.session, house.location("audit_log"), target)
        house.con.close()
        if turn:
            seconds["task"].append(task.median.seconds)
            seconds["stream"].append(stream.median.seconds)
            table(f"Audit log, {count} commits of {rows:,} rows waiting", [task, stream])
    ratio = statistics.median(seconds["stream"]) / statistics.median(seconds["task"])
    print(f"  foreachBatch / ctsql = {ratio:.2f}    (aim: at least 10)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; repeatable")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows that are there before")
    parser.add_argument("--keys", type=int, default=1_000, help="keys of a small upsert")
    parser.add_argument("--new", type=int, default=1_000_000, help="new rows of a bulk upsert")
    parser.add_argument("--waiting", type=int, default=100, help="commits in the backlog")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    parts = options.only or PARTS
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-") as folder:
        if "upsert" in parts:
            bench_upsert(folder, options.rows, options.keys, options.rounds)
        if "bulk" in parts:
            bench_bulk(folder, options.rows, options.new, max(options.rounds // 3, 1))
        if "idle" in parts:
            bench_idle(folder, options.rounds)
        if "restart" in parts:
            bench_restart(folder, options.rows, options.rounds)
        if "backlog" in parts:
            bench_backlog(folder, options.waiting, 1_000, 1)


if __name__ == "__main__":
    main()
