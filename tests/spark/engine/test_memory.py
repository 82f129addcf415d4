"""Nothing that a statement needed is kept when it is over."""

import pytest

from ctsql.api import Connection

pytestmark = pytest.mark.spark


def test_spark_forgets_the_jobs_of_ended_queries(con: Connection) -> None:
    """Those of iterators, too, which run after their query has ended."""
    scheduler = con.spark.sparkContext._jsc.sc().dagScheduler()
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t SELECT id, id FROM range(30000)")
    con.execute(
        "CREATE MATERIALIZED VIEW m WITH (REFRESH POLICY = incremental) AS "
        "SELECT v, count(*) AS n FROM t GROUP BY v"
    )
    con.execute("REFRESH MATERIALIZED VIEW m")
    con.execute("UPDATE t SET v = v + 100000 WHERE k < 12000")  # more than the driver takes
    con.execute("REFRESH MATERIALIZED VIEW m")
    assert scheduler.activeQueryToJobs().isEmpty()
    assert sum(1 for _ in con.execute("SELECT * FROM m")) == 30000
    assert not scheduler.activeQueryToJobs().isEmpty()
    con.execute("SELECT 1")
    assert scheduler.activeQueryToJobs().isEmpty()
