"""A task that runs again and again over few rows keeps the plan of what it inserts."""

import pytest

from benchmarks.measures import jobs_started
from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta import change_feed
from ctsql.runtime.tasks import body as task_body

FEED = ("(1, 10), (2, 20)", "(1, 11), (3, 5), (3, 6)", "(2, 7), (9, NULL)", "(3, 1)", "(3, 7)")
UPSERT = (
    "DELETE FROM o WHERE k IN (SELECT k FROM feed);"
    "INSERT INTO o SELECT k, max(v) FROM feed GROUP BY k;"
)


def test_next_runs_plan_nothing(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second run on the body is not lowered."""
    lowered = []
    lower = task_body.lower_transaction
    monkeypatch.setattr(
        task_body, "lower_transaction", lambda *given: lowered.append(given) or lower(*given)
    )
    con.execute("CREATE TABLE feed (k BIGINT, v BIGINT)")
    con.execute(f"CREATE CONTINUAL TASK o (k BIGINT, v BIGINT) ON INPUT feed AS ({UPSERT})")
    counts = []
    for values in FEED:
        con.execute(f"INSERT INTO feed VALUES {values}")
        con.execute("SELECT * FROM o").fetchall()
        counts.append(len(lowered))
    assert counts[0] > 0
    assert counts[1:] == [counts[1]] * (len(FEED) - 1)


def test_the_clock_is_not_kept(con: Connection) -> None:
    """A body that reads the clock has another T at each run."""
    con.execute("CREATE TABLE feed (k BIGINT, v BIGINT)")
    con.execute(
        "CREATE CONTINUAL TASK o (k BIGINT, at TIMESTAMP) ON INPUT feed AS "
        "(INSERT INTO o SELECT k, now() FROM feed)"
    )
    for values in FEED:
        con.execute(f"INSERT INTO feed VALUES {values}")
        con.execute("SELECT * FROM o").fetchall()
    ((count,),) = con.execute("SELECT count(DISTINCT at) FROM o").fetchall()
    assert count == len(FEED)


def test_a_change_is_read_once(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tasks on an input share the rows of its change at a T; each change is its own."""
    read = []
    find = change_feed.live_rows
    monkeypatch.setattr(
        change_feed, "live_rows", lambda *given: read.append(given[0].location) or find(*given)
    )
    con.execute("CREATE TABLE feed (k BIGINT, v BIGINT)")
    for name in ("a", "b", "c"):
        con.execute(
            f"CREATE CONTINUAL TASK {name} (k BIGINT, v BIGINT) ON INPUT feed AS ("
            f"INSERT INTO {name} SELECT k, max(v) FROM feed GROUP BY k)"
        )
    for turn in range(3):
        con.execute(f"INSERT INTO feed VALUES (1, {turn}), (1, -1)")
        con.run(once=True)
    assert len(read) == 3
    for name in ("a", "b", "c"):
        rows = con.execute(f"SELECT * FROM {name} ORDER BY v").fetchall()
        assert rows == [(1, 0), (1, 1), (1, 2)]


def test_a_link_of_a_chain_is_one_job(con: Connection) -> None:
    """An upsert over an upsert's output, which deletes and inserts, asks Spark once a tick."""
    con.execute("CREATE TABLE feed (k BIGINT, v BIGINT)")
    for name, on in (("a", "feed"), ("b", "a"), ("c", "b")):
        con.execute(
            f"CREATE CONTINUAL TASK {name} (k BIGINT, v BIGINT) ON INPUT {on} AS ("
            f"DELETE FROM {name} WHERE k IN (SELECT k FROM {on});"
            f"INSERT INTO {name} SELECT k, max(v) FROM {on} GROUP BY k;)"
        )
    for turn in range(5):
        con.execute(f"INSERT INTO feed VALUES (1, {turn}), ({turn}, 7)")
        before = jobs_started(con.spark)
        con.run(once=True)
        jobs = jobs_started(con.spark) - before
    assert jobs == 3


def _tasks(con: Connection, count: int, body: str) -> None:
    """Tasks ``o0`` and so on of one body, each over a table of its own."""
    for n in range(count):
        con.execute(f"CREATE TABLE feed{n} (k BIGINT, v BIGINT)")
        con.execute(
            f"CREATE CONTINUAL TASK o{n} (k BIGINT, v BIGINT) ON INPUT feed{n} AS "
            f"({body.replace('feed', f'feed{n}').replace('INTO o', f'INTO o{n}')})".replace(
                "FROM o WHERE", f"FROM o{n} WHERE"
            )
        )


def test_tasks_of_one_shape_are_planned_once(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to compute, once to be kept; the third one has the plan, and rows of its own."""
    lowered = []
    lower = task_body.lower_transaction
    monkeypatch.setattr(
        task_body, "lower_transaction", lambda *given: lowered.append(given) or lower(*given)
    )
    _tasks(con, 4, UPSERT)
    counts = []
    for n in range(4):
        con.execute(f"INSERT INTO feed{n} VALUES (1, {n}), (1, {n + 5}), ({n}, NULL)")
        con.execute(f"SELECT * FROM o{n}").fetchall()
        counts.append(len(lowered))
    assert counts[1] > 0
    assert counts[1:] == [counts[1]] * 3
    found = [con.execute(f"SELECT * FROM o{n} ORDER BY k").fetchall() for n in range(4)]
    assert found == [
        [(0, None), (1, 5)],
        [(1, 6)],
        [(1, 7), (2, None)],
        [(1, 8), (3, None)],
    ]


def test_an_error_is_about_the_own_text(con: Connection) -> None:
    """Not about that of the task of whose body the plan was made."""
    _tasks(con, 4, "INSERT INTO o SELECT k, 10 DIV v FROM feed;")
    for n in range(3):
        con.execute(f"INSERT INTO feed{n} VALUES (1, {n + 1})")
        assert con.execute(f"SELECT * FROM o{n}").fetchall() == [(1, 10 // (n + 1))]
    con.execute("INSERT INTO feed3 VALUES (1, 0)")
    with pytest.raises(CtsqlError) as caught:
        con.execute("SELECT * FROM o3").fetchall()
    cause = caught.value.__cause__
    assert isinstance(cause, CtsqlError)
    assert cause.span is not None
    assert (cause.condition, cause.span.text) == ("DATA_ERROR", "10 DIV v")
    assert cause.span.source.name == "definition of o3"
    con.execute("INSERT INTO feed2 VALUES (2, 5)")
    assert con.execute("SELECT * FROM o2 ORDER BY k").fetchall() == [(1, 3), (2, 2)]
