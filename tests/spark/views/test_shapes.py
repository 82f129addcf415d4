"""How often Spark's plan of a view's query is compared with that of its change plan."""

from collections.abc import Callable
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.runtime import spark_engine

Connect = Callable[[], Connection]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was compared, in order."""
    found: list[Any] = []
    compare = spark_engine.types_given
    monkeypatch.setattr(
        spark_engine, "types_given", lambda *given: found.append(given) or compare(*given)
    )
    return found


def test_once_for_each_shape(con: Connection, compared: list[Any]) -> None:
    """The third view, of other groups, is another shape; all follow their own table."""
    for n, divisor in enumerate((10, 10, 7)):
        con.execute(f"CREATE TABLE t{n} (k BIGINT, v BIGINT)")
        con.execute(f"INSERT INTO t{n} VALUES (1, 1), (12, {n})")
        con.execute(
            f"CREATE MATERIALIZED VIEW v{n} WITH (REFRESH POLICY = incremental) AS "
            f"SELECT k % {divisor} AS g, sum(v) AS s FROM t{n} GROUP BY k % {divisor}"
        )
        con.execute(f"SELECT * FROM v{n}").fetchall()
    found = []
    for n in range(3):
        con.execute(f"INSERT INTO t{n} VALUES (1, 5), (3, {n})")
        found.append(con.execute(f"SELECT * FROM v{n} ORDER BY g").fetchall())
    assert found == [[(1, 6), (2, 0), (3, 0)], [(1, 6), (2, 1), (3, 1)], [(1, 6), (3, 2), (5, 2)]]
    assert len(compared) == 2


def test_once_for_all_processes(connect: Connect, compared: list[Any]) -> None:
    """The view's commit stores the accepted plan; a column of another type makes another plan."""
    con = connect()
    con.execute("CREATE TABLE t (k INT, v SMALLINT); INSERT INTO t VALUES (1, 1), (2, 2)")
    con.execute(
        "CREATE MATERIALIZED VIEW x WITH (REFRESH POLICY = incremental) AS "
        "SELECT k, sum(v) AS s FROM t GROUP BY k"
    )
    con.execute("SELECT * FROM x").fetchall()
    assert len(compared) == 1
    other = connect()
    for v in (5, 6):
        other.execute(f"INSERT INTO t VALUES (1, {v})")
        other.execute("REFRESH MATERIALIZED VIEW x")
    assert other.execute("SELECT * FROM x ORDER BY k").fetchall() == [(1, 12), (2, 2)]
    assert len(compared) == 1
    other.execute("ALTER TABLE t ALTER COLUMN v TYPE INT; INSERT INTO t VALUES (2, 100000)")
    other.execute("REFRESH MATERIALIZED VIEW x; INSERT INTO t VALUES (1, 1)")
    assert other.execute("SELECT * FROM x ORDER BY k").fetchall() == [(1, 13), (2, 100002)]
    assert len(compared) == 2
