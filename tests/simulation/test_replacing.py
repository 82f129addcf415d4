"""A view that is replaced under kills, races and lost answers; and that mistakes are noticed."""

import pytest
from pyspark.errors import PySparkRuntimeError

from ctsql.runtime.engine import Engine
from ctsql.runtime.views.strategies import recompute
from tests.simulation.mistakes import NOTICED, check_noticed
from tests.simulation.replaced_view_runs import Replacing
from tests.simulation.simulation import ran

pytestmark = pytest.mark.thorough

SEEDS = range(120)
SEEDS_MAX = 900


def test_rows_are_of_the_definition_in_force() -> None:
    """[never-older-on-newer] and [own-columns-only] at every commit and read.

    The runs change columns and refuse reads.
    """
    runs = [ran(Replacing(seed)) for seed in SEEDS]
    assert sum(r.anew for r in runs) > 50
    assert sum(r.refusal_count for r in runs) > 0


def _knows_no_more(engine: Engine, newest: int) -> int:
    engine.refresh_catalog()
    return newest


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "a T is known without the definitions from before it": (
        Engine,
        "_ensure_definitions_known",
        _knows_no_more,
    ),
    "the difference is written under other columns": (
        recompute,
        "awaits_columns",
        lambda *_: False,
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    # Whether a table has other columns than it should is a question to Spark, which is not there.
    noticed = (*NOTICED, PySparkRuntimeError)
    check_noticed(
        name, MUTATIONS[name], lambda seed: ran(Replacing(seed)), SEEDS_MAX, noticed=noticed
    )
