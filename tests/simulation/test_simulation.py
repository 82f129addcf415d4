"""Runs of the simulation: seeds that once found a defect, a fixed set, and a fresh one each time.

Replay a seed that failed with ``tests.simulation.simulation.replay(seed)``; it gives the same run
wherever it is run, and the failure tells the last steps.
"""

import random

import pytest

from tests.simulation.simulation import Simulation, replay

FIXED = range(60)
FRESH_COUNT = 5
FOUND = {
    50: "a failed first look at a log was taken for an empty log, so an upper went back",
    19: "a rival's mint between two looks at the timeline hid a commit from a strict read",
    12: "a full refresh bound a new T after what the view reads was brought up",
    39: "an error after a commit was in had its files deleted",
    69: "the state of a cleaned log was of a later version than the log was read from",
    577: "a failed look at an older commit of the timeline left its bindings out for ever",
}


@pytest.mark.parametrize("seed", FIXED)
def test_fixed_seed(seed: int) -> None:
    """Everything that must hold holds at every step of a run."""
    replay(seed)


@pytest.mark.parametrize("seed", FOUND, ids=FOUND.__getitem__)
def test_seed_that_found_a_defect(seed: int) -> None:
    """What was mended stays mended."""
    replay(seed)


def test_fresh_seeds() -> None:
    """Seeds that nobody ran before; printed, and named by a failure."""
    first = random.SystemRandom().randrange(10**9)
    print(f"fresh seeds: {first} .. {first + FRESH_COUNT - 1}")
    for seed in range(first, first + FRESH_COUNT):
        replay(seed)


def test_a_run_is_a_function_of_its_seed() -> None:
    """The same seed gives the same steps: else no failure could be looked into."""
    traces = []
    for _ in range(2):
        simulation = Simulation(7)
        simulation.run()
        traces.append((simulation.steps, list(simulation.trace), simulation.marks))
    assert traces[0] == traces[1]
    assert traces[0][0] > 0
