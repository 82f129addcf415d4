"""What others do to the logs of a warehouse: a commit that is gone, rows in a task's output."""

from collections.abc import Callable

from ctsql.api import Connection
from tests.helpers.opened import check_rows
from tests.helpers.table_folder import folder
from tests.scenarios.runner import expect_error

Connect = Callable[[], Connection]


def test_the_newest_commit_of_a_source_is_gone(connect: Connect) -> None:
    """It is named, nothing takes its place, others go on; and the way on without it works."""
    con = connect()
    con.execute(
        "CREATE TABLE t (k INT); INSERT INTO t VALUES (1); CREATE TABLE other (k INT); "
        "CREATE MATERIALIZED VIEW v AS SELECT k FROM t; "
        "CREATE CONTINUAL TASK c (k INT) ON INPUT t AS (INSERT INTO c SELECT k FROM t); "
        "INSERT INTO t VALUES (2)"
    )
    for name in ("v", "c"):
        check_rows(con, f"SELECT * FROM {name}", (1,), (2,))
    table = folder(con, "t")
    commit = sorted((table / "_delta_log").glob("*.json"))[-1]
    kept = commit.read_bytes()
    commit.unlink()
    commit.with_suffix(".crc").unlink(missing_ok=True)
    second = connect()
    for by in (con, second):
        for text in (
            "SELECT * FROM t",
            "SELECT * FROM v",
            "SELECT * FROM c",
            "INSERT INTO t VALUES (3)",
        ):
            problem = expect_error(by, text, "STORED_DATA_INVALID")
            assert commit.name in (problem.detail or ""), text
        by.execute("INSERT INTO other VALUES (7)")
    assert not commit.exists()
    commit.write_bytes(kept)
    check_rows(second, "SELECT * FROM v", (1,), (2,))
    commit.unlink()
    name = f"delta.`{table}`"
    con.spark.catalog.clearCache()
    con.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # as in a new process
    con.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lost' = '1')")
    third = connect()
    third.execute("REFRESH MATERIALIZED VIEW v FULL; INSERT INTO t VALUES (2)")
    check_rows(third, "SELECT * FROM v", (1,), (2,))
    check_rows(third, "SELECT * FROM c", (1,), (2,), (2,))


def test_rows_that_others_write_into_a_tasks_output(con: Connection) -> None:
    """They are seen from the T of the task's next commit on, by what reads it as well."""
    con.execute(
        "CREATE TABLE t (k INT); "
        "CREATE CONTINUAL TASK c (k INT) ON INPUT t AS (INSERT INTO c SELECT k FROM t); "
        "CREATE CONTINUAL TASK below (k INT) ON INPUT c AS (INSERT INTO below SELECT k FROM c); "
        "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM c; INSERT INTO t VALUES (1)"
    )
    check_rows(con, "SELECT * FROM c", (1,))
    con.spark.sql(f"INSERT INTO delta.`{folder(con, 'c')}` VALUES (77)")
    check_rows(con, "SELECT * FROM c", (1,))
    check_rows(con, "SELECT * FROM n", (1,))
    con.execute("INSERT INTO t VALUES (2)")
    for name in ("c", "below"):
        check_rows(con, f"SELECT * FROM {name}", (1,), (2,), (77,))
    check_rows(con, "SELECT * FROM n", (3,))
