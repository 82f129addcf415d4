"""Materialized views with a refresh schedule; the rest is the scenario refresh_schedules."""

from collections.abc import Callable

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.times import CLOSED, to_iso
from ctsql.runtime.log import clock
from tests.helpers.clock_ahead import Clock
from tests.helpers.opened import engine_of
from tests.helpers.table_folder import data_files, folder, log, transaction
from tests.scenarios.runner import expect_error

Rows = list[tuple[object, ...]]
HOUR, DAY = 3_600_000, 86_400_000


def _rows(con: Connection, query: str = "SELECT * FROM m") -> Rows:
    return sorted(con.execute(query).fetchall())


def _described(con: Connection, name: str = "m") -> dict[str, str]:
    rows = con.execute(f"DESCRIBE EXTENDED {name}").fetchall()
    return {r[0].removeprefix("# "): r[1] for r in rows if r[0].startswith("# ")}


def _upper(con: Connection, name: str = "m") -> str:
    return _described(con, name)["upper"]


def _table(con: Connection) -> None:
    con.execute("CREATE TABLE t (x INT); INSERT INTO t VALUES (1)")


def test_nothing_new_makes_no_time(con: Connection, ahead: Clock) -> None:
    """A refresh time that changes nothing binds no T and writes nothing."""
    _table(con)
    con.execute("CREATE MATERIALIZED VIEW m WITH (REFRESH EVERY '1 hour') AS SELECT x FROM t")
    assert _rows(con) == [(1,)]
    now, commits = con.now(), len(log(folder(con, "m")))
    ahead.ahead += DAY
    assert _rows(con) == [(1,)]
    assert con.now() == now
    assert len(log(folder(con, "m"))) == commits
    described = _described(con)
    assert described["refresh"] == "REFRESH EVERY '1 hour'"
    assert described["next refresh"] > to_iso(clock.now_ms())


def test_at_creation_is_a_picture(con: Connection, connect: Callable[[], Connection]) -> None:
    """One refresh, then closed for good: reads go on, by others and after a restart too."""
    _table(con)
    con.execute("CREATE MATERIALIZED VIEW m WITH (REFRESH AT CREATION) AS SELECT x FROM t")
    con.execute("INSERT INTO t VALUES (2)")
    con.execute("CREATE VIEW v AS SELECT x + 10 AS x FROM m")
    table = folder(con, "m")
    files, commits = data_files(table), len(log(table))
    assert _rows(con, "SELECT * FROM m UNION ALL SELECT * FROM v") == [(1,), (11,)]
    assert _upper(con) == "closed"
    assert _described(con)["next refresh"] == "none"
    expect_error(con, "REFRESH MATERIALIZED VIEW m FULL", "VIEW_FINISHED")
    again = connect()
    assert _rows(again) == [(1,)]
    assert transaction(log(table)[-1]) == CLOSED
    assert (data_files(table), len(log(table))) == (files, commits)
    assert again.execute("VERIFY m").fetchall() == []
    expect_error(again, "VERIFY m REPAIR", "VIEW_FINISHED")
    told = "\n".join(str(row[0]) for row in again.execute("EXPLAIN ANALYZE m").fetchall())
    assert "inserted 1 and deleted 0 rows" in told
    stray = again.spark.createDataFrame([(9,)], "x INT")
    stray.write.format("delta").mode("append").save(str(table))
    assert again.execute("VERIFY m").fetchall() == [("-", 9)]


def test_at_times(con: Connection, ahead: Clock) -> None:
    """Unreadable before the first, refreshed at each, finished past the last."""
    _table(con)
    first, last = clock.now_ms() + HOUR, clock.now_ms() + 2 * HOUR
    con.execute(
        f"CREATE MATERIALIZED VIEW m WITH (REFRESH AT '{to_iso(first)}', REFRESH AT {last})"
        " AS SELECT x FROM t"
    )
    with pytest.raises(CtsqlError, match="AS_OF_OUT_OF_RANGE") as early:
        _rows(con)
    assert to_iso(first) in str(early.value.detail)
    assert _described(con)["next refresh"] == to_iso(first)
    ahead.ahead += HOUR
    assert _rows(con) == [(1,)]
    con.execute("INSERT INTO t VALUES (2)")
    assert _rows(con) == [(1,)]
    assert _upper(con) != "closed"
    ahead.ahead += HOUR
    assert _rows(con) == [(1,), (2,)]
    assert _upper(con) == "closed"
    con.execute("INSERT INTO t VALUES (3)")
    assert _rows(con) == [(1,), (2,)]
    assert con.execute("VERIFY m").fetchall() == []


def test_stray_rows_go_between_refreshes(con: Connection) -> None:
    """Mending does not make a view newer than its last refresh."""
    _table(con)
    con.execute("CREATE MATERIALIZED VIEW m WITH (REFRESH EVERY '1 hour') AS SELECT x FROM t")
    con.execute("INSERT INTO t VALUES (2)")
    stray = con.spark.createDataFrame([(9,)], "x INT")
    stray.write.format("delta").mode("append").save(str(folder(con, "m")))
    assert _rows(con) == [(1,)]
    table = folder(con, "m")
    assert con.spark.read.format("delta").load(str(table)).collect() == [(1,)]


def test_a_refresh_asked_for_is_done_by_whoever_comes(
    con: Connection, connect: Callable[[], Connection]
) -> None:
    """Asking binds a T: whoever asked may die, and followers miss nothing."""
    _table(con)
    con.execute(
        "CREATE MATERIALIZED VIEW m WITH (REFRESH EVERY '1 hour') AS SELECT count(*) AS n FROM t;"
        "CREATE CONTINUAL TASK seen (n BIGINT) ON INPUT m AS (INSERT INTO seen SELECT n FROM m)"
    )
    con.execute("INSERT INTO t VALUES (2)")
    engine = engine_of(con)
    (view,) = [i for i in engine.catalog if i.name.name == "m"]
    asked = engine.mint_fresh(request=view)
    con.execute("INSERT INTO t VALUES (3)")
    again = connect()
    assert _rows(again, "SELECT * FROM seen") == [(1,), (2,)]
    assert _rows(again, f"SELECT * FROM m AS OF {asked}") == [(2,)]
    assert _rows(again, f"SELECT * FROM m AS OF {asked - 1}") == [(1,)]


def test_the_same_refresh_times_go_on(con: Connection, ahead: Clock) -> None:
    """Another query with them is shown at once, and nothing is kept of how it was before."""
    _table(con)
    made = (
        "MATERIALIZED VIEW m (x CHECK (x < 9) ON VIOLATION QUARANTINE) WITH (REFRESH EVERY '1 day')"
    )
    con.execute(f"CREATE {made} AS SELECT x FROM t")
    first, aside = _described(con)["next refresh"], _described(con, "m_quarantine")["next refresh"]
    assert first == aside
    con.execute("INSERT INTO t VALUES (2), (9)")
    for n in (1, 2, 3):
        ahead.ahead += HOUR
        con.execute(f"CREATE OR REPLACE {made} AS SELECT x + {n} AS x FROM t")
        assert _rows(con) == [(1 + n,), (2 + n,)]
        con.execute("ALTER MATERIALIZED VIEW m SET (REFRESH POLICY = full)")
    assert [r[0] for r in _rows(con, "SELECT * FROM m_quarantine")] == [12]
    for item in map(engine_of(con).refresh_catalog().items.get, _ids(con, "m", "m_quarantine")):
        assert item is not None
        assert not item.following.stretches
        assert _described(con, item.name.name)["next refresh"] == first
    con.execute("ALTER MATERIALIZED VIEW m SET (REFRESH EVERY '2 days')")
    later = _described(con)["next refresh"]
    assert later > first
    assert _described(con, "m_quarantine")["next refresh"] == later


def _ids(con: Connection, *names: str) -> list[str]:
    return [i.id for i in engine_of(con).catalog if i.name.name in names]


def test_times_that_have_passed(con: Connection) -> None:
    """A view that would never hold anything is refused, at its place in the text."""
    _table(con)
    for options in ("REFRESH AT '2020-01-01'", "REFRESH AT '2020-01-01', REFRESH AT '2999-01-01'"):
        refused = expect_error(
            con, f"CREATE MATERIALIZED VIEW m WITH ({options}) AS SELECT x FROM t", "INVALID_OPTION"
        )
        assert refused.span is not None
        assert refused.span.text == "AT '2020-01-01'"
    con.execute(
        "CREATE MATERIALIZED VIEW m WITH (REFRESH AT CREATION, REFRESH AT '2020-01-01') AS"
        " SELECT x FROM t"
    )
    assert _rows(con) == [(1,)]
    plan = "\n".join(r[0] for r in con.execute("EXPLAIN MATERIALIZED VIEW m").fetchall())
    assert "REFRESH AT CREATION, REFRESH AT '2020-01-01T00:00:00.000Z'" in plan
