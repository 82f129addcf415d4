"""A view is replaced again and again while others read it: readers see no other rows than a twin.

The twin has the columns that are read, is never replaced, and has readers of the same kinds. After
each step both show the same; as of each T that was looked at both show what they showed then; and
what the readers were told adds up to what they hold.
"""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from ctsql.api import Connection

pytestmark = pytest.mark.spark

STEPS, STEPS_LONG = 4, 16
READ = ("k", "sum(v) AS s")
OTHER = (
    *("count(*) AS n", "max(w) AS w", "length(max(w)) AS w", "min(v) AS low", "max(v) AS `N-o`"),
    *("CAST(min(v) AS STRING) AS low", "array(k) AS n", "named_struct('a', min(v)) AS low"),
)
READERS = """
CREATE VIEW {0}_part AS SELECT k, s FROM {0};
CREATE MATERIALIZED VIEW {0}_sums AS SELECT s, count(*) AS c FROM {0} GROUP BY s;
CREATE MATERIALIZED VIEW {0}_joined AS SELECT t.v, p.s FROM t JOIN {0}_part p ON t.k = p.k;
CREATE CONTINUAL TASK {0}_log ON INPUT {0} AS
    (INSERT INTO {0}_log SELECT k, s, 1 AS d FROM {0};
     INSERT INTO {0}_log SELECT k, s, -1 FROM deletes({0}));
CREATE CONTINUAL TASK {0}_kept (k INT, s BIGINT) ON INPUT {0} AS
    (DELETE FROM {0}_kept WHERE k IN (SELECT k FROM deletes({0}));
     INSERT INTO {0}_kept SELECT k, s FROM {0});
"""
SHOWN = ("SELECT k, s FROM {0}", *(f"SELECT * FROM {{0}}_{x}" for x in ("part", "sums", "joined")))


def _query(rng: random.Random) -> str:
    """One with the columns that are read, and some others, in any order."""
    chosen = {text.split()[-1]: text for text in rng.sample(OTHER, rng.randrange(4))}
    columns = [*READ, *chosen.values()]
    rng.shuffle(columns)
    return f"SELECT {', '.join(columns)} FROM t GROUP BY k"


def _change(rng: random.Random) -> str:
    key, value, text = rng.randrange(4), rng.randrange(9), rng.choice(("'a'", "'bcd'", "NULL"))
    return rng.choice(
        (
            f"INSERT INTO t VALUES ({key}, {value}, {text}), ({key + 1}, 1, 'z')",
            f"DELETE FROM t WHERE k = {key}",
            f"UPDATE t SET v = v + {value}, w = {text} WHERE k = {key}",
        )
    )


def _rows(con: Connection, query: str) -> Counter[object]:
    return Counter(map(repr, con.execute(query).fetchall()))


def _told(con: Connection, name: str) -> Counter[object]:
    """What a subscription to a plain view has told since the last time, added up."""
    found: Counter[object] = Counter()
    for row in con.execute(f"SUBSCRIBE TO {name}_part UP TO NOW AS '{name}'").fetchall():
        found[repr(tuple(row[2:]))] += row[1]
    return found


def _check(con: Connection, told: dict[str, Counter[object]], at: str) -> None:
    for query in SHOWN:
        assert _rows(con, query.format("m")) == _rows(con, query.format("twin")), (at, query)
    assert _rows(con, "SELECT * FROM m_kept") == _rows(con, "SELECT k, s FROM twin"), at
    logged = "SELECT k, s FROM {}_log GROUP BY k, s HAVING sum(d) <> 0"
    assert _rows(con, logged.format("m")) == _rows(con, logged.format("twin")), at
    for name, before in told.items():
        before.update(_told(con, name))
    assert {x: n for x, n in told["m"].items() if n} == _rows(con, "SELECT * FROM twin_part"), at


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        (7, STEPS),
        *(pytest.param(seed, STEPS_LONG, marks=pytest.mark.slow) for seed in range(1, 8)),
    ],
)
def test_like_a_twin(seed: int, steps: int, connect: Callable[[], Connection]) -> None:
    """By two processes' connections; a T at which only other columns changed tells nothing.

    Of the seeds one whose first steps replace and change most; the slow lane has all, and longer.
    """
    rng = random.Random(seed)
    cons = [connect(), connect()]
    cons[0].execute("CREATE TABLE t (k INT, v INT, w STRING); INSERT INTO t VALUES (1, 2, 'q')")
    for name in ("m", "twin"):
        query = _query(rng) if name == "m" else f"SELECT {', '.join(READ)} FROM t GROUP BY k"
        cons[0].execute(f"CREATE MATERIALIZED VIEW {name} AS {query}; {READERS.format(name)}")
    told: dict[str, Counter[object]] = {"m": Counter(), "twin": Counter()}
    seen: dict[int, Counter[object]] = {}
    for step in range(steps):
        con = rng.choice(cons)
        at = f"seed {seed}, step {step}"
        for _ in range(rng.randrange(3)):
            con.execute(_change(rng))
        if rng.random() < 0.6:
            if rng.random() < 0.5:
                _check(con, told, f"{at}, before")
            lines = con.execute("SELECT count(*) FROM m_log").fetchone()
            con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW m AS {_query(rng)}")
            assert con.execute("SELECT count(*) FROM m_log").fetchone() == lines, at
        if rng.random() < 0.7:
            _check(rng.choice(cons), told, at)
            now = con.now()
            seen[now] = _rows(con, f"SELECT * FROM twin_part AS OF {now}")
    con = rng.choice(cons)
    con.execute("MAINTAIN m")
    _check(con, told, f"seed {seed}, at the end")
    for now, wanted in seen.items():
        for query in ("SELECT k, s FROM m", "SELECT * FROM m_part"):
            assert _rows(con, f"{query} AS OF {now}") == wanted, (seed, now, query)
    for view in ("m", "m_sums", "m_joined"):
        assert not _rows(con, f"VERIFY MATERIALIZED VIEW {view}"), (seed, view)
