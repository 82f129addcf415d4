"""A plan that is kept gives, for other rows, what Spark gives when it plans anew."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, types as T

from ctsql.api import Connection
from ctsql.catalog.errors import Declined
from ctsql.runtime.rows import prepared_rows
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX, FEW, NARROW
from ctsql.runtime.rows.prepared_rows import derive, prepared_plans, together
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows
from ctsql.runtime.spark.internals.sessions import setting
from ctsql.runtime.spark.job_metrics import Meter

ROWS = """
    SELECT id AS k, id % 3 AS g, CAST(id % 5 AS STRING) AS s, CAST(id AS DECIMAL(20, 2)) AS d,
        CASE WHEN id % 4 = 0 THEN NULL WHEN id % 4 = 1 THEN DOUBLE('NaN') ELSE -0.0D END AS f,
        DATE'1582-10-08' - CAST(id AS INT) AS day, TIMESTAMP'2024-01-01 12:00:00' AS instant,
        MAP(id, CAST(NULL AS STRING)) AS map, ARRAY(id, NULL) AS list,
        NAMED_STRUCT('x', id, 'y', NULL) AS pair
    FROM range({first}, {end})
"""
QUERIES = {
    "columns": "SELECT * FROM {a}",
    "filter": "SELECT k, upper(s) AS s FROM {a} WHERE k > 2 AND f IS NOT NULL",
    "no rows left": "SELECT k FROM {a} WHERE k < 0",
    "a constant column": "SELECT 1 AS one, 'x' AS x FROM {a}",
    "groups": "SELECT g, sum(d) AS s, count(*) AS n, max(f) AS f FROM {a} GROUP BY g",
    "one group": "SELECT count(*) AS n, sum(k) AS s, avg(d) AS a FROM {a}",
    "null-safe join": "SELECT k, b.f AS f FROM {a} AS a JOIN {b} AS b USING (k) WHERE a.f <=> b.f",
    "outer join": "SELECT a.k, b.k AS other FROM {a} AS a FULL JOIN {b} AS b ON a.k = b.k + 2",
    "join without equality": "SELECT a.k, b.k AS o FROM {a} AS a LEFT JOIN {b} AS b ON a.k < b.k",
    "of itself": "SELECT a.k, b.s FROM {a} AS a JOIN {a} AS b ON a.g = b.k",
    "semi join": "SELECT k FROM {a} AS a LEFT SEMI JOIN {b} AS b ON a.k = b.g",
    "anti join": "SELECT k FROM {a} AS a LEFT ANTI JOIN {b} AS b ON a.k = b.g",
    "union": "SELECT k, s FROM {a} UNION ALL SELECT k, s FROM {b}",
    "groups of a union": "SELECT g, sum(k) AS s FROM "
    "(SELECT g, k FROM {a} UNION ALL SELECT g, -k FROM {b} UNION ALL VALUES (7L, 8L)) GROUP BY g",
    "except": "SELECT g FROM {a} EXCEPT SELECT k FROM {b}",
    "intersect all": "SELECT g FROM {a} INTERSECT ALL SELECT k FROM {b}",
    "window": "SELECT k, row_number() OVER (PARTITION BY g ORDER BY k) AS n, "
    "sum(d) OVER (ORDER BY k) AS s FROM {a}",
    "first rows": "SELECT k, s FROM {a} ORDER BY s DESC, k LIMIT 2",
    "explode": "SELECT k, e FROM {a} LATERAL VIEW explode(list) AS e",
    "grouping sets": "SELECT g, s, count(*) AS n FROM {a} GROUP BY GROUPING SETS ((g, s), (g), ())",
    "wide types": "SELECT map, list, pair, instant, day FROM {a}",
}
SPANS = ((0, 6), (0, 0), (1, 40))
"""Which rows are there, one after the other; one range is empty."""
ALL_SPANS = (*SPANS, (3, 9), (5, 6))
NOT_KEPT = {
    "random numbers": "SELECT k, rand() AS r FROM {a}",
    "the clock": "SELECT k, current_timestamp() AS t FROM {a}",
    "a subquery": "SELECT k, (SELECT max(k) FROM {a}) AS m FROM {a}",
    "a function of the user's": "SELECT twice(k) AS k FROM {a}",
    "a function in SQL": "SELECT thrice(k) AS k FROM {a}",
    "a text that means now": "SELECT k, CAST(concat('n', 'ow') AS TIMESTAMP) AS t FROM {a}",
}


def local(con: Connection, rows: str) -> LocalRows:
    """The rows of a query, held by the driver."""
    found = SparkRows(con.spark.sql(rows)).collect()
    assert isinstance(found, LocalRows)
    return found


def local_of_arrow(con: Connection, count: int) -> LocalRows:
    """So many rows, as this process reads them from files."""
    schema = T.StructType([T.StructField("k", T.LongType())])
    return LocalRows(con.spark, schema, pa.table({"k": pa.array(range(count), pa.int64())}))


def query(con: Connection, text: str, inputs: dict[str, RowSet]) -> RowSet:
    """The rows of a text over inputs."""

    def build(frames: Sequence[DataFrame]) -> DataFrame:
        for name, frame in zip(inputs, frames, strict=True):
            frame.createOrReplaceTempView(f"test_{name}")
        return con.spark.sql(text.format(**{name: f"test_{name}" for name in inputs}))

    return derive(list(inputs.values()), build, text)


def computed(con: Connection, text: str, inputs: dict[str, RowSet]) -> LocalRows:
    """The rows of a text over inputs, which are few."""
    found = query(con, text, inputs).collect()
    assert isinstance(found, LocalRows)
    return found


def is_planned(rows: Any) -> bool:
    """Is a plan kept for them?"""
    return prepared_plans(rows.session).find(rows.recipe) is not None


def told(rows: DataFrame) -> list[str]:
    """The rows as texts, in any order."""
    return sorted(map(repr, rows.selectExpr("to_json(struct(*)) AS t").collect()))


@pytest.mark.parametrize(
    "spans", [SPANS, pytest.param(ALL_SPANS, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_kept_plans_give_what_spark_gives(
    con: Connection, spans: tuple[tuple[int, int], ...]
) -> None:
    """Whatever rows there are, and none; the plan is kept from the second use on."""
    for turn, (first, end) in enumerate(spans):
        inputs: dict[str, RowSet] = {
            "a": local(con, ROWS.format(first=first, end=end)),
            "b": local(con, ROWS.format(first=2, end=end)),
        }
        for name, rows in inputs.items():
            rows.frame.createOrReplaceTempView(f"plain_{name}")
        for what, text in QUERIES.items():
            made = query(con, text, inputs)
            found = made.collect()
            assert isinstance(found, LocalRows)
            assert is_planned(made) == (turn > 0), what
            anew = con.spark.sql(text.format(a="plain_a", b="plain_b"))
            assert told(found.plain_frame) == told(anew), what
            plain = found.plain_frame.toArrow().to_pylist()
            assert repr(found.arrow.to_pylist()) == repr(plain), what
            assert found.schema.simpleString() == anew.schema.simpleString(), what


def test_steps_over_steps(con: Connection) -> None:
    """Rows that are computed, and those that are not yet, are inputs of the next query."""
    for first, end in SPANS:
        rows = local(con, ROWS.format(first=first, end=end))
        computed = query(con, "SELECT k, s, g FROM {a}", {"a": rows}).keep(None)  # type: ignore[arg-type]
        lazy = query(con, "SELECT g, max(s) AS m FROM {a} GROUP BY g", {"a": computed})
        both = query(
            con, "SELECT a.k, b.m FROM {a} AS a JOIN {b} AS b USING (g)", {"a": computed, "b": lazy}
        ).select(["m", "k"], ["x", "y"])
        found = both.collect()
        assert isinstance(found, LocalRows)
        largest: dict[int, str] = {}
        for n in range(first, end):
            largest[n % 3] = max(largest.get(n % 3, ""), str(n % 5))
        wanted = sorted((largest[n % 3], n) for n in range(first, end))
        assert sorted((r["x"], r["y"]) for r in found.arrow.to_pylist()) == wanted


@pytest.mark.parametrize(
    ("text", "name", "by_value"),
    [
        (
            "SELECT CAST(instant AS STRING) AS x FROM {a}",
            "spark.sql.session.timeZone",
            {"UTC": "2024-01-01 12:00:00", "Asia/Tokyo": "2024-01-01 21:00:00"},
        ),
        (
            "SELECT to_json(struct(k, nullif(k, k) AS v)) AS x FROM {a}",
            "spark.sql.jsonGenerator.ignoreNullFields",
            {"false": '{"k":0,"v":null}', "true": '{"k":0}'},
        ),
    ],
    ids=["when a query is planned", "when its rows are computed"],
)
def test_other_settings_are_another_plan(
    con: Connection, text: str, name: str, by_value: dict[str, str]
) -> None:
    """Whenever Spark reads the setting, at first and with a kept plan."""
    rows = local(con, ROWS.format(first=0, end=1))
    for value, wanted in (*by_value.items(), next(iter(by_value.items()))):
        with setting(con.spark, name, value):
            for _ in range(2):
                assert computed(con, text, {"a": rows}).arrow.column("x").to_pylist() == [wanted]


def test_a_plan_that_failed_is_made_anew(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds over constants, as a broadcast that was cancelled, would fail for ever."""
    rows = local(con, ROWS.format(first=0, end=2))
    made = [query(con, "SELECT k + 7 AS k FROM {a}", {"a": rows}) for _ in range(5)]
    assert all(isinstance(one.collect(), LocalRows) for one in made[:2])
    assert is_planned(made[2])

    def fail(*given: object, **named: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(prepared_rows, "held_of", fail)
        with pytest.raises(KeyboardInterrupt):
            made[2].collect()
    assert not is_planned(made[2])
    for one in made[3:]:
        found = one.collect()
        assert isinstance(found, LocalRows)
        assert found.arrow.column("k").to_pylist() == [7, 8]


@pytest.mark.parametrize("text", NOT_KEPT.values(), ids=NOT_KEPT)
def test_what_changes_is_planned_each_time(con: Connection, text: str) -> None:
    """The same rows need not give the same."""
    con.spark.udf.register("twice", lambda k: 2 * k, "bigint")
    con.spark.sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION thrice(k BIGINT) RETURNS BIGINT RETURN 3 * k"
    )
    rows = local(con, ROWS.format(first=0, end=3))
    for _ in range(2):
        made = query(con, text, {"a": rows})
        assert isinstance(made.collect(), LocalRows)
        assert not is_planned(made)


def test_rows_that_are_not_few(con: Connection) -> None:
    """Too many, and too wide ones, are Spark's; the next ones may be few again."""
    many = "SELECT a.k FROM {a} AS a CROSS JOIN {b} AS b"
    wide = "SELECT k, repeat('x', CAST(k AS INT) * 100) AS s FROM {a}"
    for end, is_few in ((3, True), (4, True), (150, False), (3, True)):
        rows = local(con, ROWS.format(first=0, end=end))
        for text, inputs in ((many, {"a": rows, "b": rows}), (wide, {"a": rows})):
            made = query(con, text, inputs)  # type: ignore[arg-type]
            assert isinstance(made.collect(), LocalRows) == is_few
            assert isinstance(made.collect(), Declined) != is_few
            assert made.frame.count() == (end**2 if text == many else end)
    assert DRIVER_ROWS_MAX < 150**2


def test_its_jobs_are_counted(con: Connection) -> None:
    """A job over rows that the driver holds counts; Spark is not asked what it read: nothing."""
    rows = local(con, ROWS.format(first=0, end=9))
    text = "SELECT g, count(*) AS n FROM {a} GROUP BY g"
    for _ in range(2):
        query(con, text, {"a": rows}).collect()
    meter = Meter(con.spark)
    query(con, text, {"a": rows}).collect()
    work = meter.work()
    assert (work.jobs, work.rows_read, work.bytes_read, work.rows_written) == (1, 0, 0, 0)


JOINED = """
    SELECT x.g, y.n FROM (SELECT g, sum(k) AS s FROM {a} GROUP BY g) AS x
    LEFT JOIN (SELECT b.g, count(*) AS n FROM {b} AS b LEFT SEMI JOIN {a} AS a ON b.k <=> a.k
        GROUP BY b.g) AS y ON x.g <=> y.g
"""


def test_a_kept_plan_exchanges_no_rows(con: Connection) -> None:
    """Each exchange would be a stage with files of its own, for rows that are one partition."""
    for end in (3, 7):
        inputs: dict[str, RowSet] = {
            name: local(con, ROWS.format(first=0, end=end)) for name in ("a", "b")
        }
        made: Any = query(con, JOINED, inputs)
        made.collect()
    kept = prepared_plans(con.spark).find(made.recipe)
    assert kept is not None
    assert "Exchange" not in kept.root.toString()


TOGETHER = ("wide types", "columns", "no rows left", "one group", "union")


def test_several_sets_are_computed_in_one_job(con: Connection) -> None:
    """Each has the rows and columns that it has by itself, whatever there are, also twice."""
    for first, end in SPANS:
        inputs: dict[str, RowSet] = {
            "a": local(con, ROWS.format(first=first, end=end)),
            "b": local(con, ROWS.format(first=2, end=end)),
        }
        sets = [query(con, QUERIES[name], inputs) for name in TOGETHER]
        meter = Meter(con.spark)
        found = together([*sets, sets[0]])
        assert not isinstance(found, Declined)
        assert meter.work().jobs == 1
        for mine, alone in zip(found, [*sets, sets[0]], strict=True):
            wanted = alone.collect()
            assert isinstance(wanted, LocalRows)
            assert mine.schema.names == wanted.schema.names
            assert told(mine.plain_frame) == told(wanted.plain_frame)


def test_sets_of_many_rows_are_not_computed_together(con: Connection) -> None:
    """Nor those that Spark reads from anywhere else."""
    few = local(con, ROWS.format(first=0, end=6))
    text = f"SELECT k FROM {{a}} LATERAL VIEW explode(sequence(0, {DRIVER_ROWS_MAX})) AS e"
    assert isinstance(together([few, query(con, text, {"a": few})]), Declined)
    assert isinstance(together([few, SparkRows(con.spark.range(3))]), Declined)


def test_totals_of_the_same_rows_are_one_plan(con: Connection) -> None:
    """Spark's rule that makes one subquery of both is off: with one no plan is kept."""
    few = local(con, ROWS.format(first=0, end=6))
    texts = ("SELECT sum(k) AS s FROM {a}", "SELECT max(k) AS m FROM {a}")

    def sets() -> list[RowSet]:
        return [query(con, text, {"a": few}) for text in texts]

    for _ in range(3):
        found = together(sets())
        assert not isinstance(found, Declined)
        for mine, alone in zip(found, sets(), strict=True):
            assert told(mine.plain_frame) == told(alone.plain_frame)
    assert all(map(is_planned, sets()))


def test_more_rows_of_many(con: Connection) -> None:
    """What is made of many rows may be as many bytes in more rows, or few wide ones."""
    many = local_of_arrow(con, FEW.rows + 1)
    for _ in range(3):
        copied = computed(con, "SELECT k, string(k) AS s FROM {a}", {"a": many})
        assert copied.row_count == FEW.rows + 1
    width = NARROW.row_bytes + 1
    for _ in range(3):
        text = f"SELECT k, repeat('x', {width}) AS s FROM {{a}}"
        found = computed(con, f"{text} WHERE k < 3", {"a": many})
        assert found.arrow.column("s").to_pylist() == ["x" * width] * 3
    assert isinstance(query(con, text, {"a": many}).collect(), Declined)
    twice = "SELECT k, explode(sequence(1, 20)) AS n FROM {a}"
    assert query(con, twice, {"a": many}).collect() == Declined("more than 200000 rows")
