"""Comparisons with the clock: which are taken, and of which table's rows they make a window."""

import pytest

from ctsql.catalog.errors import Declined
from ctsql.catalog.schemas import Column
from ctsql.planner.ivm import NEVER, TemporalPlan, change_plan, temporal_plan
from tests.differential.plans_on_duckdb import planned

TABLES = {
    "t": (Column("k", "int"), Column("at", "timestamp"), Column("until", "timestamp")),
    "u": (Column("k", "int"), Column("d", "date")),
}

WINDOWS = [
    ("SELECT k FROM t WHERE at > now() - INTERVAL 1 DAY", ["`at` > now() - INTERVAL 1 DAY"]),
    ("SELECT k FROM t WHERE (now() < until) AND k = 1", ["now() < `until`"]),
    (
        "SELECT t.k FROM t JOIN u ON t.k = u.k WHERE current_date = d AND now() >= at AND u.k > 1",
        ["now() >= `at`", "current_date() = `d`"],
    ),
    (
        "SELECT k FROM t AS a WHERE k IN (SELECT k FROM u WHERE d < current_date())",
        ["`d` < current_date()"],
    ),
    (
        "WITH c AS (SELECT k, at AS x FROM t WHERE k > 1) SELECT * FROM c WHERE x > now()",
        ["`at` > now()"],
    ),
    (
        "SELECT k FROM (SELECT k, CAST(at AS DATE) AS d FROM t) WHERE d >= current_date() - 7",
        ["(CAST(`at` AS DATE)) >= current_date() - 7"],
    ),
    (
        "SELECT t.k FROM t LEFT JOIN u ON t.k = u.k WHERE now() BETWEEN at AND until",
        ["now() BETWEEN `at` AND `until`"],
    ),
    (
        "SELECT k FROM t WHERE at > now() UNION ALL SELECT k FROM t WHERE at > now()",
        ["`at` > now()"],
    ),
    # A window with one filter does not tell when rows expire that pass another one.
    (
        "SELECT k FROM t WHERE at > now() AND k = 1 "
        "UNION ALL SELECT k FROM t WHERE at > now() AND k = 2",
        ["`at` > now()"] * 2,
    ),
    # One window narrows another one, which is read by itself as well.
    (
        "WITH c AS (SELECT k, at FROM t WHERE until > now()) "
        "SELECT * FROM c UNION ALL SELECT * FROM c WHERE at < now()",
        ["`until` > now()", "`until` > now() AND `at` < now()"],
    ),
]


@pytest.mark.parametrize(("sql", "comparisons"), WINDOWS)
def test_windows(sql: str, comparisons: list[str]) -> None:
    """Comparisons of one table's columns become a window of it, equal ones one window."""
    plan = planned(sql, TABLES)
    assert [w.comparisons for w in plan.windows.values()] == comparisons
    assert set(plan.windows) <= set(plan.reads)


FILTERED = [
    ("SELECT k FROM t WHERE at > now()", "true"),
    ("SELECT k FROM t WHERE at > now() AND k > 1", "coalesce((`k` > 1), false)"),
    (
        "WITH c AS (SELECT k + 1 AS x, at FROM t WHERE k < 3 OR k = 5) "
        "SELECT x FROM c WHERE at > now() AND x > 2",
        "coalesce((`k` < 3 OR `k` = 5), false) AND coalesce(((`k` + 1) > 2), false)",
    ),
    ("SELECT t.k FROM t JOIN u ON t.k = u.k WHERE t.at > now() AND u.d IS NULL", "true"),
    (
        "SELECT k FROM t WHERE at > now() AND k IN (SELECT k FROM u WHERE d > DATE '2026-01-01')",
        "true",
    ),
    (
        "SELECT k, count(*) FROM t WHERE k > 1 AND at > now() GROUP BY k HAVING count(*) > 1",
        "coalesce((`k` > 1), false)",
    ),
]


@pytest.mark.parametrize(("sql", "matters"), FILTERED)
def test_rows_whose_expiries_matter(sql: str, matters: str) -> None:
    """What a query asks of a row beside the clock says whether its expiries are worth knowing."""
    plan = planned(sql, TABLES)
    (window,) = plan.windows.values()
    assert window.matters == matters


ONE_ABOVE_ANOTHER = [
    (
        "SELECT k FROM (SELECT * FROM t WHERE until > now() AND k > 1) WHERE at <= now() AND k < 9",
        "`until` > now() AND `at` <= now()",
        "coalesce((`k` > 1), false) AND coalesce((`k` < 9), false)",
    ),
    (
        "SELECT t.k FROM (SELECT * FROM t WHERE until > now()) t JOIN u ON t.k = u.k "
        "WHERE at + INTERVAL 1 HOUR < now()",
        "`until` > now() AND `at` + INTERVAL 1 HOUR < now()",
        "true",
    ),
]


@pytest.mark.parametrize(("sql", "told", "matters"), ONE_ABOVE_ANOTHER)
def test_a_window_of_a_window_is_one_of_the_table(sql: str, told: str, matters: str) -> None:
    """Comparisons one above another make one window, which follows the table itself."""
    plan = planned(sql, TABLES)
    (window,) = plan.windows.values()
    assert (window.table, window.comparisons, window.matters) == ("t", told, matters)
    assert set(window.columns) == {"at", "until"}
    assert len(window.expiries) == 2
    assert set(plan.windows) <= set(plan.reads)


def test_never() -> None:
    """A row without a comparison that ends its interval stays, one without a first is there."""
    plan = planned("SELECT k FROM t WHERE at <= now()", TABLES)
    enters, leaves = next(iter(plan.windows.values())).interval
    assert f"array({NEVER})" in leaves
    assert "`at`" in enters


ABOVE = [
    "SELECT t.k FROM t JOIN u ON t.k = u.k WHERE greatest(at, d) > now()",
    "SELECT k FROM t GROUP BY k HAVING max(at) > now() - INTERVAL '1:30' HOUR TO MINUTE",
    "SELECT t.k FROM u LEFT JOIN t ON t.k = u.k WHERE t.at > now()",
    "SELECT k FROM t QUALIFY max(at) OVER (PARTITION BY k) < now()",
]


@pytest.mark.parametrize("sql", ABOVE)
def test_above_tables(sql: str) -> None:
    """What several rows or tables decide is recomputed, and its next expiry is known."""
    plan = change_plan(sql, TABLES)
    assert isinstance(plan, Declined)
    assert plan.reason == "CLOCK_ABOVE_TABLE"
    found = temporal_plan(sql, TABLES)
    assert isinstance(found, TemporalPlan)
    assert len(found.next_expiries(5)) == 1


REFUSED = [
    "SELECT k, at < now() AS past FROM t",
    "SELECT k FROM t WHERE NOT (at > now())",
    "SELECT k FROM t WHERE at > now() OR until > now()",
    "SELECT k FROM t WHERE at <> current_date()",
    "SELECT k FROM t WHERE at > now() - make_interval(0, 1)",
    "SELECT k FROM t WHERE at > now() - INTERVAL '1-2' YEAR TO MONTH",
    "SELECT k FROM t WHERE at > now() - INTERVAL 1 MONTH",
    "SELECT k FROM t WHERE at > now() - INTERVAL '2 months'",
    "SELECT k FROM t WHERE at > now() - INTERVAL 1 year",
    "SELECT k FROM t WHERE at > now() - INTERVAL 1 quarter",
    "SELECT k FROM t WHERE at > now() - (until - at)",
    "SELECT k FROM t WHERE now() - at < INTERVAL 1 DAY",
    "SELECT k FROM t WHERE now() < current_timestamp()",
    "SELECT t.k FROM t JOIN u ON t.k = u.k AND t.at > now()",
    "SELECT k FROM t WHERE at > (SELECT now())",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t.at > now())",
    "SELECT now() AS n FROM t",
    "SELECT k FROM t WHERE at NOT BETWEEN current_date AND now()",
    "SELECT k FROM t WHERE at > now() - INTERVAL 1 DAY * k",
    "SELECT k FROM t WHERE now() > TIMESTAMP '2026-01-01'",
    "SELECT k FROM t WHERE unix_timestamp() > k",
    "SELECT t.k FROM t LEFT JOIN t AS u ON t.k = u.k AND u.at > now()",
    "SELECT count(*) AS n FROM t GROUP BY at > now()",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_refused(sql: str) -> None:
    """What may expire more than once, or at a T that cannot be known."""
    found = temporal_plan(sql, TABLES)
    assert isinstance(found, Declined)
    assert found.reason == "CLOCK_READ"
