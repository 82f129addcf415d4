"""A view that is about to be followed is written at every T, also by processes that just tick."""

from collections.abc import Iterator

import pytest

from ctsql.runtime.statements.objects.refresh_view import EXPECTED_MS, expect_follower
from tests.simulation.process import MemoryEngine, Process
from tests.simulation.simulation import Simulation
from tests.simulation.test_feeds import SOURCE, VIEW, only_the_view


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """A world with a view that nobody follows, and to which nothing happens."""
    with only_the_view() as made:
        made.set_up()
        yield made


def _times_written(simulation: Simulation, engine: MemoryEngine) -> tuple[int, int]:
    """How many Ts a tick writes of the view after some commits of its source; and how many those.

    Each commit brings a row of a kind that there is not.
    """
    view, environment = engine.relations.item(VIEW), simulation.environment
    before = len(engine.relations.output(view).entries(since=0))
    for number in range(3):
        folder = simulation.store.folders[SOURCE]
        row = (simulation.steps + 1000 + folder.newest, number)
        environment.commit(folder, [environment.added(folder, [row])])
    engine.advance([view], engine.mint())
    return len(engine.relations.output(view).entries(since=0)) - before, 3


def test_every_t_is_written_for_who_will_follow(simulation: Simulation) -> None:
    """From the note on, for a day, whoever ticks; before and after it only the newest T."""
    maker, service = Process(simulation, 1).start(), Process(simulation, 2).start()
    service.mint()
    _times_written(simulation, service)  # its first, too
    assert _times_written(simulation, service)[0] == 1
    maker.mint()
    expect_follower(maker, [maker.relations.item(VIEW)])
    written, commits = _times_written(simulation, service)
    assert written == commits
    simulation.store.clock_ms += 2 * EXPECTED_MS
    service.mint_fresh()
    assert _times_written(simulation, service)[0] == 1


def test_what_is_followed_already_is_not_noted(simulation: Simulation) -> None:
    """A second note would be a commit of the catalog for nothing."""
    engine = Process(simulation, 1).start()
    engine.mint()
    commits = [engine.catalog_store.table.version()]
    for _ in range(2):
        expect_follower(engine, [engine.relations.item(VIEW)])
        commits.append(engine.catalog_store.table.version())
    assert commits[0] < commits[1] == commits[2]
