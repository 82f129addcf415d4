"""Folders of SQL, planned and applied in this process over the warehouse of ``without_spark``.

Spark compares the plans of two queries; here other words are another query.
"""

import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from ctsql import pipelines
from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError, EnvironmentProblem
from ctsql.catalog.items import Task
from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source
from ctsql.cli.folder_commands import exit_code
from ctsql.planner.folder import read_folder
from ctsql.runtime.pipelines import binding
from ctsql.runtime.pipelines.plan import FolderPlan, read_plan
from tests.helpers.opened import check_rows
from tests.scenarios.without_spark import connection
from tests.scenarios.without_spark.connection import DuckConnection, spark_left_out
from tests.scenarios.without_spark.tables import Warehouses

TABLE = "CREATE TABLE t (a INT, b INT);"
OTHER = "CREATE TABLE ref (x INT);"
TASK = "CREATE CONTINUAL TASK k (a INT) ON INPUT t AS (INSERT INTO k SELECT a FROM t);"
RULED = """CREATE MATERIALIZED VIEW m (a, CONSTRAINT pos CHECK (a > 0) ON VIOLATION QUARANTINE) AS
    SELECT a FROM t;"""

ABOVE = "CREATE MATERIALIZED VIEW above AS SELECT a FROM p;"
FOLLOWER = """CREATE CONTINUAL TASK c (a INT) ON INPUT t AS (
    INSERT INTO c SELECT t.a FROM t WHERE a IN (SELECT a FROM p));"""


@pytest.fixture
def warehouse() -> Iterator[Connection]:
    """A connection on a warehouse in memory."""
    with spark_left_out(), mock.patch.object(binding, "same_rows", return_value=False):
        yield DuckConnection(Warehouses())


def _plan(warehouse: Connection, text: str, *, prune: bool = False) -> FolderPlan:
    return pipelines.plan(warehouse, read_folder([Source(text, "all.sql")]), prune=prune)


def _apply(warehouse: Connection, text: str, *, prune: bool = False) -> None:
    """Apply a folder; then there is nothing to do."""
    pipelines.apply(warehouse, read_folder([Source(text, "all.sql")]), prune=prune)
    again = _plan(warehouse, text, prune=prune)
    assert (again.pending, again.refused_changes) == ((), ())


def _refused(plan: FolderPlan) -> dict[str, str]:
    """The conditions of what is refused, by name."""
    return {c.name: c.refusal.condition for c in plan.refused_changes if c.refusal is not None}


def test_a_task_that_is_there_reads_a_new_object(warehouse: Connection) -> None:
    """Its body may name what the folder makes with it, also through a new view."""
    _apply(warehouse, TABLE + TASK)
    known = "CREATE VIEW known AS SELECT x FROM ref;"
    body = "INSERT INTO k SELECT a FROM t WHERE a NOT IN (SELECT x FROM known WHERE x IS NOT NULL)"
    _apply(
        warehouse, f"{TABLE}{OTHER}{known} CREATE CONTINUAL TASK k (a INT) ON INPUT t AS ({body});"
    )
    warehouse.execute("INSERT INTO ref VALUES (2)")
    warehouse.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    assert warehouse.execute("SELECT a FROM k").fetchall() == [(1,)]


def test_a_circle_through_an_object_outside_is_refused(warehouse: Connection) -> None:
    """The task would read a view that reads it only by the folder."""
    view = "CREATE VIEW v AS SELECT a FROM {};"
    _apply(warehouse, TABLE + TASK + view.format("t"))
    warehouse.execute("CREATE VIEW outside AS SELECT a FROM k")
    body = "INSERT INTO k SELECT a FROM t WHERE a IN (SELECT a FROM v)"
    task = f"CREATE CONTINUAL TASK k (a INT) ON INPUT t AS ({body});"
    plan = _plan(warehouse, TABLE + task + view.format("outside"))
    assert _refused(plan) == {"k": "RECURSIVE_DEFINITION"}


READERS = {
    "a view": ("CREATE MATERIALIZED VIEW r AS SELECT {};", "x AS a FROM ref", "a FROM t"),
    "a plain view": (
        "CREATE VIEW r AS SELECT {}; CREATE MATERIALIZED VIEW n AS SELECT a FROM r;",
        "x AS a FROM ref",
        "a FROM t",
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_prune_drops_what_a_changed_view_no_longer_reads(
    warehouse: Connection, reader: str
) -> None:
    """What the plan says is dropped is dropped, at the T of the change."""
    text, before, after = READERS[reader]
    _apply(warehouse, TABLE + OTHER + text.format(before))
    warehouse.execute("INSERT INTO t VALUES (1, 1)")
    _apply(warehouse, TABLE + text.format(after), prune=True)
    assert warehouse.execute("SELECT a FROM r").fetchall() == [(1,)]
    assert [i.name.name for i in warehouse._opened().catalog if i.name.name == "ref"] == []


def test_what_a_task_reads_until_it_changes_is_dropped_later(warehouse: Connection) -> None:
    """Its former definition runs up to that T: the plan refuses it, with what to do."""
    before = TASK.replace("FROM t)", "FROM t WHERE a NOT IN (SELECT x FROM ref))")
    _apply(warehouse, TABLE + OTHER + before)
    warehouse.execute("INSERT INTO t VALUES (1, 1)")
    (refused,) = _plan(warehouse, TABLE + TASK, prune=True).refused_changes
    assert refused.name == "ref"
    assert refused.refusal is not None
    assert refused.refusal.hint == "Apply the folder first without dropping it."
    _apply(warehouse, TABLE + TASK)
    _apply(warehouse, TABLE + TASK, prune=True)
    warehouse.execute("INSERT INTO t VALUES (2, 2)")
    assert sorted(warehouse.execute("SELECT a FROM k").fetchall()) == [(1,), (2,)]


def test_prune_asks_nothing_of_a_strict_view_that_goes(warehouse: Connection) -> None:
    """It need not be followed by the new query of what it reads."""
    strict = "CREATE MATERIALIZED VIEW m WITH (REFRESH POLICY = 'strict') AS SELECT b FROM p;"
    _apply(warehouse, f"{TABLE} CREATE VIEW p AS SELECT a, b FROM t; {strict}")
    less = f"{TABLE} CREATE VIEW p AS SELECT a FROM t;"
    assert _refused(_plan(warehouse, less)).keys() >= {"p"}
    _apply(warehouse, less, prune=True)


@pytest.mark.parametrize("reader", ["", "CREATE VIEW r AS SELECT a FROM m;"])
def test_a_quarantine_goes_with_its_changed_readers(warehouse: Connection, reader: str) -> None:
    """A reader that is dropped, or reads something else then, does not count."""
    _apply(warehouse, TABLE + RULED + "CREATE VIEW r AS SELECT a FROM m_quarantine;")
    warehouse.execute("INSERT INTO t VALUES (1, 1), (-1, 1)")
    plain = f"{TABLE} CREATE MATERIALIZED VIEW m AS SELECT a FROM t; {reader}"
    _apply(warehouse, plain, prune=True)
    assert sorted(warehouse.execute("SELECT a FROM m").fetchall()) == [(-1,), (1,)]


def test_a_quarantine_gets_comments(warehouse: Connection) -> None:
    """Also one that is there, as by COMMENT ON; what is no such object has none."""
    _apply(warehouse, TABLE + RULED)
    comment = "COMMENT ON {} m_quarantine IS 'rows at fault';"
    text = TABLE + RULED + comment.format("MATERIALIZED VIEW")
    (change,) = _plan(warehouse, text).pending
    assert (change.name, change.parts) == ("m", ("comment",))
    _apply(warehouse, text)
    found = [i.comment for i in warehouse._opened().catalog if i.name.name == "m_quarantine"]
    assert found == ["rows at fault"]
    assert _refused(_plan(warehouse, TABLE + RULED + comment.format("TABLE"))) == {
        "m": "WRONG_OBJECT_KIND"
    }


def test_a_task_gets_other_defaults(warehouse: Connection) -> None:
    """As by CREATE OR REPLACE; types that are spelled otherwise are no change."""
    task = """CREATE CONTINUAL TASK k (a {}, b INT DEFAULT {}) ON INPUT t AS (
        INSERT INTO k (a) SELECT a FROM t);"""
    _apply(warehouse, TABLE + task.format("INT", 1))
    warehouse.execute("INSERT INTO t VALUES (1, 1)")
    assert _plan(warehouse, TABLE + task.format("integer", 1)).pending == ()
    (change,) = _plan(warehouse, TABLE + task.format("INT", 2)).pending
    assert (change.name, change.parts) == ("k", ("defaults",))
    _apply(warehouse, TABLE + task.format("INT", 2))
    warehouse.execute("INSERT INTO t VALUES (2, 2)")
    assert sorted(warehouse.execute("SELECT a, b FROM k").fetchall()) == [(1, 1), (2, 2)]


def test_an_unchanged_view_is_not_asked_whether_it_can_change(warehouse: Connection) -> None:
    """It reads a suspended task, and is bound again as another view below has more columns."""
    reader = "CREATE MATERIALIZED VIEW r AS SELECT m.a FROM m JOIN k ON k.a = m.a;"
    view = "CREATE MATERIALIZED VIEW m AS SELECT {} FROM t;"
    _apply(warehouse, TABLE + TASK + view.format("a") + reader)
    warehouse.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT a, b FROM t")
    warehouse.execute("ALTER CONTINUAL TASK k SUSPEND")
    text = TABLE + TASK + view.format("a, b")
    assert _plan(warehouse, text + reader).pending == ()
    assert _refused(_plan(warehouse, text + reader)) == {}
    assert _refused(_plan(warehouse, text + reader.replace("m.a FROM", "m.b FROM"))) == {
        "r": "TASK_SUSPENDED"
    }


@pytest.mark.parametrize("clause", ["APPLY AS DELETE WHEN x = 1 SEQUENCE BY b", "SEQUENCE BY x"])
def test_a_refusal_is_at_a_place_of_the_folder(warehouse: Connection, clause: str) -> None:
    """Also where the statement is made of another."""
    flow = f"CREATE FLOW f AS AUTO CDC INTO newest FROM t KEYS (a) {clause};"
    (change,) = _plan(warehouse, f"{TABLE}\n{flow}").refused_changes
    assert change.refusal is not None
    assert (change.refusal.condition, change.refusal.place) == ("UNKNOWN_COLUMN", "all.sql:2:13")


def test_two_objects_of_a_folder_have_two_places(warehouse: Connection) -> None:
    """As where the first is there already; else both would write, or be, one table."""
    views = "".join(
        f"CREATE MATERIALIZED VIEW {name} WITH (LOCATION = 'memory:/out/m') AS SELECT a FROM t;"
        for name in "mn"
    )
    with pytest.raises(EnvironmentProblem, match="the folder of materialized view m"):
        _plan(warehouse, TABLE + views)
    with mock.patch.object(connection, "LOCATION", "memory:/elsewhere"):
        other = DuckConnection(warehouse._store)  # type: ignore[attr-defined]
        other.execute("CREATE TABLE z (a INT)")
        (table,) = other._opened().catalog
    tables = "".join(f"CREATE TABLE {name} LOCATION '{table.location}';" for name in "uw")
    assert _refused(_plan(warehouse, tables)) == {"w": "OBJECT_EXISTS"}


SUSPENDED = {
    "new, over a new plain view": ("", "CREATE VIEW p AS SELECT a FROM k;" + ABOVE),
    "follows a plain view": (
        "CREATE VIEW p AS SELECT a FROM t;" + ABOVE,
        "CREATE VIEW p AS SELECT a FROM k;" + ABOVE,
    ),
    "is suspended itself": (
        "CREATE VIEW p AS SELECT a FROM t;" + FOLLOWER,
        "CREATE VIEW p AS SELECT b AS a FROM t;" + FOLLOWER,
    ),
}


@pytest.mark.parametrize("reader", SUSPENDED)
def test_what_a_suspended_task_forbids_is_in_the_plan(warehouse: Connection, reader: str) -> None:
    """Apply would end with the definitions in force, or raise what the plan did not say."""
    before, after = (TABLE + TASK + text for text in SUSPENDED[reader])
    _apply(warehouse, before)
    for name in (i.name for i in warehouse._opened().catalog if isinstance(i, Task)):
        warehouse.execute(f"ALTER CONTINUAL TASK {name} SUSPEND")
    assert [*_refused(_plan(warehouse, after)).values()] == ["TASK_SUSPENDED"]


def test_a_suspended_task_keeps_the_columns_that_it_still_reads(warehouse: Connection) -> None:
    """It has changes to take by its old body, whatever body the folder gives it."""
    tables = "CREATE TABLE t (a INT, b INT); CREATE TABLE f (x INT);"
    objects = """CREATE VIEW v AS SELECT {columns} FROM t;
    CREATE CONTINUAL TASK k (a INT) ON INPUT f AS (INSERT INTO k SELECT {last} FROM f, v);"""
    _apply(warehouse, tables + objects.format(columns="a, b", last="b"))
    warehouse.execute("ALTER CONTINUAL TASK k SUSPEND; INSERT INTO f VALUES (1); SELECT * FROM f")
    plan = _plan(warehouse, tables + objects.format(columns="a", last="a"))
    assert _refused(plan) == {"v": "COLUMNS_IN_USE"}


SHAPES = {
    "its own output": "CREATE CONTINUAL TASK k (a INT{}) ON INPUT t AS (INSERT INTO k {});",
    "one of its outputs": """CREATE CONTINUAL TASK w OUTPUTS (j (a INT), k (a INT{}))
        ON INPUT t AS (
        INSERT INTO j SELECT a FROM t; INSERT INTO k {});""",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_task_gets_columns_at_its_end_together_with_their_readers(
    warehouse: Connection, shape: str
) -> None:
    """Rows from before have NULL in them, and a new view reads them at once."""
    before, after = ("", "SELECT a FROM t"), (", b INT", "SELECT a, b FROM t")
    _apply(warehouse, TABLE + SHAPES[shape].format(*before))
    warehouse.execute("INSERT INTO t VALUES (1, 7)")
    above = "CREATE MATERIALIZED VIEW above AS SELECT b FROM k;"
    _apply(warehouse, TABLE + SHAPES[shape].format(*after) + above)
    warehouse.execute("INSERT INTO t VALUES (2, 8)")
    assert sorted(warehouse.execute("SELECT * FROM k").fetchall()) == [(1, None), (2, 8)]
    held = [row[0] for row in warehouse.execute("SELECT * FROM above").fetchall()]
    assert sorted(held, key=str) == [8, None]


def test_a_view_that_another_writer_broke_says_what_to_do(warehouse: Connection) -> None:
    """Its words are those that are stored; a column of its table is gone."""
    text = "CREATE MATERIALIZED VIEW m AS SELECT b FROM t; CREATE VIEW p AS SELECT b FROM t;"
    warehouse.execute("CREATE TABLE t (a INT, b INT)")
    _apply(warehouse, text)
    engine = warehouse._opened()
    table: Any = engine.relations.table(engine.catalog.get(Name("default", "t"), span=None))
    table.folder.schemas[-1] = table.folder.schemas[-1].replace('"b"', '"c"')
    plan = _plan(warehouse, text)
    assert _refused(plan) == {"m": "UNKNOWN_COLUMN", "p": "UNKNOWN_COLUMN"}
    hints = {c.refusal.hint for c in plan.refused_changes if c.refusal is not None}
    assert hints == {
        "What it reads has other columns now: change its text in the folder, or restore the "
        "columns."
    }


@pytest.mark.parametrize(
    ("after", "condition", "hint"),
    [
        ("CREATE TABLE t (key INT, b INT);", "NOT_SUPPORTED", "ALTER TABLE t RENAME COLUMN a TO"),
        ("CREATE VIEW t AS SELECT 1 AS a;", "WRONG_OBJECT_KIND", "DROP TABLE t"),
    ],
)
def test_refused(warehouse: Connection, after: str, condition: str, hint: str) -> None:
    """What cannot be is refused with what to type, and nothing is changed."""
    _apply(warehouse, TABLE + OTHER)
    plan = _plan(warehouse, after + OTHER)
    (change,) = plan.refused_changes
    assert change.refusal is not None
    assert (change.refusal.condition, exit_code(plan)) == (condition, 4)
    assert hint in change.refusal.hint
    with pytest.raises(CtsqlError, match="PLAN_REFUSED"):
        _apply(warehouse, after + OTHER)
    assert _plan(warehouse, TABLE + OTHER).pending == ()


def test_refusals_of_views_and_tasks(warehouse: Connection) -> None:
    """Other inputs, other types, unknown names, circles: each by its own condition."""
    text = """
    CREATE TABLE t (k INT, v INT); CREATE TABLE u (k INT, v INT);
    CREATE MATERIALIZED VIEW m AS SELECT k, v FROM t;
    CREATE CONTINUAL TASK c (k INT) ON INPUT m AS (INSERT INTO c SELECT k FROM m);
    CREATE VIEW p AS SELECT k, v FROM t;
    CREATE MATERIALIZED VIEW q AS SELECT v FROM p;
    """
    _apply(warehouse, text)
    for old, new, name, condition in (
        ("INPUT m AS", "INPUT t AS", "c", "NOT_SUPPORTED"),
        ("c (k INT)", "c (k INT8)", "c", "NOT_SUPPORTED"),
        ("SELECT k FROM m", "SELECT z FROM m", "c", "UNKNOWN_COLUMN"),
        ("VIEW p AS SELECT k, v", "VIEW p AS SELECT k", "q", "UNKNOWN_COLUMN"),
    ):
        assert _refused(_plan(warehouse, text.replace(old, new)))[name] == condition, new
    with pytest.raises(CtsqlError, match="RECURSIVE_DEFINITION"):
        _plan(warehouse, text.replace("VIEW p AS SELECT k, v FROM t", "VIEW p AS SELECT v FROM q"))
    # A plain view may get other columns with all that reads it.
    both = text.replace("VIEW p AS SELECT k, v", "VIEW p AS SELECT k, v AS w").replace(
        "SELECT v FROM p", "SELECT w AS v FROM p"
    )
    assert _refused(_plan(warehouse, both)) == {}


def test_a_saved_plan_is_what_is_done(warehouse: Connection) -> None:
    """If the warehouse or the folder has changed since, nothing is done."""
    folder = read_folder([Source(TABLE, "all.sql")])
    saved = read_plan(json.dumps(_plan(warehouse, TABLE).to_json()), "p")
    warehouse.execute("CREATE TABLE between (k INT)")
    with pytest.raises(CtsqlError, match="not what would be done now"):
        pipelines.apply(warehouse, folder, saved_plan=saved)
    saved = read_plan(json.dumps(_plan(warehouse, TABLE).to_json()), "p")
    with pytest.raises(CtsqlError, match="not what would be done now"):
        pipelines.apply(warehouse, read_folder([Source(TABLE + OTHER, "p")]), saved_plan=saved)
    assert pipelines.apply(warehouse, folder, saved_plan=saved).pending


def test_parts_of_what_goes_are_not_dropped_under_readers(warehouse: Connection) -> None:
    """A task whose output, or a flow whose target, is read is refused in its own line."""
    _apply(
        warehouse,
        f"""{TABLE} CREATE CONTINUAL TASK both OUTPUTS (ups (a INT), downs (a INT)) ON INPUT t AS (
        INSERT INTO ups SELECT a FROM t WHERE b > 0; INSERT INTO downs SELECT a FROM t);
        CREATE FLOW f AS AUTO CDC INTO dim FROM t KEYS (a) SEQUENCE BY b;""",
    )
    readers = "CREATE VIEW m AS SELECT a FROM ups; CREATE VIEW n AS SELECT a FROM dim;"
    plan = _plan(warehouse, TABLE + readers, prune=True)
    assert {c.name: c.refusal and c.refusal.detail for c in plan.refused_changes} == {
        "both": "It is read by view m.",
        "f": "It is read by view n.",
    }


def test_letters_of_names_do_not_count(warehouse: Connection) -> None:
    """A folder may write names in other letters than the warehouse has; one line tells of each."""
    before = (
        "CREATE VIEW good AS SELECT * FROM t; CREATE MATERIALIZED VIEW m AS SELECT a FROM good;"
    )
    _apply(warehouse, TABLE + before)
    after = (
        "CREATE VIEW GOOD AS SELECT * FROM T WHERE a < 5; CREATE MATERIALIZED VIEW M AS SELECT a"
    )
    plan = _plan(warehouse, f"CREATE TABLE T (a INT, b INT); {after} FROM Good;")
    assert {c.name: c.status.value for c in plan.changes} == {
        "t": "unchanged",
        "good": "changed",
        "m": "changed",
    }


def test_followers_outside_the_folder_have_seen_what_came_before(warehouse: Connection) -> None:
    """A T that waits when a plain view below changes is still one of the old query."""
    view = "CREATE VIEW v AS SELECT a FROM t WHERE a < {};"
    warehouse.execute(TABLE + view.format(10))
    warehouse.execute("CREATE MATERIALIZED VIEW m AS SELECT a FROM v")
    warehouse.execute("CREATE CONTINUAL TASK seen ON INPUT m AS (INSERT INTO seen SELECT a FROM m)")
    warehouse.execute("INSERT INTO t VALUES (5, 1)")
    warehouse.execute(
        "CREATE MATERIALIZED VIEW strict WITH (REFRESH POLICY = strict) AS SELECT a FROM v"
    )
    limited = "CREATE VIEW v AS SELECT a FROM t LIMIT 3;"
    assert _refused(_plan(warehouse, TABLE + limited))["strict"] == "INVALID_OPTION"
    _apply(warehouse, TABLE + view.format(3))
    assert warehouse.execute("SELECT * FROM m").fetchall() == []
    assert warehouse.execute("SELECT * FROM seen").fetchall() == [(5,)]


CHECKED = """
CREATE TABLE raw (k INT, v INT);
CREATE MATERIALIZED VIEW good (k, v, CONSTRAINT pos CHECK (v > 0) ON VIOLATION QUARANTINE)
    AS SELECT k, v FROM raw;
CREATE MATERIALIZED VIEW plain AS SELECT k, v FROM raw;
CREATE CONTINUAL TASK log (k INT, v INT) ON INPUT raw AS (INSERT INTO log SELECT k, v FROM raw);
"""


def test_views_and_tasks_change_with_their_quarantines(warehouse: Connection) -> None:
    """What has one gets another, what has none gets one, and it goes where nothing needs it."""
    _apply(warehouse, CHECKED)
    warehouse.execute("INSERT INTO raw VALUES (1, 5), (2, -1), (3, 50)")
    check_rows(warehouse, "SELECT k, constraint_name FROM good_quarantine", (2, "pos"))
    rule = "CONSTRAINT few CHECK (v < 40) ON VIOLATION QUARANTINE"
    changed = (
        CHECKED.replace("CONSTRAINT pos CHECK (v > 0)", "CONSTRAINT few CHECK (v < 40)")
        .replace("VIEW plain AS SELECT k, v", f"VIEW plain (k, v, {rule}) AS SELECT k, v + 1 AS v")
        .replace("log (k INT, v INT)", f"log (k INT, v INT, {rule})")
    )
    assert {c.name: c.parts for c in _plan(warehouse, changed).pending} == {
        "good": ("constraints",),
        "plain": ("query", "constraints"),
        "log": ("constraints",),
    }
    _apply(warehouse, changed)
    warehouse.execute("INSERT INTO raw VALUES (4, 60)")
    found = "SELECT k, constraint_name FROM good_quarantine"
    check_rows(warehouse, found, (3, "few"), (4, "few"))
    check_rows(warehouse, "SELECT k, v FROM plain_quarantine", (3, 51), (4, 61))
    check_rows(warehouse, "SELECT row_json FROM log_quarantine", ('{"k":4,"v":60}',))
    check_rows(warehouse, "SELECT k FROM plain", (1,), (2,))
    warehouse.execute("CREATE VIEW above AS SELECT * FROM plain_quarantine")
    without = changed.replace(f"plain (k, v, {rule})", "plain (k, v)")
    assert _refused(_plan(warehouse, without)).keys() >= {"plain_quarantine"}
    warehouse.execute("DROP VIEW above")
    _apply(warehouse, without)
    check_rows(warehouse, "SELECT k FROM plain", (1,), (2,), (3,), (4,))
    with pytest.raises(CtsqlError, match="UNKNOWN_RELATION"):
        warehouse.execute("SELECT * FROM plain_quarantine")
