"""Stored groups beside a view: which views keep them, and what they make of random changes."""

import random

import pytest

from ctsql.catalog.errors import Declined
from ctsql.catalog.schemas import Column
from ctsql.planner.ivm import change_plan
from ctsql.planner.ivm.explain import explain
from tests.differential.plans_on_duckdb import Duck, View, connect_plainly, planned

TABLES = {
    "t": (
        Column("k", "int"),
        Column("v", "int"),
        Column("d", "decimal(12, 2)"),
        Column("b", "bigint"),
        Column("f", "double"),
    ),
    "u": (Column("k", "int"), Column("w", "smallint")),
}
GROUPED = {
    "sum": "SELECT k, sum(v) AS s FROM t GROUP BY k",
    "values only": "SELECT k, count(v) AS n FROM t GROUP BY k",
    "all counts shown": "SELECT k, sum(v) AS s, count(v) AS m, count(*) AS n FROM t GROUP BY k",
    "rows counted": "SELECT k, count(*) AS n FROM t GROUP BY k",
    "average": "SELECT k, avg(v) AS a FROM t GROUP BY k",
    "two averages": "SELECT k, avg(v) AS a, mean(b) AS m, sum(d) AS s FROM t GROUP BY k",
    "average that is shown in part": "SELECT k, avg(v) AS a, count(*) AS n FROM t GROUP BY k",
    "key not shown": "SELECT sum(v) AS s, count(*) AS n FROM t GROUP BY k",
    "key shown otherwise": "SELECT k + 1 AS k, count(*) AS n FROM t GROUP BY t.k",
    "one group": "SELECT count(*) AS n, sum(d) AS s, avg(v) AS a FROM t",
    "having": "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING count(*) > 2 AND sum(v) < 9",
    "sum not shown": "SELECT k FROM t GROUP BY k HAVING sum(v) > 3",
    "over an outer join": "SELECT u.k, avg(v) AS a, count(w) AS n FROM u LEFT JOIN t ON u.k = t.k "
    "GROUP BY u.k",
    "two keys, nothing counted": "SELECT k % 2 AS p, b, sum(v) AS n FROM t GROUP BY p, b",
    "over a join": "SELECT t.k, sum(w * 2) AS n, count(*) AS m FROM t JOIN u ON t.k = u.k "
    "GROUP BY t.k",
    "under a projection": "SELECT n + 1 AS more, k, n, s FROM "
    "(SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k)",
    "quotient": "SELECT k, sum(v) / count(v) AS q FROM t GROUP BY k HAVING count(v) > 0",
}
LIMITED = {
    "first sums": "SELECT k, sum(v) AS s FROM t GROUP BY k ORDER BY s DESC, k LIMIT 2",
    "first of those with many": "SELECT k, count(*) AS n, avg(v) AS a FROM t GROUP BY k "
    "HAVING count(*) > 1 ORDER BY n, a NULLS LAST, k DESC NULLS FIRST LIMIT 3",
    "first of a join": "SELECT t.k, sum(w) AS s, count(*) AS n FROM t JOIN u ON t.k = u.k "
    "GROUP BY t.k ORDER BY s DESC NULLS LAST, n, k LIMIT 1",
    "one row of one group": "SELECT count(*) AS n, sum(v) AS s FROM t ORDER BY n, s LIMIT 1",
}
GROUPS = "WITH g AS (SELECT k, sum(v) AS s FROM t GROUP BY k) "
COMPARED = {
    "largest": GROUPS + "SELECT k, s FROM g WHERE s = (SELECT max(s) FROM g)",
    "shares": GROUPS + "SELECT k, s, (SELECT sum(s) FROM g) AS total FROM g",
    "in a join": GROUPS + "SELECT u.w, g.s FROM u JOIN g ON u.k = g.k "
    "WHERE s >= (SELECT min(s) FROM g WHERE s > 0)",
    "counted": GROUPS + "SELECT count(*) AS n FROM g WHERE s < (SELECT max(s) FROM g)",
    "by one of several sums": "WITH g AS (SELECT k, sum(v) AS s, avg(v) AS a, count(*) AS n FROM t "
    "GROUP BY k) SELECT DISTINCT s FROM g WHERE n >= (SELECT avg(n) FROM g)",
    "by another sum": "WITH g AS (SELECT k, sum(v) AS s, avg(v) AS a FROM t GROUP BY k) "
    "SELECT k, s FROM g WHERE s > (SELECT min(a) FROM g)",
    "written twice": "SELECT k FROM (SELECT k, count(*) AS n FROM t GROUP BY k) WHERE n > "
    "(SELECT avg(n) FROM (SELECT t.k, count(*) AS n FROM t GROUP BY t.k) AS g)",
    "only in subqueries": GROUPS + "SELECT (SELECT max(s) FROM g) - (SELECT min(s) FROM g) AS d",
    "one group compared": "WITH g AS (SELECT count(*) AS n FROM t) SELECT u.k FROM u CROSS JOIN g "
    "WHERE u.w < (SELECT n FROM g)",
}
KEPT = GROUPED | LIMITED | COMPARED
NONE = {
    "sum of doubles": "SELECT k, sum(f) AS s FROM t GROUP BY k",
    "average of doubles": "SELECT k, avg(f) AS s FROM t GROUP BY k",
    "average of an expression": "SELECT k, avg(v + 1) AS s FROM t GROUP BY k",
    "maximum": "SELECT k, avg(v) AS a, max(v) AS m FROM t GROUP BY k",
    "sets": "SELECT k, avg(v) AS a FROM t GROUP BY ROLLUP (k)",
    "below a join": "SELECT u.w, a FROM u JOIN (SELECT k, avg(v) AS a FROM t GROUP BY k) x "
    "ON u.k = x.k",
    "no groups": "SELECT k, v FROM t",
    "compared by their keys": GROUPS + "SELECT a.k, a.s FROM g a JOIN g b ON a.k = b.k + 1",
    "compared, and their table read again": GROUPS + "SELECT t.v FROM t JOIN g ON t.k = g.k "
    "WHERE g.s = (SELECT max(s) FROM g)",
    "compared with other groups": GROUPS + "SELECT u.k FROM u JOIN g ON u.k = g.k "
    "WHERE s > (SELECT max(s) FROM (SELECT v, sum(v) AS s FROM t GROUP BY v))",
}
SEEDS = 3
ROUNDS = 5


@pytest.mark.parametrize("name", [*KEPT, *NONE])
def test_which_views_keep_a_state_table(name: str) -> None:
    """Those with exact counts and sums at the top, or compared; EXPLAIN says so."""
    plan = planned((KEPT | NONE)[name], TABLES)
    assert (plan.kept_state is not None) is (name in KEPT)
    assert ("state table" in explain(plan, lambda note: note.reason, "change")) is (name in KEPT)


def test_the_size_of_what_is_averaged_is_kept() -> None:
    """Of integers |x| is summed too, as Spark's average of them is exact up to a bound."""
    for sql, bounded in (
        ("SELECT k, avg(b) AS a, sum(b) AS s FROM t GROUP BY k", ("s2",)),
        ("SELECT k, avg(d) AS a FROM t GROUP BY k", ()),
        ("SELECT avg(v) AS a, avg(b) AS b FROM t", ("s3", "s4")),
    ):
        kept = planned(sql, TABLES).kept_state
        assert kept is not None
        assert kept.bounded_columns == bounded
        assert set(bounded) <= set(kept.columns)


def _value(seed: random.Random, *values: object) -> str:
    return str(seed.choice([*values, "NULL"]))


def _row(seed: random.Random, table: str) -> str:
    if table == "u":
        return f"({_value(seed, 1, 2, 3)}, {_value(seed, 1, 5)})"
    big = 3_000_000_000_000
    return (
        f"({_value(seed, 1, 2, 3)}, {_value(seed, -4, 0, 2, 7)}, {_value(seed, -1.25, 0.01, 7)}, "
        f"{_value(seed, big, -big, 1)}, 0)"
    )


def _change(duck: Duck, seed: random.Random, number: int) -> list[str]:
    """Inserts, updates and deletes; in one round everything goes, and then some comes back."""
    run = duck.connection.execute
    for table in TABLES:
        duck.begin(table)
        for _ in range(seed.randrange(4)):
            run(f"INSERT INTO {table} VALUES {_row(seed, table)}")
        column = "v" if table == "t" else "w"
        run(f"UPDATE {table} SET {column} = {_value(seed, 1, 2)} WHERE rowid % 5 = {number}")
        where = "true" if number == 3 else f"k = {seed.randrange(4)} AND {column} IS NOT NULL"
        run(f"DELETE FROM {table} WHERE {where}")
    return [table for table in TABLES if duck.finish(table)]


@pytest.mark.parametrize("name", KEPT)
def test_random_changes(name: str) -> None:
    """Groups of NULL, groups that go and come back, sums whose last value goes."""
    sql = KEPT[name]
    for number in range(SEEDS):
        seed = random.Random(number)
        duck = Duck(connect_plainly(), TABLES)
        duck.connection.execute(
            "CREATE TABLE t (k INT, v INT, d DECIMAL(12, 2), b BIGINT, f DOUBLE);"
            "CREATE TABLE u (k INT, w SMALLINT)"
        )
        for table in TABLES:
            for _ in range(8):
                duck.connection.execute(f"INSERT INTO {table} VALUES {_row(seed, table)}")
        plan = change_plan(sql, TABLES)
        assert not isinstance(plan, Declined)
        view = View(duck, sql, plan)
        view.keep_state()
        for turn in range(ROUNDS):
            changed = _change(duck, seed, turn)
            wanted = duck.current(sql)
            assert view.refresh(changed) == wanted, (number, turn)
            view.stored = wanted
        duck.connection.close()
