"""Which bodies take inserted rows one by one: told from their text, and never wrongly yes."""

import pytest

from ctsql.catalog.reserved_columns import TIME
from ctsql.catalog.schemas import Column
from ctsql.planner.bodies.row_local import carry_time, is_row_local, only_loses_rows
from ctsql.planner.nodes import Insert, InsertsInput, Query, TaskWrite
from ctsql.planner.syntax import rewrite
from tests.unit.planner.binding.catalog_by_hand import FakeAnalyst, bind

YES = [
    "SELECT * FROM feed",
    "SELECT key, val FROM feed",
    "SELECT f.key, upper(trim(f.val)) FROM feed AS f WHERE f.key > 3 AND f.val LIKE 'a%'",
    "SELECT key * 2, CASE WHEN (key) IN (1, 2) THEN 'x' ELSE val END FROM feed",
    "select cast(key AS INT), coalesce(val, ' from ') from feed where (key + 1) * 2 < 9",
    "SELECT (key), val FROM feed -- GROUP BY",
    "SELECT key, CAST(now() AS STRING) FROM feed WHERE key * 2 > unix_timestamp()",
    "SELECT key, CAST(current_date AS STRING) FROM feed",
    "SELECT array_max(array(key, hash(*))), soundex(val) FROM feed",
]
NO = [
    "SELECT key, count(*) FROM feed GROUP BY key",
    "SELECT max(key), 'a' FROM feed",
    "SELECT `max`(key), 'a' FROM feed",
    "SELECT any_value(key), 'a' FROM feed",
    "SELECT my_function(key), val FROM feed",
    "SELECT DISTINCT key, val FROM feed",
    "SELECT key, val FROM feed ORDER BY key LIMIT 1",
    "SELECT key, row_number() OVER (ORDER BY key) FROM feed",
    "SELECT feed.key, title FROM feed JOIN pages ON key = id",
    "SELECT key, val FROM feed, range(3)",
    "SELECT key, val FROM feed UNION ALL SELECT key, val FROM feed",
    "SELECT key, val FROM feed WHERE key NOT IN (SELECT id FROM pages)",
    "SELECT key, val FROM feed WHERE key NOT IN (SELECT k FROM t)",
    "SELECT key, val FROM (SELECT key, val FROM feed)",
    "WITH f AS (SELECT * FROM feed) SELECT key, val FROM f",
    "SELECT key, explode(array(val)) FROM feed",
    "SELECT key, val FROM feed LATERAL VIEW explode(array(1)) AS e",
    "SELECT feed.* FROM feed",
    "SELECT key, * FROM (SELECT val FROM feed)",
    "SELECT count(*), 'a' FROM feed",
    "SELECT key, val FROM contents(feed)",
    "SELECT key, val FROM deletes(feed)",
    "SELECT key, val FROM changes(feed)",
    "SELECT 1, 'a'",
]


class AsDeclared(FakeAnalyst):
    """Whatever a query computes is of the output's types."""

    def columns(self, query: Query) -> tuple[Column, ...]:
        """The output's."""
        return (Column("k", "int"), Column("v", "string"))


def task(query: str, *, more: str = "", options: str = "") -> TaskWrite:
    """A task with an INSERT of a query."""
    plan = bind(
        f"CREATE CONTINUAL TASK t (k INT, v STRING) ON INPUT feed {options} AS ("
        f"INSERT INTO t {query}\n; {more})",
        AsDeclared(),
    ).plan
    assert isinstance(plan, TaskWrite)
    return plan


@pytest.mark.parametrize("query", YES)
def test_row_by_row(query: str) -> None:
    """What looks at one row at a time."""
    assert is_row_local(task(query))


@pytest.mark.parametrize("query", NO)
def test_not_row_by_row(query: str) -> None:
    """What combines rows, reads something else, or may."""
    assert not is_row_local(task(query))


def test_other_statements() -> None:
    """One statement of another kind, or a second run, and it is not."""
    assert is_row_local(task(YES[0], more=f"INSERT INTO t {YES[1]}"))
    assert not is_row_local(task(YES[0], more="DELETE FROM t WHERE k = 1"))
    assert not is_row_local(task(YES[0], more=f"INSERT INTO t {NO[0]}"))
    assert not is_row_local(task(YES[0], options="WITH (ITERATIONS = 2)"))


@pytest.mark.parametrize("query", YES)
def test_the_time_is_carried(query: str) -> None:
    """The input has one more column, and the query gives it last."""
    relation, text = carried(query)
    assert relation.columns[-1] == TIME
    assert f", {TIME} " in text.lower().split("from r")[0]


def test_stars_are_the_columns() -> None:
    """So that the time stands behind them, and no star takes it for one of them."""
    assert carried("SELECT * FROM feed")[1] == f"SELECT `key`, `val` , {TIME} FROM r AS `feed`"
    assert carried("SELECT key * 2, *FROM feed")[1].startswith("SELECT key * 2, `key`, `val`, ")
    assert carried("SELECT hash(*), val FROM feed")[1].startswith(
        "SELECT hash(`key`, `val`), val ,"
    )


def carried(query: str) -> tuple[InsertsInput, str]:
    """What a query reads and its text, once it carries the time."""
    (insert,) = carry_time(task(query).transaction).statements
    assert isinstance(insert, Insert)
    (relation,) = insert.query.relations
    assert isinstance(relation, InsertsInput)
    return relation, rewrite(insert.query.sql, relation=lambda _: "r").text


@pytest.mark.parametrize(
    ("while_", "more", "is_so"),
    [
        ("val > now()", "", True),
        ("val > now() - INTERVAL 1 DAY AND key > 3", "", True),
        ("key > 3 AND (now() < val)", "", True),
        ("key > 3", "", True),
        ("val > now()", "ITERATIONS = 2", False),
        ("val <= now()", "", False),  # a row that is kept out now may come in
        ("val BETWEEN now() AND now() + INTERVAL 1 DAY", "", False),
        ("val > now() OR key > 3", "", False),
        ("hour(now()) < 9", "", False),
        ("val > now() AND key IN (SELECT id FROM pages)", "", False),
    ],
)
def test_rows_that_go_for_good(while_: str, more: str, is_so: bool) -> None:
    """What was deleted by a comparison with the clock is deleted at any later time, too."""
    options = ", ".join(filter(None, ["TRIM EVERY = '1 hour'", more]))
    text = f"CREATE CONTINUAL TASK t FROM RETAIN feed WHILE ({while_}) WITH ({options})"
    plan = bind(text).plan
    assert isinstance(plan, TaskWrite)
    assert only_loses_rows(plan) == is_so


def test_runs_of_other_bodies_matter_each() -> None:
    """Each may propose other rows, or leave others to the next one."""
    go = "DELETE FROM t WHERE (v > now()) IS NOT TRUE"
    assert only_loses_rows(task(YES[0], more=go))
    assert not only_loses_rows(task(NO[0], more=go))
    for more in (
        "DELETE FROM t WHERE v <= now()",
        "DELETE FROM t WHERE k = 1 AND v > now() IS NOT TRUE",
        "DELETE FROM t",
        "UPDATE t SET k = k + 1",
    ):
        assert not only_loses_rows(task(YES[0], more=more))
