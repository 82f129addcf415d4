"""Runs work in a background thread, so that Ctrl-C can interrupt it.

Ctrl-C reaches the main thread only, and does not interrupt a call into the JVM. So the statement
runs in another thread, the main thread waits in small steps, and an interrupt asks the connection
to cancel. A second Ctrl-C abandons the thread, a daemon that does not keep the process alive.

Expected errors of the work (ctsql's, the system's) are raised in the waiting thread. Any other
error ends the thread and is raised as :class:`Defect`; the next work gets a new thread.
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
_STEP_SECONDS = 0.1


class Defect(Exception):
    """The work raised an unexpected error, which is the ``__cause__``."""


@dataclass(slots=True)
class Job:
    """Work given to a thread, and its outcome once ``done``."""

    work: Callable[[], Any]
    thread: "_Thread"
    done: threading.Event = field(default_factory=threading.Event)
    value: Any = None
    problem: Exception | None = None

    def result(self) -> Any:
        """Wait for the result of the work, or raise its error; Defect: it ended the thread.

        KeyboardInterrupt: Ctrl-C; the work continues.
        """
        while not self.done.wait(_STEP_SECONDS):
            if not self.thread.is_alive() and not self.done.is_set():
                raise Defect from self.thread.defect
        if self.problem is not None:
            raise self.problem
        return self.value


class Worker:
    """One thread that runs one job after the other."""

    def __init__(self) -> None:
        self._thread: _Thread | None = None

    def submit(self, work: Callable[[], Any]) -> Job:
        """Give work to the thread, without waiting."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = _Thread()
            self._thread.start()
        job = Job(work, self._thread)
        self._thread.jobs.put(job)
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
                self._thread = None
                raise
        return value


class _Thread(threading.Thread):
    """Runs jobs until the process ends, or a defect ends it."""

    def __init__(self) -> None:
        super().__init__(name="ctsql-work", daemon=True)
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.defect: BaseException | None = None
        _keep_defects()

    def run(self) -> None:
        while True:
            job = self.jobs.get()
            try:
                job.value = job.work()
            except (Error, OSError) as problem:
                job.problem = problem
            job.done.set()


def _keep_defects() -> None:
    """Install a hook that keeps the error which ends one of our threads."""
    before = threading.excepthook
    if getattr(before, "keeps_defects", False):
        return

    def keep(args: threading.ExceptHookArgs) -> None:
        if isinstance(args.thread, _Thread):
            args.thread.defect = args.exc_value
        else:
            before(args)

    keep.keeps_defects = True  # type: ignore[attr-defined]
    threading.excepthook = keep


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
