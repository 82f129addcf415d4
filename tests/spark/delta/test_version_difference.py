"""What differs between two versions is what the commits between them change."""

import pytest
from pyspark.sql import functions as F

from ctsql.api import Connection
from ctsql.catalog.reserved_columns import DIFF
from ctsql.runtime.delta import deletion_vectors
from ctsql.runtime.delta.change_feed import changed_between
from ctsql.runtime.delta.table import CHANGE_TYPE, DeltaTable
from ctsql.runtime.rows.multiset import consolidate_change_feed
from tests.helpers.opened import table_of

COLUMNS = ["k", "s"]
HISTORY = (
    "INSERT INTO x SELECT id, chr(65 + id % 3) FROM range(100)",
    "DELETE FROM x WHERE k % 10 = 3",
    "UPDATE x SET s = 'new' WHERE k < 7",
    "INSERT INTO x SELECT * FROM x WHERE k > 90",
    "DELETE FROM x WHERE k > 80",
)


def without_feed(con: Connection, *, has_vectors: bool) -> DeltaTable:
    """A table whose commits store no changed rows."""
    con.execute("CREATE TABLE x (k BIGINT, s STRING)")
    table = table_of(con, "x")
    properties = f"""
        'delta.enableChangeDataFeed' = 'false', 'delta.enableDeletionVectors' = '{has_vectors}'
    """
    con.spark.sql(f"ALTER TABLE delta.`{table.location}` SET TBLPROPERTIES ({properties})")
    return table


def changed(table: DeltaTable, before: int, after: int, *, by_feed: bool) -> dict[str, int]:
    """The net change, by Delta's feed or by what differs."""
    rows = (
        table.change_rows(before + 1, after) if by_feed else changed_between(table, before, after)
    )
    assert set(rows.columns) >= {*COLUMNS, CHANGE_TYPE}
    found = consolidate_change_feed(rows, COLUMNS).select(*COLUMNS, DIFF).collect()
    return {repr(tuple(row)): diff for *row, diff in found}


@pytest.mark.parametrize("has_vectors", [True, False])
def test_between_two_versions(con: Connection, *, has_vectors: bool) -> None:
    """Deletion vectors that grow, files that go; and rows that an older version brings back."""
    table = without_feed(con, has_vectors=has_vectors)
    con.execute(";".join(HISTORY))
    con.spark.sql(f"OPTIMIZE delta.`{table.location}`")
    con.spark.sql(f"RESTORE TABLE delta.`{table.location}` TO VERSION AS OF 3")
    last = table.version()
    assert last == len(HISTORY) + 3
    for before, after in ((2, last - 2), (2, last), (last - 2, last)):
        theirs = changed(table, before, after, by_feed=True)
        assert changed(table, before, after, by_feed=False) == theirs, (before, after)
    whole = changed(table, -1, last, by_feed=False)
    rows = table.frame(last).groupBy(*COLUMNS).agg(F.count("*"))
    assert whole == {repr(tuple(row)): count for *row, count in rows.collect()}


def test_a_file_is_read_once(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table that many commits change, unless it takes too long a text to say which rows."""
    table = without_feed(con, has_vectors=True)
    con.execute("INSERT INTO x SELECT id, 'a' FROM range(9)")
    for n in range(3):
        con.execute(f"DELETE FROM x WHERE k = {n}")
    rows = changed_between(table, 2, table.version())
    assert sorted(row["k"] for row in rows.collect()) == [0, 1, 2]
    assert rows.rdd.getNumPartitions() == 1
    assert table.change_rows(3, table.version()).rdd.getNumPartitions() > 1
    monkeypatch.setattr(deletion_vectors, "INLINE_CHARS_MAX", 10)
    rows = changed_between(table, 2, table.version())
    assert sorted(row["k"] for row in rows.collect()) == [0, 1, 2]
    assert rows.rdd.getNumPartitions() > 1


@pytest.mark.parametrize("count", [200_000, 300_000, 600_000])
def test_rows_far_apart(con: Connection, count: int) -> None:
    """Every third one of so many that a task takes, or does not take, the text of their vector."""
    table = without_feed(con, has_vectors=True)
    con.execute(f"INSERT INTO x SELECT id, 'a' FROM range(0, {count}, 1, 1)")
    con.execute("DELETE FROM x WHERE k % 3 = 0")
    rows = changed_between(table, 2, table.version())
    assert len(rows.collect()) == -(-count // 3)


@pytest.mark.parametrize("has_changed_rows", [True, False])
def test_the_feed_of_rows_far_apart(con: Connection, *, has_changed_rows: bool) -> None:
    """A task and a view get more rows of one commit than the feed can tell a task of, twice.

    With changed rows a commit beside it stores what it changes in files of their own. The second
    time the file has a vector before, too.
    """
    con.execute("CREATE TABLE x (k BIGINT, s STRING)")
    con.execute("INSERT INTO x SELECT id, 'a' FROM range(0, 600000, 1, 1)")
    con.execute("""
        CREATE CONTINUAL TASK gone (k BIGINT) ON INPUT x WITH (SNAPSHOT = FALSE)
            AS (INSERT INTO gone SELECT k FROM DELETES(x));
        CREATE MATERIALIZED VIEW n WITH (REFRESH POLICY = incremental)
            AS SELECT count(*) AS n FROM x;
    """)
    table = table_of(con, "x")
    con.spark.sql(f"DELETE FROM delta.`{table.location}` WHERE k % 3 = 0")
    if has_changed_rows:
        con.spark.sql(f"UPDATE delta.`{table.location}` SET s = 'b' WHERE k = 1")
    con.run(once=True)
    assert con.execute("SELECT count(*), max(k % 3) FROM gone").fetchall() == [
        (200_000 + has_changed_rows, int(has_changed_rows))
    ]
    assert con.execute("SELECT n FROM n").fetchall() == [(400_000,)]
    con.spark.sql(f"DELETE FROM delta.`{table.location}` WHERE k % 3 = 1 AND s = 'a'")
    con.run(once=True)
    assert con.execute("SELECT count(*), sum(k) FROM gone WHERE k % 3 = 1").fetchall() == [
        (200_000, sum(range(1, 600_000, 3)))
    ]
    assert con.execute("SELECT n FROM n").fetchall() == [(200_000 + has_changed_rows,)]
