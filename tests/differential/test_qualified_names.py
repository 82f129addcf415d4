"""Qualified names mean in ctsql what they mean in Spark's own catalog.

Two schemas have a table of one name; there are aliases that are names of schemas, columns that are
names of tables, and structs whose fields are names of columns.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ctsql.api import Connection, connect
from ctsql.catalog.errors import StatementError
from tests.conftest import TEST_MASTER
from tests.differential.battery_tables import ONCE

pytestmark = pytest.mark.spark

TABLES = {
    "shop.t": ("a INT, b INT", "(1, 10), (2, 21), (3, NULL)"),
    "default.t": ("a INT, b INT", "(4, 40), (2, 20)"),
    "shop.u": ("a INT, t INT", "(1, 7), (2, 8)"),
    "default.x": (
        "id INT, t STRUCT<a: INT, b: INT>, shop STRUCT<t: STRUCT<a: INT>>, list ARRAY<INT>",
        "(1, named_struct('a', 100, 'b', 200), named_struct('t', named_struct('a', 300)),"
        " array(1, 2))",
    ),
}
CHANGES = (
    "INSERT INTO shop.t VALUES (4, 44), (5, 55)",
    "INSERT INTO default.t VALUES (1, 11), (5, 50)",
    "INSERT INTO shop.u VALUES (4, 9)",
)

QUERIES = (
    # Select list, stars, WHERE, over both tables.
    "SELECT shop.t.a FROM shop.t",
    "SELECT shop.t.* FROM shop.t, default.t",
    "SELECT t.* FROM shop.t, default.t",
    "SELECT shop.t.a, default.t.a FROM shop.t, default.t WHERE shop.t.a < default.t.a",
    "SELECT t.a FROM shop.t, default.t",
    "SELECT a FROM shop.t, default.t WHERE shop.t.a = 1",
    "SELECT T.A, SHOP.T.b FROM Shop.T",
    "SELECT `shop`.`t`.`a` + t.b AS n FROM shop.t",
    "SELECT default.t.a, t.b FROM t",
    "SELECT shop.t.a FROM t",
    "SELECT shop.t.a FROM shop.t AS t",
    "SELECT shop.t.a FROM shop.t AS y",
    "SELECT shop.t.nothing FROM shop.t",
    "SELECT count(DISTINCT shop.t.a, default.t.b) AS n FROM shop.t, default.t",
    "SELECT struct(shop.t.*) AS s FROM shop.t, default.t",
    # Joins.
    "SELECT shop.t.b, default.t.b FROM shop.t JOIN default.t ON t.a = t.a",
    "SELECT a, shop.t.b, default.t.b FROM shop.t JOIN default.t USING (a)",
    "SELECT a, shop.t.a, default.t.a FROM shop.t FULL JOIN default.t USING (a)",
    "SELECT shop.t.a, default.t.b FROM shop.t LEFT JOIN default.t ON shop.t.a = default.t.a",
    "SELECT shop.t.a FROM shop.t LEFT SEMI JOIN default.t ON shop.t.a = default.t.a",
    "SELECT shop.t.b FROM (shop.t JOIN default.t ON shop.t.a = default.t.a) JOIN shop.u"
    " ON shop.u.a = default.t.a",
    "SELECT shop.t.a FROM shop.t JOIN shop.t ON true",
    "SELECT shop.t.a, y.a FROM shop.t JOIN shop.t AS y ON shop.t.a = y.a + 1",
    # Grouping, HAVING, QUALIFY, ORDER BY, windows.
    "SELECT shop.t.a, sum(default.t.b) AS n FROM shop.t, default.t GROUP BY shop.t.a"
    " HAVING shop.t.a > 1 AND max(default.t.a) > 3",
    "SELECT shop.t.a, max(t.b) AS n FROM shop.t GROUP BY t.a",
    "SELECT shop.t.a, default.t.a AS o FROM shop.t, default.t"
    " QUALIFY row_number() OVER (PARTITION BY shop.t.a ORDER BY default.t.a DESC) = 1",
    "SELECT shop.t.a, sum(shop.t.b) OVER w AS n FROM shop.t, default.t"
    " WINDOW w AS (PARTITION BY default.t.a ORDER BY shop.t.a)",
    "SELECT shop.t.b FROM shop.t, default.t ORDER BY default.t.a DESC, shop.t.a LIMIT 3",
    # Correlated subqueries, over one and two levels.
    "SELECT shop.t.a FROM shop.t WHERE EXISTS"
    " (SELECT 1 FROM default.t WHERE default.t.a = shop.t.a)",
    "SELECT t.a, (SELECT max(t.b) FROM default.t WHERE t.a = shop.t.a) AS m FROM shop.t",
    "SELECT shop.t.a FROM shop.t WHERE shop.t.b IN"
    " (SELECT max(shop.t.b) FROM shop.t WHERE shop.t.a > 1)",
    "SELECT shop.t.a FROM shop.t WHERE EXISTS (SELECT 1 FROM default.t WHERE EXISTS"
    " (SELECT 1 FROM shop.u WHERE shop.u.a = default.t.a AND default.t.a = shop.t.a))",
    # LATERAL, derived tables, common table expressions, UNION, pipes.
    "SELECT shop.t.a, l.m FROM shop.t, LATERAL"
    " (SELECT sum(default.t.b) AS m FROM default.t WHERE default.t.a <= shop.t.a) AS l",
    "SELECT shop.t.a, e FROM shop.t LATERAL VIEW explode(array(shop.t.a, shop.t.b)) v AS e",
    "SELECT t.a FROM (SELECT shop.t.a FROM shop.t) AS t",
    "SELECT shop.t.a FROM (SELECT shop.t.a FROM shop.t) AS t",
    "WITH t AS (SELECT shop.t.a + 1 AS a FROM shop.t) SELECT t.a, shop.t.b FROM t, shop.t",
    "WITH c AS (SELECT shop.t.a FROM shop.t) SELECT c.a FROM c JOIN default.t ON c.a = default.t.a",
    "SELECT shop.t.a FROM shop.t UNION ALL SELECT default.t.b FROM default.t",
    "FROM shop.t |> JOIN default.t ON shop.t.a = default.t.a |> SELECT default.t.b",
    "SELECT shop.t.a FROM shop.t TABLESAMPLE (100 PERCENT), default.t",
    # Aliases that are names of schemas.
    "SELECT shop.t.a FROM default.t AS shop JOIN shop.t ON shop.a = shop.t.a",
    "SELECT shop.t.a FROM default.x AS shop",
    "SELECT shop.t.a FROM default.x AS shop, shop.t",
    "SELECT (SELECT max(shop.t.a) FROM default.x AS shop) AS m FROM shop.t",
    "SELECT shop.t.b FROM shop.t WHERE EXISTS"
    " (SELECT 1 FROM default.t AS shop WHERE shop.t.a = shop.a)",
    "SELECT shop.t.b FROM shop.t WHERE EXISTS"
    " (SELECT 1 FROM (SELECT id FROM default.x) AS shop WHERE shop.t.a = shop.id)",
    "SELECT (SELECT max(shop.t.a) FROM (SELECT * FROM default.x) AS shop) AS m FROM shop.t",
    "SELECT shop.t.b FROM shop.t, default.x AS t WHERE shop.t.a = t.id",
    # Columns that are names of tables and schemas; structs whose fields are names of columns.
    "SELECT shop.u.t, u.t, t FROM shop.u",
    "SELECT shop.u.t, shop.t.a FROM shop.u JOIN shop.t ON shop.u.a = shop.t.a",
    "SELECT t.a FROM default.x",
    "SELECT default.x.t.a, x.t.b, shop.t.a FROM default.x",
    "SELECT shop.t.a, x.shop.t.a AS s, default.x.shop.t.a AS r FROM default.x, shop.t",
    "SELECT t.a, shop.t.b FROM default.x, shop.t",
    "SELECT (SELECT max(shop.t.a) FROM default.x) AS m FROM shop.t",
    "SELECT (SELECT max(t.a) FROM default.x) AS m, shop.t.a FROM shop.t",
    "SELECT shop.t.b FROM shop.t WHERE EXISTS (SELECT 1 FROM shop.u WHERE shop.t.a = shop.u.a)",
    "SELECT x.t.* FROM default.x, shop.t",
    "SELECT default.x.t.* FROM default.x",
    "SELECT transform(list, shop -> shop + shop.t.a) AS l FROM default.x, shop.t",
    "SELECT transform(list, t -> t + shop.t.a) AS l FROM default.x, shop.t",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Connection, SparkSession]]:
    """The same tables in a warehouse and in the catalog of the same session."""
    folder = tmp_path_factory.mktemp("names")
    con = connect(str(folder / "warehouse"), master=TEST_MASTER)
    spark = con.spark
    for key, value in ONCE.items():
        con.execute(f"SET {key} = '{value}'")
        spark.conf.set(key, value)
    con.execute("CREATE SCHEMA shop")
    spark.sql(f"CREATE DATABASE shop LOCATION '{folder / 'shop'}'")
    for name, (columns, rows) in TABLES.items():
        con.execute(f"CREATE TABLE {name} ({columns})")
        con.execute(f"INSERT INTO {name} VALUES {rows}")
        place = Path(folder / name)
        spark.sql(f"CREATE TABLE {name} ({columns}) USING delta LOCATION '{place}'")
        spark.sql(f"INSERT INTO {name} VALUES {rows}")
    yield con, spark
    for name in TABLES:
        spark.sql(f"DROP TABLE {name}")
    spark.sql("DROP DATABASE shop CASCADE")
    for key in ONCE:
        spark.conf.unset(key)
    con.close()


def _of_spark(spark: SparkSession, query: str) -> tuple[list[str], Counter[str]] | str:
    try:
        frame = spark.sql(query)
        return frame.columns, Counter(map(str, map(tuple, frame.collect())))
    except AnalysisException as problem:
        return CONDITIONS.get(str(problem.getCondition()).partition(".")[0], "refused")


CONDITIONS = {"AMBIGUOUS_REFERENCE": "AMBIGUOUS_COLUMN", "UNRESOLVED_COLUMN": "UNKNOWN_COLUMN"}


def _of_ctsql(con: Connection, query: str) -> tuple[list[str], Counter[str]] | str:
    try:
        result = con.execute(query)
        return list(result.columns), Counter(map(str, map(tuple, result.to_spark().collect())))
    except StatementError as problem:
        return problem.condition if problem.condition in CONDITIONS.values() else "refused"


@pytest.mark.parametrize("query", QUERIES)
def test_query(both: tuple[Connection, SparkSession], query: str) -> None:
    """A query has the columns and rows that Spark's own catalog gives, or is refused as there."""
    con, spark = both
    assert _of_ctsql(con, query) == _of_spark(spark, query)


VIEWS = tuple(
    query
    for query in QUERIES
    if any(
        word in query
        for word in (
            "LEFT JOIN",
            "(shop.t JOIN",
            "HAVING",
            "QUALIFY",
            "max(t.b) FROM",
            "(SELECT * FROM",
            "AS shop WHERE shop.t.a = shop.a",
        )
    )
)


def test_views(both: tuple[Connection, SparkSession]) -> None:
    """Materialized views have Spark's rows, at first and after a change of each table."""
    con, spark = both
    views = {f"v{number}": query for number, query in enumerate(VIEWS)}
    for view, query in views.items():
        con.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}")
    _compare(con, spark, views)
    for change in CHANGES:
        con.execute(change)
        spark.sql(change)
    _compare(con, spark, views)


def _compare(con: Connection, spark: SparkSession, views: dict[str, str]) -> None:
    for view, query in views.items():
        assert _of_ctsql(con, f"SELECT * FROM {view}") == _of_spark(spark, query), query


STATEMENTS = (
    "INSERT INTO shop.own SELECT shop.t.a, default.t.b FROM shop.t"
    " LEFT JOIN default.t ON shop.t.a = default.t.a",
    "DELETE FROM shop.own WHERE shop.own.a = 3 OR own.a = 30",
    "UPDATE shop.own SET shop.own.b = own.a + shop.own.a WHERE shop.own.b IS NULL",
    "MERGE INTO shop.own USING default.own ON shop.own.a = default.own.a"
    " WHEN MATCHED AND shop.own.b < default.own.b THEN UPDATE SET shop.own.b = default.own.b"
    " WHEN NOT MATCHED AND default.own.a > 5 THEN INSERT (a, b) VALUES (default.own.a, own.b)"
    " WHEN NOT MATCHED BY SOURCE AND shop.own.a = 1 THEN DELETE",
)


def test_statements(both: tuple[Connection, SparkSession], tmp_path: Path) -> None:
    """INSERT, DELETE, UPDATE and MERGE, on a table and in a body, do what Spark does on Delta."""
    con, spark = both
    rows = "(2, 200), (6, 600), (7, NULL)"
    con.execute(f"CREATE TABLE own (a INT, b INT); INSERT INTO own VALUES {rows}")
    con.execute("CREATE TABLE shop.own (a INT, b INT)")
    for name in ("default.own", "shop.own"):
        spark.sql(f"CREATE TABLE {name} (a INT, b INT) USING delta LOCATION '{tmp_path / name}'")
    spark.sql(f"INSERT INTO default.own VALUES {rows}")
    for statement in STATEMENTS:
        con.execute(statement)
        spark.sql(statement)
        query = "SELECT * FROM shop.own"
        assert _of_ctsql(con, query) == _of_spark(spark, query), statement
    con.execute("DROP TABLE shop.own")
    body = "; ".join(STATEMENTS)
    con.execute(f"CREATE CONTINUAL TASK shop.own (a INT, b INT) ON INPUT shop.t AS ({body})")
    assert _of_ctsql(con, query) == _of_spark(spark, query)
    con.execute("DROP CONTINUAL TASK shop.own; DROP TABLE own")
    spark.sql("DROP TABLE default.own")


def test_the_table_that_is_there_is_named(both: tuple[Connection, SparkSession]) -> None:
    """A column of a table that FROM does not name: the error has the whole name, and the others."""
    with pytest.raises(StatementError) as refused:
        both[0].execute("SELECT shop.t.a FROM default.t")
    assert refused.value.message == 'column "shop.t.a" does not exist'
    assert refused.value.hint == 'Did you mean "t.a"?'


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE shop.t SET a = 1 WHERE default.t.a = 1",
        "DELETE FROM shop.t WHERE default.t.a = 1",
        "CREATE CONTINUAL TASK shop.no (a INT) ON INPUT shop.t AS"
        " (DELETE FROM shop.no WHERE default.no.a = 1)",
        "CREATE CONTINUAL TASK shop.no (a INT) ON INPUT shop.t WHERE default.t.a > 1 AS"
        " (INSERT INTO shop.no SELECT a FROM shop.t)",
    ],
)
def test_unknown(both: tuple[Connection, SparkSession], statement: str) -> None:
    """The table of another schema is not meant."""
    with pytest.raises(StatementError, match="UNKNOWN_COLUMN"):
        both[0].execute(statement)
