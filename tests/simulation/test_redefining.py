"""A task that gets other bodies under kills, races and lost answers; and that mistakes are noticed.

[definition-at-T] Nothing that comes meanwhile is left out, or run twice. What the task holds at T
follows from the definitions that the timeline says are in force: what each T brings in is there
once, by the body of that T. Each commit of the task is compared with that. A T that comes in
between the last look at the task and the definition is the old one's.
"""

import json
import re
from collections import Counter
from collections.abc import Callable

import pytest

from ctsql.catalog.cutovers import cutover_of
from ctsql.catalog.items import Item, read_item
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.statements.definitions import cutover
from ctsql.runtime.statements.definitions.cutover import advance_to_now, cut_over
from ctsql.runtime.tasks.progress import failure_of
from ctsql.runtime.warehouse.stores.catalog_store import CUTOVER, OBJECT
from ctsql.runtime.warehouse.times.timeline import TASKS, TaskState
from ctsql.runtime.warehouse.warehouse import Warehouse
from tests.simulation.memory_store import Bag, Folder, SentCommit
from tests.simulation.mistakes import check_noticed
from tests.simulation.model import CATALOG, TIMELINE, require
from tests.simulation.process import MemoryEngine
from tests.simulation.simulation import ran
from tests.simulation.swapped_task_runs import (
    SOURCE,
    TASK,
    Shape,
    Swapper,
    Swapping,
    body_fails,
    body_text,
    redefined,
    rows_at_place,
    shifted,
)

pytestmark = pytest.mark.thorough


class Redefining(Swapping):
    """One such run, with a task of one shape.

    Attributes:
        state: what is bound of the task. bodies: by number what a body adds.
        stood_count: how often it had failed when it was given another one.
    """

    def __init__(self, seed: int, shape: Shape = Shape.ALONE) -> None:
        super().__init__(seed, shape)
        self.processes = [Redefiner(self, p.number) for p in self.processes]
        self.state = TaskState()
        self.bodies = {0: 0}
        self.definition_count = 0

    def _committed(self, folder: Folder, commit: Commit, attempt: SentCommit) -> None:
        domains = dict(commit.domains)
        if folder.location == TIMELINE:
            told = json.loads(domains.get(TASKS) or "{}").get(TASK)
            if told is not None:
                self.state = TaskState(tuple((t, n) for t, n in told["revisions"]))
        if folder.location == CATALOG:
            # A number may be told twice before one of the two is in force: the last one counts.
            for text in (t for d, t in domains.items() if d.startswith(CUTOVER) and t is not None):
                (task,) = (i for i in cutover_of([("", text)]).items if i.id == TASK)
                self._note_bodies(task)
            text = domains.get(OBJECT + TASK)
            if text is not None:
                self._note_bodies(read_item(text))
        super()._committed(folder, commit, attempt)

    def _note_bodies(self, task: Item) -> None:
        for made in task.revisions:
            (added,) = map(int, set(re.findall(r"v \+ (\d+)", made.text)))
            in_force = {number for _, number in self.state.revisions}
            same = self.bodies.get(made.number, added)
            is_fixed = made.number in in_force
            require(same == added or not is_fixed, "two bodies of a number", made.number)
            self.bodies[made.number] = added

    def contents(self, at: int, place: int) -> Bag:
        """What the task holds at T in one of its places."""
        found: Bag = Counter()
        before = self.model.contents(SOURCE, self.created_at)
        for time, _ in self.model.bindings.get(SOURCE, []):
            if self.created_at < time <= at:
                now = self.model.contents(SOURCE, time)
                added = self.bodies[self.state.revision_at(time)]
                if body_fails(now - before, added):
                    break  # there it stands until it gets another body
                found += shifted(now - before, added)
                before = now
        return rows_at_place(found, place, self.shape)

    def _finish(self) -> None:
        for process in self.processes:
            process.stop()
        while any(f.late for f in self.store.folders.values()):
            self.environment.arrive()
        last = Redefiner(self, 95)  # so nothing is left of one that was killed
        last.redefine(last.start())
        super()._finish()


class Redefiner(Swapper):
    """A process that also gives the task another body."""

    simulation: Redefining

    def statement(self, engine: MemoryEngine) -> None:
        """Often one about the task."""
        more = [super(Swapper, self).statement, self.bring_up, self.redefine]
        what: Callable[[MemoryEngine], None] = self.simulation.rng.choices(more, [3, 3, 4])[0]
        self.doing = what.__name__
        what(engine)

    def redefine(self, engine: MemoryEngine) -> None:
        """CREATE OR REPLACE CONTINUAL TASK, as its statement does it without binding texts."""
        simulation = self.simulation
        engine.mint()
        simulation.made_count += 1
        text = body_text(TASK, 100 * simulation.made_count, simulation.shape)
        task = engine.relations.item(TASK)
        advance_to_now(engine, task)
        failure = failure_of(engine.warehouse, task)
        _STOOD[id(engine.warehouse)] = None if failure is None else failure.time
        simulation.stood_count += failure is not None
        cut_over(engine, redefined(engine, task, text))
        simulation.definition_count += 1


SEEDS, SEEDS_MAX = range(60), 400


@pytest.mark.parametrize("shape", Shape)
def test_each_t_is_of_the_body_in_force(shape: Shape) -> None:
    """Also those that come in while another body is put in force."""
    found = [ran(Redefining(seed, shape)) for seed in SEEDS]
    assert sum(r.definition_count for r in found) > 50
    assert sum(r.stood_count for r in found) > 0
    assert sum(len(r.state.revisions) > 1 for r in found) > 10


_STOOD: dict[int, int | None] = {}
"""By a process's warehouse: the T at which the task had failed before its definition changed."""


def _from_before(warehouse: Warehouse, _i: object, _s: object, now: int) -> int:
    return _STOOD.get(id(warehouse)) or now - 5


def _from_where_it_stood(warehouse: Warehouse, _i: object, _s: object, now: int) -> int:
    return _STOOD.get(id(warehouse)) or now


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "it counts from before it is bound": (cutover, "mended_from", _from_before),
    "two processes mend one T": (cutover, "mended_from", _from_where_it_stood),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    check_noticed(name, MUTATIONS[name], lambda seed: ran(Redefining(seed)), SEEDS_MAX)
