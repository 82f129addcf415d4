"""A definition that mends a failed T, beside a process that knew the Ts behind it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Definition, Item
from ctsql.runtime.statements.objects.failed_task import retry_failed, skip_failed
from ctsql.runtime.tasks.progress import failure_of, mended_from
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.times.timeline import TaskState
from tests.helpers.turns import turn_at
from tests.simulation import definitions as world
from tests.simulation.memory_log import Rows
from tests.simulation.process import MemoryEngine, Process
from tests.simulation.swapped_task_runs import SOURCE, TASK, Shape, Swapping, body_text


@pytest.fixture
def world_of_two() -> Iterator[tuple[Swapping, MemoryEngine, MemoryEngine]]:
    """A world with a task, and two processes in it, to which nothing happens."""
    made = Swapping(1)
    with made.patched(), mock.patch.object(made, "_written_at"):  # that knows swaps only
        made.set_up()
        yield made, Process(made, 1).start(), Process(made, 2).start()


def _insert(simulation: Swapping, row: tuple[int, int]) -> None:
    environment = simulation.environment
    folder = environment.store.folders[SOURCE]
    environment.commit(folder, [environment.added(folder, [row])])


def _failed(simulation: Swapping, other: MemoryEngine, *rows: tuple[int, int]) -> tuple[int, Item]:
    """The newest T and the task, which fails at one of these rows, each with a T of its own."""
    for row in rows:
        _insert(simulation, row)
    now, task = other.mint(), other.relations.item(TASK)
    with pytest.raises(CtsqlError, match="fail"):
        other.advance([task], now)
    return now, task


def _mend(engine: MemoryEngine, meanwhile: Callable[[], object] = lambda: None) -> None:
    """ALTER CONTINUAL TASK ... AS, as its statement does it without binding texts.

    Args:
        meanwhile: what happens when it has looked where the task failed.
    """
    engine.mint()
    assert failure_of(engine.warehouse, engine.relations.item(TASK)) is not None
    meanwhile()

    def add(current: Catalog) -> Catalog:
        task = current.items[TASK]
        newest = Definition(number=1, text=body_text(TASK, 100, Shape.ALONE), reads=task.reads)
        return current.with_items([replace(task, definition=newest, earlier=task.revisions)])

    def put_in_force(state: TaskState, now: int) -> TaskState:
        task = engine.relations.item(TASK)
        begin = mended_from(engine.warehouse, task, state, now)
        return replace(state, revisions=((begin, 1),))

    engine.catalog_store.change(add)
    engine.timeline.mint(engine.relations.sources(), tasks={TASK: put_in_force})
    engine.refresh_catalog()
    retry_failed(engine, engine.relations.item(TASK))


def test_who_knew_later_times_runs_them_by_the_new_definition(
    world_of_two: tuple[Swapping, MemoryEngine, MemoryEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's turn comes when the failed T is written, and no more."""
    simulation, engine, other = world_of_two
    known, task = _failed(simulation, other, (1, 1), (2, world.BAD), (3, 3), (4, 4))
    turn = turn_at(
        monkeypatch,
        "output_committed",
        lambda: other.advance([task], known),
        when=lambda: failure_of(other.warehouse, task) is None,
    )
    _mend(engine)
    assert turn.has_come
    read: Any = StoredSources(engine.warehouse).contents(TASK, engine.timeline.now)
    assert isinstance(read, Rows)
    made = {row for row in read.bag() if row[0] in (1, 2, 3, 4)}
    assert {(1, 1), (2, world.BAD + 100), (3, 103), (4, 104)} <= made


@pytest.mark.parametrize("next_value", [3, world.BAD])
def test_what_is_skipped_meanwhile_is_not_mended(
    world_of_two: tuple[Swapping, MemoryEngine, MemoryEngine], next_value: int
) -> None:
    """The Ts that are run then are of the old definition, for who asks later by which one, too."""
    simulation, engine, other = world_of_two
    now, task = _failed(simulation, other, (1, 1), (2, world.BAD), (3, next_value), (4, 4))

    def skip_and_go_on() -> None:
        skip_failed(other, task)
        with suppress(CtsqlError):
            other.advance([task], now)

    _mend(engine, skip_and_go_on)
    times = [b.time for b in engine.timeline.bindings_between(SOURCE, -1, engine.timeline.now)]
    by = [engine.timeline.task(TASK).revision_at(t) for t in times[-4:]]
    read: Any = StoredSources(engine.warehouse).contents(TASK, engine.timeline.now)
    made = {row for row in read.bag() if row[0] in (1, 2, 3, 4)}
    if next_value == world.BAD:  # it stands there now, and that is what is mended
        assert by == [0, 0, 1, 1]
        assert made == {(1, 1), (3, world.BAD + 100), (4, 104)}
    else:
        assert by == [0, 0, 0, 0]
        assert made == {(1, 1), (3, 3), (4, 4)}
