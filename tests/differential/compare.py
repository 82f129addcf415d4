"""Compares views with their queries, many of them in one Spark job.

The desired side is the query run by plain Spark on the Delta tables, the stored side the view's
Delta table as any reader sees it. Names and types of columns are compared as well as rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.differential import exact

AT_ONCE = 6
SHOWN_MAX = 6
"""Rows that differ, shown of each view."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A stored table and the query that it must equal.

    Attributes:
        zeros: 0.0 and -0.0 are one.
    """

    name: str
    query: str
    path: str
    zeros: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """What is wrong with one of them."""

    name: str
    what: str


def compare(session: SparkSession, pairs: Sequence[Pair]) -> list[Difference]:
    """What differs; an error on either side is a difference of its own."""
    found: list[Difference] = []
    for start in range(0, len(pairs), AT_ONCE):
        found += _compare(session, pairs[start : start + AT_ONCE])
    return found


def _compare(session: SparkSession, pairs: Sequence[Pair]) -> list[Difference]:
    found: list[Difference] = []
    sides: list[DataFrame] = []
    for pair in pairs:
        try:
            desired = session.sql(pair.query)
            stored = session.read.format("delta").load(pair.path)
            told = [(f.name, f.dataType.simpleString()) for f in desired.schema.fields]
            kept = [(f.name, f.dataType.simpleString()) for f in stored.schema.fields]
        except PySparkException as problem:
            found.append(Difference(pair.name, f"cannot be analyzed: {_line(problem)}"))
            continue
        if told != kept:
            found.append(Difference(pair.name, f"columns are {kept}, not {told}"))
            continue
        sides += [_side(desired, pair, 1), _side(stored, pair, -1)]
    if not sides:
        return found
    try:
        return found + _differing(session, sides)
    except PySparkException as problem:
        if len(pairs) == 1:
            return [*found, Difference(pairs[0].name, f"cannot be computed: {_line(problem)}")]
        return [one for pair in pairs for one in _compare(session, [pair])]


def _side(rows: DataFrame, pair: Pair, weight: int) -> DataFrame:
    text = exact.row(rows.schema, zeros=pair.zeros)
    name = pair.name.replace("'", "''")
    return rows.selectExpr(f"'{name}' AS name", f"{text} AS row", f"{weight} AS n")


def _differing(session: SparkSession, sides: Sequence[DataFrame]) -> list[Difference]:
    for number, side in enumerate(sides):
        side.createOrReplaceTempView(f"side{number}")
    # As one text: a DataFrame for each union would be analyzed with all before it.
    both = " UNION ALL ".join(f"SELECT * FROM side{number}" for number in range(len(sides)))
    rows = session.sql(
        f"SELECT name, row, sum(n) AS n FROM ({both}) GROUP BY name, row HAVING sum(n) <> 0"
    ).collect()
    by_name: dict[str, list[str]] = {}
    for name, row, n in sorted(rows):
        by_name.setdefault(name, []).append(
            f"{'missing' if n > 0 else 'too much'} {abs(n)} x {row}"
        )
    return [
        Difference(name, f"{len(told)} rows: {'; '.join(told[:SHOWN_MAX])}")
        for name, told in by_name.items()
    ]


def _line(problem: PySparkException) -> str:
    return " ".join(str(problem).split())[:400]
