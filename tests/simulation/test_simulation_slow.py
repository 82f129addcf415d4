"""Thousands of seeds, and that together they take every rare branch."""

import random
from collections import Counter

import pytest

from tests.simulation.marks import MARKS
from tests.simulation.simulation import replay

SEEDS_COUNT = 3_000
SEEDS_MAX = 9_000
"""As many are run at most, as long as some mark is not hit: the rarest comes once in a thousand."""


@pytest.mark.slow
def test_thousands_of_seeds() -> None:
    """All of them hold, and each mark is hit by some; the counts are printed, rarest first."""
    first = random.SystemRandom().randrange(10**9)
    print(f"seeds from {first} on")
    hits = Counter(dict.fromkeys(MARKS, 0))
    for seed in range(first, first + SEEDS_MAX):
        if seed >= first + SEEDS_COUNT and all(hits.values()):
            break
        hits.update(replay(seed))
    for mark, count in reversed(hits.most_common()):
        print(f"{count:6} {mark}: {MARKS[mark]}")
    assert [mark for mark, count in hits.items() if count == 0] == []
