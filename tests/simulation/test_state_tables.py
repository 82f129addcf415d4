"""Views with state tables under kills, races and lost answers; and that mistakes are noticed."""

import pytest

from ctsql.runtime.views import side_table
from ctsql.runtime.views.side_table import Pointer
from ctsql.runtime.views.state_table import ViewState
from tests.simulation.mistakes import check_noticed
from tests.simulation.simulation import ran
from tests.simulation.state_table_runs import StateTableRun

pytestmark = pytest.mark.thorough

SEEDS = range(60)
SEEDS_MAX = 300


def test_a_state_is_never_other_than_its_views() -> None:
    """[only-what-is-named]: at every use, also where a run is killed between the two commits."""
    runs = [ran(StateTableRun(seed)) for seed in SEEDS]
    assert sum(r.uses for r in runs) > 50
    assert sum(r.fills for r in runs) > 50
    assert sum(r.halfway for r in runs) > 0


def _newest(state: ViewState, at: int) -> Pointer | None:
    output = state._open()
    output.fetch_recent_upper()
    last = output.uppers.last
    if last is None:
        return None
    return Pointer(digest="d", table=output.table.table_id, version=last.version)


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "what is found is used": (side_table, "is_current", lambda *_, **__: True),
    "what a rival wrote is taken for the same": (ViewState, "_of_rival", _newest),
}
FIRST = {"what a rival wrote is taken for the same": 37}
"""The seed to begin with, where the first to notice is far off."""


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    first = FIRST.get(name, 0)
    check_noticed(name, MUTATIONS[name], lambda seed: ran(StateTableRun(seed)), SEEDS_MAX, first)
