"""Delta cleans up the logs of tables as it does elsewhere, but of those that something follows."""

from pathlib import Path

from ctsql.api import Connection
from tests.helpers.opened import item_of, table_of
from tests.helpers.table_folder import log

CLEANUP = "delta.enableExpiredLogCleanup"


def _properties(con: Connection, name: str) -> dict[str, str]:
    """What Spark shows of a table, without what each table has."""
    location = table_of(con, name).location
    rows = con.spark.sql(f"SHOW TBLPROPERTIES delta.`{location}`").collect()
    found = {row.key: row.value for row in rows}
    return {k: v for k, v in found.items() if k == CLEANUP or k.startswith("ctsql.")}


def _keeps(con: Connection, name: str) -> bool:
    found = _properties(con, name)
    assert found in ({}, {CLEANUP: "false", "ctsql.keepsLog": "true"})
    return bool(found)


def test_a_followed_table_keeps_its_log(con: Connection) -> None:
    """From its first task, view or named subscription to the drop of the last."""
    con.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1)")
    con.execute("CREATE VIEW plain AS SELECT k FROM t")
    assert not _keeps(con, "t")
    for statement, keeps in (
        ("CREATE CONTINUAL TASK o ON INPUT t AS (INSERT INTO o SELECT k FROM t)", True),
        ("CREATE MATERIALIZED VIEW another AS SELECT max(k) AS k FROM plain", True),
        ("DROP CONTINUAL TASK o", True),
        ("DROP MATERIALIZED VIEW another", False),
        ("UNDROP MATERIALIZED VIEW another", True),
        ("CREATE OR REPLACE MATERIALIZED VIEW another AS SELECT 1 AS k", False),
    ):
        con.execute(statement)
        assert _keeps(con, "t") is keeps, statement
    with con.subscribe("t", reader="dashboard") as live:
        next(iter(live))
    assert _keeps(con, "t")
    con.execute("DROP SUBSCRIPTION 'dashboard'")
    assert not _keeps(con, "t")


def test_followers_do_not_notice(con: Connection) -> None:
    """The commits that switch it change no row: no T, no run, nothing to wait for."""
    con.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1)")
    con.execute("CREATE CONTINUAL TASK o ON INPUT t AS (INSERT INTO o SELECT k FROM t)")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(k) AS k FROM t")
    con.run(once=True)
    lag = "SELECT object, state, lag_versions FROM system.lag ORDER BY object"
    assert con.execute(lag).fetchall() == [("o", "up to date", 0), ("v", "up to date", 0)]
    table, versions = table_of(con, "t"), [table_of(con, name).version() for name in ("o", "v")]
    con.spark.sql(f"ALTER TABLE delta.`{table.location}` UNSET TBLPROPERTIES ('{CLEANUP}')")
    before = table.version()
    con.execute("MAINTAIN")  # as after a process that was killed
    assert _keeps(con, "t")
    assert table.version() == before + 1
    con.run(once=True)
    assert con.execute(lag).fetchall() == [("o", "up to date", 0), ("v", "up to date", 0)]
    assert [table_of(con, name).version() for name in ("o", "v")] == versions
    con.execute("INSERT INTO t VALUES (2)")
    assert con.execute("SELECT k FROM o ORDER BY k").fetchall() == [(1,), (2,)]
    assert con.execute("SELECT k FROM v").fetchall() == [(3,)]
    con.execute("DROP MATERIALIZED VIEW v; DROP CONTINUAL TASK o; MAINTAIN")
    assert not _keeps(con, "t")


def test_what_users_set_stays(con: Connection, warehouse: Path) -> None:
    """A setting of a table's own, and all of an attached table."""
    con.execute(f"CREATE TABLE t (k INT) TBLPROPERTIES ('{CLEANUP}' = 'false')")
    place = warehouse.parent / "of_others"
    con.spark.sql("SELECT 1 AS k").write.format("delta").save(str(place))
    con.execute(f"CREATE TABLE a LOCATION '{place}'")
    view = "CREATE MATERIALIZED VIEW v AS SELECT k FROM t UNION ALL SELECT k FROM a"
    for text in (view, "DROP MATERIALIZED VIEW v", view, "MAINTAIN", "DROP MATERIALIZED VIEW v"):
        con.execute(text)
        assert _properties(con, "t") == {CLEANUP: "false"}, text
        assert len(list((place / "_delta_log").glob("*.json"))) == 1, text


def test_what_ctsql_writes_keeps_its_log(con: Connection, warehouse: Path) -> None:
    """Outputs, the timeline, the catalog and state tables, from their first commit on."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 2)")
    con.execute("CREATE CONTINUAL TASK o ON INPUT t AS (INSERT INTO o SELECT k FROM t)")
    view = "CREATE MATERIALIZED VIEW v WITH (REFRESH POLICY = incremental) AS "
    con.execute(f"{view} SELECT k, avg(v) AS v FROM t GROUP BY k")
    con.execute("INSERT INTO t VALUES (1, 4); SELECT * FROM v")
    fed = Path((item_of(con, "t").location or "").removeprefix("file:"))
    tables = [p.parent for p in warehouse.rglob("_delta_log") if p.parent != fed]
    assert len(tables) >= 4
    for table in tables:
        (first,) = [a["metaData"] for a in log(table)[0] if "metaData" in a]
        assert first["configuration"][CLEANUP] == "false", table
