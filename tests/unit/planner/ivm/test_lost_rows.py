"""WHY NOT: the operator at which a row was lost, on small tables by DuckDB."""

import pytest

from ctsql.catalog.schemas import Column
from ctsql.planner.ivm import name_by
from ctsql.planner.ivm.algebra.reasons import Reason
from ctsql.planner.ivm.lost_rows import Search, Verdict, search
from tests.differential.plans_on_duckdb import connect_plainly, translated

T = (Column("k", "int"), Column("v", "int"), Column("s", "string"))
U = (Column("k", "int"), Column("w", "int"))
ROWS = {
    "t": "(1, 10, 'a'), (1, 20, 'b'), (2, 5, 'a'), (3, 0, NULL), (NULL, 7, 'c')",
    "u": "(1, 1), (2, NULL), (5, 5)",
}
LOST, OTHER, NEVER, PASSES = (
    Verdict.LOST,
    Verdict.OTHER_VALUES,
    Verdict.NEVER_THERE,
    Verdict.PASSES,
)

CASES = [
    ("SELECT k, v FROM t WHERE v > 6", "k = 2", [("Filter v > 6", LOST)]),
    ("SELECT k, v FROM t WHERE v > 6", "k = 1 AND v = 5", [("Scan t", NEVER)]),
    ("SELECT k, v FROM t WHERE v > 6", "k = 9", [("Scan t", NEVER)]),
    ("SELECT k, v FROM t WHERE v > 6", "k = 1", []),
    ("SELECT k + 1 AS n FROM t WHERE v > 6", "n = 3", [("Filter v > 6", OTHER)]),
    ("SELECT 7 / v AS n FROM t WHERE v > 0", "n = 3", [("Filter v > 0", OTHER)]),
    ("SELECT t.k, w FROM t JOIN u ON t.k = u.k", "k = 3", [("Scan u", NEVER)]),
    ("SELECT t.k, w FROM t JOIN u ON t.k = u.k", "k = 5", [("Scan t", NEVER)]),
    (
        "SELECT t.k, w FROM t JOIN u ON t.k = u.k AND t.v < u.w",
        "k = 1",
        [("Join of 2 on k = k and v < w", LOST)],
    ),
    ("SELECT t.k, w FROM t JOIN u ON t.v < u.w", "k = 2", [("Join of 2 on v < w", LOST)]),
    (
        "SELECT t.k, w FROM t LEFT JOIN u ON t.k = u.k",
        "k = 1 AND w = 5",
        [("Left join on k = k", OTHER)],
    ),
    ("SELECT k FROM t LEFT ANTI JOIN u ON t.k = u.k", "k = 1", [("Left anti join on", LOST)]),
    ("SELECT k FROM t LEFT SEMI JOIN u ON t.k = u.k", "k = 3", [("Scan u", NEVER)]),
    (
        "SELECT k, count(*) AS n FROM t GROUP BY k HAVING count(*) > 1",
        "k = 2",
        [("Filter count > 1", LOST)],
    ),
    (
        "SELECT k, count(*) AS n FROM t GROUP BY k",
        "k = 1 AND n = 7",
        [("Group by k: count(*)", OTHER)],
    ),
    (
        "SELECT CAST(k AS BIGINT) AS k, count(*) AS n FROM t GROUP BY k",
        "k = 9",
        [("Scan t", NEVER)],
    ),
    (
        "SELECT CAST(k AS BIGINT) AS k, count(*) AS n FROM t WHERE v > 6 GROUP BY k",
        "k = 2",
        [("Filter v > 6", OTHER)],
    ),
    (
        "SELECT count(*) AS n FROM t WHERE v > 90",
        "n = 3",
        [("Filter v > 90", LOST), ("Aggregate count(*)", OTHER)],
    ),
    ("SELECT k FROM t EXCEPT SELECT k FROM u", "k = 1", [("Except", LOST)]),
    ("SELECT k FROM t INTERSECT SELECT k FROM u", "k = 3", [("Scan u", NEVER)]),
    (
        "SELECT k FROM t WHERE v > 6 UNION ALL SELECT w FROM u",
        "k = 2",
        [("Filter v > 6", LOST), ("Scan u", NEVER)],
    ),
    (
        "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM t QUALIFY r = 1",
        "k = 1 AND v = 20",
        [("Filter", LOST)],
    ),
    ("SELECT k, v FROM t ORDER BY k, v, s LIMIT 1", "v = 20", [("First 1 by", LOST)]),
    (
        "SELECT k FROM t WHERE v IN (SELECT w FROM u)",
        "k IS NULL",
        [("Filter v IN (subquery)", LOST)],
    ),
    ("SELECT k FROM t WHERE k IN (SELECT k FROM u WHERE w > 1)", "k = 3", [("Scan u", NEVER)]),
    ("SELECT k FROM t WHERE k IN (SELECT k FROM u WHERE w > 1)", "k = 1", [("Filter w > 1", LOST)]),
    (
        "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u)",
        "k = 1",
        [("Filter k NOT IN (subquery)", LOST)],
    ),
    (
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > 1)",
        "k = 1",
        [("Filter w > 1", LOST)],
    ),
    (
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        "k = 3",
        [("Scan u", NEVER)],
    ),
    (
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > t.v)",
        "k = 1",
        [("Filter EXISTS (subquery)", LOST)],
    ),
    (
        "SELECT k FROM t WHERE k > 3 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        "k = 3",
        [("Filter k > 3 OR EXISTS (subquery)", LOST)],
    ),
    (
        "SELECT k FROM t WHERE v > (SELECT max(w) FROM u WHERE u.k = t.k)",
        "k = 3",
        [("Scan u", NEVER), ("Filter v > (subquery)", LOST)],
    ),
    (
        "SELECT k FROM t WHERE v > (SELECT w FROM u WHERE u.k = t.k AND w > 1)",
        "k = 1",
        [("Filter w > 1", LOST)],
    ),
    (
        "SELECT k FROM t WHERE v > 90 AND k IN (SELECT k FROM u)",
        "k = 3",
        [("Filter v > 90", LOST), ("Scan u", NEVER)],
    ),
    ("SELECT DISTINCT s FROM t", "s = 'z'", [("Scan t", NEVER)]),
]


@pytest.mark.parametrize(("sql", "predicate", "expected"), CASES)
def test_verdicts(sql: str, predicate: str, expected: list[tuple[str, Verdict]]) -> None:
    """The row is lost at one operator of each branch, or its values are others there."""
    connection = connect_plainly()
    for name, columns in (("t", T), ("u", U)):
        listed = ", ".join(f"{c.name} {c.type.replace('string', 'varchar')}" for c in columns)
        connection.execute(f"CREATE TABLE {name} ({listed})")
        connection.execute(f"INSERT INTO {name} VALUES {ROWS[name]}")
    names = [d[0] for d in connection.execute(translated(sql)).description or ()]
    asked = f"SELECT * FROM x WHERE {predicate}"
    found = search(asked, "x", sql, names, {"t": T, "u": U})
    assert isinstance(found, Search)
    text = translated(found.counts().sql(name_by(lambda use: use.table)))
    rows = connection.execute(text).fetchall()
    counts = {i: [0, 0] for i in range(len(found.stages))}
    for i, some, kept in rows:
        counts[i][0] += some
        counts[i][1] += kept
    verdicts = found.verdicts([c[0] for c in counts.values()], [c[1] for c in counts.values()])
    blamed = [
        (stage.operator, verdict)
        for stage, verdict in zip(found.stages, verdicts, strict=True)
        if verdict in (LOST, OTHER, NEVER)
    ]
    assert len(blamed) == len(expected), blamed
    for (operator, verdict), (wanted, how) in zip(blamed, expected, strict=True):
        assert operator.startswith(wanted), blamed
        assert verdict is how
    is_there = connection.execute(
        translated(f"SELECT count(*) FROM ({sql}) AS x WHERE {predicate}")
    ).fetchone()
    assert (verdicts[-1] is PASSES) == bool(is_there and is_there[0])


def test_a_subquery_in_the_predicate() -> None:
    """What is asked with a subquery cannot be moved down, and is refused."""
    asked = "SELECT * FROM x WHERE k IN (SELECT k FROM u)"
    found = search(asked, "x", "SELECT k FROM t", ["k"], {"t": T, "u": U})
    assert isinstance(found, Reason)
