"""Dynamic tables with REFRESH USING and streaming tables have the history of hand-written tasks.

A history is what changed at each T. Beside each text stands the continual task that one would write
by hand; both follow the same random changes, tick by tick, after a restart, and as a backlog.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings, strategies as some

from ctsql.api import Connection
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.ast import CreateContinualTask, texts_of
from tests.properties.model import Rows
from tests.properties.random_changes import change

CHANGES = 6
SLOW_SEEDS = range(300, 306)
History = dict[int, Counter[tuple[object, ...]]]


@dataclass(frozen=True)
class Pair:
    """A statement of REFRESH USING, and the body of a task by hand; ``{x}`` is the output."""

    columns: str
    using: str
    body: str


PAIRS = (
    Pair(
        "k INT, v INT",
        "INSERT INTO SELF SELECT k, v FROM feed CHANGES (INFORMATION => APPEND_ONLY) WHERE v > 0",
        "INSERT INTO {x} SELECT k, v FROM inserts(feed) WHERE v > 0",
    ),
    Pair(
        "k INT, v INT, act STRING",
        "INSERT INTO SELF SELECT k, v, METADATA$ACTION FROM feed CHANGES (INFORMATION => DEFAULT)",
        "INSERT INTO {x} SELECT k, v, 'INSERT' FROM inserts(feed); "
        "INSERT INTO {x} SELECT k, v, 'DELETE' FROM deletes(feed)",
    ),
    Pair(
        "k INT, n BIGINT",
        "MERGE INTO SELF AS t USING (SELECT k, sum(IF(METADATA$ACTION = 'INSERT', 1, -1)) AS n "
        "FROM CHANGES(feed, INFORMATION => DEFAULT) GROUP BY k) AS s ON t.k <=> s.k "
        "WHEN MATCHED AND t.n + s.n = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET n = t.n + s.n "
        "WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, s.n)",
        "MERGE INTO {x} AS t USING (SELECT k, sum(d) AS n FROM (SELECT k, 1 AS d FROM "
        "inserts(feed) UNION ALL SELECT k, -1 FROM deletes(feed)) GROUP BY k) AS s ON t.k <=> s.k "
        "WHEN MATCHED AND t.n + s.n = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET n = t.n + s.n "
        "WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, s.n)",
    ),
    Pair(
        "k INT, v INT, held BIGINT",
        "INSERT INTO SELF SELECT f.k, s.v, (SELECT count(*) FROM feed) "
        "FROM CHANGES(feed, INFORMATION => APPEND_ONLY) AS f JOIN side AS s ON f.k = s.k",
        "INSERT INTO {x} SELECT f.k, s.v, (SELECT count(*) FROM contents(feed)) "
        "FROM inserts(feed) AS f JOIN side AS s ON f.k = s.k",
    ),
    Pair(
        "k INT",
        "INSERT INTO SELF SELECT DISTINCT k FROM feed CHANGES (INFORMATION => APPEND_ONLY) "
        "WHERE k NOT IN (SELECT k FROM SELF)",
        "INSERT INTO {x} SELECT DISTINCT k FROM inserts(feed) WHERE k NOT IN (SELECT k FROM {x})",
    ),
    Pair(
        "k INT, v INT, of INT",
        "INSERT INTO SELF SELECT feed.k, feed.v, s.v "
        "FROM feed CHANGES (INFORMATION => DEFAULT) "
        "LEFT JOIN side CHANGES (INFORMATION => APPEND_ONLY) s ON s.k = feed.k",
        "INSERT INTO {x} SELECT f.k, f.v, s.v FROM (SELECT * FROM inserts(feed) UNION ALL "
        "SELECT * FROM deletes(feed)) AS f LEFT JOIN inserts(side) AS s ON s.k = f.k",
    ),
)
FLOWS = (
    ("SELECT k, v FROM STREAM feed", "SELECT k, v FROM inserts(feed)"),
    ("SELECT k, v FROM STREAM(side) WHERE k > 0", "SELECT k, v FROM inserts(side) WHERE k > 0"),
    (
        "SELECT f.k, s.v FROM STREAM feed AS f JOIN side AS s ON f.k = s.k",
        "SELECT f.k, s.v FROM inserts(feed) AS f JOIN side AS s ON f.k = s.k",
    ),
    (
        "SELECT v, n FROM STREAM side JOIN (SELECT k, 1 AS n FROM feed GROUP BY k) USING (k)",
        "SELECT v, n FROM inserts(side) JOIN (SELECT k, 1 AS n FROM feed GROUP BY k) USING (k)",
    ),
)
"""A query of a streaming table, and that of a task by hand; the inputs of each are its streams."""


def _history(con: Connection, name: str, made: list[tuple[int, int]]) -> History:
    """What changed at each T.

    Args:
        made: spans of T in which objects were made and no table changed: after which T, until
            which. What came in one of them counts as of its end.
    """
    found: History = {}
    for at, diff, *row in con.execute(f"SUBSCRIBE TO {name} FROM 1 UP TO NOW").fetchall():
        time = next((stop for start, stop in made if start < at <= stop), at)
        found.setdefault(time, Counter())[tuple(row)] += diff
    return found


def _sum(histories: list[History]) -> History:
    found: History = {}
    for history in histories:
        for time, rows in history.items():
            at = found.setdefault(time, Counter())
            for row, diff in rows.items():
                at[row] += diff
    return found


def _equal(one: History, other: History, label: str) -> None:
    shown = [{t: {r: n for r, n in h[t].items() if n} for t in sorted(h)} for h in (one, other)]
    first, second = [{t: rows for t, rows in h.items() if rows} for h in shown]
    assert first == second, f"{label}: {first} is not {second}"


def _inputs(body: str) -> str:
    return ", ".join(t for t in ("feed", "side") if f"inserts({t})" in body)


def _add_flow(con: Connection, number: int) -> None:
    query, by_hand = FLOWS[number]
    con.execute(f"CREATE FLOW f_{number} AS INSERT INTO st {query}")
    con.execute(
        f"CREATE CONTINUAL TASK flow_{number} (k INT, v INT) ON INPUT {_inputs(by_hand)} "
        f"AS (INSERT INTO flow_{number} {by_hand})"
    )


def _play(seed: int, connect: Callable[[], Connection]) -> None:
    chance = random.Random(seed)
    con = connect()
    con.execute("CREATE TABLE feed (k INT, v INT); CREATE TABLE side (k INT, v INT)")
    held: Rows = Counter()
    change(con, chance, held)
    pairs = chance.sample(PAIRS, 3)
    for number, pair in enumerate(pairs):
        con.execute(
            f"CREATE DYNAMIC TABLE dt_{number} ({pair.columns}) TARGET_LAG = DOWNSTREAM "
            f"REFRESH USING ({pair.using})"
        )
        body = pair.body.format(x=f"by_hand_{number}")
        con.execute(
            f"CREATE CONTINUAL TASK by_hand_{number} ({pair.columns}) ON INPUT {_inputs(body)} "
            f"AS ({body})"
        )
    con.execute("CREATE STREAMING TABLE st (k INT, v INT)")
    flows = chance.sample(range(len(FLOWS)), 3)
    for number in flows[:2]:
        _add_flow(con, number)
    made = [(0, con.now())]
    for turn in range(CHANGES):
        change(con, chance, held)
        if turn == 1:  # what is there comes in with it
            before = con.now()
            _add_flow(con, flows[2])
            made.append((before, con.now()))
        if turn == CHANGES // 2:  # the first half tick by tick, the second as a backlog
            for name in ("st", *(f"dt_{n}" for n in range(len(pairs)))):
                con.execute(f"SELECT * FROM {name}")
            con.close()
            con = connect()
    for number, pair in enumerate(pairs):
        one, other = (_history(con, f"{of}_{number}", made) for of in ("dt", "by_hand"))
        _equal(one, other, f"seed {seed}, {pair.using}")
    by_hand = _sum([_history(con, f"flow_{n}", made) for n in flows])
    said = f"seed {seed}, flows {[FLOWS[n][0] for n in flows]}"
    _equal(_history(con, "st", made), by_hand, said)


@pytest.mark.spark
def test_a_fresh_seed(connect: Callable[[], Connection]) -> None:
    """Another one each time; a failure prints the seed."""
    _play(random.SystemRandom().randrange(10**9), connect)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_many_seeds(seed: int, connect: Callable[[], Connection]) -> None:
    """The slow lane."""
    _play(seed, connect)


_WAYS = {
    "whole": ("{t}", [None]),
    "came": ("{t} CHANGES (INFORMATION => APPEND_ONLY)", ["inserts"]),
    "came, called": ("CHANGES({t}, INFORMATION => APPEND_ONLY)", ["inserts"]),
    "net": ("{t} CHANGES (INFORMATION => DEFAULT)", ["inserts", "deletes"]),
    "net, called": ("CHANGES({t})", ["inserts", "deletes"]),
}
_NAMES = ("feed", "side", "s.feed")
_FORMS = (
    "SELECT {0}.k FROM {1} AS {0}",
    "SELECT {0}.k FROM {1} {0} WHERE {0}.k > 0",
    "SELECT {0}.k FROM {1} AS {0} JOIN ({{}}) AS below ON {0}.k = below.k",
    "SELECT {0}.k FROM {1} AS {0} WHERE k IN ({{}})",
    "SELECT k FROM {1} UNION ALL {{}}",
    "SELECT (SELECT max(k) FROM {1}) AS k FROM ({{}})",
)
_reads = some.tuples(
    some.sampled_from(_NAMES), some.sampled_from(sorted(_WAYS)), some.sampled_from(_FORMS)
)


@settings(max_examples=300, deadline=None)
@given(some.lists(_reads, min_size=1, max_size=5))
def test_each_relation_is_read_as_its_words_say(reads: list[tuple[str, str, str]]) -> None:
    """However relations are nested: those with CHANGES by their changes, the others whole."""
    reads = [("feed", "came", _FORMS[0]), *reads]
    query, wanted = "", []
    for number, (name, way, form) in enumerate(reads):
        spelled, kinds = _WAYS[way]
        relation = spelled.format(t=name)
        outer = form.format(f"a{number}", relation)
        query = outer.format(query) if "{}" in outer else f"{outer} UNION ALL {query or 'SELECT 1'}"
        of_name = [(kind or "contents", name) for kind in kinds]
        wanted.append(of_name)
    made = parse(
        Source(
            "CREATE DYNAMIC TABLE x (k INT) TARGET_LAG = DOWNSTREAM "
            f"REFRESH USING (INSERT INTO SELF {query})",
            "<test>",
        ).whole()
    )
    assert isinstance(made, CreateContinualTask)
    (statement,) = made.body
    found = [
        (ref.change.value if ref.change else "bare", ".".join(ref.parts))
        for text in texts_of(statement)
        for ref in text.relations
        if ref.parts != ("x",)
    ]
    assert Counter(found) == Counter(read for of_name in wanted for read in of_name)
    followed = {name for of_name in wanted for kind, name in of_name if kind != "contents"}
    assert {".".join(i.ref.parts) for i in made.inputs} == followed
