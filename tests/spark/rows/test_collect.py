"""What the driver takes is bounded in rows and in bytes, and larger changes are right as well."""

from pyspark.sql import functions as F

from ctsql.api import Connection
from ctsql.catalog.errors import Declined
from ctsql.runtime.rows.collect import DRIVER_ROW_BYTES_MAX, DRIVER_ROWS_MAX, collect_bounded


def test_what_is_few(con: Connection) -> None:
    """Many rows are not, nor is one wide row, in a text or nested anywhere."""
    spark = con.spark
    held = collect_bounded(spark.range(DRIVER_ROWS_MAX).toDF("id"))
    assert not isinstance(held, Declined)
    assert held.count() == DRIVER_ROWS_MAX
    assert collect_bounded(spark.range(DRIVER_ROWS_MAX + 1).toDF("id")) == Declined(
        "more than 10000 rows"
    )
    for width, is_few in ((DRIVER_ROW_BYTES_MAX - 8, True), (DRIVER_ROW_BYTES_MAX + 1, False)):
        text = F.expr(f"repeat('x', {width})")
        for column in (text, F.encode(text, "utf-8"), F.array(text), F.struct(text.alias("t"))):
            rows = spark.range(3).select("id", column.alias("c"), F.lit(None).alias("n"))
            found = collect_bounded(rows)
            assert isinstance(found, Declined) != is_few, (width, rows.schema)
            if not isinstance(found, Declined):
                assert found.collect() == rows.collect()
    wide = spark.range(1).select(F.expr("parse_json('{\"a\": 1}')").alias("v"))
    assert not isinstance(collect_bounded(wide), Declined)


def test_more_than_spark_lets_the_driver_take(con: Connection) -> None:
    """Spark's own bound on results is an answer too, not a failure."""
    conf = con.spark.sparkContext._jsc.sc().conf()
    before = conf.get("spark.driver.maxResultSize", "1g")
    conf.set("spark.driver.maxResultSize", "1k")
    try:
        assert isinstance(collect_bounded(con.spark.range(5_000).toDF("id")), Declined)
    finally:
        conf.set("spark.driver.maxResultSize", before)


def test_wide_rows_go_the_large_way(con: Connection) -> None:
    """An upsert and a view over rows too wide for the driver hold what they must."""
    con.execute(
        "CREATE TABLE feed (k INT, doc STRING);"
        "CREATE CONTINUAL TASK latest (k INT, doc STRING) ON INPUT feed AS ("
        " DELETE FROM latest WHERE k IN (SELECT k FROM feed);"
        " INSERT INTO latest SELECT k, max(doc) FROM feed GROUP BY k);"
        "CREATE MATERIALIZED VIEW docs AS SELECT doc, count(*) AS n FROM feed GROUP BY doc"
    )
    for letter, keys in (("a", "(1), (2)"), ("b", "(2), (3)")):
        con.execute(
            f"INSERT INTO feed SELECT k, repeat('{letter}', 100000) FROM VALUES {keys} AS v(k)"
        )
        con.execute("SELECT * FROM latest, docs").fetchall()
    rows = con.execute("SELECT k, left(doc, 1), length(doc) FROM latest ORDER BY k").fetchall()
    assert rows == [(1, "a", 100000), (2, "b", 100000), (3, "b", 100000)]
    rows = con.execute("SELECT left(doc, 1), n FROM docs ORDER BY 1").fetchall()
    assert rows == [("a", 2), ("b", 2)]
