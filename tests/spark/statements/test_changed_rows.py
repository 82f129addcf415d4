"""UPDATE and DELETE with subqueries: counts, errors, and what Delta keeps.

The rest is the scenario rows_changed_by_subqueries.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.statements.dml import dml
from tests.helpers.table_folder import data_files, folder, named_files, versions

pytestmark = pytest.mark.spark


def rows(con: Connection, query: str) -> Counter[Any]:
    """The rows of a query, with their copies."""
    return Counter(con.execute(query).fetchall())


@pytest.fixture
def tables(con: Connection) -> Connection:
    """A table with doubled rows, and one that subqueries read."""
    con.execute("CREATE TABLE u (k INT, w INT); INSERT INTO u VALUES (1, 10), (2, 20), (2, 21)")
    con.execute("CREATE TABLE t (k INT, v INT)")
    con.execute("INSERT INTO t VALUES (1, 1), (2, 2), (2, 2), (3, 3), (NULL, 4)")
    return con


def test_counts_and_the_change_feed(tables: Connection) -> None:
    """Each copy counts, also one that gets the values it has; Delta's feed has the difference."""
    place = folder(tables, "t")
    before = versions(place)[-1]
    done = tables.execute("UPDATE t SET v = v + k - 1 WHERE k IN (SELECT k FROM u)")
    assert (done.status, done.rowcount) == ("UPDATE 3", 3)
    feed = tables.spark.read.format("delta").option("readChangeFeed", "true")
    changed = feed.option("startingVersion", before + 1).load(str(place)).collect()
    assert Counter((r["k"], r["v"], r["_change_type"]) for r in changed) == Counter(
        {(2, 2, "delete"): 2, (2, 3, "insert"): 2}
    )
    assert tables.execute("DELETE FROM t WHERE k NOT IN (SELECT k FROM u)").status == "DELETE 1"
    assert tables.execute("DELETE FROM t WHERE v > (SELECT max(w) FROM u)").status == "DELETE 0"
    assert rows(tables, "SELECT * FROM t") == Counter({(1, 1): 1, (2, 3): 2, (None, 4): 1})


def test_parameters_and_places(tables: Connection) -> None:
    """Parameters keep their order, and errors have the user's places."""
    text = "UPDATE t SET v = v + ? WHERE k IN (SELECT k FROM u WHERE w > ?) AND v < ?"
    assert tables.execute(text, [100, 10, 50]).status == "UPDATE 2"
    for text, condition, place in [
        ("UPDATE t SET v = (SELECT w FROM u WHERE u.k = t.k)", "DATA_ERROR", ""),
        ("UPDATE t SET v = max(v) WHERE k IN (SELECT k FROM u)", "INVALID_STATEMENT", ""),
        ("UPDATE t SET v = sum(v) OVER () WHERE k IN (SELECT k FROM u)", "INVALID_STATEMENT", ""),
        ("DELETE FROM t WHERE k IN (SELECT kk FROM u)", "UNKNOWN_COLUMN", "kk"),
        ("UPDATE t SET vv = 1 WHERE k IN (SELECT k FROM u)", "UNKNOWN_COLUMN", "vv"),
        ("UPDATE t SET v = array(1) WHERE k IN (SELECT k FROM u)", "TYPE_MISMATCH", ""),
    ]:
        with pytest.raises(CtsqlError) as refusal:
            tables.execute(text)
        assert refusal.value.condition == condition, text
        span = refusal.value.span
        assert not place or (span is not None and place in span.text), text
    assert rows(tables, "SELECT count(*), sum(v) FROM t") == Counter([(5, 212)])


KINDS = {
    "partitions": "PARTITIONED BY (v) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "no vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
    "mapped": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
    "'delta.enableDeletionVectors' = 'true')",
}


@pytest.mark.parametrize("clauses", KINDS.values(), ids=KINDS)
def test_many_rows_of_other_tables(con: Connection, tmp_path: Path, clauses: str) -> None:
    """More rows than this process holds; partitions, rewritten files, mapped columns."""
    place = f"delta.`{tmp_path}/of_spark`"
    con.spark.sql(f"CREATE TABLE {place} (k INT, v INT) USING delta {clauses}")
    con.spark.sql(f"INSERT INTO {place} SELECT id % 3, id % 4 FROM range(48000)")
    con.execute(f"CREATE TABLE t LOCATION '{tmp_path}/of_spark'")
    con.execute("CREATE TABLE u (k INT, w INT); INSERT INTO u VALUES (1, 7), (2, NULL)")
    text = "UPDATE t SET v = (SELECT max(w) FROM u WHERE u.k = t.k) WHERE k IN (SELECT k FROM u)"
    assert con.execute(text).status == "UPDATE 32000"
    assert con.execute("DELETE FROM t WHERE v IN (SELECT w - 7 FROM u)").status == "DELETE 4000"
    counts = rows(con, "SELECT k, v, count(*) FROM t GROUP BY k, v")
    expected = [(0, v, 4000) for v in (1, 2, 3)] + [(1, 7, 16000), (2, None, 16000)]
    assert counts == Counter(expected)


def test_what_delta_keeps_is_kept(con: Connection, tmp_path: Path) -> None:
    """Generated columns follow, and CHECK, NOT NULL and lengths refuse; then nothing changes."""
    place = f"delta.`{tmp_path}/of_spark`"
    table = DeltaTable.create(con.spark).location(f"{tmp_path}/of_spark")
    table = table.addColumn("k", "INT", nullable=False).addColumn("s", "STRING")
    table.addColumn("g", "INT", generatedAlwaysAs="k * 2").execute()
    con.spark.sql(f"ALTER TABLE {place} ADD CONSTRAINT positive CHECK (k > 0)")
    con.spark.sql(f"INSERT INTO {place} (k, s) VALUES (1, 'a'), (2, 'b')")
    con.execute(f"CREATE TABLE t LOCATION '{tmp_path}/of_spark'")
    con.execute("CREATE TABLE u (k INT, w INT); INSERT INTO u VALUES (1, 5), (2, -1)")
    con.execute("UPDATE t SET k = (SELECT w FROM u WHERE u.k = t.k) WHERE k IN (SELECT 1)")
    assert rows(con, "SELECT k, s, g FROM t") == Counter([(5, "a", 10), (2, "b", 4)])
    for value in ("(SELECT w FROM u WHERE u.k = t.k)", "(SELECT k FROM u WHERE u.k = t.k + 1)"):
        with pytest.raises(CtsqlError) as refusal:
            con.execute(f"UPDATE t SET k = {value} WHERE k IN (SELECT k FROM u)")
        assert refusal.value.condition == "DATA_ERROR"
    assert rows(con, "SELECT k, s, g FROM t") == Counter([(5, "a", 10), (2, "b", 4)])


def test_another_writer_comes_first(tables: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit between reading and committing is seen: the statement is run again on it."""
    place = folder(tables, "t")
    change_rows, others = dml.change_rows, [f"INSERT INTO delta.`{place}` VALUES (2, 50)"]

    def late(*given: Any) -> int:
        count = change_rows(*given)
        if others:
            tables.spark.sql(others.pop())
        return count

    monkeypatch.setattr(dml, "change_rows", late)
    done = tables.execute("UPDATE t SET v = v + 1 WHERE k IN (SELECT k FROM u)")
    assert done.status == "UPDATE 4"
    assert rows(tables, "SELECT * FROM t WHERE k = 2") == Counter({(2, 3): 2, (2, 51): 1})
    found = {name for name in data_files(place) if name.endswith(".parquet")}
    assert found <= named_files(place), "files of the lost try are gone"
