"""A task that gets other bodies under kills, races and lost answers; and that mistakes are noticed.

[definition-at-T] Nothing that comes meanwhile is left out, or run twice.
"""

import pytest

from ctsql.runtime.statements.definitions import cutover
from tests.simulation.mistakes import check_noticed
from tests.simulation.redefined_task_runs import Redefining
from tests.simulation.simulation import ran
from tests.simulation.swapped_task_runs import Shape

pytestmark = pytest.mark.thorough

SEEDS, SEEDS_MAX = range(60), 400


@pytest.mark.parametrize("shape", Shape)
def test_each_t_is_of_the_body_in_force(shape: Shape) -> None:
    """Also those that come in while another body is put in force."""
    found = [ran(Redefining(seed, shape)) for seed in SEEDS]
    assert sum(r.definition_count for r in found) > 50
    assert sum(r.stood_count for r in found) > 0
    assert sum(len(r.state.revisions) > 1 for r in found) > 10


def _from_before(_w: object, _i: object, failed_at: int | None, _s: object, now: int) -> int:
    return now - 5 if failed_at is None else failed_at


def _from_where_it_stood(_w: object, _i: object, at: int | None, _s: object, now: int) -> int:
    return now if at is None else at


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "it counts from before it is bound": (cutover, "mended_from", _from_before),
    "two processes mend one T": (cutover, "mended_from", _from_where_it_stood),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    check_noticed(name, MUTATIONS[name], lambda seed: ran(Redefining(seed)), SEEDS_MAX)
