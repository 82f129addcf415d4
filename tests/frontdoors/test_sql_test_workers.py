"""Tests in SQL are run by several workers: each once, told in order, until one cannot go on."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.testing import command
from ctsql.testing.command import outcomes_of, workers_for

CASES: Any = range(5)


def _workers(count: int, cancel: Any = lambda: None) -> Any:
    connection = SimpleNamespace(cancel=cancel)
    return [SimpleNamespace(folder=None, connection=connection)] * count


def test_outcomes_are_told_in_the_order_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first test ends after all others, which the second worker has run meanwhile."""
    rest_is_done = threading.Event()

    def run_case(case: int, *_: object) -> str:
        if case == 0:
            assert rest_is_done.wait(10)
        if case == 4:
            rest_is_done.set()
        return f"outcome {case}"

    monkeypatch.setattr(command, "run_case", run_case)
    assert list(outcomes_of(CASES, _workers(2))) == [f"outcome {n}" for n in range(5)]


def test_no_test_begins_after_a_worker_has_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done before is told, and what the other worker runs is cancelled."""
    begun, is_cancelled, told = list[int](), threading.Event(), list[Any]()

    def run_case(case: int, *_: object) -> str:
        begun.append(case)
        if case == 1:
            raise OSError("the disk is full")
        assert case == 0 or is_cancelled.wait(10)
        return f"outcome {case}"

    monkeypatch.setattr(command, "run_case", run_case)
    with pytest.raises(OSError, match="the disk is full"):
        told += outcomes_of(CASES, _workers(2, is_cancelled.set))
    assert told == ["outcome 0"]
    assert len(begun) < 5


@pytest.mark.parametrize(
    ("cases", "cores", "workers"),
    [(1, 8, 1), (19, 8, 1), (20, 8, 2), (100, 2, 2), (100, 8, 4), (100, 1, 1), (100, None, 1)],
)
def test_how_many_workers(
    cases: int, cores: int | None, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert workers_for(cases) == workers
