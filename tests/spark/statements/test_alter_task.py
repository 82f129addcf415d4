"""ALTER CONTINUAL TASK over processes and failures; the rest is scenarios and the battery."""

from collections.abc import Callable

from ctsql.api import Connection
from tests.helpers.opened import check_rows
from tests.scenarios.runner import expect_error

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
