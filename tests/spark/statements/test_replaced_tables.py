"""CREATE OR REPLACE TABLE ... AS: how the table is stored."""

from typing import Any

from ctsql.api import Connection
from tests.helpers.opened import engine_of
from tests.scenarios.runner import expect_error


def _stored(con: Connection) -> dict[str, Any]:
    """What Delta says of the table."""
    item = next(i for i in engine_of(con).refresh_catalog() if i.name.name == "t")
    detail = con.spark.sql(f"DESCRIBE DETAIL delta.`{item.location}`").first()
    assert detail is not None
    return detail.asDict()


def test_partitions_are_those_of_the_last_statement(con: Connection) -> None:
    """The same statement again keeps them; without the clause there are none."""
    partitioned = "CREATE OR REPLACE TABLE t PARTITIONED BY (`From`, k) AS SELECT {} FROM range(3)"
    columns = "id % 2 AS k, id AS v, 'x' AS `From`"
    con.execute(partitioned.format(columns))
    first = _stored(con)
    con.execute(partitioned.format(columns))
    again = _stored(con)
    assert first["partitionColumns"] == again["partitionColumns"] == ["From", "k"]
    assert first["id"] == again["id"]
    expect_error(con, "CREATE OR REPLACE TABLE t PARTITIONED BY (w) AS SELECT 1 AS v")
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(3,)]
    con.execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS v")
    assert _stored(con)["partitionColumns"] == []


def test_clusters_and_properties_stay(con: Connection) -> None:
    """A later statement changes no property, and is refused where it would lose the clustering."""
    text = "CREATE OR REPLACE TABLE t {} TBLPROPERTIES ('a' = '{}') AS SELECT {} AS k"
    con.execute(text.format("", "b", 1))
    con.execute(text.format("", "c", 2))
    assert _stored(con)["properties"]["a"] == "b"
    con.execute("DROP TABLE t")
    con.execute(text.format("CLUSTER BY (k)", "b", 1))
    refused = expect_error(con, text.format("CLUSTER BY (k)", "b", 3), "NOT_SUPPORTED")
    assert "DELETE FROM" in (refused.hint or "")
    con.execute("BEGIN; DELETE FROM t; INSERT INTO t SELECT 4 AS k; COMMIT")
    assert _stored(con)["clusteringColumns"] == ["k"]
    assert con.execute("SELECT k FROM t").fetchall() == [(4,)]
