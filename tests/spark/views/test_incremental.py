"""Views that follow the changes of their tables hold what recomputing gives, round for round."""

import itertools

import pytest

from benchmarks.measures import jobs_started
from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX
from ctsql.runtime.spark.job_metrics import Meter
from ctsql.runtime.views.refresh_policy import Costs, Strategy
from tests.helpers.view_reports import rows, said

TABLES = """
CREATE TABLE t (k INT, v INT, s STRING); CREATE TABLE u (k INT, w INT);
INSERT INTO t VALUES (1, 10, 'a'), (1, 10, 'a'), (2, NULL, 'b'), (NULL, 5, NULL), (3, 7, 'c');
INSERT INTO u VALUES (1, 100), (2, 200), (2, 200), (NULL, 300)
"""
ROUNDS = (
    "INSERT INTO t VALUES (1, 11, 'z'), (9, 9, 'y')",
    "UPDATE t SET v = 20 WHERE s = 'a'; DELETE FROM u WHERE k = 2; INSERT INTO u VALUES (9, 1)",
)
VIEWS = {
    "filtered": ("SELECT k, v + 1 AS x FROM t WHERE v > 5 OR s = 'b'", Strategy.INCREMENTAL),
    "grouped": (
        "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k",
        Strategy.STATE_TABLE,
    ),
}


@pytest.mark.core
def test_each_round_equals_recomputing(con: Connection) -> None:
    """The signed change and the state table; then a change that nets to nothing."""
    con.execute(TABLES)
    for name, (query, _) in VIEWS.items():
        con.execute(
            f"CREATE MATERIALIZED VIEW {name} WITH (REFRESH POLICY = incremental) AS {query}"
        )
    for statement in ROUNDS:
        con.execute(statement)
        for name, (query, strategy) in VIEWS.items():
            assert rows(con, f"SELECT * FROM {name}") == rows(con, query), (name, statement)
            if statement == ROUNDS[0]:
                assert said(con, name)["strategy"] == strategy.value, (name, said(con, name))
    con.execute("DELETE FROM t WHERE k = 9; INSERT INTO t VALUES (9, 9, 'y')")
    assert rows(con, "SELECT * FROM filtered") == rows(con, VIEWS["filtered"][0])
    assert said(con, "filtered")["strategy"] == Strategy.NO_CHANGE.value


def test_a_change_of_more_keys_than_the_driver_takes(con: Connection) -> None:
    """Of a small view only the rows with one of these keys are replaced, the others stay."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 10), (2, 20), (2, 30)")
    queries = {
        "sums": "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k",
        "averages": "SELECT k, avg(v) AS a FROM t GROUP BY k",
    }
    for name, query in queries.items():
        con.execute(
            f"CREATE MATERIALIZED VIEW {name} WITH (REFRESH POLICY = incremental) AS {query}"
        )
    con.execute(f"INSERT INTO t SELECT CAST(id AS INT), 1 FROM range(2, {DRIVER_ROWS_MAX + 10})")
    for name, query in queries.items():
        assert rows(con, f"SELECT * FROM {name}") == rows(con, query), name
        assert said(con, name)["strategy"] != Strategy.RECOMPUTE.value


def test_a_change_of_most_keys_is_recomputed(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of nearly all groups go: to look up what is left of each costs more than all at once."""
    monkeypatch.setattr(Costs, "of", lambda _: Costs())  # what either way took is not the point
    con.execute("CREATE TABLE t (k INT, v INT)")
    con.execute("INSERT INTO t SELECT CAST(id % 2500 AS INT), CAST(id AS INT) FROM range(12500)")
    query = "SELECT k, max(v) AS m FROM t GROUP BY k"
    con.execute(f"CREATE MATERIALIZED VIEW newest AS {query}")
    told = []
    for condition in ("v = 12000", "v % 2500 < 1600 AND v >= 10000"):
        con.execute(f"DELETE FROM t WHERE {condition}")
        assert rows(con, "SELECT * FROM newest") == rows(con, query)
        told.append((said(con, "newest")["strategy"], said(con, "newest").get("why")))
    assert told == [("affected keys", None), ("recompute and diff", "MOST_KEYS")]


def test_following_that_takes_long_is_given_up(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends when it takes longer than recomputing, and is not tried again at once."""
    con.execute("CREATE TABLE t (k INT, v INT)")
    con.execute("INSERT INTO t SELECT CAST(id % 9 AS INT), 1 FROM range(20000)")
    query = "SELECT k, max(v) AS m FROM t GROUP BY k"
    ticks = itertools.count(1000, 1000)
    monkeypatch.setattr(Meter, "ms", lambda _: next(ticks))
    con.execute(f"CREATE MATERIALIZED VIEW highest AS {query}")
    told = []
    for value in range(3):
        con.execute(f"INSERT INTO t VALUES ({value}, {value})")
        assert rows(con, "SELECT * FROM highest") == rows(con, query)
        told.append(said(con, "highest").get("why"))
    assert told == ["TOOK_LONGER", "SLOWER_BEFORE", "SLOWER_BEFORE"]


def test_a_view_of_first_rows_without_rows_is_followed(con: Connection) -> None:
    """No row was stored, so all there are come from the change, though ORDER BY leaves ties."""
    con.execute("CREATE TABLE t (k INT, v INT)")
    query = "SELECT k, v + 1 AS x FROM t ORDER BY x LIMIT 2"
    con.execute(f"CREATE MATERIALIZED VIEW lowest WITH (REFRESH POLICY = strict) AS {query}")
    con.execute("SELECT * FROM lowest")
    con.execute("INSERT INTO t VALUES (1, 1), (2, 3), (3, 2)")
    assert rows(con, "SELECT * FROM lowest") == rows(con, query)
    assert said(con, "lowest")["strategy"] == Strategy.FIRST_ROWS.value


@pytest.mark.core
def test_a_strict_view_must_have_a_change_plan(con: Connection) -> None:
    """The refusal says the code, and shows the place."""
    con.execute("CREATE TABLE t (k INT)")
    made = "CREATE MATERIALIZED VIEW m WITH (REFRESH POLICY = strict) AS SELECT k FROM t"
    with pytest.raises(CtsqlError, match="REFRESH POLICY") as raised:
        con.execute(f"{made} LIMIT 3")
    assert "LIMIT_WITHOUT_ORDER" in str(raised.value.detail)
    con.execute(made)
    # Spark makes one subquery of both; that is no reason to take it for another query.
    con.execute(
        "CREATE MATERIALIZED VIEW two WITH (REFRESH POLICY = strict) AS "
        "SELECT k FROM t WHERE k >= (SELECT min(k) FROM t) AND k < (SELECT max(k) FROM t)"
    )
    # Spark treats the one row of a SELECT without FROM otherwise than one of VALUES.
    con.execute(
        "CREATE MATERIALIZED VIEW beside WITH (REFRESH POLICY = strict) AS "
        "SELECT x.k, y.d FROM t x, LATERAL (SELECT x.k AS d WHERE x.k > 0) y"
    )
    # A NULL of a struct type remembers that a field of it was a CHAR; no row depends on that.
    con.execute("CREATE TABLE c (k INT, s CHAR(3))")
    con.execute(
        "CREATE MATERIALIZED VIEW noted WITH (REFRESH POLICY = strict) AS "
        "SELECT named_struct('a', k) AS x, NULL AS y FROM c "
        "UNION ALL SELECT NULL, y FROM (SELECT named_struct('a', s) AS y FROM c)"
    )
    # A field of a struct is called as its column, which has another name in the plan.
    con.execute(
        "CREATE MATERIALIZED VIEW newest WITH (REFRESH POLICY = strict) AS "
        "SELECT K > 0 AS g, max(struct(K, t.k + 1 AS n)).K AS m, max(struct(t.k)) AS o "
        "FROM t GROUP BY K > 0"
    )
    # Where the plan's own text does not run, the view is recomputed.
    con.execute("CREATE MATERIALIZED VIEW starred AS SELECT max(struct(*)).k AS m FROM t")
    con.execute("INSERT INTO t VALUES (-1), (1), (2)")
    newest = con.execute("SELECT g, m, o.K FROM newest ORDER BY g").fetchall()
    assert newest == [(False, -1, -1), (True, 2, 2)]
    assert con.execute("SELECT * FROM starred").fetchall() == [(2,)]
    assert con.execute("SELECT * FROM beside ORDER BY k").fetchall() == [(1, 1), (2, 2)]


SUMS_OF_TEXTS = (
    "sum(split(s, ',')[0])",
    "avg(s) FILTER (WHERE k > 0)",
    "sum(DISTINCT s)",
    "sum(CASE WHEN k > 0 THEN s END)",
)


def test_nested_sums_of_texts_are_not_exact(con: Connection) -> None:
    """Spark adds texts as doubles, in another order each time; whole numbers are exact."""
    con.execute("CREATE TABLE t (k INT, s STRING, v INT)")
    nested = "SELECT n, count(*) AS c FROM (SELECT k, {} AS n FROM t GROUP BY k) GROUP BY n"
    hidden = f"SELECT k, {SUMS_OF_TEXTS[0]} AS n FROM t GROUP BY k, length(s)"
    for query in (*map(nested.format, SUMS_OF_TEXTS), hidden):
        with pytest.raises(CtsqlError, match="FLOAT_AGGREGATE_NESTED"):
            con.execute(f"CREATE MATERIALIZED VIEW m WITH (REFRESH POLICY = strict) AS {query}")
    con.execute(
        "CREATE MATERIALIZED VIEW m WITH (REFRESH POLICY = incremental) AS "
        f"{nested.format(SUMS_OF_TEXTS[0])};"
        "CREATE MATERIALIZED VIEW exact WITH (REFRESH POLICY = strict) AS "
        "SELECT n, a, count(*) AS c FROM "
        "(SELECT k, sum(v) FILTER (WHERE v > 0) AS n, avg(v) AS a FROM t GROUP BY k) GROUP BY n, a"
    )
    told = con.execute("EXPLAIN MATERIALIZED VIEW m").fetchall()
    assert any("Incremental: no, because FLOAT_AGGREGATE_NESTED" in line for (line,) in told), told
    con.execute("INSERT INTO t VALUES (1, '0.5', 1), (1, NULL, 2)")
    assert con.execute("SELECT * FROM m").fetchall() == [(0.5, 1)]
    assert con.execute("SELECT * FROM exact").fetchall() == [(3, 1.5, 1)]


def test_numbers_that_equal_texts(con: Connection) -> None:
    """Texts that equal one number may differ; a left row keeps its unchanged partners."""
    given = "WITH (REFRESH POLICY = incremental)"
    con.execute(
        "CREATE TABLE a (k INT, d DOUBLE); CREATE TABLE m (x DOUBLE);"
        "CREATE TABLE c (k INT, e DOUBLE);"
        "INSERT INTO m VALUES (1.0); INSERT INTO c VALUES (7, 1.0);"
        f"CREATE MATERIALIZED VIEW v {given} AS "
        "SELECT a.k AS i, c.k AS j FROM (SELECT k, CAST(d AS STRING) AS s FROM a) a "
        "JOIN m ON a.s = m.x "
        "JOIN (SELECT DISTINCT k, format_number(e, 2) AS s FROM c) c ON c.s = m.x;"
        "CREATE TABLE t (k INT); CREATE TABLE u (k STRING, w INT);"
        "INSERT INTO t VALUES (1); INSERT INTO u VALUES ('1', 10), ('01', 20);"
        f"CREATE MATERIALIZED VIEW paired {given} AS "
        "SELECT t.k, w FROM t LEFT JOIN u ON t.k = u.k;"
        f"CREATE MATERIALIZED VIEW alone {given} AS SELECT k FROM t LEFT ANTI JOIN u ON t.k = u.k;"
        "INSERT INTO a VALUES (1, 1.0); DELETE FROM u WHERE w = 10"
    )
    assert con.execute("SELECT * FROM v").fetchall() == [(1, 7)]
    assert con.execute("SELECT * FROM paired").fetchall() == [(1, 20)]
    assert con.execute("SELECT * FROM alone").fetchall() == []


@pytest.mark.parametrize("groups", [10, 5_000])
def test_groups_are_changed_without_their_table(con: Connection, groups: int) -> None:
    """Groups by an expression: a change takes two jobs, even if a group ends.

    The first one finds the keys, by which few of the stored groups are read.
    """
    con.execute(
        "CREATE TABLE t (k BIGINT, v BIGINT);"
        "INSERT INTO t SELECT id, nullif(id, 7) FROM range(20000);"
        "CREATE MATERIALIZED VIEW m WITH (REFRESH POLICY = incremental) AS "
        f"SELECT k % {groups} AS d, sum(v) AS v, count(*) AS n FROM t GROUP BY k % {groups}"
    )
    query = f"SELECT k % {groups} AS d, sum(v), count(*) FROM t GROUP BY k % {groups} ORDER BY d"
    jobs = []
    for statement in (
        *(f"INSERT INTO t VALUES ({turn}, {turn}), (3, NULL), (-5, 1)" for turn in range(4)),
        "DELETE FROM t WHERE k = -5",
        "INSERT INTO t VALUES (-5, NULL)",
    ):
        con.execute(statement)
        before = jobs_started(con.spark)
        con.run(once=True)
        jobs.append(jobs_started(con.spark) - before)
        if len(jobs) > 3:
            shown = con.execute("SELECT * FROM m ORDER BY d").fetchall()
            assert shown == con.execute(query).fetchall()
    assert jobs[3:] == [2, 2, 2]


EXACT = """
CREATE TABLE t (k INT, f DOUBLE, d DECIMAL(10, 2)); CREATE TABLE one (f DOUBLE, s STRING);
INSERT INTO t VALUES (1, CAST('-0.0' AS DOUBLE), 1.00), (2, 1.5, 2.00), (3, 2.5, 3.00);
INSERT INTO one VALUES (0.0, '2')
"""
EXACT_ROUNDS = (
    "INSERT INTO t VALUES (0, 5.5, 4.00), (1, 7, 9.00), (1, 8, 1.00), (2, 0.0, 9.00)",
    "UPDATE t SET f = 0.0 WHERE k = 1 AND f = 0; UPDATE one SET f = CAST('-0.0' AS DOUBLE)",
    "UPDATE t SET f = CAST('-0.0' AS DOUBLE), d = d + 1 WHERE k = 1; "
    "INSERT INTO one VALUES (3, '02')",
)
EXACT_VIEWS = {
    "lowest": "SELECT k, f FROM t ORDER BY k, f LIMIT 3",
    "beside": "SELECT k, (SELECT min(f) FROM one) AS f FROM t WHERE k < 2",
    "means": "SELECT k, sum(d) AS s, count(*) AS n, sum(d) / count(*) AS mean FROM t GROUP BY k",
    "found": "SELECT t.k, x.q FROM one o JOIN (SELECT s AS q FROM one UNION ALL SELECT k FROM t) x "
    "ON o.s = x.q JOIN t ON t.k = x.q",
    "in_both": "SELECT s FROM one INTERSECT SELECT k FROM t",
    "maps": "SELECT k, map('a', k, 'b', CAST(NULL AS INT)) AS m FROM t ORDER BY k LIMIT 2",
}


def test_the_very_values_of_the_query(con: Connection) -> None:
    """The sign of a zero, the last digit of a quotient, and the type that two sides have."""
    con.execute(EXACT)
    for name, query in EXACT_VIEWS.items():
        con.execute(
            f"CREATE MATERIALIZED VIEW {name} WITH (REFRESH POLICY = incremental) AS {query}"
        )
    for statement in EXACT_ROUNDS:
        con.execute(statement)
        stored, computed = (
            con.execute(
                " UNION ALL ".join(
                    f"SELECT '{name}', CAST(struct(*) AS STRING) FROM {text.format(name, query)}"
                    for name, query in EXACT_VIEWS.items()
                )
            ).fetchall()
            for text in ("{0}", "({1}) AS computed")
        )
        assert sorted(stored) == sorted(computed), statement
        for name in EXACT_VIEWS:
            why = (None, "FIRST_WRITE", *["CANNOT_COMPARE"] * (name == "maps"))
            assert said(con, name).get("why") in why, (name, said(con, name))
