"""TRIM EVERY: what a task retains goes in time, also when nobody inserts anything."""

import time
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.times import to_iso
from ctsql.runtime.log import clock
from ctsql.runtime.tasks.sink import TaskSink
from tests.helpers.clock_ahead import Clock

pytestmark = pytest.mark.spark


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
    with pytest.raises(CtsqlError) as refused:
        con.execute(
            "CREATE CONTINUAL TASK x FROM RETAIN visits WHILE (true) WITH (TRIM EVERY = '1 ms')"
        )
    assert refused.value.condition == "INVALID_OPTION"


def test_what_was_missed_is_made_up_for_at_once(
    con: Connection, ahead: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A week's seconds are two runs of the body."""
    con.execute("CREATE TABLE visits (who STRING, until TIMESTAMP)")
    con.execute(
        "CREATE CONTINUAL TASK guests FROM RETAIN visits WHILE (until > now()) "
        "WITH (TRIM EVERY = '1 second');"
        "CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM guests"
    )
    for who, hours in (("soon", 1), ("late", 100), ("long", 1_000)):
        until = to_iso(clock.now_ms() + hours * 3_600_000)
        con.execute(f"INSERT INTO visits VALUES ('{who}', '{until}')")
    assert len(con.execute("SELECT * FROM guests").fetchall()) == 3
    runs, write = list[int](), TaskSink._write

    def counted(sink: TaskSink, run: Any, *given: Any) -> tuple[int, bool]:
        if sink.item.name.name == "guests":
            runs.append(run.time)
        return write(sink, run, *given)

    monkeypatch.setattr(TaskSink, "_write", counted)
    ahead.ahead += 7 * 24 * 3_600_000
    assert con.execute("SELECT who FROM guests").fetchall() == [("long",)]
    assert 1 <= len(runs) <= 4
    assert con.execute("SELECT n FROM counted").fetchall() == [(1,)]
