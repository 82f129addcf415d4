"""Where rows come from equals brute force, for every operator of the change plans."""

import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings, strategies

from ctsql.catalog.errors import Declined
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.catalog.schemas import Column
from ctsql.planner.ivm import change_plan, name_by
from ctsql.planner.ivm.lineage import WANTED, lineage, wanted_columns, whole_query
from ctsql.planner.ivm.sql.queries import Text
from tests.differential.lineage_by_hand import ByHand, UnsupportedQuery
from tests.differential.plans_on_duckdb import connect_plainly, frozen, translated
from tests.differential.random_sql import TABLES, Maker
from tests.unit.planner.ivm.rules import test_constructs as constructs

pytestmark = pytest.mark.thorough

Tables = Mapping[str, Sequence[Column]]
NAMES = name_by(lambda use: use.table)
UNTOLD = ("scalar",)
"""Constructs of which no rows are named."""


def _filled(
    seed: random.Random, tables: Tables, count: int
) -> tuple[duckdb.DuckDBPyConnection, dict[str, list[dict[str, Any]]]]:
    """Tables with some rows, in a database where they are located, and in memory."""
    connection = connect_plainly()
    held: dict[str, list[dict[str, Any]]] = {}
    for table, columns in tables.items():
        listed = ", ".join(f'"{c.name}" {c.type.replace("string", "varchar")}' for c in columns)
        connection.execute(f"CREATE TABLE {table}_plain ({listed})")
        rows = ["(" + ", ".join(_value(seed, c.type) for c in columns) + ")" for _ in range(count)]
        connection.execute(f"INSERT INTO {table}_plain VALUES {', '.join(rows)}")
        found = connection.execute(f"FROM {table}_plain").fetchall()
        held[table] = [dict(zip((c.name for c in columns), r, strict=True)) for r in found]
        connection.execute(
            f"CREATE TABLE {table} AS SELECT *, '{table}' AS {FILE_COLUMN},"
            f" rowid AS {ROW_COLUMN} FROM {table}_plain"
        )
    return connection, held


def _value(seed: random.Random, kind: str) -> str:
    if seed.random() < 0.2:
        return "NULL"
    return seed.choice(["'xa'", "'xb'", "'y'"]) if kind == "string" else str(seed.randrange(4))


def _told(row: Sequence[Any]) -> str:
    return repr(frozen([float(v) if isinstance(v, Decimal) else v for v in row]))


def check(number: int, sql: str, tables: Tables, count: int = 6) -> int:
    """One query over random tables; returns how many places were compared."""
    plan = change_plan(sql, tables)
    if isinstance(plan, Declined):
        return 0
    return compare(number, sql, plan.normal(), tables, count)


def compare(number: int, sql: str, whole: Text, tables: Tables, count: int = 6) -> int:
    """A query as it was read, over random tables; returns how many places were compared."""
    connection, held = _filled(random.Random(number), tables, count)
    query, printed = whole.node, translated(whole.sql(NAMES))
    try:
        made = ByHand(connection, held).rows(query, {})
    except UnsupportedQuery:
        return 0
    ran = sorted(map(_told, connection.execute(printed).fetchall()))
    assert sorted(_told([r[c] for c in query.columns]) for r, _ in made) == ran, "the oracle errs"
    found = lineage(query)
    untold = {c.table for c in found.contributions if c.rows is None}
    places = [query.columns[i] for i in found.compared_columns]
    keys = sorted({tuple(r[c] for c in places) for r, _ in made}, key=repr)
    _make_step(connection, printed, found.compared_columns)
    compared = 0
    for wanted in [keys[i : i + n] for n in (1, 2) for i in range(0, len(keys), 2)][:8]:
        connection.execute(f"DELETE FROM {WANTED}")
        for key in wanted:
            marks = ", ".join("?" for _ in key) or "1"
            connection.execute(f"INSERT INTO {WANTED} VALUES ({marks})", list(key))
        of = [where for row, where in made if tuple(row[c] for c in places) in wanted]
        expected = {(scan.table, n) for where in of for scan, n in where}
        got: set[tuple[str, int]] = set()
        for one in found.contributions:
            if one.rows is not None:
                listed = connection.execute(translated(one.rows.sql(NAMES))).fetchall()
                assert len(set(listed)) == len(listed), "each once"
                got |= {(table, n) for table, n in listed}
                compared += 1
        wrong = {place for place in got ^ expected if place[0] not in untold}
        assert not wrong, f"{sql}\nwanted {wanted}\nfound {got}\nby hand {expected}"
    connection.close()
    return compared


def _make_step(connection: duckdb.DuckDBPyConnection, sql: str, columns: Sequence[int]) -> None:
    """An empty step of wanted rows, with the types of the query's columns."""
    description = connection.execute(f"SELECT * FROM ({sql}) LIMIT 0").description
    assert description is not None
    names = [c.sql for c in wanted_columns(len(columns))]
    listed = [f"#{i + 1} AS {name}" for i, name in zip(columns, names, strict=True)]
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {WANTED} AS SELECT {', '.join(listed) or '1 AS one'}"
        f" FROM ({sql}) WHERE false"
    )


@pytest.mark.parametrize("name", list(constructs.CASES))
def test_every_construct(name: str) -> None:
    """Each construct that has a change rule, over several tables; few cannot be told."""
    compared = 0
    for number in range(3):
        try:
            compared += check(number, constructs.CASES[name][0], constructs.TABLES)
        except duckdb.NotImplementedException:
            pytest.skip("DuckDB does not run it")
    assert (compared > 0) is (name not in UNTOLD)


ASKING = {
    ("JOIN", "RIGHT JOIN", "LEFT SEMI JOIN"): (
        "p.n IN (SELECT w FROM b)",
        "EXISTS (SELECT 1 FROM b WHERE b.k = p.k)",
        "p.k NOT IN (SELECT x FROM c WHERE x IS NOT NULL)",
        "(p.n = 2 OR EXISTS (SELECT 1 FROM c WHERE c.x = p.n AND c.k IS NOT NULL))",
    ),
    ("JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"): (
        "EXISTS (SELECT 1 FROM c WHERE c.x = q.n)",
        "NOT EXISTS (SELECT 1 FROM b WHERE b.k = q.k AND b.w > 1)",
        "q.n >= (SELECT min(w) FROM b)",
        "q.n = (SELECT max(x) FROM c WHERE c.k = q.k)",
    ),
}
"""In joins in which DuckDB runs them; for the others, tests/spark/statements/test_why.py does."""
PAIRS = [
    pytest.param(join, asking, marks=[] if (i + j) % len(joins) < 2 else pytest.mark.slow)
    for joins, every in ASKING.items()
    for i, asking in enumerate(every)
    for j, join in enumerate(joins)
]


@pytest.mark.parametrize(("join", "asking"), PAIRS)
def test_subqueries_in_the_condition_of_a_join(join: str, asking: str) -> None:
    """What they found for the pairs of rows that the join lets through contributes.

    Each subquery in two joins, and each join with several; the slow lane has every pair.
    """
    shown = "p.k, p.n" if join in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else "p.k, q.n"
    sql = (
        f"SELECT {shown} FROM (SELECT k, v AS n FROM a) p {join} (SELECT k, w AS n FROM b) q"
        f" ON p.k = q.k AND {asking}"
    )
    whole = whole_query(sql, TABLES)
    assert isinstance(whole, Text), whole
    assert sum(compare(number, sql, whole, TABLES) for number in range(4)) > 0
    grouped = f"SELECT k, count(*) AS m FROM ({sql}) GROUP BY k"
    whole = whole_query(grouped, TABLES)
    assert isinstance(whole, Text), whole
    assert sum(compare(number, grouped, whole, TABLES) for number in range(2)) > 0


@settings(max_examples=40, deadline=None)
@given(strategies.integers(0, 100_000))
def test_random_queries(number: int) -> None:
    """Whatever is nested in what."""
    sql = Maker(number).statement()
    if "JOIN LATERAL" in sql and "LIMIT" in sql:
        return  # DuckDB chooses the first rows below LATERAL anew for each row around it
    try:
        check(number, sql, TABLES, 5)
    except duckdb.NotImplementedException:
        return  # nothing to compare with
