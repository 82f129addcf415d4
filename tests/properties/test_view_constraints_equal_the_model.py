"""Views with constraints, their quarantines and counts give what a model in plain Python gives."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.scenarios.runner import assert_rows

Row = tuple[int | None, ...]
Rule = tuple[str, str, str, Callable[[Row], bool]]

# Name, text, the fate of a row that breaks it, and whether a row (k, n) breaks it.
RULES: list[Rule] = [
    ("a", "CHECK (n < 4)", "QUARANTINE", lambda r: r[1] is not None and r[1] >= 4),
    ("b", "NOT NULL (k)", "DROP", lambda r: r[0] is None),
    ("c", "CHECK (k <> 2)", "WARN", lambda r: r[0] == 2),
    ("d", "CHECK (k + n <> 9)", "FAIL", lambda r: None not in r and sum(r) == 9),  # type: ignore[arg-type]
    ("e", "NOT NULL (n)", "QUARANTINE", lambda r: r[1] is None),
]
LISTED = ", ".join(f"CONSTRAINT {n} {text} ON VIOLATION {action}" for n, text, action, _ in RULES)


def _plain(feed: Counter[Row], _: Counter[Row]) -> list[Row]:
    return list(feed.elements())


def _groups(feed: Counter[Row], _: Counter[Row]) -> list[Row]:
    found: dict[int | None, int | None] = {}
    for k, v in feed.elements():
        had = found.get(k)
        found[k] = had if v is None else v + (had or 0)
    return list(found.items())


def _joined(feed: Counter[Row], side: Counter[Row]) -> list[Row]:
    made: list[Row] = []
    for k, v in feed.elements():
        alike = [w for key, w in side.elements() if key is not None and key == k]
        made += [(v, w) for w in alike] or [(v, None)]
    return made


VIEWS = {
    "plain": ("SELECT k, v AS n FROM feed", _plain),
    "groups": ("SELECT k, sum(v) AS n FROM feed GROUP BY k", _groups),
    "joined": ("SELECT f.v AS k, s.v AS n FROM feed f LEFT JOIN side s ON f.k = s.k", _joined),
}


def _write(con: Connection, chance: random.Random, held: dict[str, Counter[Row]]) -> str:
    """One random change of a table, made there and in the model."""
    name = chance.choice(("feed", "feed", "side"))
    rows = held[name]
    match chance.choice(("insert", "insert", "delete", "update")):
        case "insert":
            values = [None, 0, 1, 2, 3, 4, 5]
            new = [(chance.choice(values), chance.choice(values)) for _ in range(4)]
            rows.update(new)
            listed = ", ".join(str(r).replace("None", "NULL") for r in new)
            text = f"INSERT INTO {name} VALUES {listed}"
        case "delete":
            k = chance.randrange(6)
            for row in [r for r in rows if r[0] == k]:
                del rows[row]
            text = f"DELETE FROM {name} WHERE k = {k}"
        case _:
            k, v = chance.randrange(6), chance.randrange(6)
            changed = Counter({r: n for r, n in rows.items() if r[0] == k})
            rows.subtract(changed)
            rows[k, v] += changed.total()
            held[name] = +rows
            text = f"UPDATE {name} SET v = {v} WHERE k = {k}"
    con.execute(text)
    return text


def _empty_tables(con: Connection) -> dict[str, Counter[Row]]:
    """The two tables, made, with the rows that they hold: none."""
    held: dict[str, Counter[Row]] = {"feed": Counter(), "side": Counter()}
    for name in held:
        con.execute(f"CREATE TABLE {name} (k INT, v INT)")
    return held


def _compare(con: Connection, view: str, made: list[Row], at: str) -> None:
    kept, away, counts = Counter[Row](), Counter[Row](), Counter[str]()
    for row in made:
        broken = [(name, action) for name, _, action, breaks in RULES if breaks(row)]
        counts.update(name for name, _ in broken)
        actions = {action for _, action in broken}
        if "FAIL" in actions:
            kept[row] += 1
        elif "QUARANTINE" in actions:
            away[(*row, ", ".join(name for name, _ in broken))] += 1  # type: ignore[index]
        elif "DROP" not in actions:
            kept[row] += 1
    fails = any(breaks(row) for row in kept for _, _, action, breaks in RULES if action == "FAIL")
    quarantine = con.execute(f"SELECT k, n, constraint_name FROM {view}_quarantine").fetchall()
    assert_rows(quarantine, away.elements(), at)
    if fails:
        with pytest.raises(CtsqlError, match="VIEW_FAILED"):
            con.execute(f"SELECT * FROM {view}")
        return
    assert_rows(con.execute(f"SELECT * FROM {view}").fetchall(), kept.elements(), at)
    shown = con.execute(f"SHOW CONSTRAINTS FOR {view}").fetchall()
    assert {r[2]: int(r[5]) for r in shown} == {n: counts[n] for n, *_ in RULES}, at


def _runs(rounds: int, policies: dict[str, int]) -> Any:
    """Of each policy the seed of a short run in which errors and rows set aside come and go.

    The slow lane adds longer ones.
    """
    many = [(policy, seed, 8) for policy in policies for seed in range(1, 4)]
    return pytest.mark.parametrize(
        ("policy", "seed", "rounds"),
        [
            *((policy, seed, rounds) for policy, seed in policies.items()),
            *(pytest.param(*run, marks=pytest.mark.slow) for run in many),
        ],
    )


@_runs(3, {"incremental": 2483, "full": 36})
def test_histories_equal_the_model(policy: str, seed: int, rounds: int, con: Connection) -> None:
    """Three shapes of queries, looked at after one or after several changes."""
    chance = random.Random(f"{seed} {policy}")
    held, history = _empty_tables(con), list[str]()
    for view, (query, _) in VIEWS.items():
        con.execute(
            f"CREATE MATERIALIZED VIEW {view} ({LISTED}) WITH (REFRESH POLICY = {policy})"
            f" AS {query}"
        )
    for _ in range(rounds):
        for _ in range(chance.choice((1, 2))):
            history.append(_write(con, chance, held))
        for view, (_, model) in VIEWS.items():
            _compare(con, view, model(held["feed"], held["side"]), f"{view} after {history}")


@_runs(4, {"strict": 490, "full": 812})
def test_unique_equals_the_model(policy: str, seed: int, rounds: int, con: Connection) -> None:
    """All rows that share a key are set aside, or make another view an error, while they do."""
    chance = random.Random(f"{seed} {policy}")
    held, history = _empty_tables(con), list[str]()
    options, query = f"WITH (REFRESH POLICY = {policy})", "SELECT k, v FROM feed WHERE v <> 5"
    con.execute(
        f"CREATE MATERIALIZED VIEW one (k UNIQUE ON VIOLATION QUARANTINE, v) {options} AS {query}"
    )
    con.execute(f"CREATE MATERIALIZED VIEW strict_one (UNIQUE (k)) {options} AS {query}")
    for _ in range(rounds):
        history.append(_write(con, chance, held))
        rows = [r for r in held["feed"].elements() if r[1] not in (None, 5)]
        keys = Counter(k for k, _ in rows if k is not None)
        kept = [r for r in rows if r[0] is None or keys[r[0]] == 1]
        away = [r for r in rows if r[0] is not None and keys[r[0]] > 1]
        at = f"after {history}"
        assert_rows(con.execute("SELECT * FROM one").fetchall(), kept, at)
        assert_rows(con.execute("SELECT k, v FROM one_quarantine").fetchall(), away, at)
        shown = con.execute("SHOW CONSTRAINTS FOR one").fetchall()
        assert [int(r[5]) for r in shown] == [len(away)], at
        if away:
            with pytest.raises(CtsqlError, match="VIEW_FAILED"):
                con.execute("SELECT * FROM strict_one")
        else:
            assert_rows(con.execute("SELECT * FROM strict_one").fetchall(), kept, at)
