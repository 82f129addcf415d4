"""SUBSCRIBE and con.subscribe: every change once, in order, whatever happened in between."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.errors import CtsqlError
from ctsql.results.subscription import Change
from tests.conftest import TEST_MASTER
from tests.scenarios.runner import expect_error


def summed(changes: Iterable[tuple[Any, ...]]) -> Counter[Any]:
    """What changes add up to, as (row...) -> copies."""
    total: Counter[Any] = Counter()
    for _, diff, *row in changes:
        total[tuple(row)] += diff
    return Counter({row: n for row, n in total.items() if n})


def contents(con: Connection, name: str) -> Counter[Any]:
    """What an object holds now."""
    return Counter(con.execute(f"SELECT * FROM {name}").fetchall())


def told(con: Connection, text: str) -> list[Any]:
    """The rows of a SUBSCRIBE that ends."""
    return con.execute(f"SUBSCRIBE TO {text} UP TO NOW").fetchall()


@pytest.fixture
def feed(con: Connection) -> Connection:
    """A table."""
    con.execute("CREATE TABLE t (k INT, v DOUBLE)")
    con.execute("INSERT INTO t VALUES (1, 1.0), (1, 1.0), (2, 2.0)")
    return con


@pytest.fixture
def shop(feed: Connection) -> Connection:
    """A stored view, a plain view and a task over it."""
    feed.execute(
        "CREATE MATERIALIZED VIEW m AS SELECT k, count(*) AS n FROM t GROUP BY k;"
        "CREATE VIEW p AS SELECT k, sum(v) AS s FROM t GROUP BY k;"
        "CREATE CONTINUAL TASK c (k INT, v DOUBLE) ON INPUT t AS ("
        "DELETE FROM c WHERE k IN (SELECT k FROM t);"
        "INSERT INTO c SELECT k, max(v) FROM t GROUP BY k)"
    )
    return feed


def test_each_kind_is_told_its_net_changes_in_order(
    shop: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The contents first; then at each T what changed, equal rows once, none where it cancels.

    Executors need no Python for it.
    """
    monkeypatch.setattr(shop.spark.sparkContext, "pythonExec", "/no/python/here")
    first = {name: told(shop, f"{name} AS 'r_{name}'") for name in "tmpc"}
    assert summed(first["t"]) == {(1, 1.0): 2, (2, 2.0): 1}
    shop.execute("INSERT INTO t VALUES (2, 5.0); UPDATE t SET v = 7 WHERE k = 1")
    shop.execute("UPDATE t SET v = v; DELETE FROM t WHERE k = 2")
    wanted = {
        "t": [{(2, 5.0): 1}, {(1, 1.0): -2, (1, 7.0): 2}, {(2, 2.0): -1, (2, 5.0): -1}],
        "m": [{(2, 1): -1, (2, 2): 1}, {(2, 2): -1}],
        "p": [{(2, 2.0): -1, (2, 7.0): 1}, {(1, 2.0): -1, (1, 14.0): 1}, {(2, 7.0): -1}],
        "c": [{(2, 2.0): -1, (2, 5.0): 1}, {(1, 1.0): -1, (1, 7.0): 1}],
    }
    for name, steps in wanted.items():
        rows = told(shop, f"{name} AS 'r_{name}'")
        times = sorted({row[0] for row in rows})
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)
        assert [dict(summed(r for r in rows if r[0] == t)) for t in times] == steps, name
        signs = [[row[1] > 0 for row in rows if row[0] == t] for t in times]
        assert all(s == sorted(s) for s in signs)  # deletions come first
        assert summed(first[name] + rows) == contents(shop, name)
    assert told(shop, "c AS 'r_c'") == []
    # From the beginning, and as of the first T: the same.
    again = Counter(told(shop, "m FROM 0"))
    assert again == Counter(first["m"]) + Counter(told(shop, f"m FROM {first['m'][0][0] + 1}"))
    assert again == Counter(told(shop, f"m AS OF {first['m'][0][0]}"))


def test_a_view_that_jumped_is_told_at_every_time(shop: Connection) -> None:
    """What nobody followed was not written at each T; its changes are computed all the same."""
    shop.execute("INSERT INTO t VALUES (3, 1.0)")
    shop.execute("INSERT INTO t VALUES (3, 2.0)")
    shop.execute("DELETE FROM t WHERE k = 1")
    shop.execute("SELECT * FROM m")  # one write for three Ts
    rows = told(shop, "m FROM 0")
    steps = [dict(summed(r for r in rows if r[0] == t)) for t in sorted({r[0] for r in rows})]
    assert steps == [{(1, 2): 1, (2, 1): 1}, {(3, 1): 1}, {(3, 1): -1, (3, 2): 1}, {(1, 2): -1}]
    assert summed(rows) == contents(shop, "m")


def _taken(con: Connection, name: str, count: int) -> list[Change]:
    """The first changes that a named reader is given; then it leaves in good order."""
    found: list[Change] = []
    with con.subscribe("t", reader=name, up_to="now") as sub:
        for change in sub:
            found.append(change)
            if len(found) == count:
                break
    return found


def _crash(con: Connection, name: str) -> None:
    with con.subscribe("t", reader=name, up_to="now") as sub:
        for _ in sub:
            raise ZeroDivisionError


def test_a_named_reader_goes_on_after_a_restart(
    feed: Connection, connect: Callable[[], Connection]
) -> None:
    """A T that was given out whole does not come again; one given out in part does, whole."""
    first = _taken(connect(), "Reader", 2)
    assert summed((t, d, *row) for t, d, row in first) == contents(feed, "t")
    feed.execute("INSERT INTO t VALUES (3, 3.0), (4, 4.0)")
    feed.execute("INSERT INTO t VALUES (5, 5.0)")
    half = _taken(connect(), "reader", 1)
    with pytest.raises(ZeroDivisionError):
        _crash(connect(), "reader")
    by_hand = connect().subscribe("t", reader="reader", up_to="now", auto_commit=False)
    with by_hand as sub:
        again = list(sub)
    rest = _taken(connect(), "READER", 99)
    assert again == rest
    assert half == rest[:1]
    assert [(c.diff, c.row) for c in rest][2:] == [(1, (5, 5.0))]
    assert summed((t, d, *row) for t, d, row in first + rest) == contents(feed, "t")
    assert _taken(connect(), "reader", 1) == []


def test_batches_are_acknowledged_by_hand(feed: Connection) -> None:
    """With auto_commit=False nothing but commit() moves the position, batch by batch."""
    feed.execute("INSERT INTO t VALUES (8, 8.0)")

    def read(count: int) -> list[list[Any]]:
        sub = feed.subscribe("t", reader="hand", begin=0, up_to="now", auto_commit=False)
        found = []
        for batch in sub.batches():
            found.append(sorted(batch))
            assert batch.to_arrow().column_names == ["t", "diff", "k", "v"]
            if len(found) == count:
                sub.commit()
                break
        return found

    both = read(2)
    assert len(both) == 2
    assert read(1) == []
    feed.execute("DROP SUBSCRIPTION hand")
    assert read(1) == both[:1]
    assert read(5) == both[1:]
    with pytest.raises(CtsqlError, match="only a reader with a name"):
        feed.subscribe("t").commit()


def test_changes_come_while_others_write(shop: Connection) -> None:
    """A subscription that runs is told what is committed, also by foreign writers, and stops."""
    got: list[Change] = []
    sub = shop.subscribe("m", progress=True, interval=0.1)
    thread = threading.Thread(target=lambda: got.extend(sub))
    thread.start()
    shop.execute("INSERT INTO t VALUES (5, 1.0)")
    location = shop.execute("DESCRIBE EXTENDED t").fetchall()
    folder = next(row[1] for row in location if row[0] == "# location")
    shop.spark.sql("SELECT 6 AS k, 1.0D AS v").write.format("delta").mode("append").save(folder)
    deadline = time.monotonic() + 60
    shop.execute("UPDATE t SET v = v + 1")  # a T at which the view does not change
    wanted = {(5, 1), (6, 1), (None, None)}
    while time.monotonic() < deadline and not (wanted <= {c.row for c in got} and not got[-1].diff):
        time.sleep(0.1)
    sub.stop()
    thread.join(30)
    assert not thread.is_alive()
    changes = [c for c in got if c.diff]
    assert summed((t, d, *row) for t, d, row in changes) == contents(shop, "m")
    progress = [c for c in got if not c.diff]
    assert progress
    assert all(c.row == (None, None) for c in progress)
    assert [c.t for c in got] == sorted(c.t for c in got)


def test_readers_are_listed_kept_and_dropped(
    shop: Connection, connect: Callable[[], Connection]
) -> None:
    """What a reader follows is not dropped under it; a dropped reader's name begins anew.

    Of two readers of one name the first to acknowledge goes on; a read-only connection has none.
    """
    one = shop.subscribe("t", reader="same", up_to="now")
    other = connect().subscribe("t", reader="same", up_to="now")
    assert list(one) == list(connect().subscribe("t", up_to="now"))
    with pytest.raises(CtsqlError, match="SUBSCRIPTION_MOVED"):
        list(other)
    shop.execute("DROP SUBSCRIPTION same; SELECT * FROM m")
    with open_connection(shop.warehouse, master=TEST_MASTER, read_only=True) as reader:
        assert summed(told(reader, "m")) == contents(shop, "m")
        expect_error(reader, "SUBSCRIBE TO m AS 'r'", "READ_ONLY_MODE")
    rows = told(shop, "c AS 'nightly'")
    ((nightly, schema, name, position, lag),) = shop.execute("SHOW SUBSCRIPTIONS").fetchall()
    assert (nightly, schema, name) == ("nightly", "default", "c")
    assert int(str(position)) > rows[0][0]
    assert lag == 0
    refused = expect_error(shop, "DROP CONTINUAL TASK c", "DEPENDENT_OBJECTS")
    assert "subscription 'nightly'" in str(refused)
    expect_error(shop, "SUBSCRIBE TO t AS 'nightly'", "OBJECT_EXISTS")
    shop.execute("DROP SUBSCRIPTION 'nightly'")
    assert told(shop, "c AS 'nightly'") == rows
    shop.execute("DROP CONTINUAL TASK c CASCADE")
    assert shop.execute("SHOW SUBSCRIPTIONS").fetchall() == []
    expect_error(shop, "DROP SUBSCRIPTION 'nightly'", "UNKNOWN_RELATION")


def test_a_failed_task_is_told_up_to_its_failure(feed: Connection) -> None:
    """Everything before comes first, then the error; after SKIP it goes on."""
    feed.execute(
        "CREATE CONTINUAL TASK d (x INT) ON INPUT t AS (INSERT INTO d SELECT 10 / (k - 4) FROM t)"
    )
    feed.execute("INSERT INTO t VALUES (5, 0)")
    feed.execute("INSERT INTO t VALUES (4, 0)")
    got: list[Change] = []
    with pytest.raises(CtsqlError, match="TASK_FAILED"):
        got.extend(feed.subscribe("d", reader="d", begin=0))
    assert got[-1].row == (10,)
    feed.execute("ALTER CONTINUAL TASK d SKIP; INSERT INTO t VALUES (6, 0)")
    assert [row[1:] for row in told(feed, "d AS 'd'")] == [(1, 5)]


def test_refused_starts_and_ends(shop: Connection) -> None:
    """A time that is not known, an object that is not there, a view of the clock."""
    shop.execute("CREATE VIEW clocked AS SELECT k, now() AS at FROM t")
    for text, condition in [
        ("SUBSCRIBE TO nope", "UNKNOWN_RELATION"),
        ("SUBSCRIBE TO t AS OF 5", "AS_OF_OUT_OF_RANGE"),
        ("SUBSCRIBE TO t AS OF '9999-01-01'", "AS_OF_OUT_OF_RANGE"),
        ("SUBSCRIBE TO clocked", "NONDETERMINISTIC_FUNCTION"),
    ]:
        expect_error(shop, text, condition)
    told(shop, "p AS 'v'")
    shop.execute("CREATE OR REPLACE VIEW p AS SELECT k, max(v) AS s FROM t GROUP BY k")
    with pytest.raises(CtsqlError, match="SUBSCRIPTION_OUTDATED"):
        told(shop, "p AS 'v'")


def test_a_query_is_told_as_a_view_of_it(shop: Connection) -> None:
    """Ts and rows are the same; it ends with an error when what it reads is dropped."""
    query = "SELECT t.k, s, n FROM t JOIN p ON t.k = p.k JOIN m ON m.k = t.k WHERE v < 6"
    shop.execute(f"CREATE VIEW same AS {query}")
    made = shop.subscribe(f"({query})")
    with made as changes:
        batches = changes.batches()
        first = next(batches)
        assert summed((c.t, c.diff, *c.row) for c in first) == contents(shop, "same")
        shop.execute("INSERT INTO t VALUES (2, 5.0), (3, 9.0)")
        shop.execute("UPDATE t SET v = 1.5 WHERE k = 1; DELETE FROM t WHERE v = 9")
        found = [*first, *(change for _ in range(2) for change in next(batches))]
        wanted = told(shop, f"same AS OF {first.t}")
        assert sorted((c.t, c.diff, *c.row) for c in found) == sorted(wanted)
        shop.execute("DROP VIEW same; DROP VIEW p")
        with pytest.raises(CtsqlError) as ended:
            next(batches)
        assert (ended.value.condition, ended.value.hint) == (
            "UNKNOWN_RELATION",
            "It was dropped while it was followed.",
        )
    assert told(shop, "(SELECT 1 AS one)")[0][1:] == (1, 1)
