"""Rows that are iterated: all of them, once and in order, and none left in the driver's JVM."""

import time

from ctsql.api import Connection
from ctsql.runtime.spark.internals.java import java
from ctsql.runtime.spark.internals.partitions import partition_rows

MB = 2**20


def test_rows_of_several_partitions(con: Connection) -> None:
    """Those of an empty partition, of a plan with stages, and NULL."""
    spark = con.spark
    for rows in (
        spark.range(0, 5, 1, 8).toDF("id"),
        spark.range(0).toDF("id"),
        spark.range(1000).selectExpr("id % 7 AS id", "CAST(NULL AS STRING) AS n").distinct(),
        spark.range(3).selectExpr("array(id) AS a", "X'00FF' AS b", "named_struct('x', id) AS s"),
    ):
        assert list(partition_rows(rows)) == rows.collect()


def test_the_jvm_holds_no_partition(con: Connection) -> None:
    """Five results with 40 MB in a partition are open, and the heap is no larger."""
    jvm = java(con.spark)
    runtime = jvm.java.lang.Runtime.getRuntime()

    def used() -> int:
        jvm.java.lang.System.gc()
        return int(runtime.totalMemory() - runtime.freeMemory())

    sql = "SELECT id, repeat('x', 1000) AS t FROM range(0, 80000, 1, 2)"
    results = [con.execute(sql) for _ in range(5)]
    con.execute(sql).fetchone()
    before = used()
    assert [result.fetchone() for result in results] == [(0, "x" * 1000)] * 5
    # Spark removes the block that a large partition travels in later, in a thread of its own.
    until = time.monotonic() + 30
    while used() - before >= 40 * MB and time.monotonic() < until:
        time.sleep(0.5)
    assert used() - before < 40 * MB
    assert sum(1 for _ in results[0]) == 79999
