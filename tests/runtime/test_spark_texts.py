"""What is read from a text means to Spark what the text itself means, or is not read at all."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame

from ctsql.api import Connection
from ctsql.catalog.schemas import Column
from ctsql.planner.changes import ChangePlan, Naming, change_plan
from tests.runtime.spark_texts import COLUMNS, ITEMS, QUERIES, ROWS
from tests.runtime.test_in_process import mine

pytestmark = pytest.mark.spark

# Read by Spark alone: sqlglot reads none of them, and nothing is guessed.
LEFT_TO_SPARK = {
    *("k >>> 1", "k !> i", "k !< i", "TRY_CAST(s AS INT)", "FROM v |> WHERE k > 1 |> SELECT k"),
    "SELECT k FROM v WHERE k IN (SELECT k FROM w) = b",  # Spark refuses it
}


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
    return (
        plan.normal(Naming(table=lambda u: u.table)).sql if isinstance(plan, ChangePlan) else None
    )


def bag(frame: DataFrame) -> Counter[Any]:
    return Counter(repr(tuple(row)) for row in frame.collect())


@pytest.mark.slow
def test_items(rows: DataFrame) -> None:
    """Literals, operators and forms, each as a column: read, printed and run again."""
    spark = rows.sparkSession
    unread = {i for i in ITEMS if again(rows, f"SELECT {i} AS r FROM v", ["r"]) is None}
    assert unread == LEFT_TO_SPARK & set(ITEMS)
    items = [i for i in ITEMS if i not in unread]
    names = [f"r{number}" for number in range(len(items))]
    listed = ", ".join(f"{i} AS {n}" for i, n in zip(items, names, strict=True))
    printed = again(rows, f"SELECT {listed} FROM v", names)
    assert printed is not None
    ours, theirs = spark.sql(printed), spark.sql(f"SELECT {listed} FROM v")
    assert [f.dataType for f in ours.schema] == [f.dataType for f in theirs.schema]
    ours_rows, theirs_rows = ours.collect(), theirs.collect()
    for place, item in enumerate(items):
        found = [Counter(repr(row[place]) for row in side) for side in (ours_rows, theirs_rows)]
        assert found[0] == found[1], item
    for place, item in enumerate(items):
        held = mine(rows, f"SELECT {item} AS r FROM v") if " w" not in item else None
        if held is not None:
            here = Counter(repr(value) for value in held.arrow.column("r").to_pylist())
            assert here == Counter(repr(row[place]) for row in theirs_rows), item


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
