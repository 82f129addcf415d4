"""Views over the clock with expiry tables beside them: rows that come or go are found in these."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.runtime.log import clock
from ctsql.runtime.log.write_handle import Committed
from ctsql.runtime.spark.internals.sessions import active
from ctsql.runtime.views import expiry_table
from ctsql.runtime.views.expiry_table import ADDED, FILLED, FOUND, OF_FEW, ROWS_MIN
from ctsql.runtime.views.mint import Description
from ctsql.runtime.views.side_table import SideTableKind, side_tables_of
from ctsql.runtime.views.sink import ViewSink
from tests.conftest import TEST_MASTER
from tests.helpers.clock_ahead import Clock
from tests.helpers.opened import engine_of, item_of
from tests.helpers.table_folder import orphans
from tests.helpers.view_reports import said
from tests.spark.views.test_temporal_filters import HOUR, MINUTE, SECOND, VIEWS, ModelWarehouse

EXPIRING = {name: VIEWS[name] for name in ("live", "sums", "pairs")} | {
    "means": "SELECT n, avg(k) AS a FROM t WHERE since <= now() AND until > now() GROUP BY n",
}
GIVEN = "WITH (REFRESH POLICY = incremental)"


def _how(con: Connection, view: str) -> set[str]:
    """How the rows that turned were found, of all commits of a view."""
    return {how for c in con.commits(view) for how in c.said.get("expiries_by", {}).values()}


def _folders(con: Connection, view: str) -> list[str]:
    found = side_tables_of(engine_of(con).warehouse, item_of(con, view))
    return [beside.table.location for beside in found if beside.kind is SideTableKind.EXPIRIES]


@pytest.mark.parametrize("seed", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_like_a_model(
    connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Rows that come, go and wait, under groups and joins; changes, restarts, compaction."""
    model = ModelWarehouse(connect, seed, EXPIRING)
    monkeypatch.setattr(clock, "now_ms", lambda: model.now)
    monkeypatch.setattr(expiry_table, "ROWS_MIN", 0)
    model.create()
    for turn in range(6):
        model.change()
        if turn % 2:
            model.check()
            model.change()
        if turn == 3:
            model.con.execute("MAINTAIN t; MAINTAIN sums")
        model.now += model.random.choice((SECOND, 5 * SECOND, 10 * SECOND))
        if turn == 5:
            with open_connection(model.con.warehouse, master=TEST_MASTER, read_only=True) as reader:
                model.compare(reader)
        model.check()
    for name in EXPIRING:
        assert {FOUND, ADDED} <= _how(model.con, name), name
        assert model.con.execute(f"VERIFY {name}").fetchall() == []
    model.check_seen()


def test_what_is_said_of_them(
    con: Connection, ahead: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EXPLAIN says where rows are looked for; EXPLAIN ANALYZE, system.refreshes how they were."""
    con.execute("CREATE TABLE t (k INT, at TIMESTAMP)")
    con.execute("INSERT INTO t SELECT id, now() + make_dt_interval(0, 0, id) FROM range(5)")
    con.execute(f"CREATE MATERIALIZED VIEW m {GIVEN} AS SELECT k FROM t WHERE at <= now()")
    assert said(con, "m")["expiries_by"] == {"t@1": OF_FEW}
    explain = "EXPLAIN MATERIALIZED VIEW m"
    assert f"all rows, while these are fewer than {ROWS_MIN:,}" in _text(con, explain)
    monkeypatch.setattr(expiry_table, "ROWS_MIN", 0)
    assert "expiry tables of the view" in _text(con, explain)
    for minutes, how in ((1, FILLED), (2, FOUND)):
        ahead.ahead = minutes * MINUTE + SECOND
        assert len(con.execute("SELECT * FROM m").fetchall()) == minutes + 1
        assert said(con, "m")["expiries_by"] == {"t@1": how}
    assert f"rows of t@1 that expire: {FOUND}" in _text(con, "EXPLAIN ANALYZE m")
    detail = "SELECT detail FROM system.refreshes WHERE object = 'm' ORDER BY t DESC LIMIT 1"
    assert con.execute(detail).fetchall() == [(f"t@1: {FOUND}",)]
    parts = con.execute("SELECT part, rows FROM system.storage WHERE object = 'm'").fetchall()
    assert sorted(parts) == [("expiry table", 3), ("rows", 3)]


def _text(con: Connection, statement: str) -> str:
    return "\n".join(row[0] for row in con.execute(statement).fetchall())


def test_one_that_is_not_the_views_is_not_used(
    con: Connection, ahead: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of others in it; then no table; then another definition, DROP and MAINTAIN."""
    monkeypatch.setattr(expiry_table, "ROWS_MIN", 0)
    con.execute("CREATE TABLE t (k INT NOT NULL, at TIMESTAMP)")
    con.execute("INSERT INTO t SELECT id, now() + make_dt_interval(0, id) FROM range(9)")
    query = "SELECT k FROM t WHERE at <= now()"
    con.execute(f"CREATE MATERIALIZED VIEW m {GIVEN} AS {query}")
    assert said(con, "m")["expiries_by"] == {"t@1": FILLED}

    def look(hours: int, how: str, wanted: list[int]) -> None:
        ahead.ahead = hours * HOUR + SECOND
        assert sorted(k for (k,) in con.execute("SELECT * FROM m").fetchall()) == wanted
        assert said(con, "m")["expiries_by"] == {"t@1": how}

    look(1, FOUND, [0, 1])
    (first,) = _folders(con, "m")
    con.spark.sql(f"INSERT INTO delta.`{first}` SELECT * FROM delta.`{first}`")
    look(2, FILLED, [0, 1, 2])
    look(3, FOUND, [0, 1, 2, 3])
    engine_of(con).gateway.forget(first)
    engine_of(con).gateway.delete_tree(first)
    look(4, FILLED, [0, 1, 2, 3, 4])
    kinds = [row[2] for row in con.execute("MAINTAIN m").fetchall()]
    assert kinds == ["materialized view", "expiry table"]
    con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW m {GIVEN} AS {query} AND k > 1")
    assert said(con, "m")["expiries_by"] == {"t@1": FILLED}
    look(5, FOUND, [2, 3, 4, 5])
    (second,) = _folders(con, "m")
    assert second != first
    assert not Path(first.removeprefix("file:")).exists()
    con.execute("DELETE FROM t WHERE k IN (3, 6, 8)")
    look(6, ADDED, [2, 4, 5])
    assert con.execute("VERIFY m").fetchall() == []
    look(7, FOUND, [2, 4, 5, 7])
    now = con.now()
    ahead.ahead = 9 * HOUR
    assert len(con.execute("SELECT * FROM m").fetchall()) == 4
    assert con.now() == now, "nothing is due any more: what waited was deleted"


def test_replicas_race(
    connect: Callable[[], Connection], ahead: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who loses leaves no file behind, and follows from what the winner has written."""
    monkeypatch.setattr(expiry_table, "ROWS_MIN", 0)
    con, rival = connect(), connect()
    con.execute("CREATE TABLE t (k INT, at TIMESTAMP)")
    con.execute("INSERT INTO t SELECT id, now() + make_dt_interval(0, id) FROM range(5)")
    con.execute(f"CREATE MATERIALIZED VIEW m {GIVEN} AS SELECT k FROM t WHERE at <= now()")
    con.execute("INSERT INTO t SELECT 9, now() + make_dt_interval(0, 1)")
    engine, item = engine_of(con), item_of(con, "m")
    sink, now = ViewSink(engine.warehouse, item), engine.mint()
    with active(engine.session):
        written = sink.write(Description(sink.output.fetch_recent_upper(), now + 1))
        assert sorted(rival.execute("SELECT * FROM m").fetchall()) == [(0,)]
        assert not isinstance(sink.append(written), Committed)
    assert said(con, "m")["expiries_by"] == {"t@1": ADDED}
    (location,) = _folders(con, "m")
    assert not orphans(Path(location.removeprefix("file:")))
    ahead.ahead = HOUR + SECOND
    assert sorted(con.execute("SELECT * FROM m").fetchall()) == [(0,), (1,), (9,)]
    assert said(con, "m")["expiries_by"] == {"t@1": FOUND}
