"""Views of one shape are compared with their change plans once."""

import pytest

from ctsql.api import Connection
from ctsql.runtime import spark_engine

pytestmark = pytest.mark.spark


def test_guarded_once(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third one, of other groups, is another shape; all follow their own table."""
    guarded = []
    guard = spark_engine.types_given
    monkeypatch.setattr(
        spark_engine, "types_given", lambda *given: guarded.append(given) or guard(*given)
    )
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
    assert len(guarded) == 2
