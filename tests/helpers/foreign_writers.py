"""Acts of foreign writers that change a table's columns, partitioning or identity, and readers.

Each act begins with the same table of four columns. What readers must give is told by Spark, from
the versions of the very table, each read by Delta itself.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError

COLUMNS = ("k", "s", "v", "w")
BASE: list[tuple[Any, ...]] = [(1, "a", 10, 1), (2, "b", 20, 2), (2, "b", 20, 2), (4, "d", 3, 4)]


@dataclass(frozen=True)
class Place:
    """A table that a foreign writer writes."""

    spark: SparkSession
    path: str

    @property
    def name(self) -> str:
        """As Spark's SQL knows it."""
        return f"delta.`{self.path}`"

    def sql(self, text: str) -> None:
        """Run a statement; ``{t}`` is the table."""
        self.spark.sql(text.replace("{t}", self.name))

    def overwrite(self, rows: Sequence[tuple[Any, ...]], columns: str, *parts: str) -> None:
        """Replace all rows, the columns and the partitioning, by Spark."""
        writer = self.spark.createDataFrame(list(rows), columns).coalesce(1).write
        writer = writer.format("delta").mode("overwrite").option("overwriteSchema", "true")
        (writer.partitionBy(*parts) if parts else writer).save(self.path)

    def make(self, rows: Sequence[tuple[Any, ...]] = BASE) -> None:
        """The table as every act finds it."""
        self.sql("CREATE TABLE {t} (k INT, s STRING, v INT, w INT) USING delta")
        self.insert(*rows)

    def insert(self, *rows: tuple[Any, ...]) -> None:
        """Append rows by Spark."""
        told = ", ".join(str(r).replace("None", "NULL") for r in rows)
        self.sql(f"INSERT INTO {{t}} VALUES {told}")

    def by_delta_rs(self, rows: Sequence[tuple[Any, ...]], types: str, **how: Any) -> None:
        """Write by delta-rs; ``types`` is one letter a column: i, l or s."""
        kinds = {"i": pa.int32(), "l": pa.int64(), "s": pa.string()}
        columns = {
            name: pa.array([r[n] for r in rows], kinds[types[n]])
            for n, name in enumerate(COLUMNS[: len(types)])
        }
        deltalake.write_deltalake(self.path, pa.table(columns), **how)

    def maps_columns(self) -> None:
        """Let columns be renamed and dropped."""
        self.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")

    @property
    def version(self) -> int:
        """The newest version, by the files of the log."""
        commits = Path(self.path, "_delta_log").glob("0*.json")
        return max(int(p.stem) for p in commits if p.stem.isdigit())


Step = Callable[[Place], None]


def _sql(*texts: str) -> list[Step]:
    return [lambda p, t=t: p.sql(t) for t in texts]


def _mapped(*texts: str) -> list[Step]:
    return [Place.maps_columns, *_sql(*texts)]


def _go_back(versions: int) -> Step:
    """Restore the table as it was so many versions ago."""
    return lambda p: p.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {p.version - versions}")


def _insert(text: str) -> Step:
    return lambda p: p.sql(f"INSERT INTO {{t}} VALUES {text}")


ACTS: dict[str, list[Step]] = {
    "repartitioned": [
        lambda p: p.overwrite(
            [(1, "a", 10, 1), (3, "c", 30, 3)], "k INT, s STRING, v INT, w INT", "k"
        ),
        _insert("(5, 'e', 50, 5)"),
        lambda p: p.overwrite([(5, "e", 50, 5)], "k INT, s STRING, v INT, w INT"),
    ],
    "repartitioned by delta-rs": [
        lambda p: p.by_delta_rs(
            [(1, "a", 10, 1), (3, "c", 30, 3)],
            "isii",
            mode="overwrite",
            schema_mode="overwrite",
            partition_by=["k", "s"],
        ),
        lambda p: p.by_delta_rs([(5, "e", 50, 5)], "isii", mode="append"),
    ],
    "retyped to text": [
        lambda p: p.overwrite(
            [(1, "a", "10", 1), (3, "c", "x", 3)], "k INT, s STRING, v STRING, w INT"
        ),
        _insert("(5, 'e', '50', 5)"),
    ],
    "retyped by delta-rs": [
        lambda p: p.by_delta_rs(
            [(1, "a", 10, 1), (3, "c", 30, 3)], "isll", mode="overwrite", schema_mode="overwrite"
        ),
        lambda p: p.by_delta_rs([(5, "e", 5_000_000_000, 5)], "isll", mode="append"),
    ],
    "column added": [
        *_sql("ALTER TABLE {t} ADD COLUMNS (x INT)"),
        _insert("(5, 'e', 50, 5, 55)"),
    ],
    "column merged in": [
        lambda p: (
            p.spark.createDataFrame([(5, "e", 50, 5, 1)], "k INT, s STRING, v INT, w INT, x INT")
            .write.format("delta")
            .mode("append")
            .option("mergeSchema", "true")
            .save(p.path)
        ),
    ],
    "column dropped": [*_mapped("ALTER TABLE {t} DROP COLUMN v"), _insert("(5, 'e', 5)")],
    "other column dropped": [*_mapped("ALTER TABLE {t} DROP COLUMN w"), _insert("(5, 'e', 50)")],
    "dropped and added": [
        *_mapped("ALTER TABLE {t} DROP COLUMN s", "ALTER TABLE {t} ADD COLUMN s STRING AFTER k"),
        _insert("(5, 'e', 50, 5)"),
    ],
    "renamed": [
        *_mapped("ALTER TABLE {t} RENAME COLUMN s TO s2"),
        _insert("(5, 'e', 50, 5)"),
        *_sql("ALTER TABLE {t} RENAME COLUMN s2 TO s"),
        _insert("(6, 'f', 60, 6)"),
    ],
    "swapped": [
        *_mapped(
            "ALTER TABLE {t} RENAME COLUMN v TO x",
            "ALTER TABLE {t} RENAME COLUMN w TO v",
            "ALTER TABLE {t} RENAME COLUMN x TO w",
        ),
        _insert("(5, 'e', 50, 5)"),
    ],
    "widened": [
        *_sql(
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
            "ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT",
        ),
        _insert("(5, 'e', 5, 5)"),
        *_sql("DELETE FROM {t} WHERE k = 2"),
    ],
    "reordered": [
        *_sql("ALTER TABLE {t} ALTER COLUMN v FIRST"),
        _insert("(50, 5, 'e', 5)"),
    ],
    "mapped": [
        Place.maps_columns,
        _insert("(5, 'e', 50, 5)"),
        *_sql("DELETE FROM {t} WHERE k = 1"),
    ],
    "replaced": [
        *_sql(
            "CREATE OR REPLACE TABLE {t} USING delta PARTITIONED BY (s) AS"
            " SELECT 1 AS k, 'a' AS s, 10 AS v, 1 AS w UNION ALL SELECT 9, 'z', 90, 9"
        ),
        _insert("(5, 'e', 50, 5)"),
    ],
    "restored": [
        *_sql("ALTER TABLE {t} ADD COLUMNS (x INT)"),
        _insert("(5, 'e', 50, 5, 55)"),
        *_sql("RESTORE TABLE {t} TO VERSION AS OF 1"),
        _insert("(6, 'f', 60, 6)"),
    ],
    "restored with other rows deleted": [
        *_sql(
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
            "OPTIMIZE {t}",
            "DELETE FROM {t} WHERE k = 1",
        ),
        _go_back(1),
        *_sql("DELETE FROM {t} WHERE k = 2"),
        _go_back(2),
        _go_back(1),
    ],
}

VIEWS = {
    "kept": "SELECT k, s, v FROM {t} WHERE v > 5",
    "joined": "SELECT t.k, t.s, dim.name FROM {t} AS t JOIN dim ON t.k = dim.k",
    "grouped": "SELECT s, sum(v) AS total, count(*) AS n FROM {t} GROUP BY s",
    "whole": "SELECT k, s, v, w FROM {t}",
}
TASKS = {
    "latest": "(k INT, s STRING, v INT) ON INPUT t AS (DELETE FROM latest WHERE k IN "
    "(SELECT k FROM t); INSERT INTO latest SELECT k, max(s), max(v) FROM t GROUP BY k)",
    "told": "(k INT, s STRING, v INT, d BIGINT) ON INPUT t AS "
    "(INSERT INTO told SELECT k, s, v, diff FROM changes(t))",
}

Bag = Counter[tuple[Any, ...]]


def bag(rows: Sequence[Sequence[Any]]) -> Bag:
    """Rows as a multiset."""
    return Counter(tuple(r) for r in rows)


def attach(con: Connection, place: Place) -> None:
    """Objects of every kind over a table."""
    con.execute(f"CREATE TABLE t LOCATION '{place.path}'")
    con.execute("CREATE TABLE dim (k INT, name STRING)")
    con.execute("INSERT INTO dim VALUES (1, 'one'), (2, 'two'), (5, 'five')")
    for name, text in VIEWS.items():
        query = text.replace("{t}", "t")
        con.execute(
            f"CREATE MATERIALIZED VIEW {name} WITH (REFRESH POLICY = incremental) AS {query}"
        )
    for name, text in TASKS.items():
        con.execute(f"CREATE CONTINUAL TASK {name} {text}")


def by_spark(place: Place, text: str, version: int | None = None) -> Bag | None:
    """What Spark gives of a query over a version of the table; None where it refuses it."""
    at = "" if version is None else f" VERSION AS OF {version}"
    text = text.replace("{t}", f"(SELECT * FROM {place.name}{at})")
    text = text.replace(
        "JOIN dim", "JOIN (VALUES (1, 'one'), (2, 'two'), (5, 'five')) dim(k, name)"
    )
    try:
        return bag(place.spark.sql(text).collect())
    except PySparkException:
        return None


def by_ctsql(con: Connection, text: str) -> Bag | CtsqlError:
    """What a statement gives, or its error."""
    try:
        return bag(con.execute(text).fetchall())
    except CtsqlError as problem:
        return problem


def remove(place: Place) -> None:
    """Delete a table as a foreigner would."""
    shutil.rmtree(place.path)
