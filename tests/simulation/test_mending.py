"""A definition that mends a failed T, beside a process that knew the Ts behind it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Catalog, Revision
from ctsql.runtime.statements.failed_task import retry_failed
from ctsql.runtime.tasks.progress import failure_of
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.timeline import TaskState
from tests.helpers.turns import turn_at
from tests.simulation import definitions as world
from tests.simulation.memory_log import Rows
from tests.simulation.process import MemoryEngine, Process
from tests.simulation.swapped_task_runs import SOURCE, TASK, Shape, Swapping, _text


@pytest.fixture
def world_of_two() -> Iterator[tuple[Swapping, MemoryEngine, MemoryEngine]]:
    """A world with a task, and two processes in it, to which nothing happens."""
    made = Swapping(1)
    with made._patched(), mock.patch.object(made, "_written_at"):  # that knows swaps only
        made._set_up()
        yield made, Process(made, 1).start(), Process(made, 2).start()


def _insert(simulation: Swapping, row: tuple[int, int]) -> None:
    environment = simulation.environment
    folder = environment.store.folders[SOURCE]
    environment._commit(folder, [environment._added(folder, [row])])


def _mend(engine: MemoryEngine) -> None:
    """ALTER CONTINUAL TASK ... AS, as its statement does it without binding texts."""
    engine.mint()
    failure = failure_of(engine.warehouse, engine.relations.item(TASK))
    assert failure is not None

    def add(current: Catalog) -> Catalog:
        task = current.items[TASK]
        newest = Revision(number=1, definition=_text(TASK, 100, Shape.ALONE), reads=task.reads)
        return current.with_item(task.with_revisions(newest, task.revisions))

    def put_in_force(state: TaskState, _now: int) -> TaskState:
        return replace(state, revisions=((failure.time, 1),))

    engine.catalog_store.change(add)
    engine.timeline.mint(engine.relations.sources(), tasks={TASK: put_in_force})
    engine.refresh_catalog()
    retry_failed(engine, engine.relations.item(TASK))


def test_who_knew_later_times_runs_them_by_the_new_definition(
    world_of_two: tuple[Swapping, MemoryEngine, MemoryEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's turn comes when the failed T is written, and no more."""
    simulation, engine, other = world_of_two
    for row in ((1, 1), (2, world.BAD), (3, 3), (4, 4)):
        _insert(simulation, row)
    known = other.mint()
    task = other.relations.item(TASK)
    with pytest.raises(CtsqlError, match="fail"):
        other.advance([task], known)
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
