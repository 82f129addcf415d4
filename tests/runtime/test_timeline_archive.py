"""Bindings outlive the commits that made them, and are read back a few at a time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.runtime import timeline
from tests.runtime.kept import forget

pytestmark = pytest.mark.spark

BATCHES = 9


def test_bindings_whose_commits_are_gone(
    connect: Callable[[], Connection], warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every T is still readable after the log was cleaned up to the last commit."""
    con = connect()
    con.start()  # the table is made with a checkpoint each hundred commits; they take seconds
    monkeypatch.setattr(timeline, "ARCHIVE_EVERY_COMMITS", 2)
    monkeypatch.setattr(timeline, "ARCHIVE_ROWS_MAX", 3)
    con.execute("CREATE TABLE feed (k INT); CREATE TABLE other (k INT)")
    times: list[int] = []
    for batch in range(BATCHES):
        con.execute(f"INSERT INTO {('feed', 'other')[batch % 3 == 2]} VALUES ({batch})")
        con.run(once=True, report=lambda said: times.append(int(said.split()[2])))
    engine = con._engine
    assert engine is not None
    table = engine.timeline.table
    if table.version() % 2:
        con.execute("INSERT INTO other VALUES (-1); SELECT * FROM other")
    table.log.checkpoint(table.update(), engine.gateway.option(None))
    commits = sorted((warehouse / "_ctsql/timeline/_delta_log").glob("0*.json"))
    for commit in commits[:-1]:
        commit.unlink()
    forget(con)
    assert len(times) == BATCHES
    again = connect()
    for batch, time in enumerate(times):
        found = again.execute(f"SELECT k FROM feed ORDER BY k AS OF {time}").fetchall()
        assert found == [(k,) for k in range(batch + 1) if k % 3 != 2], time
