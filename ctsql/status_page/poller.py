"""Polls the logs for all open pages, in one thread.

A page or a browser that asks for the state causes a poll, at most every POLL_SECONDS, and for at
most a tenth of the time: after a slow poll the next one waits nine times as long. If nobody asks,
nothing is read. A poll that hangs stops this thread alone: pages show the last state and report it,
or answer 503 if there is none.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

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
    problem: str | None = None  # why later polls failed; None if none did


class Poller:
    """Polls the logs in its own thread; any thread may ask it."""

    def __init__(self, ask: Ask, lookup: Lookup) -> None:
        self._ask, self._lookup = ask, lookup
        self._worker = Worker()
        self._lock = threading.Lock()  # for the fields below
        self._last_look: Look | None = None
        self._looked_at = self._next_look_at = 0.0  # seconds of the monotonic clock
        self._looking: Future[Look] | None = None
        self._pages: dict[str, Future[Any]] = {}  # by name, until something changes

    def latest(self) -> Look:
        """The current or recent state; raises CtsqlError or TimeoutError if there is none yet."""
        with self._lock:
            last, looked_at = self._last_look, self._looked_at
            if last is not None and time.monotonic() < self._next_look_at:
                return last
            if self._looking is None or self._looking.done():
                self._looking = self._worker.submit(self._look)
            looking = self._looking
        try:
            return looking.result(ANSWER_SECONDS if last is None else LATE_SECONDS)
        except TimeoutError:
            if last is None:
                raise
            age = time.monotonic() - looked_at
            return replace(last, problem=f"The logs have not answered for {age:.0f} seconds.")

    def _look(self) -> Look:
        start = time.monotonic()
        last = self._last_look
        try:
            look = Look(self._ask(self._lookup.overview), 0 if last is None else last.number)
        except CtsqlError as problem:
            if last is None:
                raise
            look = replace(last, problem=problem.message)
        with self._lock:
            if last is not None and look != last:
                look = replace(look, number=last.number + 1)
                self._pages.clear()
            self._last_look, self._looked_at = look, time.monotonic()
            rest_seconds = max(POLL_SECONDS, REST_FACTOR * (self._looked_at - start))
            self._next_look_at = self._looked_at + rest_seconds
        return look

    def details(self, object_id: str) -> Details | None:
        """The page of one object; None if there is none with this id."""
        question = partial(self._lookup.details, object_id=object_id)
        return self._page(f"object {object_id}", question)

    def history(self) -> HistoryPage:
        """The page of the warehouse."""
        return self._page("history", self._lookup.history)

    def _page(self, name: str, question: Callable[[LogReader], T]) -> T:
        """An answer, cached until something changes (:attr:`Overview.besides`)."""
        self.latest()
        with self._lock:
            page = self._pages.get(name)
            if page is None or (page.done() and page.exception() is not None):
                if len(self._pages) >= PAGES_MAX:
                    self._pages.clear()
                page = self._pages[name] = self._worker.submit(partial(self._ask, question))
        answer: T = page.result(ANSWER_SECONDS)
        return answer
