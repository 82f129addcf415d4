"""Lets another process's turn come between two durable steps."""

import threading
from collections.abc import Callable

import pytest

from ctsql.runtime.log import fault_points


class Turn:
    """What is done once, at a fault point.

    Attributes:
        has_come: whether such a point was reached.
    """

    def __init__(self) -> None:
        self.has_come = False


def turn_at(
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    done: Callable[[], None],
    when: Callable[[], bool] = lambda: True,
) -> Turn:
    """Let something be done at the first of these points at which a condition holds."""
    turn = Turn()

    def reached(name: str) -> None:
        if name == point and not turn.has_come and when():
            turn.has_come = True
            done()

    monkeypatch.setattr(fault_points, "hooks", [reached])
    return turn


def beside(done: Callable[[], None]) -> Callable[[], None]:
    """The same in a thread of its own, which is waited for: locks of the caller's are not its."""

    def wait_for_it() -> None:
        thread = threading.Thread(target=done)
        thread.start()
        thread.join()

    return wait_for_it
