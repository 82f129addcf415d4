"""What a body may see of NaN and zeros, and a fixpoint without an end; the rest is a scenario."""

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.opened import check_rows

pytestmark = pytest.mark.spark


def test_change_relations_are_exact(con: Connection) -> None:
    """Net multisets, with NULL, NaN and -0.0; only a task that reads deletes runs for them."""
    con.execute(
        "CREATE TABLE f (k INT, v DOUBLE);"
        "INSERT INTO f VALUES (1, 1), (2, double('NaN')), (NULL, double('-0.0')),"
        " (2, double('NaN'));"
        "CREATE CONTINUAL TASK log (k INT, v STRING, d BIGINT) ON INPUT f"
        " AS (INSERT INTO log SELECT k, string(v), diff FROM changes(f));"
        "CREATE CONTINUAL TASK sizes (n BIGINT, i BIGINT, d BIGINT) ON INPUT f"
        " AS (INSERT INTO sizes SELECT (SELECT count(*) FROM contents(f)),"
        " (SELECT count(*) FROM inserts(f)), (SELECT count(*) FROM deletes(f)));"
        "CREATE CONTINUAL TASK plain (n BIGINT) ON INPUT f"
        " AS (INSERT INTO plain SELECT count(*) FROM f)"
    )
    first = [(1, "1.0", 1), (2, "NaN", 2), (None, "-0.0", 1)]
    check_rows(con, "SELECT * FROM log", *first)
    con.execute("DELETE FROM f WHERE k = 2")
    con.execute("UPDATE f SET v = 0 WHERE k IS NULL")
    con.execute("UPDATE f SET v = 0 WHERE k IS NULL")  # changes nothing: nobody runs
    then = [(2, "NaN", -2), (None, "-0.0", -1), (None, "0.0", 1)]
    check_rows(con, "SELECT * FROM log", *first, *then)
    check_rows(con, "SELECT * FROM sizes", (4, 4, 0), (2, 0, 2), (2, 1, 1))
    check_rows(con, "SELECT * FROM plain", (4,), (1,))


@pytest.mark.slow
def test_a_fixpoint_without_an_end(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails at its T with the limit in the message, and nothing is created."""
    monkeypatch.setattr("ctsql.planner.binding.task.ITERATIONS_MAX", 3)
    con.execute("CREATE TABLE e (a INT); INSERT INTO e VALUES (1)")
    with pytest.raises(CtsqlError) as failed:
        con.execute(
            "CREATE CONTINUAL TASK ever (n INT) ON INPUT e WITH (ITERATIONS = FIXPOINT)"
            " AS (INSERT INTO ever VALUES (1))"
        )
    assert failed.value.condition == "TASK_FAILED"
    assert "after 3 iterations" in failed.value.message
    assert con.execute("SHOW CONTINUAL TASKS").fetchall() == []
