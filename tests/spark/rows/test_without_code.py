"""Spark gives the same with and without generated code: few rows are computed without."""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ctsql.api import Connection
from ctsql.runtime.spark.internals.sessions import setting, without_code

pytestmark = pytest.mark.slow

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    # Else constants are computed when a query is planned, never with generated code.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("ConstantFolding", "ConvertToLocalRelation", "NullPropagation")
    ),
}
GIVES_OTHERS = {
    "aes_encrypt", "current_time", "current_timestamp", "java_method", "localtimestamp", "now",
    "rand", "randn", "random", "reflect", "shuffle", "try_reflect", "uuid",
}  # fmt: skip
"""Functions that give something else each time."""
EXAMPLES_MIN = 1_000
"""Spark's own examples; fewer are a sign that they were not found."""
VALUES = {
    "BOOLEAN": ["true"],
    "TINYINT": ["-128Y", "0Y"],
    "INT": ["-2147483648", "37"],
    "BIGINT": ["-9223372036854775807L", "0L"],
    "FLOAT": ["float('NaN')", "-0.0f", "0.0f", "float('-Infinity')", "float('1e-45')"],
    "DOUBLE": ["double('NaN')", "-0.0d", "0.0d", "double('Infinity')", "1e300d", "2.5d"],
    "DECIMAL(5, 2)": ["-999.99", "0.05"],
    "DECIMAL(38, 10)": ["CAST('9999999999999999999999999999.9999999999' AS DECIMAL(38, 10))"],
    "STRING": ["''", "' 1 '", "'2020-02-29'", "'ÄÖ😀'", "'1e5'"],
    "BINARY": ["x''", "x'00ff'"],
    "DATE": ["date'0001-01-01'", "date'1582-10-10'", "date'9999-12-31'"],
    "TIMESTAMP": ["timestamp'1969-12-31 23:59:59.999999'", "timestamp'0001-01-01 00:00:00'"],
    "TIMESTAMP_NTZ": ["timestamp_ntz'1582-10-10 00:00:00'"],
    "INTERVAL YEAR TO MONTH": ["interval '-1-11' year to month"],
    "INTERVAL DAY TO SECOND": ["interval '-1 23:59:59.999999' day to second"],
    "STRING COLLATE UTF8_LCASE": ["'A' COLLATE utf8_lcase", "'a' COLLATE utf8_lcase"],
    "ARRAY<DOUBLE>": ["array(-0.0d, double('NaN'))", "array(0.0d, NULL)", "array()"],
    "STRUCT<a: INT, b: STRING>": ["named_struct('a', 1, 'b', 'x')"],
    "MAP<STRING, INT>": ["map('a', 1, 'b', 2)", "map()"],
    "VARIANT": ["parse_json('{\"a\": 1}')", "parse_json('1.50')"],
}
OF_ONE = (
    "SELECT id, CAST(c AS {other}) AS c FROM {t}",
    "SELECT id, TRY_CAST(c AS {other}) AS c FROM {t}",
)
OF_TWO = tuple(
    f"SELECT a.id, b.id AS other, {value} AS v FROM {{a}} AS a CROSS JOIN {{b}} AS b"
    for value in (
        "a.c = b.c", "a.c <=> b.c", "a.c < b.c", "a.c + b.c", "a.c - b.c", "a.c * b.c", "a.c / b.c",
        "a.c % b.c", "a.c || b.c", "coalesce(a.c, b.c)", "greatest(a.c, b.c)", "nullif(a.c, b.c)",
        "CASE WHEN a.id > 1 THEN a.c ELSE b.c END", "a.c IN (b.c, NULL)",
    )
)  # fmt: skip
OF_ALL = (
    *(
        f"SELECT id % 2 AS g, {f} AS v FROM {{t}} GROUP BY id % 2"
        for f in ("count(DISTINCT c)", "min(c)", "max(c)", "sum(c)", "avg(c)", "collect_list(c)",
                  "first(c)", "max_by(id, c)", "stddev(c)", "percentile(c, 0.5)", "listagg(c)")
    ),
    *(
        f"SELECT id, {f} OVER (PARTITION BY id % 2 ORDER BY id) AS v FROM {{t}}"
        for f in ("min(c)", "sum(c)", "avg(c)", "lag(c)", "count(c)", "first_value(c)")
    ),
    "SELECT c, count(*) AS n FROM {t} GROUP BY c",
    "SELECT id, rank() OVER (ORDER BY c, id) AS r FROM {t}",
    "SELECT id FROM {t} ORDER BY c DESC NULLS LAST, id LIMIT 2",
    "SELECT a.id, b.id AS other FROM {t} AS a JOIN {t} AS b ON a.c = b.c",
    "SELECT a.id, b.id AS other FROM {t} AS a FULL JOIN {t} AS b ON a.c <=> b.c AND a.id < b.id",
    "SELECT a.id FROM {t} AS a LEFT ANTI JOIN {t} AS b ON a.c = b.c AND a.id <> b.id",
    "SELECT id FROM {t} WHERE c NOT IN (SELECT c FROM {t} WHERE id > 0)",
    "SELECT c FROM {t} EXCEPT ALL SELECT c FROM {t} WHERE id = 0",
    "SELECT id, hash(c) AS h, xxhash64(c) AS x FROM {t}",
    "SELECT id, to_json(struct(c)) AS j FROM {t}",
    "SELECT id, sort_array(array(c, c)) AS s, array_distinct(array(c, c)) AS d FROM {t}",
)  # fmt: skip


@pytest.fixture
def session(con: Connection) -> SparkSession:
    """A session of its own, with what the tests need."""
    made = con.spark.newSession()
    for name, value in SETTINGS.items():
        made.conf.set(name, value)
    return made


def told(session: SparkSession, text: str) -> list[str] | str:
    """The rows of a query in any order, as Spark has them, or that it is an error."""
    try:
        query = session.sql(text)._jdf.queryExecution()
        found = query.executedPlan().executeCollect()
        return sorted(row.toString() for row in found)
    except (PySparkException, Py4JJavaError):  # generated code raises errors that are not Spark's
        return "an error"


def differing(session: SparkSession, texts: Sequence[str]) -> list[str]:
    """The queries that give other rows without generated code."""
    found = []
    for text in texts:
        wanted = told(session, text)
        with without_code(session), setting(session, "spark.sql.codegen.wholeStage", "false"):
            if told(session, text) != wanted:
                found.append(text)
    return found


def examples(session: SparkSession) -> Iterator[str]:
    """The queries in Spark's own documentation of its functions."""
    for (name,) in session.sql("SHOW FUNCTIONS").collect():
        if name in GIVES_OTHERS:
            continue
        lines = session.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()
        yield from re.findall(r"> (SELECT.*?);\n", "\n".join(r[0] for r in lines), re.DOTALL)


@pytest.mark.timeout(900)
def test_functions(session: SparkSession) -> None:
    """All examples of all of Spark's functions."""
    asked = list(examples(session))
    assert len(asked) >= EXAMPLES_MIN
    assert differing(session, asked) == []


@pytest.fixture
def tables(session: SparkSession) -> dict[str, str]:
    """A view over values of each type and NULL, by type, whose rows no optimizer knows."""
    made = {}
    for number, (kind, values) in enumerate(VALUES.items()):
        typed = [v if "COLLATE" in kind else f"CAST({v} AS {kind})" for v in (*values, "NULL")]
        parts = [f"SELECT {n} AS id, {value} AS c" for n, value in enumerate(typed)]
        rows = session.sql(" UNION ALL ".join(parts)).coalesce(1)
        made[kind] = f"values{number}"
        rows.localCheckpoint().createOrReplaceTempView(made[kind])
    return made


@pytest.mark.timeout(1800)
def test_types(session: SparkSession, tables: dict[str, str]) -> None:
    """Casts, operators, aggregates, windows and joins over edge values of every type."""
    kinds = [k for k in tables if "COLLATE" not in k]
    asked = [q.format(t=t, other=k) for t in tables.values() for k in kinds for q in OF_ONE]
    pairs = combinations_with_replacement(tables.values(), 2)
    asked += [q.format(a=a, b=b) for a, b in pairs for q in OF_TWO]
    asked += [q.format(t=t) for t in tables.values() for q in OF_ALL]
    assert differing(session, asked) == []
