"""TRIM EVERY: what a task retains goes in time, also when nobody inserts anything."""

import time

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError


def test_rows_go_when_only_time_passes(con: Connection) -> None:
    """Each trim is a run at a time of its own; one that finds nothing writes nothing."""
    con.execute("CREATE TABLE visits (who STRING, until TIMESTAMP)")
    con.execute(
        "CREATE CONTINUAL TASK guests FROM RETAIN visits WHILE (until > now()) "
        "WITH (TRIM EVERY = '1 second')"
    )
    con.execute(
        "INSERT INTO visits VALUES ('long', '2999-01-01'), ('gone', '2001-01-01');"
        "INSERT INTO visits SELECT 'short', now() + INTERVAL 8 SECONDS"
    )
    assert sorted(con.execute("SELECT who FROM guests").fetchall())[0] == ("long",)
    deadline = time.monotonic() + 60
    while con.execute("SELECT who FROM guests").fetchall() != [("long",)]:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    told = [
        (diff, who)
        for _, diff, who, _ in con.execute("SUBSCRIBE TO guests FROM 0 UP TO NOW").fetchall()
    ]
    assert told == [(1, "long"), (1, "short"), (-1, "short")]
    with pytest.raises(CtsqlError, match="INVALID_OPTION"):
        con.execute(
            "CREATE CONTINUAL TASK x FROM RETAIN visits WHILE (true) WITH (TRIM EVERY = '1 ms')"
        )
