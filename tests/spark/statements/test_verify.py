"""VERIFY and EXPLAIN of views, as a person sees them."""

from ctsql.api import Connection
from tests.helpers.table_folder import folder
from tests.helpers.view_reports import rows
from tests.scenarios.runner import expect_error

SET_UP = """
CREATE TABLE t (k INT, v INT);
INSERT INTO t VALUES (1, 10), (1, 20), (NULL, 5);
CREATE MATERIALIZED VIEW sums WITH (REFRESH POLICY = incremental) AS
  SELECT k, sum(v) AS s FROM t GROUP BY k;
"""


def lines(con: Connection, statement: str) -> str:
    """What EXPLAIN prints."""
    return "\n".join(str(row[0]) for row in con.execute(statement).fetchall())


def test_verify_shows_and_repairs(con: Connection) -> None:
    """Rows too many with -, rows missing with +; the repair is one correction."""
    con.execute(SET_UP)
    good = rows(con, "SELECT * FROM sums")
    clean = con.execute("VERIFY sums")
    assert clean.columns == ["change", "k", "s"]
    assert clean.fetchall() == []
    assert clean.status == "VERIFY 0"
    stored = folder(con, "sums")
    wrong = con.spark.createDataFrame([(7, 7), (7, 7)], "k INT, s BIGINT")
    wrong.write.format("delta").mode("append").save(str(stored))
    found = con.execute("VERIFY MATERIALIZED VIEW sums REPAIR")
    assert found.fetchall() == [("-", 7, 7), ("-", 7, 7)]
    assert found.status == "VERIFY 2"
    assert rows(con, "SELECT * FROM sums") == good
    expect_error(con, "VERIFY t", "WRONG_OBJECT_KIND")


def test_explain_tells_how_and_what_was_done(con: Connection) -> None:
    """The rule of each operator, the code and the place where there is none, the last refresh."""
    con.execute(SET_UP)
    con.execute("CREATE MATERIALIZED VIEW some AS SELECT k, v\nFROM t LIMIT 2")
    plan = lines(con, "EXPLAIN MATERIALIZED VIEW sums")
    assert (
        "Refresh policy incremental: from the tables' changes wherever possible\nIncremental: yes\n"
        in plan
    )
    assert "Group by k: sum(v)  [state table: stored groups with the change added]" in plan
    assert "reads t: k, v\nt holds 3 rows in " in plan
    for policy, followed in (
        ("AUTO", "not now, because SMALL_TABLES"),
        ("FULL", "no, because POLICY_"),
    ):
        view = f"CREATE MATERIALIZED VIEW x WITH (REFRESH POLICY = '{policy}') AS SELECT k FROM t"
        assert f"\nIncremental: {followed}" in lines(con, f"EXPLAIN {view}")
    plan = lines(con, "EXPLAIN MATERIALIZED VIEW some")
    assert "Incremental: no, because LIMIT_WITHOUT_ORDER: without ORDER BY the rows" in plan
    assert "at line 2, column 14\n" in plan
    con.execute("INSERT INTO t VALUES (3, 1)")
    con.execute("SELECT * FROM sums").fetchall()
    done = lines(con, "EXPLAIN ANALYZE sums")
    assert ": state table\n  changed: t\n" in done
    assert "inserted 1 and deleted 0 rows, in 1 new file(s)" in done
    assert "Spark job(s)" in done
    done = lines(con, "EXPLAIN ANALYZE MATERIALIZED VIEW some")
    assert "recompute and diff\n  because FIRST_WRITE" in done
