"""The time to load files into a table by COPY, against plain Spark and Delta.

    python -m benchmarks.imports --rows 10_000_000 --rounds 3

The same files of ten million rows (id, day, name, amount), CSV and then Parquet, in turns:

  spark     spark.read...schema(...).load(file).write.format("delta").mode("append").save(table)
  COPY      COPY t FROM 'folder/*.csv'
  SELECT    INSERT INTO t SELECT * FROM read_csv(...)

Every contestant fills a new table with the same properties, in one session. Seconds are wall time;
on a busy machine compare within one run.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ctsql.api import Connection, connect

COLUMNS = "id BIGINT, day DATE, name STRING, amount DECIMAL(12, 2)"
ROWS = """SELECT id, date_add(DATE '2026-01-01', CAST(id % 365 AS INT)) AS day,
    concat('customer ', hash(id) % 100000) AS name,
    CAST(id % 100000 / 100 AS DECIMAL(12, 2)) AS amount
    FROM range({rows})"""
PROPERTIES = (
    "'delta.enableChangeDataFeed' = 'true', 'delta.enableInCommitTimestamps' = 'true', "
    "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'false'"
)


def _spark(con: Connection, kind: str, files: str, name: str, tables: str) -> None:
    con.spark.sql(
        f"CREATE TABLE delta.`{tables}/{name}` ({COLUMNS}) USING delta TBLPROPERTIES ({PROPERTIES})"
    )
    reader = con.spark.read.format(kind).schema(COLUMNS).option("header", "true")
    reader.load(files).write.format("delta").mode("append").save(f"{tables}/{name}")


def _copy(con: Connection, kind: str, files: str, name: str, _tables: str) -> None:
    con.execute(f"CREATE TABLE {name} ({COLUMNS}); COPY {name} FROM '{files}/*.{kind}'")


def _select(con: Connection, kind: str, files: str, name: str, _tables: str) -> None:
    read = (
        f"'{files}/*.parquet'"
        if kind == "parquet"
        else f"read_csv('{files}/*.csv', header => true)"
    )
    con.execute(f"CREATE TABLE {name} ({COLUMNS}); INSERT INTO {name} SELECT * FROM {read}")


CONTESTANTS: dict[str, Callable[[Connection, str, str, str, str], None]] = {
    "spark": _spark,
    "COPY": _copy,
    "SELECT": _select,
}


def main() -> None:
    """Run the contestants in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, connect(f"{folder}/warehouse") as con:
        for kind in ("csv", "parquet"):
            files = f"{folder}/files-{kind}"
            writer = con.spark.sql(ROWS.format(rows=options.rows)).write.option("header", "true")
            writer.format(kind).save(files)
            seconds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
            for turn in range(options.rounds):
                for name, fill in CONTESTANTS.items():
                    run = partial(fill, con, kind, files, f"{name}_{kind}_{turn}", folder)
                    start = time.perf_counter()
                    run()
                    seconds[name].append(time.perf_counter() - start)
            size = sum(path.stat().st_size for path in Path(files).glob("part-*")) / 1e6
            print(f"{options.rows:,} rows of {kind}, {size:,.0f} MB: seconds, median and least")
            plain = statistics.median(seconds["spark"])
            for name, times in seconds.items():
                ratio = statistics.median(times) / plain
                print(
                    f"  {name:<10}{statistics.median(times):>8.1f}{min(times):>8.1f}{ratio:>8.2f}"
                )


if __name__ == "__main__":
    main()
