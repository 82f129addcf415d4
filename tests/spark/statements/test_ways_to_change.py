"""Every way to change a definition keeps the same promises, whatever its statement is.

Each row of :data:`WAYS` is a way. ``{n}`` makes two definitions of it differ: rows of the new one
have ``v + n`` where the old one has ``v``. Kills: tests/crash/test_definitions_killed.py; what only
some ways have: the scenarios. [definition-at-T] under any interleaving: the simulation.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import ObjectKind
from tests.helpers.opened import check_rows, item_of
from tests.helpers.sql_folder import applied
from tests.helpers.turns import turn_at

TABLE = "CREATE TABLE t (k INT, v INT)"
TASK = "CREATE CONTINUAL TASK x (k INT, v INT) ON INPUT t AS (INSERT INTO x SELECT k, v FROM t)"
VIEW = "CREATE MATERIALIZED VIEW m AS SELECT k, sum(v) AS v FROM t GROUP BY k"
PLAIN = "CREATE VIEW p AS SELECT k, v FROM t"
OVER = "CREATE MATERIALIZED VIEW over AS SELECT k, v FROM p"
TWO = """CREATE CONTINUAL TASK two OUTPUTS (y (k INT, v INT), z (k INT)) ON INPUT t AS
    (INSERT INTO y SELECT k, v FROM t; INSERT INTO z SELECT -k FROM t)"""
MADE = {"x": TASK, "y": TWO, "m": VIEW, "over": f"{PLAIN}; {OVER}"}
NEW_BODY = "INSERT INTO x SELECT k, v + {n} FROM t"
NEW_QUERY = "SELECT k, sum(v) + {n} AS v FROM t GROUP BY k"


@dataclass(frozen=True)
class Way:
    """A way to change a definition.

    Attributes:
        name: the object that changes. statements: which change it.
        is_anew: the rows that are there become those of the new definition; else they stay.
        beside: where the new definition is built beside first: the statements for that.
        more: what it holds in a column that comes at the end: in old rows, and in new ones.
    """

    name: str
    statements: str
    is_anew: bool = True
    beside: str = ""
    more: tuple[tuple[object, ...], tuple[object, ...]] = ((), ())

    def set_up(self, con: Connection) -> None:
        """Make what it changes, of two rows."""
        con.execute(f"{TABLE}; {MADE[self.name]}; INSERT INTO t VALUES (1, 10), (2, 20)")

    def prepare(self, con: Connection, n: int) -> None:
        """What nobody sees yet."""
        if self.beside:
            con.execute(self.beside.format(n=n))

    def change(self, con: Connection, n: int) -> None:
        """Run it."""
        con.execute(self.statements.format(n=n))

    def rows(self, n: int) -> list[tuple[object, ...]]:
        """What the object holds behind it."""
        added = n if self.is_anew else 0
        return [(1, 10 + added, *self.more[0]), (2, 20 + added, *self.more[0])]

    def row(self, n: int) -> tuple[object, ...]:
        """What comes of a row ``(3, 30)`` then."""
        return (3, 30 + n, *self.more[1])


class Folder(Way):
    """A folder in which a view is otherwise."""

    def change(self, con: Connection, n: int) -> None:
        """Apply it."""
        applied(con, f"{TABLE}; {VIEW.replace('sum(v)', f'sum(v) + {n}')}")


WAYS = {
    "a view": Way("m", f"CREATE OR REPLACE MATERIALIZED VIEW m AS {NEW_QUERY}"),
    "a view with a column at its end": Way(
        "m",
        "CREATE OR REPLACE MATERIALIZED VIEW m AS "
        "SELECT k, sum(v) + {n} AS v, 'x' AS more FROM t GROUP BY k",
        more=(("x",), ("x",)),
    ),
    "a view built beside": Way(
        "m",
        "ALTER MATERIALIZED VIEW m APPLY REPLACEMENT r",
        beside=f"CREATE REPLACEMENT MATERIALIZED VIEW r FOR m AS {NEW_QUERY}",
    ),
    "a plain view below": Way("over", "CREATE OR REPLACE VIEW p AS SELECT k, v + {n} AS v FROM t"),
    "a task": Way(
        "x",
        f"CREATE OR REPLACE CONTINUAL TASK x (k INT, v INT) ON INPUT t AS ({NEW_BODY})",
        is_anew=False,
    ),
    "a task with a column at its end": Way(
        "x",
        "CREATE OR REPLACE CONTINUAL TASK x (k INT, v INT, more STRING) ON INPUT t AS "
        "(INSERT INTO x SELECT k, v + {n}, 'x' FROM t)",
        is_anew=False,
        more=((None,), ("x",)),
    ),
    "a task's body": Way("x", f"ALTER CONTINUAL TASK x AS ({NEW_BODY})", is_anew=False),
    "a task from a time on": Way("x", f"REPLAY CONTINUAL TASK x FROM '2026-01-01' AS ({NEW_BODY})"),
    "a task built beside": Way(
        "x",
        "ALTER CONTINUAL TASK x APPLY REPLACEMENT r",
        beside=f"CREATE REPLACEMENT CONTINUAL TASK r FOR x AS ({NEW_BODY})",
    ),
    "a task with several outputs": Way(
        "y",
        "REPLAY CONTINUAL TASK two FROM '2026-01-01' AS "
        "(INSERT INTO y SELECT k, v + {n} FROM t; INSERT INTO z SELECT k FROM t)",
    ),
    "a folder": Folder("m", ""),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_users_see(way: Way, connect: Callable[[], Connection]) -> None:
    """The same table goes on: its path, its history, and its followers, who get what differs."""
    con, other = connect(), connect()
    way.set_up(con)
    follow = f"SUBSCRIBE TO {way.name} UP TO NOW AS 'follower'"
    con.execute(follow).fetchall()
    before, since, old = item_of(con, way.name), con.now(), [(1, 10), (2, 20)]
    way.prepare(con, 100)
    way.change(con, 100)
    new, after = way.rows(100), item_of(con, way.name)
    for reader in (con, other):
        check_rows(reader, f"SELECT * FROM {way.name}", *new)
        check_rows(reader, f"SELECT k, v FROM {way.name} AS OF {since}", *old)
    assert (after.id, after.location) == (before.id, before.location)
    # A follower was bound to the columns of before; it sees the difference in those, at one T.
    changes = con.execute(follow).fetchall()
    difference = Counter(dict.fromkeys((row[:2] for row in new), 1))
    difference.subtract(old)
    told = Counter[tuple[int, ...]]()
    for _, sign, *row in changes:
        told[tuple(row[:2])] += sign
    assert {r: n for r, n in told.items() if n} == {r: n for r, n in difference.items() if n}
    assert len({time for time, *_ in changes}) <= 1
    other.execute("INSERT INTO t VALUES (3, 30)")
    check_rows(con, f"SELECT * FROM {way.name}", *new, way.row(100))
    if item_of(con, way.name).kind is ObjectKind.MATERIALIZED_VIEW:
        assert con.execute(f"VERIFY MATERIALIZED VIEW {way.name}").fetchall() == []


EACH_TIME = ("a view", "a plain view below", "a task's body", "a task built beside", "a folder")
"""One of each kind; the simulation races them too, in test_cutovers and test_swapping."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in EACH_TIME else pytest.mark.slow) for n in WAYS]
)
def test_of_two_at_once_one_is_told(
    name: str, connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one's definition is in force, whole; the second has changed nothing."""
    way, con, other = WAYS[name], connect(), connect()
    way.set_up(con)
    check_rows(other, f"SELECT * FROM {way.name}", (1, 10), (2, 20))
    way.prepare(con, 100)
    first = WAYS[{"m": "a view", "x": "a task"}[way.name]] if way.beside else way
    turn = turn_at(monkeypatch, "cutover_stored", lambda: first.change(other, 7))
    with pytest.raises(CtsqlError) as told:
        way.change(con, 100)
    assert turn.has_come
    assert told.value.condition in ("ALTERED_MEANWHILE", "DEFINITIONS_CHANGED")
    assert told.value.hint
    for reader in (con, other):
        check_rows(reader, f"SELECT * FROM {way.name}", *first.rows(7))
    con.execute("INSERT INTO t VALUES (3, 30)")
    check_rows(con, f"SELECT * FROM {way.name}", *first.rows(7), first.row(7))
