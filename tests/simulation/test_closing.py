"""A view that one process closes behind its last refresh while another replaces it."""

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.statements.objects.refresh_view import check_not_finished, refresh_view
from tests.helpers.items import changed
from tests.simulation import definitions as world
from tests.simulation.process import MemoryEngine, Process
from tests.simulation.test_feeds import VIEW, Disturbed, World, only_the_view

pytestmark = pytest.mark.thorough


def _worlds() -> Iterator[World]:
    """The view as its service is about to close it, again and again."""
    while True:
        with only_the_view() as simulation:
            made = World(simulation)
            made.store.clock_ms = made.last
            yield made


def _replace(engine: MemoryEngine) -> str:
    """CREATE OR REPLACE without refresh times, as its statement does it; gives what it is told."""
    old = engine.refresh_catalog().items[VIEW]

    def replaced(current: Catalog) -> Catalog:
        now = current.items[VIEW]
        check_not_finished(engine, now)
        text = world.DEFINED[VIEW].definition
        return current.with_items([changed(now, definition=text, revision=now.revision + 1)])

    try:
        engine.change_catalog(replaced)
        refresh_view(engine, old, full=True, replaced=True)
    except CtsqlError as problem:
        return problem.condition
    return "replaced"


def _check(there: World, told: str) -> None:
    """Who is not told otherwise has a view that goes on."""
    engine = Process(there.simulation, 9).start()
    is_closed = engine.schedules.is_closed(engine.refresh_catalog().items[VIEW])
    assert told in ("VIEW_FINISHED", "replaced")
    assert is_closed == (told == "VIEW_FINISHED")


def test_closed_while_it_is_replaced() -> None:
    """By a process that has looked at the catalog before, as a tick of many objects does."""
    told: Counter[str] = Counter()
    for at, there in zip(itertools.count(1), _worlds(), strict=False):
        newest = there.service.mint()
        process = Disturbed(there.simulation, 1)
        engine = process.start()

        def close(there: World = there, newest: int = newest) -> None:
            there.service.advance([there.view], newest)

        process.at, process.happens, process.steps = at, close, 0
        outcome = _replace(engine)
        if process.steps < at:
            break
        _check(there, outcome)
        told[outcome] += 1
    assert told["replaced"] > 2 * told["VIEW_FINISHED"] > 0
