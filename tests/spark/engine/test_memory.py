"""Nothing that a statement needed is kept when it is over."""

import time
from typing import Any

from ctsql.api import Connection


def test_spark_forgets_the_jobs_of_ended_queries(con: Connection) -> None:
    """Those of a result that is iterated, and of a large change that deletes rows."""
    jobs = con.spark.sparkContext._jsc.sc().dagScheduler().activeQueryToJobs()
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t SELECT id, id FROM range(30000)")
    con.execute(
        "CREATE MATERIALIZED VIEW m WITH (REFRESH POLICY = incremental) AS "
        "SELECT v, count(*) AS n FROM t GROUP BY v"
    )
    con.execute("REFRESH MATERIALIZED VIEW m")
    con.execute("UPDATE t SET v = v + 100000 WHERE k < 12000")  # more than the driver takes
    con.execute("REFRESH MATERIALIZED VIEW m")
    assert forgotten(con, jobs)
    assert sum(1 for _ in con.execute("SELECT * FROM m")) == 30000
    assert jobs.isEmpty()


def forgotten(con: Connection, jobs: Any) -> bool:
    """Whether statements let go of all: of the last one's thread and of upkeep beside it, too."""
    until = time.monotonic() + 20
    con.execute("SELECT 1")
    while not jobs.isEmpty() and time.monotonic() < until:
        time.sleep(0.05)
        con.execute("SELECT 1")
    return bool(jobs.isEmpty())
