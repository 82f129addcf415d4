"""Which texts of a change plan this process runs, and how Spark's types come out of them."""

import re

import pytest

from ctsql.catalog.schemas import Column
from ctsql.planner.changes import Naming, TableUse
from ctsql.planner.changes.in_process.sources import InProcess, Relation, Relations
from ctsql.planner.changes.in_process.types import NotHeld, OnlySpark, type_of
from ctsql.planner.changes.nodes import Col, Step
from tests.changes.duck import planned

COLUMNS = {
    "i": "int",
    "l": "bigint",
    "c": "decimal(15,2)",
    "w": "decimal(38,10)",
    "s": "string",
    "x": "date",
    "b": "boolean",
    "f": "double",
    "m": "map<int,int>",
}
TABLES = {name: [Column(c, t) for c, t in COLUMNS.items()] for name in ("t", "big")}


def made(sql: str, *, asked: list[InProcess] | None = None) -> InProcess:
    """A query of this process, for which ``big`` is too large to be held."""

    def table(use: TableUse) -> Relation:
        if use.table == "big" and not use.keys:
            raise NotHeld(use.table)
        types = {c: type_of(t) for c, t in COLUMNS.items() if c != "m"}
        return Relation(f"{use.table}_{len(use.keys)}", types)

    def keys(query: InProcess, cols: object) -> Step:
        assert asked is not None, "no keys are wanted"
        asked.append(query)
        assert isinstance(cols, tuple)
        return Step(name=f"k{len(asked)}", columns=cols)

    def nothing(_: object) -> Relation:
        raise NotHeld("a step")

    relations = Relations(table=table, empty=table, step=nothing, state=nothing, keys=keys)
    return planned(sql, TABLES).normal(Naming(table=lambda _: "x")).in_process(relations)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("i + 1", "int"),
        ("i + l", "bigint"),
        ("c + 1", "decimal(16,2)"),
        ("c * (1 - c)", "decimal(32,4)"),
        ("c * (1 - c) * (1 + c)", "decimal(38,6)"),
        ("c / 7.0", "decimal(20,6)"),
        ("sum(c)", "decimal(25,2)"),
        ("avg(c)", "decimal(19,6)"),
        ("avg(i)", "double"),
        ("count(*)", "bigint"),
        ("CASE WHEN b THEN c ELSE 0 END", "decimal(15,2)"),
        ("coalesce(i, c)", "decimal(15,2)"),
        ("year(x)", "int"),
        ("i IN (1, NULL)", "boolean"),
    ],
)
def test_types_are_those_of_spark(expression: str, kind: str) -> None:
    """Of decimals too, where every operation has more digits than its operands."""
    (found,) = made(f"SELECT {expression} AS r FROM t").types
    assert found.spark == kind


@pytest.mark.parametrize(
    "query",
    [
        "SELECT w * w AS r FROM t",  # Spark rounds it
        "SELECT f + 1 AS r FROM t",
        "SELECT i FROM t WHERE f > 1",
        "SELECT DISTINCT f FROM t",
        "SELECT f FROM t GROUP BY f",
        "SELECT upper(s) AS r FROM t",
        "SELECT i FROM t WHERE s LIKE 'a\\\\%'",
        "SELECT i FROM t WHERE s = i",
        "SELECT m FROM t",
        "SELECT NULL AS r FROM t",
        "SELECT i, sum(i) OVER (PARTITION BY s) AS r FROM t",
        "SELECT i FROM t GROUP BY ROLLUP (i)",
        "SELECT i, r FROM t LATERAL VIEW explode(sequence(0, i)) e AS r",
        "SELECT i, r FROM t LATERAL VIEW explode(sequence(1, l)) e AS r",
        "SELECT i FROM t WHERE f IN (SELECT f FROM t)",
        "SELECT k FROM VALUES (1) AS v(k)",
    ],
)
def test_what_is_left_to_spark(query: str) -> None:
    """What DuckDB would read otherwise, or may."""
    with pytest.raises(OnlySpark):
        made(query)


def test_large_tables_are_asked_for_keys() -> None:
    """Of a join, an outer join and subqueries; one table leads to the next."""
    for query, count in (
        ("SELECT t.i FROM big JOIN t ON big.i = t.i AND t.l > 3", 1),
        ("SELECT t.i FROM big a JOIN big b ON a.l = b.l JOIN t ON t.i = a.i", 2),
        ("SELECT t.i, big.s FROM t LEFT JOIN big ON t.i = big.i", 1),
        ("SELECT t.i FROM t WHERE EXISTS (SELECT 1 FROM big WHERE big.i = t.i)", 1),
        ("SELECT t.i FROM t WHERE i IN (SELECT i FROM big WHERE l > 2)", 1),
        ("SELECT t.i FROM t WHERE c > (SELECT max(c) FROM big WHERE big.l = t.l) AND i > 0", 1),
    ):
        asked: list[InProcess] = []
        found = made(query, asked=asked)
        assert len(asked) == count, query
        assert "big_1" in found.sql
        assert "SELECT DISTINCT" in asked[0].sql


@pytest.mark.parametrize(
    ("joined", "count"),
    [
        ("t a, t b, t c WHERE a.i = c.i AND b.l = c.l", 0),
        ("t a, t b, t c WHERE a.i = c.i AND b.l < c.l", 0),
        ("t a, t b, big WHERE a.i = big.i AND b.l = big.l", 1),
        ("t a, t b, big WHERE a.i = big.i AND b.i = big.i", 1),
        ("t a, t b, big WHERE a.i = big.i AND b.w = big.i", 1),
        ("t a, t b, big, big c WHERE a.i = big.i AND b.l = c.l AND big.s = c.s", 2),
        ("t a, (SELECT x.s, y.l FROM t x, t y, big WHERE x.i = big.i AND y.s = big.s) b, big c "
         "WHERE a.i = c.i AND b.l = c.l", 2),
    ],
)  # fmt: skip
def test_what_only_another_relation_connects_is_not_multiplied(joined: str, count: int) -> None:
    """DuckDB joins as it is told: each relation is joined where it meets those before it."""
    asked: list[InProcess] = []
    found = made(f"SELECT a.i FROM {joined}", asked=asked)
    assert len(asked) == count
    assert not [one.sql for one in (found, *asked) if "CROSS" in one.sql]


def test_what_nothing_connects_is_multiplied_last() -> None:
    """When all else is joined."""
    found = made("SELECT a.i FROM t a, t b, t c, t d WHERE a.i = c.i AND c.l = d.l")
    assert found.sql.count("CROSS JOIN") == 1
    assert found.sql.rindex(" JOIN ") == found.sql.index("CROSS JOIN") + len("CROSS")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i FROM big",
        "SELECT t.i FROM big CROSS JOIN t",
        "SELECT t.i FROM big JOIN t ON big.i < t.i",
        "SELECT t.i FROM t FULL JOIN big ON t.i = big.i",
        "SELECT big.i FROM big LEFT JOIN t ON t.i = big.i",
        "SELECT i FROM t WHERE c > (SELECT max(c) FROM big)",
    ],
)
def test_large_tables_without_keys_are_for_spark(query: str) -> None:
    """Nothing says which rows are wanted."""
    with pytest.raises(NotHeld):
        made(query, asked=[])


def test_columns_are_called_as_wanted() -> None:
    """A result's columns have the names of the view."""
    found = made('SELECT i AS `odd "name`, l FROM t')
    assert found.sql.startswith("SELECT __ct_")
    assert 'AS "odd ""name"' in found.sql
    assert isinstance(planned("SELECT i FROM t", TABLES).query.columns[0], Col)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("b = b > b", "((B = B) > B)"),
        ("b = b IN (true)", "((B = B) IN (true))"),
        ("b = b BETWEEN false AND b", "((B = B) >= false AND (B = B) <= B)"),
        ("NOT b = b > b", "(NOT ((B = B) > B))"),
        ("b BETWEEN false AND b = b", "(B >= false AND B <= (B = B))"),
    ],
)
def test_operators_bind_as_in_spark(condition: str, text: str) -> None:
    """sqlglot, which reads the expression here, has another precedence of its own."""
    found = made(f"SELECT {condition} AS r FROM t").sql
    assert text in re.sub(r"__ct_\d+", "B", found)
