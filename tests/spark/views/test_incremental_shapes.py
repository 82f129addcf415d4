"""Every construct as a view on Spark: what is kept by following equals what recomputing gives.

The constructs are those of tests/unit/planner/ivm/rules/test_constructs.py, with values there that
DuckDB and Spark treat otherwise. No view may fall back to recomputing without being listed here.
"""

from collections.abc import Iterator

import pytest

from ctsql.api import Connection, connect
from ctsql.runtime.delta import keyed_scan
from ctsql.runtime.views.refresh_policy import Strategy
from tests.conftest import TEST_MASTER
from tests.differential.plans_on_duckdb import planned
from tests.helpers.view_reports import rows, said
from tests.unit.planner.ivm.rules.test_constructs import CASES, INEXACT, TABLES as COLUMNS

pytestmark = pytest.mark.slow

TABLES = """
CREATE TABLE t (k INT, v INT, s STRING, f DOUBLE); CREATE TABLE u (k INT, w INT, d DECIMAL(12, 2));
INSERT INTO t VALUES (1, 1, 'x', 0.5), (1, 1, 'x', 0.5), (1, 2, 'y', NULL), (2, 1, 'y', 0.0),
  (2, NULL, NULL, 2.5), (NULL, 1, 'x', double('NaN')), (NULL, 3, 'y', 4), (4, 4, 'z', 1);
INSERT INTO u VALUES (1, 1, 1.25), (1, 2, NULL), (2, 2, 2.50), (3, NULL, 3), (NULL, 1, 0)
"""
ROUNDS = (
    "INSERT INTO t VALUES (1, 2, 'x', 1.5), (1, 2, 'x', 1.5), (NULL, NULL, NULL, NULL), "
    "(2, 1, 'y', double('-0.0'))",
    "DELETE FROM u WHERE w = 2; INSERT INTO u VALUES (NULL, NULL, 1.00), (3, 1, 0.25)",
    "DELETE FROM t WHERE v = 1 AND s = 'y'; UPDATE u SET k = 2 WHERE k = 1 OR k IS NULL",
    "UPDATE t SET v = v + 1, k = coalesce(k, 2); DELETE FROM u WHERE k > 0",
)
MORE = {
    "doubles": "SELECT k, f FROM t",
    "groups of doubles": "SELECT f, count(*) AS n FROM t GROUP BY f",
    "joined by doubles": "SELECT a.k, b.v FROM t a JOIN t b ON a.f = b.f",
    "decimals": "SELECT k, sum(d) AS n, avg(d) AS a, max(d) AS m FROM u GROUP BY k",
    "decimals apart": "SELECT k, d FROM u EXCEPT SELECT k, d FROM u WHERE d > 1",
    "in pairs": "SELECT k FROM t WHERE (k, v) IN (SELECT k, w FROM u)",
    "not in pairs": "SELECT k FROM t WHERE (k, v) NOT IN (SELECT k, w FROM u)",
    "structs": "SELECT k, max(struct(v, s)).s AS m, max_by(s, struct(v, t.s)) AS n FROM t "
    "GROUP BY k",
    "arrays": "SELECT k, sort_array(collect_list(v)) AS l FROM t GROUP BY k",
}
QUERIES = {
    **{name: sql for name, (sql, _) in CASES.items()},
    **INEXACT,
    **MORE,
}
RECOMPUTED = frozenset({"no FROM", "in, of the first"})
"""Those for which Spark plans the plan's own text otherwise than the user's."""
RIGHTLY = ("FIRST_WRITE", "ROWS_MOVED_UP")
NUMBER = 15
CHUNKS = [tuple(QUERIES)[i : i + NUMBER] for i in range(0, len(QUERIES), NUMBER)]


@pytest.fixture
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """The two tables."""
    con = connect(str(tmp_path_factory.mktemp("shapes") / "warehouse"), master=TEST_MASTER)
    con.execute(TABLES)
    yield con
    con.close()


@pytest.mark.parametrize("reader", ["this process", "Spark"])
@pytest.mark.parametrize("names", CHUNKS, ids=lambda names: names[0])
def test_shapes(
    names: tuple[str, ...], reader: str, tables: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every round, every view, whoever reads the few rows that it takes."""
    if reader == "Spark":
        monkeypatch.setattr(keyed_scan, "_is_readable", lambda *_: False)
    called = {f"v{i}": name for i, name in enumerate(names)}
    for view, name in called.items():
        columns = ", ".join(f"c{i}" for i in range(len(planned(QUERIES[name], COLUMNS).columns)))
        tables.execute(
            f"CREATE MATERIALIZED VIEW {view} ({columns}) WITH (REFRESH POLICY = incremental) AS "
            f"{QUERIES[name]}"
        )
    wrong, recomputed = set(), set()
    for number, statements in enumerate(ROUNDS):
        tables.execute(statements)
        for view, name in called.items():
            if rows(tables, f"SELECT * FROM {view}") != rows(tables, QUERIES[name]):
                wrong.add((name, number))
            told = said(tables, view)
            if told.get("strategy") == Strategy.RECOMPUTE.value and told["why"] not in RIGHTLY:
                recomputed.add((name, told["why"]))
    assert not wrong
    assert {name for name, _ in recomputed} <= RECOMPUTED, recomputed
