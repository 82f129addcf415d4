"""Status: state, upper, lag in time and in versions, for every kind of output."""

from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.runtime.log import clock

DAY_MS = 86_400_000


def _status(con: Connection) -> dict[str, dict[str, Any]]:
    result = con.status()
    rows = (dict(zip(result.columns, row, strict=True)) for row in result.fetchall())
    return {row["name"]: row for row in rows}


def test_lag_is_what_is_due_and_not_taken_in(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task counts what may insert; a refresh counts when it has passed; the finished lag not."""
    con.execute(
        "CREATE TABLE feed (k INT);"
        "CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT k FROM feed);"
        "CREATE MATERIALIZED VIEW each AS SELECT count(*) AS n FROM feed;"
        "CREATE MATERIALIZED VIEW above AS SELECT n + 1 AS n FROM each;"
        "CREATE MATERIALIZED VIEW daily WITH (REFRESH EVERY '1 day') AS"
        " SELECT count(*) AS n FROM feed;"
        "CREATE MATERIALIZED VIEW once WITH (REFRESH AT CREATION) AS"
        " SELECT count(*) AS n FROM feed;"
        "SELECT * FROM once; SELECT * FROM above; SELECT * FROM copy"
    )
    con.execute("INSERT INTO feed VALUES (1), (2)")
    con.execute("DELETE FROM feed WHERE k = 1")
    found = _status(con)
    assert {n: (s["state"], s["lag_versions"]) for n, s in found.items()} == {
        "copy": ("behind", 1),
        "each": ("behind", 2),
        "above": ("behind", 2),
        "daily": ("up to date", 0),
        "once": ("finished", 0),
    }
    assert found["once"]["upper"] is None
    assert found["each"]["lag_ms"] >= found["copy"]["lag_ms"] > 0
    assert found["daily"]["lag_ms"] == 0
    soon = clock.now_ms() + 600_000
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now_ms", lambda: soon)
        assert _status(con)["copy"]["lag_ms"] >= 600_000, "it grows though nothing is committed"
    con.execute("SELECT * FROM above; SELECT * FROM copy")
    assert {s["lag_versions"] for s in _status(con).values()} == {0}
    later = clock.now_ms() + DAY_MS
    monkeypatch.setattr(clock, "now_ms", lambda: later)
    daily = _status(con)["daily"]
    assert (daily["state"], daily["lag_versions"]) == ("behind", 2)
    assert 0 <= daily["lag_ms"] < DAY_MS / 2, "since its refresh time"
    assert con.execute("SELECT * FROM daily").fetchall() == [(1,)]
    assert _status(con)["daily"]["state"] == "up to date"
