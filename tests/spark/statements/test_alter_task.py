"""ALTER CONTINUAL TASK: what is in force at which T, over processes and failures."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.tasks.progress import failure_of
from tests.helpers.opened import check_rows, engine_of, item_of
from tests.helpers.processes import Process
from tests.helpers.turns import beside, turn_at
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark

SET_UP = """
CREATE TABLE f (k INT);
INSERT INTO f VALUES (1);
CREATE CONTINUAL TASK t ON INPUT f AS (INSERT INTO t SELECT k, 'old' AS s FROM f);
CREATE MATERIALIZED VIEW m AS SELECT s, count(*) AS n FROM t GROUP BY s
"""


def test_another_body_takes_over(connect: Callable[[], Connection]) -> None:
    """What was committed before goes through the old body, the rest through the new; once."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    check_rows(other, "SELECT * FROM t", (1, "old"))
    con.execute("INSERT INTO f VALUES (2)")
    con.execute(
        "ALTER CONTINUAL TASK t AS (INSERT INTO t SELECT k, 'new' FROM f;"
        " INSERT INTO t SELECT k, 'gone' FROM deletes(f))"
    )
    con.execute("INSERT INTO f VALUES (3); DELETE FROM f WHERE k = 1")
    check_rows(other, "SELECT * FROM t", (1, "old"), (2, "old"), (3, "new"), (1, "gone"))
    check_rows(con, "SELECT * FROM m", ("old", 2), ("new", 1), ("gone", 1))
    con.execute("ALTER TABLE f RENAME TO feed")
    ((_, shown),) = other.execute("SHOW CREATE t").fetchall()
    assert "ON INPUT feed AS (INSERT INTO t SELECT k, 'new' FROM feed" in shown
    assert "FROM deletes(feed)" in shown
    assert "(k int, s string" in shown
    plan = "\n".join(line for (line,) in other.execute("EXPLAIN CONTINUAL TASK t").fetchall())
    assert "DeletesInput feed" in plan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "taken_over"), [("catalog_committed", False), ("timeline_committed", True)]
)
def test_killed_in_the_middle(
    point: str,
    taken_over: bool,
    warehouse: Path,
    connect: Callable[[], Connection],
) -> None:
    """Until a T is bound ALTER has changed nothing that anyone sees; then it has happened."""
    con = connect()
    con.execute(SET_UP)
    con.execute("SELECT * FROM m")
    con.close()
    process = Process(
        warehouse,
        ["ALTER CONTINUAL TASK t AS (INSERT INTO t SELECT k, 'next' FROM f)"],
        fault=point,
    )
    process.wait_ready()
    process.go()
    status, problems = process.finish()
    assert status == -signal.SIGKILL, problems
    con = connect()
    con.execute("INSERT INTO f VALUES (2)")
    second = "next" if taken_over else "old"
    check_rows(con, "SELECT * FROM t", (1, "old"), (2, second))
    assert f"'{second}'" in con.execute("SHOW CREATE t").fetchall()[0][1]
    con.execute("ALTER CONTINUAL TASK t AS (INSERT INTO t SELECT k, 'new' FROM f)")
    con.execute("INSERT INTO f VALUES (3)")
    check_rows(con, "SELECT * FROM t", (1, "old"), (2, second), (3, "new"))


@pytest.mark.slow
def test_options(con: Connection) -> None:
    """SET and RESET hold from the next T on."""
    con.execute(SET_UP)
    con.execute("ALTER CONTINUAL TASK t SET (ITERATIONS = 2, ON ERROR = 'skip')")
    con.execute("INSERT INTO f VALUES (5)")
    check_rows(con, "SELECT * FROM t WHERE k > 1", (5, "old"), (5, "old"))
    con.execute("ALTER CONTINUAL TASK t RESET (ITERATIONS)")
    con.execute("INSERT INTO f VALUES (6)")
    check_rows(con, "SELECT * FROM t WHERE k > 5", (6, "old"))
    assert "WITH (ON ERROR = 'skip')" in con.execute("SHOW CREATE t").fetchall()[0][1]


def test_suspended(connect: Callable[[], Connection]) -> None:
    """It is not run, by nobody; all that reads it is read as of the T it had come to."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    con.execute("ALTER CONTINUAL TASK t SUSPEND")
    assert "already" in con.execute("ALTER CONTINUAL TASK t SUSPEND").status
    con.execute("INSERT INTO f VALUES (2)")
    check_rows(con, "SELECT t.k, f.k FROM t, f", (1, 1))
    check_rows(other, "SELECT * FROM m", ("old", 1))
    check_rows(other, "SELECT count(*) FROM f", (2,))
    other.run(once=True)
    check_rows(other, "SELECT * FROM m", ("old", 1))
    shown = con.execute("SHOW CONTINUAL TASKS")
    row = dict(zip(shown.columns, shown.fetchall()[0], strict=True))
    assert (row["state"], row["lag_versions"]) == ("suspended", 1)
    expect_error(con, "CREATE MATERIALIZED VIEW x AS SELECT * FROM m", "TASK_SUSPENDED")
    expect_error(con, "REFRESH MATERIALIZED VIEW m FULL", "TASK_SUSPENDED")
    other.execute("ALTER CONTINUAL TASK t RESUME")
    check_rows(con, "SELECT * FROM t", (1, "old"), (2, "old"))
    check_rows(con, "SELECT * FROM m", ("old", 2))


def test_a_body_that_failed_is_mended(con: Connection) -> None:
    """The new body is in force from the T at which the old one failed."""
    con.execute(
        "CREATE TABLE f (k INT);"
        "CREATE CONTINUAL TASK t (k INT) ON INPUT f AS (INSERT INTO t SELECT 10 / (k - 9) FROM f);"
        "INSERT INTO f VALUES (8); INSERT INTO f VALUES (9); INSERT INTO f VALUES (10)"
    )
    expect_error(con, "SELECT * FROM t", "TASK_FAILED")
    con.execute("ALTER CONTINUAL TASK t AS (INSERT INTO t SELECT k FROM f)")
    check_rows(con, "SELECT * FROM t", (-10,), (9,), (10,))


def test_refused(con: Connection) -> None:
    """With the place in the statement, and nothing has changed."""
    con.execute(SET_UP)
    before = con.execute("SHOW CREATE t").fetchall()
    alter = "ALTER CONTINUAL TASK t "
    cases = (
        ("AS (INSERT INTO t SELECT nope, 'x' FROM f)", "UNKNOWN_COLUMN", "nope"),
        ("AS (INSERT INTO t SELECT 'x', 'x' FROM f)", "TYPE_MISMATCH", "SELECT 'x', 'x' FROM f"),
        ("AS (INSERT INTO t SELECT n, s FROM m)", "RECURSIVE_DEFINITION", None),
        ("SET (SNAPSHOT = false)", "INVALID_OPTION", "SNAPSHOT = false"),
    )
    for text, condition, place in cases:
        refused = expect_error(con, alter + text, condition)
        if place is not None:
            assert refused.span is not None
            assert refused.span.text == place
    assert con.execute("SHOW CREATE t").fetchall() == before


def test_or_replace_puts_another_definition_in_force(connect: Callable[[], Connection]) -> None:
    """The same statement deploys each version: it makes, replaces, or does nothing, and says so."""
    con = connect()
    con.execute("CREATE TABLE f (k INT); INSERT INTO f VALUES (1)")

    def deploy(body: str, columns: str = "", source: str = "f") -> str:
        made = f"CREATE OR REPLACE CONTINUAL TASK t {columns} ON INPUT {source} AS ({body})"
        return con.execute(made).status

    old, new = (
        "INSERT INTO t SELECT k, 'old' AS s FROM f",
        "INSERT INTO t SELECT k, 'new' AS s FROM f",
    )
    assert deploy(old) == "CREATE CONTINUAL TASK"
    assert deploy(old) == "CREATE CONTINUAL TASK (unchanged)"
    con.execute("INSERT INTO f VALUES (2)")
    assert deploy(new) == "CREATE CONTINUAL TASK (replaced)"
    assert deploy(new.replace("SELECT", "\n select /* again */ ")) == (
        "CREATE CONTINUAL TASK (unchanged)"
    )
    assert deploy(new, "(k INT, s STRING)") == "CREATE CONTINUAL TASK (unchanged)"
    con.execute("INSERT INTO f VALUES (3)")
    check_rows(connect(), "SELECT * FROM t", (1, "old"), (2, "old"), (3, "new"))
    quiet = "CREATE CONTINUAL TASK IF NOT EXISTS t ON INPUT f AS"
    assert con.execute(f"{quiet} ({new})").status == "CREATE CONTINUAL TASK (exists already)"
    assert con.execute(f"{quiet} ({old})").status == (
        "CREATE CONTINUAL TASK (exists already, otherwise defined)"
    )
    con.execute("CREATE TABLE g (k INT); CREATE SCHEMA other")
    made = "CREATE OR REPLACE CONTINUAL TASK t"
    for refused in (
        f"{made} ON INPUT g AS (INSERT INTO t SELECT k, 'new' AS s FROM g)",
        f"{made} ON INPUT f AS (INSERT INTO t SELECT k FROM f)",
        f"{made} (k BIGINT, s STRING) ON INPUT f AS (INSERT INTO t SELECT k, 'x' FROM f)",
        f"{made} (k INT, more INT, s STRING) ON INPUT f AS (INSERT INTO t SELECT k, 1, 'x' FROM f)",
        f"{made} (k INT, s STRING, more INT NOT NULL) ON INPUT f AS"
        " (INSERT INTO t SELECT k, 'x', 1 FROM f)",
        f"{made} OUTPUTS (a (k INT), b (k INT)) ON INPUT f AS (INSERT INTO a SELECT k FROM f)",
        "USE other; CREATE OR REPLACE CONTINUAL TASK default.t ON INPUT default.f AS"
        " (INSERT INTO default.t SELECT k, 'x' AS s FROM default.f)",
    ):
        expect_error(con, refused, "NOT_SUPPORTED")
    con.execute("USE default")
    expect_error(con, f"{made} ON INPUT f AS (INSERT INTO t SELECT nope FROM f)", "UNKNOWN_COLUMN")
    assert deploy(new) == "CREATE CONTINUAL TASK (unchanged)"


def test_a_failed_task_goes_on_by_or_replace(connect: Callable[[], Connection]) -> None:
    """The error names the statement that heals it, and the rows at fault."""
    con = connect()
    con.execute("CREATE TABLE f (k STRING)")
    text = "CREATE OR REPLACE CONTINUAL TASK t ON INPUT f AS (INSERT INTO t SELECT {} AS n FROM f)"
    con.execute(text.format("CAST(k AS INT)"))
    con.execute("INSERT INTO f VALUES ('1'), ('one'); INSERT INTO f VALUES ('2')")
    with pytest.raises(CtsqlError) as caught:
        con.execute("SELECT * FROM t")
    hint = str(caught.value.hint)
    assert "ALTER CONTINUAL TASK default.t AS (...)" in hint or "ALTER CONTINUAL TASK t AS" in hint
    asked = hint.split("The rows of that T: ")[1].split(". ")[0]
    shown = [row[-1] for row in con.execute(asked).fetchall() if row[-1] is not None]
    assert sorted(shown) == ["1", "one"]
    assert con.execute(text.format("try_cast(k AS INT)")).status.endswith("(replaced)")
    check_rows(con, "SELECT * FROM t", (1,), (None,), (2,))


def test_use_as_a_connection_s_first_statement(connect: Callable[[], Connection]) -> None:
    """A file of a project begins with it."""
    connect().execute("CREATE SCHEMA shop; CREATE TABLE shop.f (k INT)")
    con = connect()
    con.execute("USE shop")
    check_rows(con, "SELECT * FROM f")


def test_altered_between_looks_at_catalog_and_timeline(connect: Callable[[], Connection]) -> None:
    """Who has looked at the timeline later than at the catalog looks at that again."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    engine = engine_of(con)
    assert engine is not None
    (item,) = [i for i in engine.refresh_catalog() if i.name.name == "t"]
    other.execute("ALTER CONTINUAL TASK t AS (INSERT INTO t SELECT k, 'new' FROM f)")
    engine.timeline.refresh()
    assert "'new'" in engine.relations.current(item).definition.text
    assert engine.relations.bound(item).task.object_id == item.id


def test_a_body_that_mends_is_in_force_for_who_knew_later_times(
    connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that was about to run the Ts behind the failed one runs the new body, too."""
    con, service = connect(), connect()
    con.execute("""
        CREATE TABLE f (k TEXT);
        CREATE CONTINUAL TASK t (n INT) ON INPUT f AS (INSERT INTO t SELECT CAST(k AS INT) FROM f);
        INSERT INTO f VALUES ('1'); SELECT * FROM t;
        INSERT INTO f VALUES ('x'); INSERT INTO f VALUES ('2'); INSERT INTO f VALUES ('3')""")
    expect_error(service, "SELECT * FROM t", "TASK_FAILED")
    item, known = item_of(service, "t"), service.now()

    def go_on() -> None:
        with service._running("tick"):
            engine_of(service).advance([item], known)

    # The service's turn comes when ALTER has written the T that had failed, and no more.
    turn = turn_at(
        monkeypatch,
        "output_committed",
        beside(go_on),
        when=lambda: failure_of(engine_of(service).warehouse, item) is None,
    )
    con.execute("ALTER CONTINUAL TASK t AS (INSERT INTO t SELECT -try_cast(k AS INT) FROM f)")
    assert turn.has_come, "else nothing came between"
    check_rows(con, "SELECT * FROM t", (1,), (None,), (-2,), (-3,))
