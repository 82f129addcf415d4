"""What is read from a text means to Spark what the text itself means, or is not read at all."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F

from ctsql.api import Connection
from ctsql.catalog.schemas import Column
from ctsql.planner.ivm import ChangePlan, change_plan, name_by
from tests.spark.planner.random_conditions import Conditions
from tests.spark.planner.spark_texts import COLUMNS, ITEMS, QUERIES, ROWS

# Read by Spark alone: sqlglot reads none of them, and nothing is guessed.
LEFT_TO_SPARK = {
    "k >>> 1", "k !> i", "k !< i", "TRY_CAST(s AS INT)", "FROM v |> WHERE k > 1 |> SELECT k",
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(shared: tuple[Connection, object]) -> Iterator[DataFrame]:
    """The relations ``v`` and ``w``."""
    spark = shared[0].spark
    names = [c.name for c in spark.createDataFrame([], COLUMNS).schema]
    made = spark.sql(f"SELECT * FROM VALUES {ROWS}").toDF(*names)
    fields = spark.createDataFrame([], COLUMNS).schema
    made = made.select(*(made[f.name].cast(f.dataType) for f in fields))
    made.createOrReplaceTempView("v")
    spark.sql("SELECT * FROM VALUES (1, 2), (2, 2), (2, 7), (NULL, 1)").toDF(
        "k", "p"
    ).createOrReplaceTempView("w")
    yield made
    spark.catalog.dropTempView("v")
    spark.catalog.dropTempView("w")


def again(rows: DataFrame, query: str, names: Sequence[str]) -> str | None:
    """The query as it is printed from what was read; None if it is not read."""
    spark = rows.sparkSession
    tables = {
        name: [Column(f.name, f.dataType.simpleString()) for f in spark.table(name).schema]
        for name in ("v", "w")
    }
    plan = change_plan(query, tables, names)
    return plan.normal().sql(name_by(lambda u: u.table)) if isinstance(plan, ChangePlan) else None


def bag(frame: DataFrame) -> Counter[Any]:
    return Counter(repr(tuple(row)) for row in frame.collect())


@pytest.mark.slow
def test_items(rows: DataFrame) -> None:
    """Literals, operators and forms, each as a column: read, printed and run again."""
    spark = rows.sparkSession
    unread = {i for i in ITEMS if again(rows, f"SELECT {i} AS r FROM v", ["r"]) is None}
    assert unread == LEFT_TO_SPARK & set(ITEMS)
    plain = [i for i in ITEMS if i not in unread and "COLLATE" not in i]
    for items in (plain, *([i] for i in ITEMS if "COLLATE" in i)):  # a view has one collation
        names = [f"r{number}" for number in range(len(items))]
        listed = ", ".join(f"{i} AS {n}" for i, n in zip(items, names, strict=True))
        printed = again(rows, f"SELECT {listed} FROM v", names)
        assert printed is not None, items
        ours, theirs = spark.sql(printed), spark.sql(f"SELECT {listed} FROM v")
        assert [f.dataType for f in ours.schema] == [f.dataType for f in theirs.schema]
        ours_rows, theirs_rows = ours.collect(), theirs.collect()
        for place, item in enumerate(items):
            found = [Counter(repr(row[place]) for row in side) for side in (ours_rows, theirs_rows)]
            assert found[0] == found[1], item


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_queries(rows: DataFrame, query: str) -> None:
    """Set operations, joins and clauses: read, printed and run again."""
    spark = rows.sparkSession
    if query in LEFT_TO_SPARK:
        assert again(rows, query, []) is None
        return
    theirs = spark.sql(query)
    printed = again(rows, query, [f"r{i}" for i in range(len(theirs.columns))])
    assert printed is not None
    ours = spark.sql(printed)
    assert [f.dataType for f in ours.schema] == [f.dataType for f in theirs.schema]
    assert bag(ours) == bag(theirs)


CONDITIONED = {name: [Column("k", "int"), Column("n", "int")] for name in "stu"}


def check_conditions(spark: SparkSession, number: int) -> int:
    """Forty conditions of a seed, Spark asked once for all; how many were there to be asked?"""
    seed = random.Random(number)
    made = Conditions(seed)
    for name in CONDITIONED:
        spark.createDataFrame(made.rows(), "k INT, n INT").createOrReplaceTempView(name)
    asked: list[DataFrame] = []
    queries: list[str] = []
    for _ in range(40):
        query = f"SELECT t.k, t.n, 1 AS r FROM t WHERE {made.condition()}"
        if seed.random() < 0.3:
            query = f"SELECT t.k, t.n, CAST(({made.condition()}) AS INT) AS r FROM t"
        try:
            frame = spark.sql(query)
        except AnalysisException:
            continue  # a subquery that Spark does not take
        plan = change_plan(query, CONDITIONED, ["k", "n", "r"])
        assert isinstance(plan, ChangePlan), query
        printed = spark.sql(plan.normal().sql(name_by(lambda use: use.table)))
        for side, rows in (("printed", printed), ("query", frame)):
            told = [F.lit(len(queries)).alias("q"), F.lit(side).alias("side"), "*"]
            asked.append(rows.select(*told))
        queries.append(query)
    found = [(Counter[Any](), Counter[Any]()) for _ in queries]
    for row in reduce(DataFrame.unionAll, asked).collect():
        found[row["q"]][row["side"] == "query"][tuple(row)[2:]] += 1
    for name in CONDITIONED:
        spark.catalog.dropTempView(name)  # the session is shared
    for query, (ours, theirs) in zip(queries, found, strict=True):
        assert ours == theirs, (number, query)
    return len(queries)


def test_a_fixed_set_of_conditions(shared: tuple[Connection, object]) -> None:
    """With subqueries of all kinds, and NULL everywhere."""
    assert check_conditions(shared[0].spark, 2) > 12


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 1_080, 20))
def test_many_conditions(shared: tuple[Connection, object], first: int) -> None:
    """The same for more than a thousand."""
    assert sum(check_conditions(shared[0].spark, first + i) for i in range(20)) > 300
