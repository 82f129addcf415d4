"""Random bodies over random histories give what the model gives."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from ctsql.api import Connection
from tests.properties.model import CROSSINGS, STATEMENTS, Rows, outputs, task
from tests.properties.random_changes import change
from tests.scenarios.runner import assert_rows

TASKS_PER_SEED = 4
CHANGES = 5
SLOW_SEEDS = (1, *range(100, 140))
SLOW_SEEDS_OF_OUTPUTS = range(200, 212)


def _play(seed: int, connect: Callable[[], Connection]) -> None:
    chance = random.Random(seed)
    con = connect()
    con.execute("CREATE TABLE feed (k INT, v INT); CREATE TABLE side (k INT, v INT)")
    bodies = [chance.sample(STATEMENTS, chance.randrange(1, 5)) for _ in range(TASKS_PER_SEED)]
    iterations = [chance.choice((1, 1, 1, 3)) for _ in bodies]
    sides = [any(s.reads_side for s in body) or chance.random() < 0.2 for body in bodies]
    for number, body in enumerate(bodies):
        name = f"task_{number}"
        text = "; ".join(s.sql.format(task=name) for s in body)
        con.execute(
            f"CREATE CONTINUAL TASK {name} (k INT, v INT)"
            f" ON INPUT feed{', side' if sides[number] else ''}"
            f" WITH (ITERATIONS = {iterations[number]}) AS ({text})"
        )
    held: Rows = Counter()
    changes = []
    for turn in range(CHANGES):
        changes.append(change(con, chance, held))
        if turn == CHANGES // 2:  # the first half tick by tick, the second as a backlog
            for number in range(TASKS_PER_SEED):
                con.execute(f"SELECT * FROM task_{number}")
            con.close()
            con = connect()
    for number, body in enumerate(bodies):
        rows = task(body, changes, iterations=iterations[number], follows_side=sides[number])
        wanted = rows.elements()
        found = con.execute(f"SELECT * FROM task_{number}").fetchall()
        said = (
            f"seed {seed}, {iterations[number]} iterations, side {sides[number]}: "
            + "; ".join(s.sql for s in body)
            + f" over {changes}"
        )
        assert_rows(found, wanted, said)


def test_a_fresh_seed(connect: Callable[[], Connection]) -> None:
    """Another one each time; a failure prints the seed."""
    _play(random.SystemRandom().randrange(10**9), connect)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_many_seeds(seed: int, connect: Callable[[], Connection]) -> None:
    """The same bodies and histories in every run."""
    _play(seed, connect)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS_OF_OUTPUTS)
def test_two_outputs(seed: int, connect: Callable[[], Connection]) -> None:
    """A body over two outputs, some statements of which read the one and write the other."""
    chance = random.Random(seed)
    con = connect()
    con.execute("CREATE TABLE feed (k INT, v INT); CREATE TABLE side (k INT, v INT)")
    body = [
        (0, STATEMENTS[0]),
        *((chance.randrange(2), s) for s in chance.sample(STATEMENTS, 2)),
        *((chance.randrange(2), s) for s in chance.sample(CROSSINGS, 2)),
    ]
    chance.shuffle(body)
    iterations = chance.choice((1, 1, 3))
    text = "; ".join(s.sql.format(task="ab"[i], other="ba"[i]) for i, s in body)
    con.execute(
        "CREATE CONTINUAL TASK task OUTPUTS (a (k INT, v INT), b (k INT, v INT))"
        f" ON INPUT feed, side WITH (ITERATIONS = {iterations}) AS ({text})"
    )
    held: Rows = Counter()
    changes = []
    for turn in range(CHANGES):
        changes.append(change(con, chance, held))
        if turn < CHANGES // 2:
            con.execute(f"SELECT * FROM {chance.choice('ab')}")
    wanted = outputs(body, changes, iterations=iterations, follows_side=True)
    for name, rows in zip("ab", wanted, strict=True):
        found = con.execute(f"SELECT * FROM {name}").fetchall()
        said = f"seed {seed}, {iterations} iterations, {name}: {text} over {changes}"
        assert_rows(found, rows.elements(), said)
