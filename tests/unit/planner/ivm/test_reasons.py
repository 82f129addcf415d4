"""What has no change plan says why, and where in the text; every code is reached."""

import pytest

from ctsql.catalog.errors import Declined
from ctsql.catalog.schemas import Column
from ctsql.planner.ivm import change_plan
from ctsql.planner.ivm.algebra.reasons import NOTES, REFUSALS
from tests.differential.plans_on_duckdb import planned

TABLES = {
    "t": (Column("k", "int"), Column("v", "int"), Column("s", "string"), Column("f", "double")),
    "u": (Column("k", "int"), Column("w", "int")),
    "m": (Column("k", "int"), Column("a", "map<string,int>"), Column("b", "array<map<int,int>>")),
}

CASES = [
    ("AMBIGUOUS_COLUMN", "SELECT k FROM t, u", "k"),
    ("AMBIGUOUS_COLUMN", "SELECT sum(v) AS k FROM t GROUP BY k HAVING k > 1", "k"),
    ("CLAUSE_UNSUPPORTED", "SELECT k FROM t PIVOT (sum(v) FOR s IN ('a'))", "PIVOT"),
    ("CLAUSE_UNSUPPORTED", "SELECT k FROM t UNION BY NAME SELECT k FROM u", "UNION"),
    ("CLAUSE_UNSUPPORTED", "SELECT k FROM t SORT BY k", None),
    ("CLOCK_ABOVE_TABLE", "SELECT k FROM t GROUP BY k HAVING max(s) > current_date()", None),
    ("CLOCK_READ", "SELECT k FROM t WHERE s > current_date() OR k = 1", "current_date"),
    ("CLOCK_READ", "SELECT k, current_timestamp AS c FROM t", "current_timestamp"),
    ("FLOAT_AGGREGATE_NESTED", "SELECT max(n) FROM (SELECT sum(f) AS n FROM t GROUP BY k)", None),
    ("FLOAT_AGGREGATE_NESTED", "SELECT sum(f) FROM t", "sum(f)"),
    ("FLOAT_AGGREGATE_NESTED", "SELECT sum(f) AS n FROM t GROUP BY k", "sum(f)"),
    # Spark adds texts up as doubles.
    ("FLOAT_AGGREGATE_NESTED", "SELECT max(n) FROM (SELECT sum(s) AS n FROM t GROUP BY k)", None),
    (
        "FLOAT_AGGREGATE_NESTED",
        "SELECT n, count(*) FROM (SELECT avg(get_json_object(s, '$.p')) AS n FROM t GROUP BY k) "
        "GROUP BY n",
        None,
    ),
    (
        "FLOAT_AGGREGATE_NESTED",
        "SELECT n, count(*) FROM (SELECT sum(from_json(s, 'p DOUBLE').p) AS n FROM t GROUP BY k) "
        "GROUP BY n",
        None,
    ),
    (
        "COLLATED_TEXTS",
        "SELECT ascii(s), count(*) FROM (SELECT DISTINCT s COLLATE UTF8_LCASE AS s FROM t) "
        "GROUP BY ascii(s)",
        None,
    ),
    (
        "COLLATED_TEXTS",
        "SELECT ascii(c), count(*) FROM (SELECT max(s COLLATE UTF8_LCASE) AS c FROM t "
        "GROUP BY k) GROUP BY ascii(c)",
        None,
    ),
    (
        "COLLATED_TEXTS",
        "SELECT ascii(s) FROM (SELECT s COLLATE UTF8_LCASE AS s FROM t EXCEPT SELECT s FROM t)",
        None,
    ),
    (
        "COLLATED_TEXTS",
        "SELECT ascii(s), count(*) FROM (SELECT s FROM VALUES ('a' COLLATE UTF8_LCASE) AS c(s) "
        "GROUP BY s) GROUP BY ascii(s)",
        None,
    ),
    ("FUNCTION_UNKNOWN", "SELECT k, my_own(v) FROM t", "my_own"),
    ("GENERATOR_PLACE", "SELECT explode(array(k)) FROM t", "explode"),
    ("GROUPED_BY_MAP", "SELECT a, count(*) FROM m GROUP BY a", "a"),
    ("GROUPED_BY_MAP", "SELECT k, x, max(k) FROM (SELECT k, b AS x FROM m) GROUP BY 1, 2", None),
    ("GROUPED_BY_MAP", "SELECT a, count(*) FROM m GROUP BY CUBE (k, a)", "a"),
    ("GROUPING_UNSUPPORTED", "SELECT count(*) FROM t GROUP BY 1", "1"),
    ("INEXACT_AGGREGATE_NESTED", "SELECT DISTINCT any_value(s) FROM t GROUP BY k", "any_value(s)"),
    ("KEY_NOT_MATCHED", "SELECT k, v, count(*) FROM t GROUP BY k", "v"),
    ("LIMIT_WITHOUT_ORDER", "SELECT k FROM t LIMIT 5", "5"),
    ("LIMIT_WITHOUT_ORDER", "SELECT k FROM t ORDER BY 'a' LIMIT 5", "5"),
    ("LIMIT_WITHOUT_ORDER", "SELECT count(*) AS n FROM t LIMIT 0", "0"),
    ("LIMIT_WITHOUT_ORDER", "SELECT count(*) AS n FROM t LIMIT 1 - 1", "1"),
    ("LIMIT_WITHOUT_ORDER", "SELECT count(*) AS n FROM t LIMIT 1 OFFSET 1", "1"),
    ("LIMIT_TIES", "SELECT k FROM t ORDER BY v LIMIT 5", "5"),
    ("LIMIT_TIES", "SELECT k FROM t ORDER BY k + v LIMIT 5", "5"),
    (
        "LIMIT_TIES",
        "SELECT count(*) FROM (SELECT k, s FROM t ORDER BY k LIMIT 5) WHERE s > 'a'",
        "5",
    ),
    ("NONDETERMINISTIC", "SELECT k, rand() AS r FROM t", "rand"),
    ("NONDETERMINISTIC", "SELECT k, current_user() AS r FROM t", "current_user"),
    (
        "RECURSIVE_QUERY",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) "
        "SELECT n FROM r",
        "RECURSIVE",
    ),
    ("RELATION_UNKNOWN", "SELECT k FROM nowhere", "nowhere"),
    (
        "ROW_ORDER_TIES",
        "SELECT sum(r) FROM (SELECT s, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM t) "
        "WHERE s = 'a'",
        "row_number()",
    ),
    (
        "ROW_ORDER_TIES",  # no ORDER BY at all
        "SELECT n, count(*) FROM (SELECT sum(v) OVER (PARTITION BY k ROWS 1 PRECEDING) AS n "
        "FROM t) GROUP BY n",
        "sum(v)",
    ),
    ("SAMPLE", "SELECT k FROM t TABLESAMPLE (5 ROWS)", "TABLESAMPLE"),
    ("SUBQUERY_PLACE", "SELECT t.k FROM t JOIN u ON t.k = u.k AND t.v IN (SELECT w FROM u)", None),
    ("SUBQUERY_PLACE", "SELECT col FROM explode(array((SELECT max(v) FROM t)))", None),
    ("SUBQUERY_PLACE", "SELECT id FROM range((SELECT max(v) FROM t))", None),
    ("SUBQUERY_PLACE", "SELECT * FROM VALUES ((SELECT max(v) FROM t)) AS c(x)", None),
    ("SUBQUERY_PLACE", "SELECT sum(v + (SELECT max(w) FROM u)) FROM t GROUP BY k", None),
    ("TEXT_NOT_READ", "SELECT k FROM t GROUP BY window(s, '5 minutes')", None),
    ("UNKNOWN_COLUMN", "SELECT nothing FROM t", "nothing"),
]


@pytest.mark.parametrize(
    ("code", "sql", "place"), CASES, ids=[f"{c}-{i}" for i, (c, _, _) in enumerate(CASES)]
)
def test_refusal(code: str, sql: str, place: str | None) -> None:
    """The code is the one expected, and the span is the piece to blame."""
    plan = change_plan(sql, TABLES)
    assert isinstance(plan, Declined)
    assert plan.reason == code
    if place is not None:
        assert plan.span is not None
        assert plan.span.text.startswith(place)
    assert REFUSALS[code]


def test_a_condition_may_have_a_collation() -> None:
    """What is compared is not shown, so nothing is arbitrary."""
    sql = "SELECT k, count(*) FROM t WHERE s COLLATE UTF8_LCASE = 'a' GROUP BY k"
    assert planned(sql, TABLES).inexact is None


def test_every_refusal_is_reached() -> None:
    """A code that nothing gives would be a promise of nothing."""
    assert {code for code, _, _ in CASES} == set(REFUSALS)


NOTED = {
    "ALL_LEFT_ROWS": "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.w > t.v)",
    "GLOBAL_AGGREGATE": "SELECT max(v) FROM t",
    "LIMIT_FROM_ALL_ROWS": "SELECT k FROM t ORDER BY k LIMIT 3",
    "WINDOW_WITHOUT_PARTITION": "SELECT k, rank() OVER (ORDER BY v) FROM t",
}


@pytest.mark.parametrize("code", NOTES)
def test_note(code: str) -> None:
    """A part that reads whole tables is named in the plan."""
    plan = planned(NOTED[code], TABLES)
    notes = [a.note.reason for a in plan.rules().values() if a.note is not None]
    assert notes == [code]
