"""Whether the simulation notices a mistake that is planted in the product."""

from collections.abc import Callable
from unittest import mock

import pytest

from ctsql.catalog.errors import CtsqlError

NOTICED: tuple[type[Exception], ...] = (AssertionError, CtsqlError)
"""What a run raises that says what is wrong."""


def check_noticed(
    name: str,
    mistake: tuple[object, str, object],
    replay: Callable[[int], object],
    seeds_max: int,
    first: int = 0,
    noticed: tuple[type[Exception], ...] = NOTICED,
) -> None:
    """A run of some seed must say what is wrong.

    Args:
        mistake: an owner, its attribute, and what stands there instead.
        first: the seed to begin with.
    """
    owner, attribute, mutant = mistake
    with mock.patch.object(owner, attribute, mutant):
        for seed in range(first, first + seeds_max):
            try:
                replay(seed)
            except noticed:
                return
    pytest.fail(f"{seeds_max} seeds did not notice that {name}")
