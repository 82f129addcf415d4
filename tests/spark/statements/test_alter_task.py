"""ALTER CONTINUAL TASK over processes and failures; the rest is scenarios and the battery."""

from collections.abc import Callable

import pytest

from ctsql.api import Connection
from ctsql.runtime.tasks.progress import failure_of
from tests.helpers.opened import check_rows, engine_of, item_of
from tests.helpers.turns import beside, turn_at
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark

SET_UP = """
CREATE TABLE f (k INT);
INSERT INTO f VALUES (1);
CREATE CONTINUAL TASK t ON INPUT f AS (INSERT INTO t SELECT k, 'old' AS s FROM f);
CREATE MATERIALIZED VIEW m AS SELECT s, count(*) AS n FROM t GROUP BY s
"""


def test_a_suspended_task_is_shown_and_left_alone(connect: Callable[[], Connection]) -> None:
    """With what it has to do; a service does nothing for it, nor for what reads it."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    con.execute("ALTER CONTINUAL TASK t SUSPEND; INSERT INTO f VALUES (2)")
    other.run(once=True)
    check_rows(other, "SELECT * FROM m", ("old", 1))
    shown = con.execute("SHOW CONTINUAL TASKS")
    row = dict(zip(shown.columns, shown.fetchall()[0], strict=True))
    assert (row["state"], row["lag_versions"]) == ("suspended", 1)


def test_the_hint_of_a_failed_task_shows_its_rows(con: Connection) -> None:
    """The statement that it names gives the rows of the T that failed."""
    con.execute("CREATE TABLE f (k STRING)")
    con.execute(
        "CREATE CONTINUAL TASK t ON INPUT f AS (INSERT INTO t SELECT CAST(k AS INT) FROM f)"
    )
    con.execute("INSERT INTO f VALUES ('1'), ('one'); INSERT INTO f VALUES ('2')")
    hint = str(expect_error(con, "SELECT * FROM t", "TASK_FAILED").hint)
    asked = hint.split("The rows of that T: ")[1].split(". ")[0]
    shown = [row[-1] for row in con.execute(asked).fetchall() if row[-1] is not None]
    assert sorted(shown) == ["1", "one"]


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
