"""UPDATE, DELETE and MERGE by key: the same rows, counts, changes and errors as Spark's own."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.spark.job_metrics import Meter
from ctsql.runtime.spark.table_writes import TableWrite
from ctsql.runtime.statements import dml, keyed_writes
from ctsql.runtime.statements.kept_constraints import Gate
from ctsql.runtime.statements.keyed_writes import write_by_key
from tests.helpers.opened import engine_of
from tests.helpers.table_folder import data_files, folder, named_files, versions

pytestmark = pytest.mark.spark

COLUMNS = "k INT, b BIGINT, s STRING, d DATE, n DECIMAL(6,2), f DOUBLE, v INT"
ROWS = """
    (1, 10, 'a', DATE'2024-01-01', 1.50, 1.0, 1), (2, 20, 'b', NULL, 2.50, 0.0, 0),
    (2, 21, '', DATE'0001-01-01', NULL, -0.0, 2), (NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, 30, 'a', DATE'2024-01-02', -1.00, CAST('NaN' AS DOUBLE), 2147483647), (4, 40, 'é', NULL,
    9999.99, 2.0, 4), (5, 50, 'a ', NULL, 0.00, 3.0, 5)"""
SOURCE = "(SELECT * FROM VALUES {rows} AS x(k, v, s)) AS u"


@contextmanager
def watched(*, by_spark: bool = False) -> Iterator[list[int | Declined]]:
    """What came of looking for rows by key; with ``by_spark`` nothing is done by key."""
    found: list[int | Declined] = []

    def look(table: DeltaTable, statement: TableWrite, gate: Gate | None = None) -> int | Declined:
        done = Declined("not here") if by_spark else write_by_key(table, statement, gate)
        found.append(done)
        return done

    before, dml.write_by_key = dml.write_by_key, look  # type: ignore[attr-defined]
    try:
        yield found
    finally:
        dml.write_by_key = before  # type: ignore[attr-defined]


class Twins:
    """Two equal tables: ``ours`` is written by key where that is possible, ``sparks`` by Spark."""

    def __init__(self, con: Connection, *, constrained: bool = False) -> None:
        self.con = con
        columns = COLUMNS.replace("b BIGINT", "b BIGINT COMMENT 'x'")
        for name in ("ours", "sparks"):
            con.execute(f"CREATE TABLE {name} ({columns})")
            con.execute(f"ALTER TABLE {name} ALTER COLUMN v SET DEFAULT 7")
            con.execute(f"INSERT INTO {name} VALUES {ROWS}")
            if constrained:
                where = f"delta.`{folder(con, name)}`"
                con.spark.sql(
                    f"ALTER TABLE {where} ADD CONSTRAINT c CHECK (ifnull(v, 0) < 1000 OR k = 3)"
                )
        self.versions = {name: self._version(name) for name in ("ours", "sparks")}

    def run(self, text: str, names: Sequence[str] = ("ours", "sparks")) -> int | Declined | None:
        """Run a statement on both, with equal outcomes; returns what came of looking by key."""
        outcomes: list[tuple[str, object]] = []
        looked: list[int | Declined] = []
        for name in names:
            with watched(by_spark=name == "sparks") as found:
                try:
                    done = self.con.execute(text.replace("{t}", name))
                    outcomes.append((done.status, done.rowcount))
                except CtsqlError as problem:
                    outcomes.append((problem.condition, problem.message.replace(name, "t")))
            looked = found if name == "ours" else looked
        assert len({*outcomes}) == 1, f"{text}: {outcomes}"
        return looked[0] if looked else None

    def check(self, text: str) -> None:
        """Both hold the same, and have changed by the same since the last time."""
        held = [self._rows(f"SELECT * FROM {name}") for name in ("ours", "sparks")]
        assert held[0] == held[1], text
        changes = [self._changes(name) for name in ("ours", "sparks")]
        assert changes[0] == changes[1], text

    def _rows(self, query: str) -> Counter[str]:
        return Counter(map(repr, self.con.execute(query).fetchall()))

    def _version(self, name: str) -> int:
        return versions(folder(self.con, name))[-1]

    def _changes(self, name: str) -> Counter[str]:
        """What a reader of the change data feed sees of the statements since the last time."""
        before, self.versions[name] = self.versions[name], self._version(name)
        if before == self.versions[name]:
            return Counter()
        feed = self.con.spark.read.format("delta").option("readChangeFeed", "true")
        rows = feed.option("startingVersion", before + 1).load(str(folder(self.con, name)))
        kept = rows.drop("_commit_version", "_commit_timestamp")
        return Counter(repr(row.asDict()) for row in kept.collect())


MERGE = f"MERGE INTO {{t}} AS t USING {SOURCE} ON "
BY_KEY = [
    "MERGE INTO {t} AS t USING (SELECT k, v FROM {t} WHERE k = 5) AS u ON t.k = u.k "
    "WHEN MATCHED THEN UPDATE SET v = u.v + t.v",
    "UPDATE {t} SET v = v + 1 WHERE k = 1",
    "UPDATE {t} SET v = DEFAULT, s = NULL, k = k + 10 WHERE k IN (1, 2, 77, NULL)",
    "UPDATE {t} AS x SET v = 5L, s = 3, n = 1.239 WHERE x.k = '5' AND f > 1",
    "UPDATE {t} SET b = length(s) WHERE s = 'a ' AND b IN (50L, 51)",
    "UPDATE {t} SET f = f + 1, d = '2024-02-29' WHERE n = 2.5",
    "UPDATE {t} SET v = 1 WHERE k = 1234567",
    "UPDATE {t} SET v = v WHERE s = 'é'",
    "DELETE FROM {t} WHERE d = DATE'0001-01-01'",
    "DELETE FROM {t} WHERE 2 = k AND v >= 0",
    "DELETE FROM {t} WHERE k = 99",
    f"{MERGE.format(t='{t}', rows='(1, 5, NULL), (8, 6, 1)')} t.k = u.k "
    "WHEN MATCHED THEN UPDATE SET v = u.v + t.v, s = u.k "
    "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (u.k, u.v)",
    f"{MERGE.format(t='{t}', rows='(3, 5, 1), (4, 6, 2), (NULL, 1, 3)')} t.k = u.k "
    "WHEN MATCHED AND u.v > 5 THEN DELETE WHEN MATCHED AND t.v < 3 THEN UPDATE SET f = 1 "
    "WHEN NOT MATCHED AND u.s = 3 THEN INSERT (b, s) VALUES (u.v, u.s)",
    f"{MERGE.format(t='{t}', rows='(100, 5, 1), (100, 5, 1)')} u.k = t.k "
    "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (u.k, u.v)",
]
BY_SPARK = [
    "MERGE INTO {t} AS t USING (SELECT 4 AS k, 'x' AS s, 'y' AS s) AS u ON t.k = u.k "
    "WHEN MATCHED THEN UPDATE SET v = 8",
    f"UPDATE {{t}} SET v = 9 WHERE k IN ({', '.join(map(str, range(200)))}) AND v = 12345",
    "UPDATE {t} SET v = v + 1 WHERE k = 3",
    "UPDATE {t} SET k = 'x' WHERE k = 3",
    "UPDATE {t} SET v = v / 0 WHERE k = 5",
    "UPDATE {t} SET v = 1 WHERE 10 / v > 1 AND k = 1",
    "UPDATE {t} SET v = 2 WHERE k = 4 OR k = 5",
    "UPDATE {t} SET v = 2 WHERE f = 0.0",
    "UPDATE {t} SET v = 2 WHERE s = 'a' COLLATE UTF8_LCASE",
    "UPDATE {t} SET v = 3 WHERE abs(k) = 4",
    "UPDATE {t} SET v = 3 WHERE k = 4 AND rand() < 2",
    "UPDATE {t} SET v = 3",
    "DELETE FROM {t} WHERE k IS NULL",
    f"{MERGE.format(t='{t}', rows='(5, 5, 1), (5, 6, 2)')} t.k = u.k "
    "WHEN MATCHED AND u.v > 100 THEN UPDATE SET v = u.v",
    f"{MERGE.format(t='{t}', rows='(5, 5, 1), (5, 6, 2)')} t.k = u.k "
    "WHEN MATCHED THEN UPDATE SET v = u.v",
    f"{MERGE.format(t='{t}', rows='(5, 5, 1), (5, 6, 2)')} t.k = u.k WHEN MATCHED THEN DELETE",
    f"{MERGE.format(t='{t}', rows='(4, 5, 1)')} t.k = u.k AND t.v > 0 "
    "WHEN MATCHED THEN UPDATE SET v = u.v",
    f"{MERGE.format(t='{t}', rows='(4, 5, 1)')} t.k = u.k WHEN MATCHED THEN UPDATE SET v = u.v "
    "WHEN NOT MATCHED BY SOURCE AND t.k = 2 THEN DELETE",
]


def test_by_key_as_by_spark(con: Connection) -> None:
    """Statements by key equal Spark's own, and take neither its jobs nor another answer."""
    twins = Twins(con)
    for text in BY_KEY:
        done = twins.run(text)
        assert isinstance(done, int), f"{text}: {done}"
    twins.check("by key")
    for text in BY_SPARK:
        assert not isinstance(twins.run(text, names=["ours"]), int), text
    engine = engine_of(con)
    meter = Meter(engine.session)
    con.execute("UPDATE ours SET v = 9 WHERE k = 2; DELETE FROM ours WHERE k = 2")
    assert meter.work().jobs == 0


def test_constraints_hold(con: Connection) -> None:
    """A row that breaks a CHECK is refused as by Spark; other rows go in, and so do changes."""
    twins = Twins(con, constrained=True)
    assert twins.run("UPDATE {t} SET v = 999 WHERE k = 1") == 1
    assert isinstance(twins.run("UPDATE {t} SET v = 1000 WHERE k = 1"), Declined)
    assert (
        twins.run(
            f"{MERGE.format(t='{t}', rows='(1, 5, 1), (9, 6, 2)')} t.k = u.k "
            "WHEN MATCHED THEN UPDATE SET v = u.v WHEN NOT MATCHED THEN INSERT (k) VALUES (u.k)"
        )
        == 2
    )
    twins.check("constrained")
    where = f"delta.`{folder(con, 'ours')}`"
    con.spark.sql(f"ALTER TABLE {where} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(CtsqlError):
        con.execute("UPDATE ours SET v = 1 WHERE k = 1")


def test_another_writer_comes_first(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of Spark's between reading and committing is seen: the rows are looked for again."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 1), (2, 2)")
    where = f"delta.`{folder(con, 't')}`"
    others = [
        f"UPDATE {where} SET v = 10 WHERE k = 1",
        f"INSERT INTO {where} VALUES (1, 100)",
        f"DELETE FROM {where} WHERE v = 10",
    ]
    commit = keyed_writes._commit

    def late(*given: Any) -> None:
        if others:
            con.spark.sql(others.pop(0))
        commit(*given)

    monkeypatch.setattr(keyed_writes, "_commit", late)
    assert con.execute("UPDATE t SET v = v + 1 WHERE k = 1").status == "UPDATE 1"
    assert sorted(con.execute("SELECT * FROM t").fetchall()) == [(1, 101), (2, 2)]
    table = folder(con, "t")
    rows = {name for name in data_files(table) if name.endswith(".parquet")}
    assert rows <= named_files(table), "files of lost tries are gone"


FEW = 8
KEYS = st.sampled_from(["1", "2", "3", "'4'", "5L", "NULL", "1 + 1", "9", "2147483648L"])
VALUES = st.sampled_from(["1", "v + 1", "NULL", "b", "v * k", "DEFAULT", "10 / k", "length(s)"])
RESTS = st.sampled_from(["", " AND v > 1", " AND s = 'a'", " AND 10 / v > 2", " AND b IN (10, 20)"])
CLAUSES = st.lists(
    st.sampled_from(
        [
            "WHEN MATCHED AND u.v > 2 THEN UPDATE SET v = u.v",
            "WHEN MATCHED AND t.v > 2 THEN DELETE",
            "WHEN NOT MATCHED AND u.v > 2 THEN INSERT (k, v) VALUES (u.k, u.v)",
            "WHEN NOT MATCHED AND u.v / u.k > 0 THEN INSERT (k, b) VALUES (u.k, u.v)",
        ]
    ),
    min_size=1,
    max_size=3,
    unique=True,
).map(lambda clauses: " ".join(sorted(clauses)))
CONDITIONS = st.one_of(
    st.builds("k = {}{}".format, KEYS, RESTS),
    st.builds("k IN ({}, {}){}".format, KEYS, KEYS, RESTS),
    st.builds("s = '{}'{}".format, st.sampled_from(["a", "b", ""]), RESTS),
    st.builds("v > 1 AND k = {}".format, KEYS),
)
SOURCES = st.lists(
    st.builds("({}, {}, 1)".format, st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=3
).map(", ".join)
STATEMENTS = st.one_of(
    st.builds(
        "UPDATE {{t}} SET {} = {} WHERE {}".format, st.sampled_from("kvb"), VALUES, CONDITIONS
    ),
    st.builds("DELETE FROM {{t}} WHERE {}".format, CONDITIONS),
    st.builds("INSERT INTO {{t}} (k, s, v) VALUES ({}, 'a', 3)".format, st.integers(0, 6)),
    st.builds(
        lambda rows, clauses: f"{MERGE.format(t='{t}', rows=rows)} t.k = u.k {clauses}",
        SOURCES,
        CLAUSES,
    ),
)


@pytest.mark.parametrize(
    "count", [pytest.param(FEW, id="few"), pytest.param(150, id="many", marks=pytest.mark.slow)]
)
def test_random_statements_equal_sparks(connect: Callable[[], Connection], count: int) -> None:
    """Any row of statements leaves both tables equal, with equal counts, changes and errors."""
    twins = Twins(connect())

    @settings(
        max_examples=count,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(STATEMENTS)
    def runs(text: str) -> None:
        twins.run(text)
        if count > FEW:
            twins.check(text)

    runs()
    twins.check("all")


def test_history_says_what_it_was(con: Connection) -> None:
    """DESCRIBE HISTORY of Spark tells the statement and the number of rows."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 1), (2, 2)")
    con.execute("UPDATE t SET v = 3 WHERE k = 1; DELETE FROM t WHERE k = 2")
    con.execute(
        f"{MERGE.format(t='t', rows='(1, 5, 1), (7, 6, 2)')} t.k = u.k "
        "WHEN MATCHED THEN UPDATE SET v = u.v WHEN NOT MATCHED THEN INSERT (k) VALUES (u.k)"
    )
    told = con.spark.sql(f"DESCRIBE HISTORY delta.`{folder(con, 't')}` LIMIT 3").collect()
    assert [row["operation"] for row in told] == ["MERGE", "DELETE", "UPDATE"]
    merge, delete, update = (row["operationMetrics"] for row in told)
    kinds = ("Source", "TargetRowsUpdated", "TargetRowsInserted", "TargetRowsDeleted")
    names = [f"num{kind}Rows" if kind == "Source" else f"num{kind}" for kind in kinds]
    assert [merge[name] for name in names] == ["2", "1", "1", "0"]
    assert (delete["numDeletedRows"], update["numUpdatedRows"]) == ("1", "1")
    assert "k" in json.dumps(told[2]["operationParameters"])
