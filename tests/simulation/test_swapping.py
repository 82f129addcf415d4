"""A task that is replayed under kills, races and lost answers; and that mistakes are noticed."""

import pytest

from ctsql.catalog.items import Item
from ctsql.runtime.statements.definitions import cutover
from ctsql.runtime.tasks import runs, sink
from tests.simulation.mistakes import check_noticed
from tests.simulation.simulation import ran
from tests.simulation.swapped_task_runs import Shape, Swapping

pytestmark = pytest.mark.thorough

SEEDS = (*range(60), 83, 309, 627, 870, 1626, 1990)
"""In 83 and 309 another definition comes into force while older ones are being forgotten; in 627 a
replacement leaves the catalog, as the answer to its swap is lost, and is there again; in 870 a
cutover is bound between looks at the catalog and at the timeline; in 1626 and 1990 a replacement
goes while a process is about to run it."""
SEEDS_MAX = 60


def test_every_commit_is_of_what_was_decided() -> None:
    """Before the swap all is old, from it on all is new; nothing that came meanwhile is lost."""
    found = [ran(Swapping(seed)) for seed in SEEDS]
    assert sum(r.written_count for r in found) > 30
    assert sum(len(r.swaps) for r in found) > 30
    assert sum(r.loss_count for r in found) > 0
    assert sum(r.stood_count for r in found) > 0
    assert sum(r.applied_count for r in found) > 20


@pytest.mark.parametrize(
    ("shape", "seeds"),
    [
        (Shape.OUTPUTS, range(60)),
        (Shape.QUARANTINE, range(120)),
        pytest.param(Shape.OUTPUTS, range(60, 240), marks=pytest.mark.slow),
    ],
)
def test_all_that_a_task_writes_is_swapped_at_one_t(shape: Shape, seeds: range) -> None:
    """Its outputs, and its quarantine, hold at every T what was decided, also when it is killed.

    The slow lane has more seeds of the outputs.
    """
    found = [ran(Swapping(seed, shape)) for seed in seeds]
    assert sum(r.written_count for r in found) > 20
    assert sum(r.loss_count for r in found) > 0
    assert sum(r.stood_count for r in found) > 0
    assert sum(r.applied_count for r in found) > 10


def _newest_from_now(_b: object, after: Item, _begin: int, now: int) -> tuple[tuple[int, int], ...]:
    return ((now, after.revision),)


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "the new body is in force without what it makes of the past": (
        cutover,
        "new_starts",
        _newest_from_now,
    ),
    "the first rows are left out": (runs, "snapshot_inputs", lambda _: ["s0"]),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    check_noticed(name, MUTATIONS[name], lambda seed: ran(Swapping(seed)), SEEDS_MAX)


def test_a_quarantine_that_stays_is_caught() -> None:
    """A swap that leaves what the old body had set aside is noticed."""
    mistake = (sink, "taken_over", lambda *_: (None, None))
    name = "a quarantine stays as it was"
    check_noticed(name, mistake, lambda s: ran(Swapping(s, Shape.QUARANTINE)), SEEDS_MAX)
