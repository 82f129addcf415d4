"""Statements of a small, warm warehouse, by ctsql and by plain Spark and Delta, in turns.

    python -m benchmarks.statements --rounds 9

The rival is Spark's nearest statement: CREATE TABLE, SELECT from an equal table, and CREATE TABLE
AS SELECT for a materialized view and for a task, which begins with its input's rows. Tables that
are read have 100 rows. All run in one session; drops are not timed. Seconds are medians: read them
as ratios of one run. Jobs and commits are counted.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

import ctsql
from benchmarks.measures import Series, delta_properties, table
from ctsql.runtime.spark.internals.sessions import active

WARM_UP_ROUNDS = 3
ROWS = 100
QUERY = "SELECT k % 10 AS d, sum(v) AS v, count(*) AS n FROM {t} GROUP BY k % 10"
UPSERT = "DELETE FROM {t} WHERE k IN (SELECT k FROM given); INSERT INTO {t} SELECT k, v FROM given;"


@dataclass(frozen=True, slots=True)
class Pair:
    """A statement of ctsql and one of Spark; ``{n}`` is the number of the round."""

    name: str
    ours: str
    sparks: str
    after: str = ""
    """Undoes ctsql's statement."""


def pairs(folder: str, properties: str) -> Iterator[Pair]:
    """The compared statements.

    Args:
        properties: the table properties of ctsql's CREATE TABLE, for Spark's tables.
    """
    columns = "(k BIGINT, v BIGINT)"
    new = f"delta.`{folder}/{{kind}}{{{{n}}}}`"
    create = f"CREATE TABLE {new} {columns} USING delta TBLPROPERTIES ({properties})"
    create_as = f"CREATE TABLE {new} USING delta TBLPROPERTIES ({properties})"
    yield Pair(
        "CREATE TABLE",
        f"CREATE TABLE made{{n}} {columns}",
        create.format(kind="table"),
        "DROP TABLE made{n}",
    )
    plain = f"delta.`{folder}/plain`"
    yield Pair(
        "INSERT of one row",
        "INSERT INTO written VALUES ({n}, 1)",
        f"INSERT INTO delta.`{folder}/written` VALUES ({{n}}, 1)",
    )
    for name in ("given", "upserted"):
        kind = "table" if name == "given" else "task"
        yield Pair(f"SELECT of a {kind}", f"SELECT * FROM {name}", f"SELECT * FROM {plain}")
    yield Pair("SELECT of a view", "SELECT * FROM viewed", f"SELECT * FROM delta.`{folder}/groups`")
    yield Pair(
        "CREATE CONTINUAL TASK",
        f"CREATE CONTINUAL TASK task{{n}} {columns} ON INPUT given AS ("
        + UPSERT.format(t="task{n}")
        + ")",
        f"{create_as.format(kind='task')} AS SELECT * FROM {plain}",
        "DROP CONTINUAL TASK task{n}",
    )
    yield Pair(
        "CREATE MATERIALIZED VIEW",
        "CREATE MATERIALIZED VIEW view{n} AS " + QUERY.format(t="given"),
        f"{create_as.format(kind='view')} AS " + QUERY.format(t=plain),
        "DROP MATERIALIZED VIEW view{n}",
    )


def _fetch(result: ctsql.Result) -> None:
    """Fetch the rows, if there are any, as Spark's side does."""
    if result.description is not None:
        result.fetchall()


class House:
    """A warehouse with a table, a task and a view, and equal tables for plain Spark."""

    def __init__(self, folder: str) -> None:
        self.folder, self.rival = folder, f"{folder}/rival"
        self.con = ctsql.connect(f"{folder}/warehouse")
        for name in ("given", "written"):
            self.con.execute(f"CREATE TABLE {name} (k BIGINT, v BIGINT)")
        self.con.execute(
            "CREATE CONTINUAL TASK upserted (k BIGINT, v BIGINT) ON INPUT given AS ("
            + UPSERT.format(t="upserted")
            + ")"
        )
        self.con.execute(f"INSERT INTO given SELECT id, id FROM range(0, {ROWS}, 1, 1)")
        self.con.execute("CREATE MATERIALIZED VIEW viewed AS " + QUERY.format(t="given"))
        self.con.run(once=True)
        engine = self.con._engine
        assert engine is not None  # it has run statements
        self.session: SparkSession = engine.session
        source = next(i for i in engine.catalog if i.name.name == "given")
        there = engine.gateway.table(str(source.location)).metadata.configuration
        self.properties = delta_properties(there)
        with active(self.session):
            for name in ("plain", "written"):
                self.session.sql(
                    f"CREATE TABLE delta.`{self.rival}/{name}` (k BIGINT, v BIGINT) USING delta "
                    f"TBLPROPERTIES ({self.properties})"
                )
            self.session.sql(
                f"INSERT INTO delta.`{self.rival}/plain` SELECT id, id FROM range(0, {ROWS}, 1, 1)"
            )
            self.session.sql(
                f"CREATE TABLE delta.`{self.rival}/groups` USING delta AS "
                + QUERY.format(t=f"delta.`{self.rival}/plain`")
            )

    def measure(self, pair: Pair, rounds: int) -> None:
        """Run both statements in turns and print their costs."""
        ours = Series(self.session, "ctsql", [f"{self.folder}/warehouse"])
        sparks = Series(self.session, "plain Spark and Delta", [self.rival])
        for n in range(WARM_UP_ROUNDS + rounds):
            with active(self.session):
                there = pair.sparks.format(n=n)
                sparks.measure(lambda there=there: self.session.sql(there).collect())  # type: ignore[misc]
            here = pair.ours.format(n=n)
            ours.measure(lambda here=here: _fetch(self.con.execute(here)))  # type: ignore[misc]
            if pair.after:
                self.con.execute(pair.after.format(n=n))
        for series in (sparks, ours):
            del series.costs[:WARM_UP_ROUNDS]
        table(pair.name, [sparks, ours])


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctsql-bench-", ignore_cleanup_errors=True) as folder:
        house = House(folder)
        for pair in pairs(house.rival, house.properties):
            house.measure(pair, options.rounds)
        house.con.close()


if __name__ == "__main__":
    main()
