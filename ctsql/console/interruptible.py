"""Runs work in a background thread, so that Ctrl-C can interrupt it.

Ctrl-C reaches the main thread only, and does not interrupt a call into the JVM. So the statement
runs in another thread, the main thread waits, and an interrupt asks the connection to cancel. A
second Ctrl-C abandons the thread, a daemon that does not keep the process alive.

Expected errors of the work (ctsql's, the system's) are raised in the waiting thread. Any other
error is raised there as :class:`Defect`.
"""

import asyncio
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

from ctsql.catalog.errors import Error

T = TypeVar("T")


class Defect(Exception):
    """The work raised an unexpected error, which is the ``__cause__``."""


@dataclass(slots=True)
class Job:
    """Work given to a thread, and its outcome once ``done``."""

    work: Callable[[], Any]
    done: threading.Event = field(default_factory=threading.Event)
    value: Any = None
    problem: BaseException | None = None

    def run(self) -> None:
        """Do the work; an error is kept for the thread that waits."""
        with self:
            self.value = self.work()

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> bool:
        self.problem = problem
        self.done.set()
        return True

    def result(self) -> Any:
        """Wait for the result of the work, or raise its error.

        KeyboardInterrupt: Ctrl-C; the work continues.
        """
        self.done.wait()
        if isinstance(self.problem, (Error, OSError)):
            raise self.problem
        if self.problem is not None:
            raise Defect from self.problem
        return self.value


class Worker:
    """One thread that runs one job after the other, until the process ends."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] | None = None

    def submit(self, work: Callable[[], Any]) -> Job:
        """Give work to the thread, without waiting."""
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(
                target=_run_jobs, args=(self._jobs,), name="ctsql-work", daemon=True
            ).start()
        job = Job(work)
        self._jobs.put(job)
        return job

    async def answer(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the thread, while the event loop goes on; as :meth:`Job.result` does."""
        loop, completion = asyncio.get_running_loop(), asyncio.Event()

        def note_end() -> T:
            try:
                return work()
            finally:
                loop.call_soon_threadsafe(completion.set)

        job = self.submit(note_end)
        await completion.wait()
        value: T = job.result()
        return value

    def run(self, work: Callable[[], T], cancel: Callable[[], None]) -> T:
        """Run ``work`` in the thread and wait for it, as :meth:`Job.result` does.

        ``cancel`` is called at the first Ctrl-C. Raises KeyboardInterrupt at the second.
        """
        job = self.submit(work)
        value: T
        try:
            value = job.result()
        except KeyboardInterrupt:
            try:
                cancel()
                value = job.result()
            except KeyboardInterrupt:
                self._jobs = None  # the thread is left to its work
                raise
        return value


def _run_jobs(jobs: "queue.SimpleQueue[Job]") -> None:
    while True:
        jobs.get().run()


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
