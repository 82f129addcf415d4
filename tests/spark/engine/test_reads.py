"""Reads: one consistent cut, of now or of the past, whoever wrote and wherever it is read."""

from collections.abc import Callable, Iterable

import pytest

from ctsql.api import Connection
from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from tests.helpers.opened import engine_of
from tests.helpers.table_folder import folder, log, transaction
from tests.scenarios.runner import expect_error

SET_UP = """
CREATE TABLE t (k INT);
CREATE TABLE ref (word STRING); INSERT INTO ref VALUES ('one');
CREATE CONTINUAL TASK copy (k INT, word STRING) ON INPUT t
    AS (INSERT INTO copy SELECT k, word FROM t, ref);
CREATE MATERIALIZED VIEW size AS SELECT count(*) AS n FROM t;
CREATE VIEW doubled AS SELECT 2 * n AS n FROM size;
"""
CUT = """SELECT (SELECT count(*) FROM t), (SELECT n FROM size), (SELECT count(*) FROM copy),
    (SELECT n FROM doubled)"""


def _cut(con: Connection) -> tuple[object, ...]:
    (row,) = con.execute(CUT).fetchall()
    return row


def _times(con: Connection, output: str) -> list[int]:
    """The Ts at which an output was written."""
    return [u - 1 for c in log(folder(con, output)) if (u := transaction(c)) is not None]


def test_as_of_a_time(connect: Callable[[], Connection]) -> None:
    """Every T stays readable as it was, as a number and as text, after compaction and restart."""
    con = connect()
    con.execute(SET_UP)
    con.execute("CREATE MATERIALIZED VIEW unfollowed AS SELECT sum(k) AS s FROM t")
    for k in (1, 2, 3):
        con.execute(f"INSERT INTO t VALUES ({k})")
    con.execute("DELETE FROM t WHERE k = 1")
    con.execute("SELECT * FROM copy").fetchall()
    # One T when it was made, then one for each INSERT; the DELETE runs nothing.
    at = _times(con, "copy")[-3:]
    con.spark.sql(f"OPTIMIZE delta.`{folder(con, 't')}`")
    con.spark.sql(f"OPTIMIZE delta.`{folder(con, 'copy')}`")
    con.close()
    con = connect()
    assert _cut(con) == (2, 2, 3, 4)
    for count, time in enumerate(at, 1):
        (row,) = con.execute(f"{CUT} AS OF {time}").fetchall()
        assert row == (count, count, count, 2 * count)
    text = times.to_iso(at[1])
    both = "SELECT s, (SELECT count(*) FROM t) FROM unfollowed"
    assert con.execute(f"{both} AS OF TIMESTAMP '{text}'").fetchall() == [(3, 2)]
    assert con.execute(f"{both} AS OF {at[1] - 1}").fetchall() == [(1, 1)], "just before"
    early = expect_error(con, "SELECT * FROM t AS OF 1000", "AS_OF_OUT_OF_RANGE")
    assert str(at[0])[:5] in (early.hint or early.detail or "")
    expect_error(con, "SELECT * FROM t AS OF TIMESTAMP '2999-01-01'", "AS_OF_OUT_OF_RANGE")
    expect_error(con, "SELECT * FROM t AS OF 'last week'", "INVALID_OPTION")


def test_a_result_stays_what_it_was(con: Connection) -> None:
    """Rows fetched later are those of the statement's own cut."""
    con.execute(SET_UP)
    con.execute("INSERT INTO t VALUES (1)")
    results = [con.execute(CUT), con.execute("SELECT * FROM copy")]
    con.execute("INSERT INTO t VALUES (2); DELETE FROM t WHERE k = 1")
    con.execute("SELECT * FROM copy, size").fetchall()
    assert results[0].fetchall() == [(1, 1, 1, 2)]
    assert results[1].fetchall() == [(1, "one")]


def test_now_in_a_body_is_the_time_of_the_change(con: Connection) -> None:
    """Whenever the body runs, and the same wherever it stands in it."""
    con.execute("CREATE TABLE t (k INT)")
    con.execute(
        "CREATE CONTINUAL TASK stamped (k INT, at TIMESTAMP, same BOOLEAN) ON INPUT t AS"
        " (INSERT INTO stamped SELECT k, now(), now() = current_timestamp() FROM t)"
    )
    con.execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    assert con.execute("SELECT DISTINCT same FROM stamped").fetchall() == [(True,)]
    told = con.execute("SUBSCRIBE TO stamped FROM 0 UP TO NOW").fetchall()
    ran = [row[0] for row in told]
    millis = [r[0] for r in con.execute("SELECT unix_millis(at) FROM stamped").fetchall()]
    assert len(set(ran)) == 2
    assert sorted(m for m in millis if isinstance(m, int)) == ran


def test_two_connections_share_the_catalog(connect: Callable[[], Connection]) -> None:
    """What one makes, renames or drops, the other sees at once."""
    first, second = connect(), connect()
    first.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1)")
    second.execute("CREATE CONTINUAL TASK c ON INPUT t AS (INSERT INTO c SELECT k FROM t)")
    assert first.execute("SELECT * FROM c").fetchall() == [(1,)]
    first.execute("ALTER CONTINUAL TASK c RENAME TO d")
    assert second.execute("SELECT * FROM d").fetchall() == [(1,)]
    expect_error(second, "SELECT * FROM c", "UNKNOWN_RELATION")
    first.execute("DROP CONTINUAL TASK d; DROP TABLE t")
    first.execute("CREATE TABLE t (k STRING); INSERT INTO t VALUES ('anew')")
    assert second.execute("SELECT * FROM t").fetchall() == [("anew",)]
    expect_error(second, "SELECT * FROM d", "UNKNOWN_RELATION")


def test_what_another_process_drops_meanwhile_is_told(
    connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read, and a task that is run again, find the object or its input gone: by its name."""
    con, other = connect(), connect()
    con.execute(
        "CREATE TABLE t (k INT); CREATE CONTINUAL TASK x (k INT) ON INPUT t AS ("
        "INSERT INTO x SELECT k FROM t); INSERT INTO t VALUES (1); SELECT * FROM x"
    )
    engine = engine_of(con)
    assert engine is not None
    mint = engine.mint_for

    def dropped_first(items: Iterable[Item]) -> int:
        monkeypatch.undo()
        other.execute("DROP TABLE t CASCADE")
        return mint(items)

    monkeypatch.setattr(engine, "mint_for", dropped_first)
    with pytest.raises(CtsqlError, match="UNKNOWN_RELATION") as caught:
        con.execute("SELECT * FROM x").fetchall()
    assert "x" in caught.value.message
    other.execute("UNDROP TABLE t")
    assert con.execute("SELECT * FROM x").fetchall() == [(1,)]
