"""What this process computes by DuckDB is what Spark computes, value by value and type by type."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import reduce
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F, types as T

from ctsql.api import Connection
from ctsql.catalog.schemas import Column
from ctsql.planner.changes import Naming, change_plan
from ctsql.planner.changes.plan import ChangePlan
from ctsql.planner.changes.printing import TableUse
from ctsql.runtime.incremental import in_process
from ctsql.runtime.incremental.in_process import Queries
from ctsql.runtime.sinks.few import few
from ctsql.runtime.sinks.held import HeldRows
from tests.runtime.conditions import Conditions
from tests.runtime.test_near_rows import bag, table_of

pytestmark = pytest.mark.spark

COLUMNS = """
b BOOLEAN, y TINYINT, h SMALLINT, i INT, j INT, l BIGINT, c DECIMAL(15, 2), d DECIMAL(12, 4),
w DECIMAL(30, 6), s STRING, t STRING, x DATE, z DATE, m TIMESTAMP, n TIMESTAMP_NTZ, f DOUBLE,
g FLOAT, o BINARY
"""
ROWS = """
SELECT * FROM VALUES
  (true, 1Y, 2S, 3, 4, 5L, 1.25, 2.0001, 3.000001, 'a', 'PROMO x', DATE '1995-03-15',
   DATE '1996-02-29', TIMESTAMP '1995-01-01 00:00:01', TIMESTAMP_NTZ '1995-01-01 00:00:01', 1.5D,
   1.5F, X'00FF'),
  (false, -128Y, -32768S, -7, 0, -9L, -0.01, -1.5, 999.999999, '', 'promo', DATE '0001-01-01',
   DATE '9999-12-31', TIMESTAMP '1900-01-01 00:00:00', TIMESTAMP_NTZ '1900-01-01 12:00:00', -0.0D,
   -0.0F, X''),
  (true, 127Y, 32767S, 46340, 46340, 3037000499L, 9999999999999.99, 99999999.9999, -2.5, 'ä%_b',
   'a', DATE '1995-03-15', DATE '1970-01-01', TIMESTAMP '2038-01-19 03:14:08',
   TIMESTAMP_NTZ '2038-01-19 03:14:08', double('NaN'), float('NaN'), X'61'),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL),
  (false, 1Y, 2S, 3, 5, 5L, 0.05, 0.0001, 0.000001, 'ab', 'abc', DATE '1995-03-16',
   DATE '1996-12-31', TIMESTAMP '1995-01-01 00:00:01', TIMESTAMP_NTZ '1999-01-01 00:00:00', 2.5D,
   2.5F, X'61'),
  (true, 3Y, 7S, 11, 13, 17L, 2.35, 7.7777, 1.333333, 'Ab', 'bä', DATE '1995-12-31',
   DATE '2000-01-01', TIMESTAMP '1995-01-01 00:00:02', TIMESTAMP_NTZ '1999-01-01 00:00:01', 2.5D,
   2.5F, X'62')
"""
EXPRESSIONS = """
b; y; h; l; c; w; s; x; m; n; f; g; o; o < o; i + j; i - j; y + j; h * i; i + l
l - 1; -i; -c; c + d; c - d; c * d; c * (1 - d); i * (1 - d) * (1 + y); c + 1; 1 - c; i * c
c * 0.5; 100.00 * c; c * 0.0001000
i + c; l * c; w + w; w * 2; c / 7.0; c / (d * d + 1); d / 3; w / 7; 1 / (c * c + 1); l / 7.0
i = j; i <> j; c < d; c >= i; l <= c; s = t; s < t; x < z; x = DATE '1995-03-15'; m = m; n < n
x >= '1995-03-15'; i <=> j; s <=> NULL; b AND i > 1; b OR i > 1; NOT b; NOT (i > 1); c IS NULL
s IS NOT NULL; i IN (3, 11); i NOT IN (3, NULL); s IN ('a', 'ab'); c IN (0.05, 1); c IN (i, 2.35)
i BETWEEN 1 AND 10; c NOT BETWEEN 0 AND 1.5; x BETWEEN DATE '1995-01-01' AND DATE '1995-03-31'
s LIKE 'a%'; t LIKE '%o_'; s NOT LIKE '%%'; t LIKE 'PROMO%'; s LIKE ''; s LIKE '_'
CASE WHEN b THEN c ELSE 0 END; CASE WHEN i > 5 THEN i WHEN i > 1 THEN l END
CASE WHEN b THEN c * (1 - d) ELSE 0 END; CASE WHEN b THEN 's' ELSE s END; IF(b, i, 1.5)
coalesce(i, 7); coalesce(c, 0); coalesce(NULL, s, 'x'); nvl(l, 1); abs(i); abs(c); abs(l - 100)
CAST(i AS BIGINT); CAST(i AS DECIMAL(12, 1)); CAST(c AS DECIMAL(20, 4)); CAST(w AS DECIMAL(20, 2))
CAST(c AS DECIMAL(15, 1)); CAST(l AS DOUBLE); CAST(c / 7 AS DECIMAL(19, 6)); CAST(NULL AS INT)
EXTRACT(YEAR FROM x); year(z); month(x); EXTRACT(DAY FROM z); substring(s, 1, 2); substr(t, 2, 3)
substring(t FROM 3 FOR 1); CAST(l AS DOUBLE) / i; 0; 1.0; 'its'; true; DATE '2000-02-29'
2147483647; 2147483648; -2147483648; .5; 1.
"""
AGGREGATES = """
count(*); count(i); count(DISTINCT i); sum(i); sum(l); sum(c); sum(d); sum(c * (1 - d)); sum(w)
sum(DISTINCT i); sum(h); avg(c); avg(d); avg(i); avg(y); min(i); max(c); min(s); max(x); max(m)
min(b); sum(CASE WHEN b THEN c ELSE 0 END) / sum(c); 100.00 * sum(c) / sum(d); sum(c) / 7.0
0.2 * avg(c); coalesce(sum(c), 0) - coalesce(sum(d), 0); count(*) + 1; sum(i) * 2; max(n)
sum(c) * 0.0001000000; avg(DISTINCT c)
"""
ONLY_SPARK = """
f = 1.5; f + 1; upper(s); s || t; i / j; i % 2; s = 'a\\'; s LIKE 'a\\%'; length(s); x + 1
x - INTERVAL 1 DAY; date_add(x, 1); CAST(s AS INT); CAST(c AS INT); CAST(i AS STRING); s = 1
TRY_CAST(i AS SMALLINT); m > '1995-01-01'; round(c, 1); 1e3; CASE i WHEN 1 THEN 2 END; w * w
current_date(); b = true AND s LIKE t; greatest(i, j); 'it''s'; avg(w / 1000); any_value(i)
concat(s, t); i & j; rand()
"""


def listed(text: str) -> list[str]:
    """The expressions of a text."""
    return [one.strip() for line in text.strip().splitlines() for one in line.split(";")]


@pytest.fixture(scope="module")
def rows(shared: tuple[Connection, object]) -> Iterator[DataFrame]:
    """The table as Spark has it."""
    spark = shared[0].spark
    fields = T.StructType.fromDDL(COLUMNS)
    given = spark.sql(ROWS).toDF(*fields.names)
    made = given.select(*(given[f.name].cast(f.dataType) for f in fields))
    made.createOrReplaceTempView("v")
    yield made
    spark.catalog.dropTempView("v")


def mine(rows: DataFrame, query: str) -> HeldRows | None:
    """A query over ``v`` with the one column ``r``, by this process; None if it is Spark's."""
    columns = [Column(f.name, f.dataType.simpleString()) for f in rows.schema]
    plan = change_plan(query, {"v": columns}, ["r"])
    assert isinstance(plan, ChangePlan), plan
    held = HeldRows.of(rows)
    text = plan.normal(Naming(table=lambda _: "v"))
    with closing(over(rows.sparkSession, lambda _: held)) as queries:
        return queries.rows(text)


def over(spark: SparkSession, table: Callable[[TableUse], HeldRows]) -> Queries:
    """Queries over tables that are all held."""
    return Queries(spark, table, table, table, lambda _: None, lambda _: None, nothing)


def nothing(name: str, keys: HeldRows) -> None:
    """No step is kept: no table is too large."""
    raise AssertionError(name)


def check(rows: DataFrame, expressions: list[str], behind: str = "FROM v") -> None:
    """Both must give the same for each, with the same type; Spark is asked once for all."""
    wanted = ", ".join(f"{e} AS r{i}" for i, e in enumerate(expressions))
    theirs = rows.sparkSession.sql(f"SELECT {wanted} {behind}")
    held = few(theirs)
    assert held is not None
    for i, expression in enumerate(expressions):
        found = mine(rows, f"SELECT {expression} AS r {behind}")
        assert found is not None, f"{expression}: left to Spark"
        assert found.schema["r"].dataType == theirs.schema[f"r{i}"].dataType, expression
        assert bag(found, "r") == bag(held, f"r{i}"), expression


def test_expressions(rows: DataFrame) -> None:
    """One value of each row."""
    check(rows, listed(EXPRESSIONS))


@pytest.mark.parametrize(
    "behind", ["FROM v", "FROM v WHERE i > 3", "FROM v WHERE i > 1000000", "FROM v GROUP BY b"]
)
def test_aggregates(rows: DataFrame, behind: str) -> None:
    """One value of all rows, of some, of none, and of groups."""
    check(rows, listed(AGGREGATES), behind)


def test_what_is_left_to_spark(rows: DataFrame) -> None:
    """What DuckDB would read otherwise, or may."""
    columns = [Column(f.name, f.dataType.simpleString()) for f in rows.schema]
    for expression in listed(ONLY_SPARK):
        query = f"SELECT {expression} AS r FROM v"
        if isinstance(change_plan(query, {"v": columns}, ["r"]), ChangePlan):
            assert mine(rows, query) is None, expression


@pytest.mark.parametrize(
    "expression", ["i * 2000000000", "y * y", "CAST(l AS INT)", "c / (i - 3)", "l * l * l"]
)
def test_what_fails_is_left_to_spark(rows: DataFrame, expression: str) -> None:
    """An error is Spark's to give, in its own words."""
    query = f"SELECT {expression} AS r FROM v"
    assert mine(rows, query) is None
    with pytest.raises(Exception, match=r"OVERFLOW|DIVIDE_BY_ZERO"):
        rows.sparkSession.sql(query).collect()


CONDITIONED = {name: [Column("k", "int"), Column("n", "int")] for name in "stu"}


def check_conditions(spark: SparkSession, number: int) -> int:
    """Forty conditions of a seed, Spark asked once for all; how many were run by this process?"""
    seed = random.Random(number)
    made = Conditions(seed)
    tables = {t: spark.createDataFrame(made.rows(), "k INT, n INT") for t in "stu"}
    held = {t: HeldRows.of(rows) for t, rows in tables.items()}
    for name, rows in tables.items():
        rows.createOrReplaceTempView(name)
    ours: dict[str, Counter[Any]] = {}
    asked: list[DataFrame] = []
    with closing(over(spark, lambda use: held[use.table])) as queries:
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
            found = queries.rows(plan.normal(Naming(table=lambda use: use.table)))
            if found is not None and query not in ours:
                ours[query] = Counter(tuple(row.values()) for row in found.arrow.to_pylist())
                asked.append(frame.select(F.lit(query).alias("q"), "*"))
    theirs = {query: Counter[Any]() for query in ours}
    if asked:
        for row in reduce(DataFrame.unionAll, asked).collect():
            theirs[row["q"]][tuple(row)[1:]] += 1
    for name in tables:
        spark.catalog.dropTempView(name)  # the session is shared
    for query in ours:
        assert ours[query] == theirs[query], (number, query)
    return len(ours)


def test_a_fixed_set_of_conditions(shared: tuple[Connection, object]) -> None:
    """With subqueries of all kinds, and NULL everywhere."""
    assert check_conditions(shared[0].spark, 2) > 12


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 1_080, 20))
def test_many_conditions(shared: tuple[Connection, object], first: int) -> None:
    """The same for more than a thousand."""
    assert sum(check_conditions(shared[0].spark, first + i) for i in range(20)) > 300


def test_what_takes_long_is_left_to_spark(
    shared: tuple[Connection, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that multiplies rows is given up; the next one runs."""
    spark = shared[0].spark
    held = HeldRows.of(spark.range(30_000).selectExpr("id AS k"))
    columns = [Column("k", "bigint")]
    monkeypatch.setattr(in_process, "SECONDS_MAX", 0.5)
    with closing(over(spark, lambda _: held)) as queries:
        for sql, is_run in (
            ("SELECT count(*) AS n FROM v a JOIN v b JOIN v c ON a.k + b.k + c.k = -1", False),
            ("SELECT count(*) AS n FROM v", True),
        ):
            plan = change_plan(sql, {"v": columns}, ["n"])
            assert isinstance(plan, ChangePlan)
            found = queries.rows(plan.normal(Naming(table=lambda _: "v")))
            assert (found is not None) == is_run
        assert len(queries.left) == 1
        assert "nterrupt" in queries.left[0]


def test_copies(rows: DataFrame) -> None:
    """A row for each number up to another, and down to it; none for NULL."""
    check(rows, ["r"], "FROM v LATERAL VIEW explode(sequence(1, CAST(y AS INT))) e AS r")


def test_few_rows_are_the_same_rows(rows: DataFrame) -> None:
    """Rows that went through Arrow and back are those that Spark had."""
    local = few(rows)
    assert local is not None
    held = HeldRows.of(local)
    again = HeldRows(rows.sparkSession, rows.schema, held.arrow)
    assert bag(again, "*") == bag(rows, "*")


WRITTEN = """
CREATE TABLE x (k INT, s STRING, c DECIMAL(12, 2), d DATE, m TIMESTAMP, n TIMESTAMP_NTZ,
  y TINYINT, b BOOLEAN, o BINARY);
INSERT INTO x SELECT id, 'v' || id, id / 4, date_add(DATE '1500-01-01', CAST(id AS INT)),
  timestamp_seconds(id * 100000), TIMESTAMP_NTZ '1700-01-01 00:00:00', CAST(id AS TINYINT),
  id % 2 = 0, X'00FF' FROM range(20);
CREATE MATERIALIZED VIEW v WITH (REFRESH POLICY = incremental) AS
  SELECT k, s, c * 2 AS c, d, m, n, y, b, o FROM x WHERE b OR k IS NULL;
REFRESH MATERIALIZED VIEW v
"""


def test_rows_are_written_as_spark_writes_them(con: Connection) -> None:
    """Of every type: Spark reads them, passes over files by what is said of them, deletes some."""
    con.execute(WRITTEN)
    con.execute(
        "INSERT INTO x SELECT k + 100, s, c, d, m, n, y, b, o FROM x WHERE k < 6;"
        "INSERT INTO x VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);"
        "REFRESH MATERIALIZED VIEW v"
    )
    told = "\n".join(str(row[0]) for row in con.execute("EXPLAIN ANALYZE v").fetchall())
    assert "incremental" in told
    assert "0 Spark job(s)" in told
    assert "1 of 1 queries in this process" in told
    assert con.execute("VERIFY v").fetchall() == []
    assert con.execute("SELECT count(*), count(k) FROM v").fetchall() == [(14, 13)]
    location = table_of(con, "v").location
    con.execute("DELETE FROM x WHERE k IN (2, 102); REFRESH MATERIALIZED VIEW v")
    assert con.execute("VERIFY v").fetchall() == []
    con.spark.sql(f"OPTIMIZE delta.`{location}`")
    assert con.execute("SELECT count(*) FROM v WHERE s = 'v2' OR k > 103").fetchall() == [(1,)]
