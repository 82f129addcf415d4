"""A fixpoint without an end; the rest of bodies is the scenario what_bodies_say."""

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError


@pytest.mark.slow
def test_a_fixpoint_without_an_end(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails at its T with the limit in the message, and nothing is created."""
    monkeypatch.setattr("ctsql.planner.binding.task.ITERATIONS_MAX", 3)
    con.execute("CREATE TABLE e (a INT); INSERT INTO e VALUES (1)")
    with pytest.raises(CtsqlError, match="TASK_FAILED") as failed:
        con.execute(
            "CREATE CONTINUAL TASK ever (n INT) ON INPUT e WITH (ITERATIONS = FIXPOINT)"
            " AS (INSERT INTO ever VALUES (1))"
        )
    assert "after 3 iterations" in failed.value.message
    assert con.execute("SHOW CONTINUAL TASKS").fetchall() == []
