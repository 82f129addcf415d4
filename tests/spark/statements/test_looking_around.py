"""SHOW and DESCRIBE show what there is now; a warehouse that is not there is not made."""

from pathlib import Path

import pytest

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from tests.helpers.table_folder import folder


def test_columns_of_a_foreign_writer_are_shown(con: Connection) -> None:
    """By DESCRIBE, SHOW COLUMNS and completion, without a statement in between."""
    con.execute("CREATE TABLE own (k INT)")
    place = folder(con, "own")
    con.spark.sql(f"ALTER TABLE delta.`{place}` ADD COLUMNS (added STRING COMMENT 'new')")
    described = con.execute("DESCRIBE own").fetchall()
    assert described == [("k", "int", "", None), ("added", "string", "", "new")]
    assert con.execute("SHOW COLUMNS IN own LIKE 'a*'").fetchall() == [("added", "string")]


def test_what_belongs_to_another_is_told(con: Connection) -> None:
    """Dropping a quarantine says whose it is."""
    con.execute("CREATE TABLE a (k INT)")
    con.execute(
        "CREATE CONTINUAL TASK x (k INT CHECK (k > 0) ON VIOLATION QUARANTINE) ON INPUT a AS "
        "(INSERT INTO x SELECT k FROM a)"
    )
    with pytest.raises(CtsqlError) as refused:
        con.execute("DROP TABLE x_quarantine")
    assert "ALTER CONTINUAL TASK x DROP CONSTRAINT" in (refused.value.hint or "")


def test_functions_and_near_names(con: Connection) -> None:
    """What Spark says of a function; a name that is nearly one."""
    ((name, usage),) = con.execute("SHOW FUNCTIONS LIKE 'date_trunc'").fetchall()
    assert (name, "Returns timestamp" in str(usage)) == ("date_trunc", True)
    with pytest.raises(CtsqlError) as unknown:
        con.execute("SELECT date_trunk('day', now())")
    assert '"date_trunc"' in (unknown.value.hint or "")


def test_a_warehouse_is_only_made_where_it_may_be(con: Connection, tmp_path: Path) -> None:
    """``create=False`` refuses a folder that is none, and leaves nothing there."""
    misspelt = tmp_path / "misspelt"
    with (
        connect(str(misspelt), spark=con.spark, create=False) as other,
        pytest.raises(CtsqlError) as refused,
    ):
        other.run(once=True)
    assert (refused.value.condition, misspelt.exists()) == ("WAREHOUSE_NOT_FOUND", False)
    place = str(tmp_path / "made")
    with connect(place, spark=con.spark) as first:
        first.start()
        assert first.is_new
    with connect(place, spark=con.spark, create=False) as again:
        again.execute("SHOW TABLES")
        assert not again.is_new


def test_notices(con: Connection) -> None:
    """They come with the result of the CREATE, each with its place."""
    con.execute("CREATE TABLE t (k INT)")
    made = con.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t\nLIMIT 3")
    (notice,) = made.notices
    assert notice.startswith("<statement>:2:1: LIMIT without ORDER BY")
    replaced = con.execute(
        "CREATE CONTINUAL TASK c ON INPUT t AS ("
        "MERGE INTO c USING t ON c.k = t.k WHEN NOT MATCHED THEN INSERT *)"
    )
    assert replaced.notices == []
    con.execute("INSERT INTO t VALUES (1), (1), (2)")
    assert con.execute("SELECT k FROM c ORDER BY k").fetchall() == [(1,), (1,), (2,)]
    told = con.execute(
        "ALTER CONTINUAL TASK c AS (DELETE FROM c WHERE k IN (SELECT k FROM t); "
        "INSERT INTO c SELECT k FROM t)"
    )
    assert len(told.notices) == 1


def test_columns_without_a_name(con: Connection) -> None:
    """Called as the function or by the place; a task that reads itself takes its input's."""
    con.execute("CREATE TABLE t (k INT, v BIGINT); INSERT INTO t VALUES (1, 2), (1, 3)")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*), sum(v) + 1 FROM t GROUP BY k")
    result = con.execute("SELECT * FROM v")
    assert (result.columns, result.fetchall()) == (["k", "count", "column_3"], [(1, 2, 6)])
    con.execute("INSERT INTO t VALUES (1, 4)")
    assert con.execute("SELECT * FROM v").fetchall() == [(1, 3, 10)]
    con.execute(
        "CREATE CONTINUAL TASK once ON INPUT t AS (INSERT INTO once SELECT k, v FROM t "
        "WHERE NOT EXISTS (SELECT 1 FROM once AS o WHERE o.k = t.k))"
    )
    con.execute("INSERT INTO t VALUES (1, 5), (2, 5)")
    assert con.execute("SELECT k, count(*) FROM once GROUP BY k ORDER BY k").fetchall() == [
        (1, 3),
        (2, 1),
    ]
