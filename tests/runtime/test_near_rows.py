"""What this process reads of tables for a refresh is what Spark reads of them."""

from collections import Counter
from collections.abc import Sequence

import pytest
from pyspark.sql import functions as F

from ctsql.api import Connection
from ctsql.runtime.delta_log import DeltaTable
from ctsql.runtime.incremental.near_rows import Keys, Lookups, StoredRows, change_of, rows_of
from ctsql.runtime.movements import Movement
from ctsql.runtime.sinks.correction import COPIES, net_change
from ctsql.runtime.sinks.held import HeldRows, Rows, frame_of
from ctsql.runtime.sinks.locations import FILE_COLUMN, ROW_COLUMN

pytestmark = pytest.mark.spark

COLUMNS = ["k", "s", "d", "t", "f"]
WHOLE = COLUMNS[:-1]  # equal values of a fraction may be two values
TABLE = """
CREATE TABLE x (k INT, s STRING, d DECIMAL(12, 2), t TIMESTAMP, f DOUBLE);
INSERT INTO x SELECT id % 7, chr(65 + id % 3), id / 4, timestamp_seconds(id * 1000), id / 3
  FROM range(60);
INSERT INTO x VALUES (NULL, NULL, NULL, NULL, double('NaN')), (NULL, 'A', 1, NULL, double('-0.0'));
UPDATE x SET s = 'new' WHERE k = 3; DELETE FROM x WHERE k = 5 OR k IS NULL AND s IS NULL;
INSERT INTO x SELECT * FROM x WHERE k = 2; UPDATE x SET k = 5 WHERE k = 1 AND s = 'A'
"""


def table_of(con: Connection, name: str) -> DeltaTable:
    """An object's table, and so as Delta knows it."""
    assert con._engine is not None
    objects = con._engine.objects
    return objects.table(next(i for i in objects.catalog if i.name.name == name))


def bag(rows: Rows | None, *columns: str) -> Counter[str]:
    """Rows to be compared; NaN equals NaN, and -0.0 is not 0.0."""
    assert rows is not None, "left to Spark"
    return Counter(repr(tuple(row)) for row in frame_of(rows).selectExpr(*columns).collect())


def weighed(change: Rows | None) -> dict[str, int]:
    """How often each row comes, or goes, in all."""
    assert change is not None, "left to Spark"
    total: Counter[str] = Counter()
    for *row, copies in frame_of(change).select(*WHOLE, COPIES).collect():
        total[repr(tuple(row))] += copies
    return dict(total)


def test_what_is_read_is_what_spark_reads(con: Connection) -> None:
    """Changes between any two versions, rows by keys with NULLs, the stored rows with places."""
    con.execute(TABLE)
    table = table_of(con, "x")
    last = table.version()
    for before in (0, 3):
        move = Movement(0, before, last)
        theirs = net_change(table.change_rows(before + 1, last), WHOLE)
        mine = change_of(table, move, WHOLE, COPIES)
        assert weighed(mine) == weighed(theirs), before
    only_added = Movement(0, 1, 2)
    theirs = table.added_rows([2])
    assert bag(change_of(table, only_added, COLUMNS, "w"), *COLUMNS) == bag(theirs, *COLUMNS)
    every = table.frame(last)
    assert bag(rows_of(table, last, COLUMNS, most=100), *COLUMNS) == bag(every, *COLUMNS)
    keys = con.spark.createDataFrame(
        [(3, "new"), (5, "A"), (None, "A"), (2, None)], "a INT, b STRING"
    )
    pairs: Sequence[tuple[str, str]] = [("k", "a"), ("s", "b")]
    held = HeldRows.of(keys)
    same = every.join(F.broadcast(keys), F.expr("k <=> a AND s <=> b"), "left_semi")
    found = Lookups().rows(table, last, COLUMNS, [(held, pairs)])
    assert bag(found, *COLUMNS) == bag(same, *COLUMNS)
    stored = StoredRows(table, last)
    places = [*COLUMNS, f"substring_index({FILE_COLUMN}, '/', -1)", ROW_COLUMN]
    located = bag(table.located(last).selectExpr(*places), "*")
    assert bag(stored.all, *places) == located
    assert bag(stored.having(held, pairs), *places) <= located


def test_rows_by_keys_at_one_version_after_another(con: Connection) -> None:
    """Rows that came, went, came back with an older version, or moved to another file."""
    con.execute(TABLE)
    table = table_of(con, "x")
    con.spark.sql(f"OPTIMIZE delta.`{table.location}`").collect()
    held = HeldRows.of(con.spark.createDataFrame([(3,), (5,), (None,)], "a INT"))
    keys: Sequence[Keys] = [(held, [("k", "a")])]
    versions = range(1, table.version() + 1)
    theirs = {}
    for version in versions:
        rows = table.frame(version).where("k IN (3, 5) OR k IS NULL")
        theirs[version] = bag(rows, *COLUMNS)
    assert len(set(map(frozenset, theirs.values()))) > 4
    for first in (versions[0], versions[3], versions[-1]):
        lookups = Lookups()
        assert lookups.rows(table, first, ["s"], keys, also=COLUMNS) is not None
        for version in versions:
            mine = lookups.rows(table, version, COLUMNS, keys)
            assert bag(mine, *COLUMNS) == theirs[version], (first, version)


def test_what_is_left_to_spark(con: Connection) -> None:
    """Texts that compare otherwise, fractions that may cancel, other layouts, too many rows."""
    con.execute(
        "CREATE TABLE x (k INT, c CHAR(3), f DOUBLE);"
        "INSERT INTO x VALUES (1, 'a', 1.5), (2, 'b', 2);"
        "UPDATE x SET f = f + 1; CREATE TABLE p (k INT, v INT) PARTITIONED BY (v);"
        "INSERT INTO p VALUES (1, 1)"
    )
    x, p = table_of(con, "x"), table_of(con, "p")
    last = x.version()
    assert rows_of(x, last, ["k", "c"], most=100) is None
    assert rows_of(x, last, [], most=100) is None
    assert rows_of(p, p.version(), ["k"], most=100) is None
    update = Movement(0, last - 1, last)
    assert change_of(x, update, ["k", "f"], "w") is None
    assert change_of(x, update, ["k"], "w") is not None
    floats = con.spark.createDataFrame([(1.5,)], "a DOUBLE")
    assert Lookups().rows(x, last, ["k", "f"], [(HeldRows.of(floats), [("f", "a")])]) is None
    assert rows_of(x, last, ["k"], most=1) is None
