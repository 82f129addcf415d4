"""A view that another process writes for the last time while a subscription to it looks."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import pytest

from ctsql.runtime.subscriptions.cursors import Position
from ctsql.runtime.subscriptions.feed import Feed
from tests.helpers.items import changed
from tests.simulation import definitions as world
from tests.simulation.process import MemoryEngine, Process
from tests.simulation.simulation import Simulation

pytestmark = pytest.mark.thorough

VIEW, SOURCE = "kinds", "s0"
LOOKS = 3


@dataclass
class Disturbed(Process):
    """One to which nothing happens but something before the call to the store with a number."""

    at: int = 0
    steps: int = 0
    happens: Callable[[], None] = lambda: None

    def step(self, call: str, where: str) -> None:
        """Before every call to the store."""
        self.steps += 1
        if self.steps == self.at:
            self.happens()


def _is_over(engine: MemoryEngine, feed: Feed, times: list[int]) -> bool:
    """Look, and add the times at which something is delivered; does the subscription end?"""
    due = feed.look(engine, threading.Event())
    is_over = feed.is_over(engine)
    times += due
    feed.advance_past(max([feed.until, *due]))
    return is_over


@contextmanager
def only_the_view() -> Iterator[Simulation]:
    """A simulation with this view alone, and to which nothing happens."""
    made, names = Simulation(1), world.with_reads([VIEW])
    with made.patched(), mock.patch.object(world, "chosen", return_value=names):
        yield made


@dataclass
class World:
    """The view, which its service has written for the first of two refresh times.

    Attributes:
        first, last: the refresh times.
    """

    simulation: Simulation

    def __post_init__(self) -> None:
        self.simulation.set_up()
        self.store = self.simulation.store
        self.store.on_commit = lambda *_: None
        self.service = Process(self.simulation, 2).start()
        self.first = self.service.mint() + 1_000
        self.last = self.first + 1_000
        schedule = f"WITH (REFRESH AT {self.first}, REFRESH AT {self.last}, "
        text = world.DEFINED[VIEW].definition.replace("WITH (", schedule)
        self.view = changed(self.service.refresh_catalog().items[VIEW], definition=text)
        self.service.change_catalog(lambda now: now.with_items([self.view]))
        self.write(self.first)

    def write(self, time: int) -> None:
        """Insert a row of a kind that there is not, and write the view at a refresh time."""
        folder, environment = self.store.folders[SOURCE], self.simulation.environment
        row = (1000 + folder.newest, 1)
        environment.commit(folder, [environment.added(folder, [row])])
        self.store.clock_ms = time
        self.service.advance([self.view], self.service.mint())

    def close(self) -> None:
        """Write it for the last time."""
        self.write(self.last)
        assert self.service.schedules.is_closed(self.view)


@pytest.mark.parametrize("passive", [False, True])
def test_the_last_refresh_is_delivered(passive: bool) -> None:
    """Whenever another process writes it, and closes the view."""
    for at in itertools.count(1):
        with only_the_view() as simulation:
            there = World(simulation)
            process = Disturbed(simulation, 1)
            engine = process.start()
            item = engine.refresh_catalog().items[VIEW]
            position = Position(there.first)
            feed = Feed(engine, item, position=position, end=None, place=None, passive=passive)
            process.at, process.happens, process.steps = at, there.close, 0
            times: list[int] = []
            is_over = any(_is_over(engine, feed, times) for _ in range(LOOKS))
            if process.steps < at:
                break
            assert is_over or any(_is_over(engine, feed, times) for _ in range(LOOKS))
            assert times == [there.first, there.last]
