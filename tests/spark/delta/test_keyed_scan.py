"""What this process reads of tables for a refresh is what Spark reads of them."""

from collections import Counter
from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, functions as F

from ctsql.api import Connection
from ctsql.catalog.errors import Declined
from ctsql.catalog.reserved_columns import DIFF, FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.delta import keyed_scan
from ctsql.runtime.delta.keyed_scan import StoredRows, change_of, rows_of, rows_with_keys
from ctsql.runtime.log.table_changes import VersionChange
from ctsql.runtime.rows.multiset import consolidate_change_feed
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows, row_set
from tests.helpers.opened import table_of

COLUMNS = ["k", "s", "d", "t", "f"]
TABLE = """
CREATE TABLE x (k INT, s STRING, d DECIMAL(12, 2), t TIMESTAMP, f DOUBLE);
INSERT INTO x SELECT id % 7, chr(65 + id % 3), id / 4, timestamp_seconds(id * 1000), id / 3
  FROM range(60);
INSERT INTO x VALUES (NULL, NULL, NULL, NULL, double('NaN')), (NULL, 'A', 1, NULL, double('-0.0'));
UPDATE x SET s = 'new' WHERE k = 3; DELETE FROM x WHERE k = 5 OR k IS NULL AND s IS NULL;
INSERT INTO x SELECT * FROM x WHERE k = 2; UPDATE x SET k = 5 WHERE k = 1 AND s = 'A';
INSERT INTO x VALUES (8, 'b', 1, NULL, 0.0), (8, 'b', 1, NULL, -0.0), (8, 'b', 1, NULL, -0.0);
MERGE INTO x USING (SELECT 0.0D AS f) AS n ON x.k = 8 WHEN MATCHED THEN UPDATE SET f = n.f
"""


def bag(rows: RowSet | DataFrame | Declined, *columns: str) -> Counter[str]:
    """Rows to be compared; NaN equals NaN, and -0.0 is not 0.0."""
    assert not isinstance(rows, Declined), rows.reason
    return Counter(repr(tuple(row)) for row in row_set(rows).frame.selectExpr(*columns).collect())


def weighed(change: RowSet | DataFrame | Declined, *columns: str) -> dict[str, int]:
    """How often each row comes, or goes; it is there once."""
    assert not isinstance(change, Declined), change.reason
    rows = row_set(change).frame.select(*columns, DIFF).collect()
    found = {repr(tuple(row)): diff for *row, diff in rows}
    assert len(found) == len(rows)
    return found


def test_what_is_read_is_what_spark_reads(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes between any two versions, rows by keys with NULLs, the stored rows with places."""
    con.execute(TABLE)
    table = table_of(con, "x")
    last = table.version()
    for before in (0, 3):
        move = VersionChange(0, before, last)
        theirs = consolidate_change_feed(table.change_rows(before + 1, last), COLUMNS)
        mine = change_of(table, move, COLUMNS)
        assert weighed(mine, *COLUMNS) == weighed(theirs, *COLUMNS), before
    only_added = VersionChange(0, 1, 2)
    theirs = table.added_rows([2])
    assert bag(change_of(table, only_added, COLUMNS), *COLUMNS) == bag(theirs, *COLUMNS)
    every = table.frame(last)
    assert bag(rows_of(table, last, COLUMNS), *COLUMNS) == bag(every, *COLUMNS)
    keys = con.spark.createDataFrame(
        [(3, "new"), (5, "A"), (None, "A"), (2, None)], "a INT, b STRING"
    )
    pairs: Sequence[tuple[str, str]] = [("k", "a"), ("s", "b")]
    held = LocalRows.of(keys)
    same = every.join(F.broadcast(keys), F.expr("k <=> a AND s <=> b"), "left_semi")
    found = rows_with_keys(table, last, COLUMNS, [(held, pairs)])
    assert bag(found, *COLUMNS) == bag(same, *COLUMNS)
    stored = StoredRows(table, last)
    places = [*COLUMNS, f"substring_index({FILE_COLUMN}, '/', -1)", ROW_COLUMN]
    located = bag(table.locate_rows(last).selectExpr(*places), "*")
    assert bag(stored.all, *places) == located
    with_key = table.locate_rows(last).join(F.broadcast(keys), F.expr("k <=> a AND s <=> b"))
    for most in (keyed_scan.STORED_MAX, 0):  # of all rows, and by the keys
        monkeypatch.setattr(keyed_scan, "STORED_MAX", most)
        stored = StoredRows(table, last)
        assert (stored.is_near, stored.all.is_local) == (most > 0, True)
        assert bag(stored.all, *places) == located
        wanted = stored.having(held, pairs)
        assert isinstance(wanted, LocalRows)
        assert bag(wanted, *places) == bag(with_key, *places)
        for known in (held, SparkRows(keys)):  # those that Spark has are compared by Spark
            again = StoredRows(table, last).with_keys(known, pairs)
            assert bag(again, *places) == bag(with_key, *places)


def test_rows_by_keys_of_each_version(con: Connection) -> None:
    """Rows that came, went, came back with an older version, or moved to another file."""
    con.execute(TABLE)
    table = table_of(con, "x")
    con.spark.sql(f"OPTIMIZE delta.`{table.location}`").collect()
    held = LocalRows.of(con.spark.createDataFrame([(3,), (5,), (None,)], "a INT"))
    contents = []
    for version in range(1, table.version() + 1):
        theirs = bag(table.frame(version).where("k IN (3, 5) OR k IS NULL"), *COLUMNS)
        mine = rows_with_keys(table, version, COLUMNS, [(held, [("k", "a")])])
        assert bag(mine, *COLUMNS) == theirs, version
        contents.append(frozenset(theirs))
    assert len(set(contents)) > 4


def test_what_is_left_to_spark(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that compare otherwise, columns by other names, other layouts, too many rows."""
    con.execute(
        "CREATE TABLE x (k INT, c CHAR(3), f DOUBLE);"
        "INSERT INTO x VALUES (1, 'a', 1.5), (2, 'b', 2);"
        "UPDATE x SET f = f + 1; CREATE TABLE p (k INT, v INT) PARTITIONED BY (v);"
        "INSERT INTO p VALUES (1, 1)"
    )
    x, p = table_of(con, "x"), table_of(con, "p")
    last = x.version()
    assert isinstance(rows_of(x, last, ["k", "c"]), Declined)
    assert isinstance(rows_of(x, last, []), Declined)
    assert isinstance(rows_of(p, p.version(), ["k"]), Declined)
    update = VersionChange(0, last - 1, last)
    assert isinstance(change_of(x, update, ["k", "c"]), Declined)
    assert isinstance(change_of(x, update, ["K"]), Declined)
    assert weighed(change_of(x, update, ["k"]), "k") == {}
    assert len(weighed(change_of(x, update, ["k", "f"]), "k", "f")) == 4
    floats = con.spark.createDataFrame([(1.5,)], "a DOUBLE")
    assert isinstance(
        rows_with_keys(x, last, ["k", "f"], [(LocalRows.of(floats), [("f", "a")])]), Declined
    )
    assert not isinstance(rows_of(x, last, ["k"]), Declined)
    monkeypatch.setattr(keyed_scan, "SMALL_MAX", 1)
    assert isinstance(rows_of(x, last, ["k"]), Declined)
