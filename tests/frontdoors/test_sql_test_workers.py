"""Tests in SQL are run by several workers: each once, told in order, until one cannot go on."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.testing import command
from ctsql.testing.command import workers_for


def _warehouses() -> Any:
    return SimpleNamespace(folder=None)


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
    told: list[Any] = []
    run = command.CommandRun(range(5), told.append)  # type: ignore[arg-type]
    threads = [threading.Thread(target=run.work, args=(_warehouses(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert told == run.outcomes == [f"outcome {n}" for n in range(5)]


def test_a_worker_that_raises_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first test fails while the second worker is in number 4: no other test begins then.

    What was done is told, and number 4 when it ends.
    """
    last_has_begun, is_cancelled = threading.Event(), threading.Event()

    def run_case(case: int, *_: object) -> str:
        if case == 0:
            assert last_has_begun.wait(10)
            raise OSError("the disk is full")
        if case == 4:
            last_has_begun.set()
            assert is_cancelled.wait(10)
        return f"outcome {case}"

    told: list[Any] = []
    run = command.CommandRun(range(6), told.append)  # type: ignore[arg-type]
    other = threading.Thread(target=run.work, args=(_warehouses(),))

    def begin_other(case: int, *rest: object) -> str:
        if case == 0:
            other.start()
        return run_case(case, *rest)

    monkeypatch.setattr(command, "run_case", begin_other)
    with pytest.raises(OSError, match="the disk is full"):
        run.work(_warehouses())
    assert told == ["outcome 1", "outcome 2", "outcome 3"]
    is_cancelled.set()
    other.join(20)
    assert told == run.outcomes == [f"outcome {n}" for n in range(1, 5)]


@pytest.mark.parametrize(
    ("cases", "cores", "workers"),
    [(1, 8, 1), (19, 8, 1), (20, 8, 2), (100, 2, 2), (100, 8, 4), (100, 1, 1), (100, None, 1)],
)
def test_how_many_workers(
    cases: int, cores: int | None, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert workers_for(cases) == workers
