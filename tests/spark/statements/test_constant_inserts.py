"""INSERT of rows that stand in its text: no job, and the same rows as by Spark's own INSERT."""

from collections import Counter

import pyarrow as pa
import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.spark.job_metrics import Meter
from tests.helpers.table_folder import data_files, folder, versions

COLUMNS = (
    "k INT NOT NULL, b BIGINT, s STRING, d DATE, n DECIMAL(6,2), f DOUBLE, t TIMESTAMP, x BINARY"
)
HERE = [
    "VALUES (1, 10, 'a', DATE'2024-01-01', 1.5, 1, TIMESTAMP'2024-03-31 02:30:00', X'00ff')",
    "VALUES (2, NULL, '', NULL, NULL, CAST('NaN' AS DOUBLE), NULL, NULL), "
    "(-1, 3, 'é', DATE'0001-01-01', 9999.99, -0.0, TIMESTAMP'1582-10-04 00:00:00', X'')",
    "(k) VALUES (3)",
    "(s, K) VALUES ('9223372036854775807', 4), (NULL, 2 + 3)",
    "(k, n) SELECT * FROM VALUES (10, 1.234), (11, 1.235) AS v(k, n) WHERE k > 10",
    "(k, s) VALUES (12, repeat('long ', 100))",
]
BY_SPARK = [
    "SELECT 7, 8, 'y', NULL, 0.001 + 0.004, 1e10, NULL, NULL",
    "BY NAME SELECT 6 AS k, 'x' AS s",
    "(k) SELECT id FROM range(3)",
    "(k) SELECT k + 100 FROM {t} WHERE k < 3",
    "(k) SELECT 1 WHERE false",
    "(s) VALUES ('no key')",
    "VALUES (NULL, 1, 'a', NULL, 1, 1, NULL, NULL)",
    "(k) VALUES ('x')",
    "(k) VALUES (3000000000)",
    "(k, n) VALUES (1, 123456)",
    "(k, k) VALUES (1, 2)",
    "(k, nope) VALUES (1, 2)",
    "VALUES (1, 2)",
]


class Twins:
    """Two equal tables; one is written by ctsql, one by plain Spark."""

    def __init__(self, con: Connection, columns: str = COLUMNS, then: str = "") -> None:
        self.con = con
        self.count = 0
        for name in ("ours", "sparks"):
            con.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})")
            if then:
                con.spark.sql(then.replace("{t}", f"delta.`{folder(con, name)}`"))

    def run(self, text: str) -> int | None:
        """Run an INSERT on both; the jobs that ours took, None if both refused it."""
        plain = f"delta.`{folder(self.con, 'sparks')}`"
        refused = False
        try:
            self.con.spark.sql(f"INSERT INTO {plain} {text.replace('{t}', plain)}")
        except Exception:  # noqa: BLE001  whatever Spark refuses
            refused = True
        before = versions(folder(self.con, "ours"))
        insert = f"INSERT INTO ours {text.replace('{t}', 'ours')}"
        if refused:
            with pytest.raises(CtsqlError):
                self.con.execute(insert)
            assert versions(folder(self.con, "ours")) == before
            return None
        meter = Meter(self.con.spark)
        done = self.con.execute(insert)
        self.count += done.rowcount
        return meter.work().jobs

    def check(self) -> None:
        """Both have the same rows, as many as the statements told."""
        rows = self.rows("ours")
        assert rows == self.rows("sparks")
        assert self.count == rows.total()

    def rows(self, name: str) -> Counter[str]:
        """The rows of one of the tables, as Spark reads them."""
        table = self.con.spark.read.format("delta").load(str(folder(self.con, name)))
        return Counter(map(repr, table.collect()))


def test_rows_of_the_text_take_no_job(con: Connection) -> None:
    """Whatever types they have, and whichever columns they fill."""
    twins = Twins(con)
    for text in HERE:
        assert twins.run(text) == 0, text
    twins.check()
    table = folder(con, "ours")
    assert len(data_files(table)) == len(HERE)  # one file for each
    history = con.spark.sql(f"DESCRIBE HISTORY delta.`{table}`").first()
    assert history is not None
    assert (history.operation, history.isBlindAppend) == ("WRITE", True)
    assert history.operationMetrics["numOutputRows"] == "1"


def test_other_statements_take_jobs_or_are_refused(con: Connection) -> None:
    """Rows that Spark computes, none, and rows that are refused, which change nothing."""
    twins = Twins(con)
    twins.run(HERE[0])
    for text in BY_SPARK:
        twins.run(text)
    twins.check()


DELTA_WRITES = (
    ("k INT, s CHAR(4)", ""),
    ("k INT, s STRING", "ALTER TABLE {t} ADD CONSTRAINT c CHECK (k > 0)"),
    (
        "k INT, s STRING",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')",
    ),
    ("k INT, s VARCHAR(2)", ""),
    ("k INT, s STRUCT<a: INT>", ""),
)


def test_tables_that_delta_writes(con: Connection) -> None:
    """Padded, checked and compacted tables."""
    for columns, then in DELTA_WRITES:
        twins = Twins(con, columns, then)
        value = "named_struct('a', 1)" if "STRUCT" in columns else "'ab'"
        assert twins.run(f"VALUES (1, {value}), (2, NULL)"), columns
        if "CHECK" in then:
            assert twins.run("VALUES (0, 'x')") is None
        if "VARCHAR" in columns:
            assert twins.run("VALUES (1, 'abc')") is None
        twins.check()


def test_rows_of_python_take_no_job(con: Connection) -> None:
    """Rows that a program appends."""
    con.execute("CREATE TABLE t (k INT NOT NULL, s STRING)")
    meter = Meter(con.spark)
    con.append("t", pa.table({"k": [1, 2], "s": ["a", None]}))
    con.executemany("INSERT INTO t VALUES (?, ?)", [(3, "c"), (4, None)])
    assert meter.work().jobs == 0
    assert con.execute("SELECT * FROM t ORDER BY k").fetchall() == [
        (1, "a"), (2, None), (3, "c"), (4, None),
    ]  # fmt: skip
    with pytest.raises(CtsqlError, match="NOT NULL"):
        con.append("t", pa.table({"k": [5, None], "s": ["a", None]}))


MAPPED = "ALTER TABLE {t} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')"
CHANGES = {
    "": ["ADD COLUMN w BIGINT", "ADD CONSTRAINT small CHECK (w IS NULL OR w < 51)"],
    MAPPED: ["RENAME COLUMN v TO u", "DROP COLUMN k", "ADD COLUMN k STRING"],
}


def test_the_table_changes_between_statements(con: Connection) -> None:
    """What an earlier statement knew of its target is not taken for a table of other columns."""
    for then, changes in CHANGES.items():
        twins = Twins(con, "k INT, v INT", then)
        assert twins.run("VALUES (1, 1)") is not None
        for number, change in enumerate(changes):
            texts = ["(k, v) VALUES (2, 2)", "(u) VALUES (3)", f"(w) VALUES ({50 + number})"]
            for name in ("ours", "sparks"):
                con.spark.sql(f"ALTER TABLE delta.`{folder(con, name)}` {change}")
            for text in [*texts, *texts]:
                twins.run(text)
            twins.check()
    for name in ("ours", "sparks"):
        con.execute(f"DROP TABLE {name}; CREATE TABLE {name} (v STRING, k INT)")
    twins.count = 0
    for text in ("VALUES (4, 4)", "VALUES ('a', 5)"):
        assert twins.run(text) == 0
    assert twins.rows("ours") == Counter(["Row(v='4', k=4)", "Row(v='a', k=5)"])
