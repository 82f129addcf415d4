"""Which outputs a tick of the service leaves alone, by an engine by hand."""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, ObjectKind
from ctsql.runtime.delta.log.table_log import LogWatch
from ctsql.runtime.service.service import Service
from tests.unit.planner.binding.catalog_by_hand import FEED, PAGES, item
from tests.unit.runtime.service.engine_by_hand import Engine

VIEW = ObjectKind.MATERIALIZED_VIEW
FED = item(VIEW, "fed", "key int", reads=[FEED])
PLAIN = item(ObjectKind.VIEW, "plain", "key int", definition="-", reads=[FED])
ABOVE = item(VIEW, "above", "key int", reads=[PLAIN])
PAGED = item(VIEW, "paged", "id int", reads=[PAGES])
ITEMS = (FEED, PAGES, FED, PLAIN, ABOVE, PAGED)


class Ticks:
    """A service over an engine by hand, tick by tick."""

    def __init__(self, *items: Item) -> None:
        self.engine = Engine(*items)
        self.service = Service(
            open_engine=lambda: nullcontext(self.engine),  # type: ignore[arg-type, return-value]
            stop=threading.Event(),
            on_event=lambda _: None,
        )

    def tick(self) -> list[str]:
        """The outputs that a tick brought up."""
        self.engine.advanced_names.clear()
        self.service.watch = LogWatch()  # something has moved
        self.service.run(once=True, interval=0)
        return list(self.engine.advanced_names)


def _a_source_moves(engine: Engine) -> None:
    engine.bound[FEED.id] += 1


def _somebody_writes_into_it(engine: Engine) -> None:
    engine.tables[FED.id].newest += 1


def _time_may_bring_something(engine: Engine) -> None:
    engine.timed_ids.add(FED.id)


def _definitions_change(engine: Engine) -> None:
    engine.catalog = Catalog.of(engine.catalog)


def _tasks_are_altered(engine: Engine) -> None:
    engine.timeline.tasks = {}


def _the_warehouse_is_opened_again(engine: Engine) -> None:
    engine.warehouse = object()


def _more_is_bound_than_told(engine: Engine) -> None:
    now = engine.timeline.now
    engine.mint_for = lambda _, **__: now  # type: ignore[method-assign]
    engine.timeline.now += 1


ABOVE_FED, ALL = ["fed", "above"], ["fed", "above", "paged"]


@pytest.mark.parametrize(
    ("change", "advanced", "later"),
    [
        (_a_source_moves, ABOVE_FED, []),
        (_somebody_writes_into_it, ABOVE_FED, []),
        (_time_may_bring_something, ABOVE_FED, ABOVE_FED),
        # What concerns all: nothing that was known of outputs holds.
        (_definitions_change, ALL, []),
        (_tasks_are_altered, ALL, []),
        (_the_warehouse_is_opened_again, ALL, []),
        (_more_is_bound_than_told, ALL, ALL),
    ],
)
def test_what_is_concerned_and_all_above_is_advanced(
    change: Callable[[Engine], None], advanced: list[str], later: list[str]
) -> None:
    """[moved-below]: through a plain view, too; the others are left alone."""
    ticks = Ticks(*ITEMS)
    assert ticks.tick() == ALL
    assert ticks.tick() == []
    change(ticks.engine)
    assert ticks.tick() == advanced
    assert ticks.tick() == later


def test_definitions_that_come_with_the_time_concern_all() -> None:
    """Views may have been replaced after the look: their newest T is asked for again."""
    ticks = Ticks(*ITEMS)
    ticks.tick()
    asked: list[list[str]] = []

    def mint(items: list[Item]) -> int:
        asked.append([i.name.name for i in items])
        if len(asked) == 1:
            _definitions_change(ticks.engine)
        return int(ticks.engine.timeline.now)

    ticks.engine.mint_for = mint  # type: ignore[method-assign, assignment]
    assert ticks.tick() == ["fed", "above", "paged"]
    assert asked == [[], ["fed", "above", "paged"]]


def test_while_a_task_is_suspended_nothing_is_at_rest() -> None:
    """What reads it is brought as far as it is."""
    ticks = Ticks(*ITEMS)
    suspended = [FED.id]
    ticks.engine.timeline.suspended = lambda: suspended
    for _ in range(2):
        assert ticks.tick() == ["fed", "above", "paged"]
    suspended[:] = ["one that was dropped"]
    ticks.tick()
    assert ticks.tick() == []


def test_whoever_writes_is_looked_at_once_more() -> None:
    """[rests-as-looked-at]: a foreign commit may have come beside its own."""
    ticks = Ticks(*ITEMS)
    advance = ticks.engine.advance_one

    def write(output: Item, until: int, **given: object) -> None:
        advance(output, until, **given)  # type: ignore[arg-type]
        if output is FED and ticks.engine.tables[FED.id].newest < 2:
            ticks.engine.tables[FED.id].newest += 1

    ticks.engine.advance_one = write  # type: ignore[method-assign, assignment]
    assert ticks.tick() == ["fed", "above", "paged"]
    assert ticks.tick() == ["fed", "above"]
    assert ticks.tick() == ["fed", "above"]
    assert ticks.tick() == []


def test_a_failed_output_is_not_at_rest_nor_what_reads_it() -> None:
    """When it is mended, what was waiting for it is brought up, although no source moved since."""
    ticks = Ticks(*ITEMS)
    ticks.tick()
    problem = error("NOT_A_DELTA_TABLE", location="file:/w", detail="", hint="")
    ticks.engine.tables[FED.id].problem = problem
    _a_source_moves(ticks.engine)
    for _ in range(2):
        with pytest.raises(CtsqlError):
            ticks.tick()
        assert ticks.engine.advanced_names == []
        troubles = ticks.service.troubles
        ticks.service.troubles = {k: replace(t, tried_at=0.0) for k, t in troubles.items()}
    ticks.engine.tables[FED.id].problem = None
    assert ticks.tick() == ["fed", "above"]
    assert ticks.tick() == []


def test_a_source_that_is_not_there_is_told_at_each_tick() -> None:
    """By who reads it; what is over other sources is left alone."""
    ticks = Ticks(*ITEMS)
    ticks.tick()
    ticks.engine.tables[FEED.id].problem = error(
        "NOT_A_DELTA_TABLE", location="file:/w", detail="", hint=""
    )
    for _ in range(2):
        assert ticks.tick() == ["fed", "above"]


def test_a_tick_that_ended_early_leaves_nothing_at_rest_that_it_was_to_do() -> None:
    """The next one does it, although no source has moved meanwhile."""
    ticks = Ticks(*ITEMS)
    ticks.tick()
    _a_source_moves(ticks.engine)
    advance = ticks.engine.advance_one

    def cancelled(output: Item, until: int, **given: object) -> None:
        raise error("STATEMENT_CANCELLED")

    ticks.engine.advance_one = cancelled  # type: ignore[method-assign, assignment]
    with pytest.raises(CtsqlError):
        ticks.tick()
    ticks.engine.advance_one = advance  # type: ignore[method-assign]
    assert ticks.tick() == ["fed", "above"]


def test_a_view_from_a_later_time_is_not_at_rest() -> None:
    """It is known from a T on that is not bound yet, and has something to do then."""
    later = replace(FED, created_at=9)
    ticks = Ticks(FEED, later)
    for _ in range(2):
        assert ticks.tick() == ["fed"]
    ticks.engine.timeline.now = 9
    assert ticks.tick() == ["fed"]
    assert ticks.tick() == []
