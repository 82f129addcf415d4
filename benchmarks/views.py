"""The cost of a view's incremental refresh, against computing the whole query.

    python -m benchmarks.views                        the 22 queries of TPC-H at scale 0.1
    python -m benchmarks.views --scale 1              the slow form
    python -m benchmarks.views --pipelines            with Spark Declarative Pipelines, too
    python -m benchmarks.views --groups               sums and averages over 1M and over 10M rows
    python -m benchmarks.views --by-spark             on a store whose files only Spark reaches

Every query is a view. In each round 0.1 % of the orders and all their lines change: of neighbouring
orders a third is deleted, a third updated and a third copied under new keys. Then every view is
refreshed (REFRESH MATERIALIZED VIEW), and plain Spark overwrites a Delta table with the same query,
in the same session with the same settings. Each line shows the rounds so far. Round 0 is a warm-up;
the others are medians. At the end view and table must have the same rows. With ``--pipelines``
Spark Declarative Pipelines refresh the same view, in the same JVM with the same settings
(benchmarks/pipelines.py).

Views that do not read orders or lineitem do not change; they are listed apart and are not in the
mean. With ``--policy auto`` every view chooses its strategy: none may take longer than 1.2 times
the whole query.

With ``--by-spark`` the disk is a store with a Hadoop scheme (``viewfs``), whose files only the JVM
reads and writes: the engine's fast paths for local disks are off.

Data and queries are those of DuckDB's TPC-H extension as packaged on PyPI. On shared cores read
the ratios of one run, not the times.
"""

import argparse
import importlib
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import sqlglot
from pyspark.sql import DataFrame, SparkSession

from benchmarks.pipelines import Pipelines, with_connect_server
from ctsql.api import Connection, connect
from ctsql.catalog.items import ObjectKind
from ctsql.runtime.spark.internals.sessions import active
from ctsql.runtime.spark.job_metrics import Meter, Work

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
MOVING = ("lineitem", "orders")
KEYS = {"lineitem": "l_orderkey", "orders": "o_orderkey"}
CHANGED_PART = 0.001
SLOWER_MAX = 1.2
UPDATES = {
    "lineitem": "l_quantity = l_quantity + 1, l_extendedprice = l_extendedprice + 10",
    "orders": "o_totalprice = o_totalprice + 1",
}
GROUPS = 10_000
WARM_UP_ROUNDS = 8


@dataclass
class Line:
    """One query's rounds."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    pipelines: list[float] = field(default_factory=list)
    work: Work = field(default_factory=Work)
    rival: Work = field(default_factory=Work)
    how: str = ""

    @property
    def ratio(self) -> float:
        """The time of the whole query divided by that of the refresh."""
        return statistics.median(self.theirs) / statistics.median(self.ours)

    @property
    def ratio_declared(self) -> float:
        """The time of a pipeline divided by that of the refresh."""
        return statistics.median(self.pipelines) / statistics.median(self.ours)


@dataclass(frozen=True)
class Options:
    """Optional parts: Declarative Pipelines; a store that only Spark reads."""

    pipelines: bool
    by_spark: bool


class Warehouse:
    """A warehouse in a folder, and the tables that plain Spark writes."""

    def __init__(self, folder: Path, policy: str, root: str = "") -> None:
        self.folder = folder
        self.policy = policy
        self.root = root
        self.con: Connection = connect(f"{root}{folder}/warehouse")
        self.con.start()
        assert self.con._engine is not None  # start() set it
        # The rival uses the engine's session, so the settings are the same.
        self.spark: SparkSession = self.con._engine.session
        self.next_key = self.next_low = 0

    def location(self, table: str) -> str:
        """The path of an object's Delta table."""
        assert self.con._engine is not None
        warehouse = self.con._engine.warehouse
        item = next(i for i in warehouse.catalog if i.name.name == table)
        return warehouse.relations.table(item).location

    def plain_location(self, name: str) -> str:
        """The path of plain Spark's table for an object."""
        return f"{self.root}{self.folder}/plain/{name}"

    def load(self, scale: float) -> dict[int, str]:
        """Create the eight tables; returns the queries by number."""
        with generated("tpch", f"CALL dbgen(sf = {scale})") as duck:
            self.fill(duck, TABLES)
            row = duck.execute("SELECT max(o_orderkey) FROM orders").fetchone()
            assert row is not None  # an aggregate gives one row
            self.next_key = int(row[0]) + 1
            return queries_of(duck, "tpch")

    def fill(self, duck: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
        """Copy tables from a DuckDB database."""
        for name in names:
            file = self.folder / f"{name}.parquet"
            duck.execute(f"COPY {name} TO '{file}' (FORMAT parquet)")
            rows = self.spark.read.parquet(str(file))
            columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema)
            self.con.execute(f"CREATE TABLE {name} ({columns})")
            rows.write.format("delta").mode("append").save(self.location(name))

    def change(self, part: float = CHANGED_PART) -> int:
        """Change a part of the orders, after those of the last change; returns their number."""
        ((orders,),) = self.con.execute("SELECT count(*) FROM orders").fetchall()
        count = max(3, int(int(str(orders)) * part))
        # Keys are 1 to 8 of every 32.
        low, high = self.next_low + 1, self.next_low + count * 4
        self.next_low = high
        for name in MOVING:
            self.change_keys(name, KEYS[name], (low, high), self.next_key - low, UPDATES[name])
        self.next_key += high - low + 1
        return count

    def change_keys(
        self, name: str, key: str, bounds: tuple[int, int], shift: int, update: str
    ) -> None:
        """Delete a third of a table's keys, update a third, and copy a third under new keys."""
        rows = self.spark.read.format("delta").load(self.location(name))
        items = ", ".join(f"{c} + {shift}" if c == key else c for c in rows.columns)
        within = f"{key} BETWEEN {bounds[0]} AND {bounds[1]}"
        self.con.execute(
            f"INSERT INTO {name} SELECT {items} FROM {name} WHERE {within} AND {key} % 3 = 0;"
            f"UPDATE {name} SET {update} WHERE {within} AND {key} % 3 = 1;"
            f"DELETE FROM {name} WHERE {within} AND {key} % 3 = 2"
        )

    def make(self, name: str, query: str) -> None:
        """Create a view and compute its first rows."""
        columns = ", ".join(self.columns(query))
        self.con.execute(
            f"CREATE MATERIALIZED VIEW {name} ({columns}) "
            f"WITH (REFRESH POLICY = {self.policy}) AS {query}"
        )
        self.con.execute(f"REFRESH MATERIALIZED VIEW {name}")

    def refresh(self, name: str) -> tuple[float, Work]:
        """Refresh a view."""
        return self._timed(lambda: self.con.execute(f"REFRESH MATERIALIZED VIEW {name}"))

    def rewrite(self, name: str, query: str) -> tuple[float, Work]:
        """Let plain Spark overwrite a Delta table with the whole query."""
        target = self.plain_location(name)
        return self._timed(
            lambda: self.plain(query).write.format("delta").mode("overwrite").save(target)
        )

    def columns(self, query: str) -> list[str]:
        """Numbered names for a query's columns, because some of TPC-H's have no name."""
        return self.plain(query).columns

    def plain(self, query: str) -> DataFrame:
        """The rows of a query by Spark alone."""
        assert self.con._engine is not None
        for item in self.con._engine.warehouse.catalog:
            name = item.name.name
            if item.kind is ObjectKind.TABLE and name in query:
                frame = self.spark.read.format("delta").load(self.location(name))
                frame.createOrReplaceTempView(name)
        rows = self.spark.sql(query)
        return rows.toDF(*(f"c{i}" for i in range(len(rows.columns))))

    def check(self, name: str) -> None:
        """Check that the view has the rows that plain Spark wrote."""
        view, plain = (
            self.spark.read.format("delta").load(location)
            for location in (self.location(name), self.plain_location(name))
        )
        wrong = view.exceptAll(plain).count() + plain.exceptAll(view).count()
        assert wrong == 0, f"{name}: {wrong} rows differ"

    def how(self, name: str) -> str:
        """The strategy of the last refresh."""
        lines = [str(row[0]) for row in self.con.execute(f"EXPLAIN ANALYZE {name}").fetchall()]
        why = lines[1].split()[1] if "because" in lines[1] else ""
        return lines[0].split(": ")[-1] + (f" ({why.rstrip(':')})" if why else "")

    def _timed(self, run: Callable[[], object]) -> tuple[float, Work]:
        meter = Meter(self.spark)
        start = time.perf_counter()
        run()
        return time.perf_counter() - start, meter.work()


def generated(name: str, call: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB database with an extension's generated data; the extensions are PyPI packages."""
    duck = duckdb.connect(config={"allow_unsigned_extensions": True, "threads": 2})
    package = importlib.import_module(f"duckdb_extension_{name}")
    (extension,) = Path(str(package.__file__)).parent.glob(f"extensions/*/{name}.duckdb_extension")
    duck.execute(f"SET memory_limit = '4GB'; LOAD '{extension}'; {call}")
    return duck


def queries_of(duck: duckdb.DuckDBPyConnection, name: str) -> dict[int, str]:
    """The queries of an extension in Spark's SQL, by number."""
    found = duck.execute(f"SELECT query_nr, query FROM {name}_queries()").fetchall()
    return {n: sqlglot.transpile(q, read="duckdb", write="spark")[0] for n, q in found}


def only_by_spark(folder: Path) -> str:
    """Mount a folder for Spark under a Hadoop scheme; returns the prefix of its URI."""
    mount = f"spark.hadoop.fs.viewfs.mounttable.bench.link.{folder} file://{folder}\n"
    (folder / "spark-defaults.conf").write_text(mount)
    os.environ["SPARK_CONF_DIR"] = str(folder)
    return "viewfs://bench"


def tpch(scale: float, rounds: int, numbers: list[int], policy: str, options: Options) -> None:
    """Run the queries of TPC-H, and print each and their geometric mean."""
    port = with_connect_server() if options.pipelines else None
    with tempfile.TemporaryDirectory() as folder:
        root = only_by_spark(Path(folder)) if options.by_spark else ""
        house = Warehouse(Path(folder), policy, root)
        with active(house.spark):
            queries = {n: q for n, q in house.load(scale).items() if not numbers or n in numbers}
            rival = None
            if port is not None:
                sources = {name: house.location(name) for name in TABLES}
                rival = Pipelines(house.spark, port, Path(folder), sources)
            for n, query in queries.items():
                house.make(f"q{n}", query)
            lines = {n: Line() for n in queries}
            for number in range(rounds + 1):
                count = house.change()
                for n, query in queries.items():
                    # The times of the warm-up are discarded.
                    line = lines[n] = lines[n] if number > 1 else Line()
                    turn(house, rival, f"q{n}", query, line)
                    shown(f"{number}/Q{n}", line)
            for n in queries:
                house.check(f"q{n}")
        house.con.close()
    print(f"TPC-H at scale {scale}, {count:,} orders and their lines changed, policy {policy}")
    for n, line in lines.items():
        shown(f"Q{n}", line)
    moving = [line for n, line in lines.items() if any(t in queries[n] for t in MOVING)]
    slow = sum(line.ratio < 1 / SLOWER_MAX for line in moving)
    print(f"geometric mean {mean(line.ratio for line in moving):.2f}x the whole query;", end=" ")
    print(f"slower than {SLOWER_MAX}x the whole query: {slow}")
    if options.pipelines:
        against = mean(line.ratio_declared for line in moving)
        print(f"geometric mean {against:.2f}x Spark Declarative Pipelines")


def turn(house: Warehouse, rival: Pipelines | None, name: str, query: str, line: Line) -> None:
    """One round of one query, by all contestants."""
    seconds, line.work = house.refresh(name)
    line.ours.append(seconds)
    line.how = house.how(name)
    seconds, line.rival = house.rewrite(name, query)
    line.theirs.append(seconds)
    if rival is not None:
        line.pipelines.append(rival.refresh(name, query, house.columns(query)))


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.mean(math.log(ratio) for ratio in ratios))


def shown(name: str, line: Line) -> None:
    """Print one query: times, and jobs and bytes of the last round (refresh/whole query)."""
    ours, theirs = statistics.median(line.ours), statistics.median(line.theirs)
    pipelines_text = ""
    if line.pipelines:
        pipelines_text = f" {statistics.median(line.pipelines):7.2f} s {line.ratio_declared:6.2f}x"
    print(
        f"{name:>6} {ours:7.2f} s {theirs:7.2f} s {line.ratio:6.2f}x{pipelines_text}"
        f"  jobs {line.work.jobs:>3}/{line.rival.jobs:<3}"
        f" read {_mb(line.work.bytes_read)}/{_mb(line.rival.bytes_read)} MB"
        f" written {_mb(line.work.bytes_written)}/{_mb(line.rival.bytes_written)} MB  {line.how}",
        flush=True,
    )


def _mb(count: int) -> str:
    return f"{count / 1e6:.2f}"


def groups(rounds: int, policy: str) -> None:
    """Sums and averages of 10,000 groups, over a million rows and over ten.

    In each round 1,000 rows change. In every second round they are deleted, so that a sum without
    shown counts needs its state table. The first rounds warm the JVM up, on the smaller table.
    """
    queries = {
        "sums": f"SELECT k % {GROUPS} AS g, count(*) AS n, sum(v) AS s FROM big GROUP BY g",
        "averages": f"SELECT k % {GROUPS} AS g, avg(v) AS a FROM big GROUP BY g",
    }
    times: dict[str, list[float]] = {name: [] for name in queries}
    for rows in (1_000_000, 10_000_000):
        lines = {name: Line() for name in queries}
        with tempfile.TemporaryDirectory() as folder:
            house = Warehouse(Path(folder), policy)
            house.con.execute("CREATE TABLE big (k BIGINT, v BIGINT)")
            frame = house.spark.range(rows).selectExpr("id AS k", "id % 97 AS v")
            frame.repartition(8, "k").write.format("delta").mode("append").save(
                house.location("big")
            )
            for name, query in queries.items():
                house.make(name, query)
            for number in range(WARM_UP_ROUNDS + rounds):
                where = f"WHERE k >= {number * 1_000} AND k < {(number + 1) * 1_000}"
                act = "UPDATE big SET v = v + 1" if number % 2 else "DELETE FROM big"
                house.con.execute(f"{act} {where}")
                for name, line in lines.items():
                    ours, work = house.refresh(name)
                    if number >= WARM_UP_ROUNDS:
                        line.ours.append(ours)
                        line.work, line.how = work, house.how(name)
            house.con.close()
        for name, line in lines.items():
            times[name].append(statistics.median(line.ours))
            print(
                f"{rows:>12,} rows, {name:<9}{times[name][-1]:6.2f} s, jobs {line.work.jobs},"
                f" read {_mb(line.work.bytes_read)} MB  {line.how}"
            )
    for name, (few, many) in times.items():
        print(f"{name}: ten times the rows, {many / few:.2f}x the time")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--queries", type=int, nargs="*", default=[])
    parser.add_argument("--policy", default="incremental")
    parser.add_argument("--pipelines", action="store_true", help="Declarative Pipelines, too")
    parser.add_argument("--groups", action="store_true", help="the aggregate at 1M and 10M rows")
    parser.add_argument("--by-spark", action="store_true", help="a store that only Spark reaches")
    args = parser.parse_args()
    if args.groups:
        groups(args.rounds, args.policy)
        return
    tpch(
        args.scale,
        args.rounds,
        args.queries,
        args.policy,
        Options(args.pipelines, args.by_spark),
    )


if __name__ == "__main__":
    main()
