"""The tables of the battery: ``t`` in one of its homes and ``u``, with a column for each type.

``con`` is ctsql; ``plain`` a session of Spark and Delta that knows nothing of it.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import SparkSession

from ctsql.api import Connection
from ctsql.runtime.spark.internals.sessions import compare_not_in_by_value
from tests.differential.arrivals import Home
from tests.differential.kinds import PARTITION, Kind, column, picked

_PLAIN = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Spark 4.2 takes no batch of cached rows that has only NaN for one that holds `c = NaN`.
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    # Spark's join for NOT IN takes 0.0 and -0.0 for two values.
    "spark.sql.optimizeNullAwareAntiJoin": "false",
    # Rows that the driver holds keep dates of any year.
    "spark.sql.datetime.java8API.enabled": "true",
}
ONCE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Each query is run once over few rows: compiling it would take longer than running it."""
FEW_ROWS_MAX = 1_000
PARTITIONS_MAX = 2
"""Columns that one table is partitioned by: of each pair of values there is a folder."""


class World:
    """A warehouse with the two tables.

    Attributes:
        salt: grows with each arrival, so that rows get other values. size: rows at the beginning.
    """

    def __init__(
        self, con: Connection, folder: Path, kinds: Sequence[Kind], home: Home, size: int, seed: int
    ) -> None:
        self.con = con
        self.kinds = tuple(kinds)
        self.home = home
        self.size = size
        self.salt = seed
        self.plain: SparkSession = con.spark.newSession()
        for key, value in (_PLAIN | ONCE).items():
            self.plain.conf.set(key, value)
        compare_not_in_by_value(self.plain)
        if size <= FEW_ROWS_MAX:
            for key, value in ONCE.items():
                con.execute(f"SET {key} = '{value}'")
        self._paths: dict[str, str] = {}
        self._ids = 0
        self._make(folder, seed)

    @property
    def columns(self) -> list[str]:
        """Of both tables."""
        return ["id", "g", *(column(k) for k in self.kinds)]

    def path(self, name: str) -> str:
        """The folder of an object."""
        if name not in self._paths:
            rows = self.con.execute(f"DESCRIBE EXTENDED {name}").fetchall()
            (location,) = [str(value) for key, value, *_ in rows if key == "# location"]
            self._paths[name] = unquote(location.removeprefix("file:"))
        return self._paths[name]

    # ---- rows

    def _rows(self, start: int, stop: int) -> str:
        self.salt += 1
        values = ", ".join(f"{picked(k, 'id', self.salt)} AS {column(k)}" for k in self.kinds)
        return (
            f"SELECT CAST(id AS INT) AS id, CAST(pmod(xxhash64(id, {self.salt}), 3) AS INT) AS g, "
            f"{values} FROM range({start}, {stop})"
        )

    def fresh(self) -> str:
        """Rows with new ids: a query."""
        start, self._ids = self._ids, self._ids + max(self.size // 3, 4)
        return self._rows(start, self._ids)

    def over_some(self) -> str:
        """Rows of which some have ids that are there: a query."""
        start = max(self._ids - self.size, 0)
        self._ids += 4
        return self._rows(start, self._ids)

    def assignments(self) -> str:
        """Other values for every type: the SET clause of an UPDATE."""
        self.salt += 1
        return ", ".join(f"{column(k)} = {picked(k, 'id', self.salt)}" for k in self.kinds)

    def arrow(self, query: str) -> pa.Table:
        """The rows of a query, for delta-rs."""
        return self.plain.sql(query).toArrow()

    def show(self) -> None:
        """Let plain Spark see the tables as they are now."""
        # Spark takes what is cached of a table for the table, whatever its version.
        self.plain.catalog.clearCache()
        for table in ("t", "u"):
            rows = self.plain.read.format("delta").load(self.path(table))
            rows.createOrReplaceTempView(table)
            rows.cache()

    # ---- tables

    def _make(self, folder: Path, seed: int) -> None:
        declared = ", ".join(["id INT", "g INT", *(f"{column(k)} {k.sql}" for k in self.kinds)])
        self._ids = self.size
        first, second = self._rows(0, self.size), self._rows(self.size // 2, self.size * 3 // 2)
        place = str(folder / "foreign")
        match self.home.made_by:
            case "ctsql":
                # The name of a folder has no NUL, so Spark cannot write such a partition.
                able = [k for k in self.kinds if PARTITION in k.can]
                parts = [column(k) for k in able if not any(r"\0" in x for x in k.literals)]
                by = random.Random(seed).sample(parts, min(PARTITIONS_MAX, len(parts)))
                parted = (
                    f" PARTITIONED BY ({', '.join(by)})" if self.home.partitioned and by else ""
                )
                self.con.execute(f"CREATE TABLE t ({declared}){parted}; INSERT INTO t {first}")
            case "Spark":
                self.plain.sql(
                    f"CREATE TABLE delta.`{place}` ({declared}) USING delta "
                    f"TBLPROPERTIES ({self.home.properties})"
                )
                self.plain.sql(f"INSERT INTO delta.`{place}` {first}")
                self.con.execute(f"CREATE TABLE t LOCATION '{place}'")
            case "delta-rs":
                from deltalake import write_deltalake

                write_deltalake(place, self.arrow(first))
                self.con.execute(f"CREATE TABLE t LOCATION '{place}'")
        self.con.execute(f"CREATE TABLE u ({declared}); INSERT INTO u {second}")
