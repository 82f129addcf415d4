"""Which times a subscription tells at once."""

import pytest

from ctsql.runtime.subscriptions import feed
from ctsql.runtime.subscriptions.feed import runs_of


@pytest.mark.parametrize(
    ("counts", "runs"),
    [
        ([], []),
        ([0], [[1]]),
        ([None], [[1]]),
        ([10], [[1]]),
        ([11], [[1]]),
        ([0, 0], [[1, 2]]),
        ([4, 6], [[1, 2]]),
        ([4, 7], [[1], [2]]),
        ([4, 7, 3], [[1], [2, 3]]),
        ([11, 0], [[1], [2]]),
        ([10, 0], [[1, 2]]),
        ([None, 0], [[1], [2]]),
        ([0, None, 0, 5], [[1], [2], [3, 4]]),
        ([1, 1, 1, 1], [[1, 2, 3], [4]]),
    ],
)
def test_times_are_told_in_runs(
    counts: list[int | None], runs: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten rows at once, three times; a time of unknown size is alone, one without rows is not."""
    monkeypatch.setattr(feed, "TIMES_AT_ONCE_MAX", 3)
    assert runs_of(dict(enumerate(counts, start=1)), 10) == runs
