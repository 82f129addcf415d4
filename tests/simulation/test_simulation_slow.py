"""Thousands of seeds, and that together they take every rare branch."""

import random
from collections import Counter

import pytest

from tests.simulation.marks import MARKS
from tests.simulation.simulation import replay

SEEDS_COUNT = 3_000


@pytest.mark.slow
def test_thousands_of_seeds() -> None:
    """All of them hold, and each mark is hit by some; the counts are printed, rarest first."""
    first = random.SystemRandom().randrange(10**9)
    print(f"seeds: {first} .. {first + SEEDS_COUNT - 1}")
    hits = Counter(dict.fromkeys(MARKS, 0))
    for seed in range(first, first + SEEDS_COUNT):
        hits.update(replay(seed))
    for mark, count in reversed(hits.most_common()):
        print(f"{count:6} {mark}: {MARKS[mark]}")
    assert [mark for mark, count in hits.items() if count == 0] == []
