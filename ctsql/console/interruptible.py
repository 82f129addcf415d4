"""Runs work in a background thread, so that Ctrl-C can interrupt it.

Ctrl-C reaches the main thread only, and does not interrupt a call into the JVM. So the statement
runs in another thread, the main thread waits, and an interrupt asks the connection to cancel. A
second Ctrl-C abandons the thread, a daemon that does not keep the process alive.

Expected errors of the work (ctsql's, the system's) are raised in the waiting thread. Any other
error is raised there as :class:`Defect`.
"""

import queue
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from types import FrameType
from typing import Any, TypeVar

from ctsql.catalog.errors import Error

T = TypeVar("T")


class Defect(Exception):
    """The work raised an unexpected error, which is the ``__cause__``."""


def result_of(future: "Future[T]") -> T:
    """Wait for the result of the work, or raise its error.

    Raises:
        Defect: an unexpected error of the work.
        KeyboardInterrupt: Ctrl-C; the work continues.
    """
    problem = future.exception()
    if problem is None or isinstance(problem, (Error, OSError)):
        return future.result()
    raise Defect from problem


class Worker:
    """One thread that does one work after the other, until the process ends."""

    def __init__(self) -> None:
        self._works: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] | None = None

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        """Give work to the thread, without waiting."""
        if self._works is None:
            # Not an executor: a process waits for an executor's threads before it ends.
            self._works = queue.SimpleQueue()
            Thread(target=_do, args=(self._works,), name="ctsql-work", daemon=True).start()
        future: Future[T] = Future()
        self._works.put((future, work))
        return future

    def run(self, work: Callable[[], T], cancel: Callable[[], None]) -> T:
        """Run ``work`` in the thread and wait for it, as :func:`result_of` does.

        ``cancel`` is called at the first Ctrl-C. Raises KeyboardInterrupt at the second.
        """
        future = self.submit(work)
        try:
            return result_of(future)
        except KeyboardInterrupt:
            try:
                cancel()
                return result_of(future)
            except KeyboardInterrupt:
                self._works = None  # the thread is left to its work
                raise


def _do(works: "queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]]") -> None:
    while True:
        future, work = works.get()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as problem:  # noqa: BLE001 - raised where it is waited for
                future.set_exception(problem)


@contextmanager
def handle_signals(
    handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals
) -> Iterator[None]:
    """Handle some signals inside the block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
