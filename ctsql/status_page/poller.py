"""One thread that polls the logs for all open pages.

It polls while somebody watches, at most every POLL_SECONDS, and for at most a tenth of the time:
after a slow poll the next one waits nine times as long. Without a watcher nothing is read. A poll
that hangs stops this thread alone: pages show the last state and report it, or answer 503 if there
is none.

A :class:`Poller` belongs to one event loop.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from ctsql.catalog.errors import CtsqlError
from ctsql.console.interruptible import Worker
from ctsql.runtime.log_reader import LogReader
from ctsql.status_page.lookup import Lookup
from ctsql.status_page.model import Details, HistoryPage, Overview

T = TypeVar("T")

POLL_SECONDS = 1.0
REST_FACTOR = 9.0  # so polls take a tenth of the time
ANSWER_SECONDS = 10.0  # how long a page waits for the first poll
PAGES_MAX = 50  # how many pages are cached until something changes
LATE_SECONDS = 2.0  # how long a page waits for a new poll if there is an older one


class Ask(Protocol):
    """Calls a function with a reader of logs, always the same one while it can be used."""

    def __call__(self, question: Callable[[LogReader], T]) -> T:
        """What the function returns."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of the last poll."""

    overview: Overview
    number: int  # grows by one with each change
    at: float  # seconds of the monotonic clock
    problem: str | None = None  # why later polls failed; None if none did


class Poller:
    """Polls the logs in its own thread."""

    def __init__(self, ask: Ask, lookup: Lookup) -> None:
        self._ask, self._lookup = ask, lookup
        self._worker = Worker()
        self._last_look: Look | None = None
        self._looking: asyncio.Task[Look] | None = None
        self._following: asyncio.Task[None] | None = None
        self._watchers = 0
        self._changed = asyncio.Event()
        self._pages: dict[str, asyncio.Task[object]] = {}  # by name, until something changes
        self._loop = asyncio.get_running_loop()
        self.is_closed = False

    def close(self) -> None:
        """End all waiting for changes; called by any thread."""

        def close() -> None:
            self.is_closed = True
            self._watchers = 0
            self._changed.set()

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(close)

    async def _in_thread(self, question: Callable[[LogReader], T]) -> T:
        """Ask in the thread; raises what the question raises."""
        return await asyncio.wrap_future(self._worker.submit(partial(self._ask, question)))

    # ---- all objects

    async def latest(self) -> Look:
        """The current or recent state; raises CtsqlError or TimeoutError if there is none yet."""
        last = self._last_look
        if last is not None and time.monotonic() - last.at < POLL_SECONDS:
            return last
        look = self._look()
        if last is None:
            return await asyncio.wait_for(asyncio.shield(look), ANSWER_SECONDS)
        try:
            return await asyncio.wait_for(asyncio.shield(look), LATE_SECONDS)
        except TimeoutError:
            age = time.monotonic() - last.at
            return replace(last, problem=f"The logs have not answered for {age:.0f} seconds.")

    def _look(self) -> "asyncio.Task[Look]":
        """The running poll, or a new one."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_now())
        return self._looking

    async def _look_now(self) -> Look:
        last = self._last_look
        try:
            overview = await self._in_thread(self._lookup.overview)
        except CtsqlError as problem:
            if last is None:
                raise
            look = replace(last, problem=problem.message)
        else:
            look = Look(overview, 0 if last is None else last.number, 0.0)
        if last is None or (look.overview, look.problem) != (last.overview, last.problem):
            look = replace(look, number=0 if last is None else last.number + 1)
            self._last_look = replace(look, at=time.monotonic())
            self._pages.clear()
            self._changed.set()
            self._changed = asyncio.Event()
        else:
            self._last_look = replace(look, at=time.monotonic())
        return self._last_look

    # ---- following

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Poll repeatedly inside."""
        self._watchers += 1
        if not self.is_followed:
            self._following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._watchers = max(self._watchers - 1, 0)

    @property
    def is_followed(self) -> bool:
        """Whether it polls: somebody watches, or did at the last poll."""
        return self._following is not None and not self._following.done()

    async def _follow(self) -> None:
        while self._watchers:
            start = time.monotonic()
            with suppress(CtsqlError):  # each page shows why, and the next poll may succeed
                await asyncio.shield(self._look())
            took = time.monotonic() - start
            await asyncio.sleep(max(POLL_SECONDS, REST_FACTOR * took))

    async def change_after(self, number: int, seconds: float) -> int:
        """Wait for another poll result, for some time; returns the number of the last one."""
        until = time.monotonic() + seconds
        while not self.is_closed and (wait_seconds := until - time.monotonic()) > 0:
            if self._last_look is not None and self._last_look.number != number:
                return self._last_look.number
            if self._following is not None and self._following.done():
                self._following.result()  # raises what ended it
            try:
                await asyncio.wait_for(self._changed.wait(), wait_seconds)
            except TimeoutError:
                break
        return number

    # ---- one page

    async def details(self, object_id: str) -> Details | None:
        """The page of one object; None if there is none with this id."""
        question = partial(self._lookup.details, object_id=object_id)
        return await self._page(f"object {object_id}", question)

    async def history(self) -> HistoryPage:
        """The page of the warehouse."""
        return await self._page("history", self._lookup.history)

    async def _page(self, name: str, question: Callable[[LogReader], T]) -> T:
        """An answer, cached until something changes (:attr:`Overview.besides`)."""
        await self.latest()
        task = self._pages.get(name)
        if task is None or (task.done() and task.exception() is not None):
            if len(self._pages) >= PAGES_MAX:
                self._pages.clear()
            task = self._pages[name] = asyncio.create_task(self._in_thread(question))
        answer: Awaitable[object] = asyncio.wait_for(asyncio.shield(task), ANSWER_SECONDS)
        return await answer  # type: ignore[return-value]
