"""The time of ``ctsql plan`` for a folder of many objects, new and unchanged.

    python -m benchmarks.folders --objects 200 --rounds 3

A tenth of the objects are tables, the rest tasks and views over them and over each other. Prints
the seconds of a plan before the folder is applied and after it, and the time in which Spark alone
analyses the queries of all views once, over existing tables.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import ctsql
from ctsql.catalog.spans import Source
from ctsql.pipelines import apply, plan
from ctsql.planner.folder import read_folder


def definitions(objects: int) -> tuple[list[str], list[str]]:
    """The statements of a folder, and the queries of its views."""
    few, many = max(1, objects // 10), 3 * objects // 10
    above = objects - few - 2 * many
    texts = [
        f"CREATE TABLE t{i} (id BIGINT, k INT, v DECIMAL(10, 2), s STRING, at TIMESTAMP)"
        for i in range(few)
    ]
    texts += [
        f"CREATE CONTINUAL TASK c{i} (k INT, n BIGINT) ON INPUT t{i % few} AS ("
        f"DELETE FROM c{i} WHERE k IN (SELECT k FROM t{i % few});"
        f"INSERT INTO c{i} SELECT k, count(*) FROM t{i % few} GROUP BY k)"
        for i in range(many)
    ]
    queries = [
        f"SELECT t.k, count(*) AS n, sum(t.v) AS s FROM t{i % few} AS t JOIN c{i} AS c "
        f"ON t.k = c.k WHERE t.v > {i} GROUP BY t.k"
        for i in range(many)
    ]
    views = {f"m{i}": query for i, query in enumerate(queries)}
    views |= {f"mm{i}": f"SELECT k, max(s) AS s FROM m{i % many} GROUP BY k" for i in range(above)}
    texts += [f"CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in views.items()]
    return texts, queries


def seconds_of(act: Callable[[], object], rounds: int) -> float:
    """The median seconds of some rounds."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    texts, queries = definitions(options.objects)
    folder = read_folder([Source(";\n".join(texts), "all.sql")])
    with tempfile.TemporaryDirectory(prefix="ctsql-folders-") as place:
        con = ctsql.connect(place)
        con.execute("CREATE TABLE warm (a INT); INSERT INTO warm VALUES (1); SELECT * FROM warm")
        start = time.perf_counter()
        plan(con, folder)
        print(f"{options.objects} new objects, the first plan of a process: ", end="")
        print(f"{time.perf_counter() - start:.2f} s", flush=True)
        new = seconds_of(lambda: plan(con, folder), options.rounds)
        print(f"{options.objects} new objects, again: {new:.2f} s", flush=True)
        start = time.perf_counter()
        apply(con, folder)
        print(f"apply: {time.perf_counter() - start:.1f} s", flush=True)
        same = seconds_of(lambda: plan(con, folder), options.rounds)
        print(f"{options.objects} objects that are there: {same:.2f} s", flush=True)
        spark = con.spark
        for name in (f"t{i}" for i in range(max(1, options.objects // 10))):
            columns = "id BIGINT, k INT, v DECIMAL(10, 2), s STRING, at TIMESTAMP"
            spark.createDataFrame([], columns).createOrReplaceTempView(name)
        for i in range(len(queries)):
            spark.createDataFrame([], "k INT, n BIGINT").createOrReplaceTempView(f"c{i}")
        alone = seconds_of(lambda: [spark.sql(query).schema for query in queries], options.rounds)
        part = len(queries) / options.objects
        print(
            f"Spark alone, {len(queries)} of the queries: {alone:.2f} s; {part:.0%} of the objects"
        )


if __name__ == "__main__":
    main()
