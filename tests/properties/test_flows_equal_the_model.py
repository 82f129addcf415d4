"""AUTO CDC gives what the model gives, in whatever order and batches the events come.

Many orders at once: each is a run of its own, and the run is part of the key.
"""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from ctsql.api import Connection
from tests.properties.cdc_model import Event, scd1, scd1_ignoring_nulls, scd2

pytestmark = pytest.mark.spark

RUNS = 40
COMMITS = 3
FORMS = {
    "one": ("", "STORED AS SCD TYPE 1", scd1),
    "one_partial": ("IGNORE NULL UPDATES", "STORED AS SCD TYPE 1", scd1_ignoring_nulls),
    "two": ("", "STORED AS SCD TYPE 2", scd2),
    "two_partial": (
        "IGNORE NULL UPDATES",
        "STORED AS SCD TYPE 2",
        lambda events: scd2(events, ignore_nulls=True),
    ),
    "two_tracked": (
        "",
        "STORED AS SCD TYPE 2 TRACK HISTORY ON * EXCEPT (b)",
        lambda events: scd2(events, tracked="a"),
    ),
}


def _events(chance: random.Random) -> list[Event]:
    values = [None, 1, 2]
    found = []
    for _ in range(chance.randrange(3, 9)):
        is_delete = chance.random() < 0.3
        key = chance.choice((None, 1))
        a, b = chance.choice(values), chance.choice(values)
        found.append(Event(key, a, b, is_delete, chance.randrange(1, 7)))
    return found + chance.sample(found, 1)  # one is delivered twice


def _text(run: int, e: Event) -> str:
    shown = ["NULL" if v is None else str(v) for v in (e.id, e.a, e.b)]
    return f"({run}, {', '.join(shown)}, '{'D' if e.is_delete else 'U'}', {e.sequence})"


def _play(seed: int, connect: Callable[[], Connection], forms: list[str]) -> None:
    chance = random.Random(seed)
    con = connect()
    con.execute("CREATE TABLE events (run INT, id INT, a INT, b INT, op STRING, n BIGINT)")
    for name in forms:
        ignore, stored, _ = FORMS[name]
        con.execute(
            f"CREATE FLOW f_{name} AS AUTO CDC INTO {name} FROM STREAM(events) KEYS (run, id) "
            f"{ignore} APPLY AS DELETE WHEN op = 'D' SEQUENCE BY n "
            f"COLUMNS * EXCEPT (op, n) {stored}"
        )
    runs: list[list[Event]] = []
    commits: list[list[str]] = [[] for _ in range(COMMITS)]
    for run in range(RUNS):
        # Every other run has the events of the one before, in another order and other batches.
        events = list(runs[-1]) if run % 2 else _events(chance)
        chance.shuffle(events)
        runs.append(events)
        for event in events:
            chance.choice(commits).append(_text(run, event))
    for commit in commits:
        con.execute("INSERT INTO events VALUES " + ", ".join(commit))
    for name in forms:
        wanted = Counter(
            (run, *row) for run, events in enumerate(runs) for row in FORMS[name][2](events)
        )
        found = Counter(con.execute(f"SELECT * FROM {name}").fetchall())
        for run in sorted({row[0] for row in (wanted - found) | (found - wanted)})[:1]:
            of_run = [r for r in found.elements() if r[0] == run]
            want = [r for r in wanted.elements() if r[0] == run]
            pytest.fail(f"seed {seed}, {name}: {runs[run]} gave {of_run}, wanted {want}")


@pytest.mark.slow
def test_a_fresh_seed(connect: Callable[[], Connection]) -> None:
    """Another one each time, and two other forms; a failure prints the seed."""
    chance = random.SystemRandom()
    _play(chance.randrange(10**9), connect, chance.sample(sorted(FORMS), 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 7))
def test_many_seeds(seed: int, connect: Callable[[], Connection]) -> None:
    """The slow lane: every form on the same events."""
    _play(seed, connect, list(FORMS))


Grouped = tuple[int | None, ...]  # id, x, y, z, a, b: a orders x and y, b orders z


def _last(events: list[Grouped], sequence: int, columns: list[int]) -> list[int | None]:
    """The values of a group of columns: those of its last event, NULL being the least value."""
    ordered = [e for e in events if e[sequence] is not None]
    if not ordered:
        return [None for _ in columns]
    last = max(ordered, key=lambda e: [(e[i] is not None, e[i] or 0) for i in (sequence, *columns)])
    return [last[i] for i in columns]


def _grouped(events: list[Grouped], *, ignore_nulls: bool) -> Counter[Grouped]:
    found: Counter[Grouped] = Counter()
    for key in {e[0] for e in events}:
        mine = [e for e in events if e[0] == key]
        values: list[int | None] = []
        for sequence, columns in ((4, [1, 2]), (5, [3])):
            units = [[c] for c in columns] if ignore_nulls else [columns]
            for unit in units:
                told = [e for e in mine if not ignore_nulls or e[unit[0]] is not None]
                values += _last(told, sequence, unit)
        found[(key, *values)] += 1
    return found


def test_groups_of_columns_with_sequences_of_their_own(con: Connection) -> None:
    """Each has the values of its last event; one without a sequence value leaves the group."""
    chance = random.Random(7)
    con.execute("CREATE TABLE src (run INT, id INT, x INT, y INT, z INT, a INT, b INT)")
    for name, ignore in (("whole", ""), ("partial", "IGNORE NULL UPDATES")):
        con.execute(
            f"CREATE FLOW f_{name} AS AUTO CDC INTO {name} FROM src KEYS (run, id) {ignore} "
            "SEQUENCE BY a FOR (x, y), b FOR (z) COLUMNS (run, id, x, y, z)"
        )
    runs: dict[int, list[Grouped]] = {run: [] for run in range(RUNS)}
    for _ in range(COMMITS):
        rows = []
        for run, events in runs.items():
            for _ in range(chance.randrange(1, 4)):
                a, b = chance.choice([(1, None), (None, 2), (3, 3), (2, 1), (3, 2), (1, 1)])
                event = (
                    chance.choice([None, 1]),
                    *(chance.choice([None, 1, 2]) for _ in range(3)),
                    a,
                    b,
                )
                events.append(event)
                rows.append((run, *event))
        con.append("src", rows)
        for name, ignores in (("whole", False), ("partial", True)):
            found: dict[int, Counter[Grouped]] = {}
            for run, *values in con.execute(f"SELECT * FROM {name}").fetchall():
                found.setdefault(run, Counter())[tuple(values)] += 1
            wanted = {r: _grouped(events, ignore_nulls=ignores) for r, events in runs.items()}
            assert found == wanted, name
