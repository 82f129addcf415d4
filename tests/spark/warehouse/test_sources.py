"""Sources change by anybody's hand: ctsql's own DML, a Spark job, delta-rs."""

from pathlib import Path

from ctsql.api import Connection
from tests.helpers.table_folder import folder
from tests.scenarios.runner import assert_rows, expect_error

COPY = (
    "CREATE CONTINUAL TASK copy (k INT, v STRING) ON INPUT t AS (INSERT INTO copy SELECT * FROM t)"
)
VIEW = "CREATE MATERIALIZED VIEW same AS SELECT * FROM t"


def _expect(con: Connection, name: str, rows: list[tuple[object, ...]]) -> None:
    assert_rows(con.execute(f"SELECT * FROM {name}").fetchall(), rows, name)


def test_a_spark_job_writes_a_source(con: Connection) -> None:
    """Appends, overwrites and streams of a plain Spark job are seen as commits like any other."""
    con.execute("CREATE TABLE t (k INT, v STRING)")
    con.execute(COPY)
    con.execute(VIEW)
    place = str(folder(con, "t"))

    def write(rows: list[tuple[int, str]], mode: str) -> None:
        frame = con.spark.createDataFrame(rows, "k INT, v STRING")
        frame.write.format("delta").mode(mode).save(place)

    # Version 1 keeps the log since the task follows the table.
    write([(1, "a"), (2, "b")], "append")
    _expect(con, "copy", [(1, "a"), (2, "b")])
    write([(2, "b"), (3, "c")], "overwrite")  # (2, b) stays, (3, c) is new
    _expect(con, "copy", [(1, "a"), (2, "b"), (3, "c")])
    _expect(con, "same", [(2, "b"), (3, "c")])
    con.spark.sql(f"RESTORE TABLE delta.`{place}` TO VERSION AS OF 2")
    _expect(con, "copy", [(1, "a"), (2, "b"), (3, "c"), (1, "a")])
    _expect(con, "same", [(1, "a"), (2, "b")])


def test_tables_that_only_take_rows(con: Connection, tmp_path: Path) -> None:
    """One of others, and one of a view to which another writer said so: an error tells why."""
    place = str(tmp_path / "plain")
    only = "('delta.appendOnly' = 'true')"
    con.spark.sql(
        f"CREATE TABLE delta.`{place}` (k INT, v STRING) USING delta TBLPROPERTIES {only}"
    )
    con.execute(f"CREATE TABLE t LOCATION '{place}'; INSERT INTO t VALUES (1, 'a')")
    con.execute(VIEW)
    _expect(con, "same", [(1, "a")])
    for sql in ("UPDATE t SET v = 'b' WHERE k = 1", "DELETE FROM t WHERE v > ''"):
        told = expect_error(con, sql, "NOT_SUPPORTED")
        assert "delta.appendOnly is true" in str(told.detail)
    view = folder(con, "same")
    con.spark.sql(f"ALTER TABLE delta.`{view}` SET TBLPROPERTIES {only}")
    con.spark.sql(f"ALTER TABLE delta.`{place}` UNSET TBLPROPERTIES ('delta.appendOnly')")
    con.execute("INSERT INTO t VALUES (2, 'b')")
    _expect(con, "same", [(1, "a"), (2, "b")])
    con.execute("DELETE FROM t WHERE k = 1")
    told = expect_error(con, "SELECT * FROM same", "NOT_SUPPORTED")
    assert "delta.appendOnly is true" in str(told.detail)
    con.spark.sql(f"ALTER TABLE delta.`{view}` UNSET TBLPROPERTIES ('delta.appendOnly')")
    _expect(con, "same", [(2, "b")])


def test_delta_rs_writes_a_source(con: Connection, tmp_path: Path) -> None:
    """A table that another engine made and writes."""
    import deltalake
    import pyarrow as pa

    place = str(tmp_path / "by-delta-rs")

    def write(keys: list[int], values: list[str | None], mode: str) -> None:
        rows = pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array(values, pa.string())})
        deltalake.write_deltalake(place, rows, mode=mode)

    write([1, 2], ["a", None], "append")
    con.execute(f"CREATE TABLE t LOCATION '{place}'")
    con.execute(COPY)
    con.execute(VIEW)
    _expect(con, "copy", [(1, "a"), (2, None)])
    write([3, 3], ["c", "c"], "append")
    _expect(con, "copy", [(1, "a"), (2, None), (3, "c"), (3, "c")])
    deltalake.DeltaTable(place).delete("k = 1")
    _expect(con, "same", [(2, None), (3, "c"), (3, "c")])
    deltalake.DeltaTable(place).update(updates={"v": "'x'"}, predicate="k = 2")
    _expect(con, "copy", [(1, "a"), (2, None), (3, "c"), (3, "c"), (2, "x")])
    deltalake.DeltaTable(place).optimize.compact()
    _expect(con, "copy", [(1, "a"), (2, None), (3, "c"), (3, "c"), (2, "x")])
    write([9], ["i"], "overwrite")
    _expect(con, "same", [(9, "i")])
    _expect(con, "copy", [(1, "a"), (2, None), (3, "c"), (3, "c"), (2, "x"), (9, "i")])


def test_writes_between_two_reads_are_taken_one_by_one(con: Connection) -> None:
    """Each commit is a change of its own, in order, even when several were waiting."""
    con.execute("CREATE TABLE t (k INT, v STRING)")
    con.execute(
        "CREATE CONTINUAL TASK sizes (n BIGINT, total BIGINT) ON INPUT t AS"
        " (INSERT INTO sizes SELECT count(*), (SELECT count(*) FROM sizes) FROM t)"
    )
    place = str(folder(con, "t"))
    for size in (3, 1, 2):
        frame = con.spark.range(size).selectExpr("CAST(id AS INT) AS k", "'x' AS v")
        frame.write.format("delta").mode("append").save(place)
    _expect(con, "sizes", [(3, 0), (1, 1), (2, 2)])
