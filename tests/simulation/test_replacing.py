"""A view that is replaced under kills, races and lost answers; and that mistakes are noticed."""

from unittest import mock

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.engine import Engine
from ctsql.runtime.sinks import mv
from tests.simulation.replacing import Replacing

SEEDS = range(60)
SEEDS_MAX = 300


def _run(seed: int) -> Replacing:
    made = Replacing(seed)
    try:
        made.run()
    except Exception as problem:
        problem.add_note("\n".join(["The last steps:", *made.trace, f"seed {seed}"]))
        raise
    return made


def test_rows_are_of_the_definition_in_force() -> None:
    """N1 and N2 at every commit and read; the runs change columns and refuse reads."""
    runs = [_run(seed) for seed in SEEDS]
    assert sum(r.anew for r in runs) > 50
    assert sum(r.refused for r in runs) > 0


def _knows_no_more(engine: Engine, newest: int) -> int:
    engine.refresh_catalog()
    return newest


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "a batch that rows came before goes in": (mv.ViewSink, "_is_overtaken", lambda *_: False),
    "a T is known without the definitions from before it": (
        Engine,
        "_known",
        _knows_no_more,
    ),
    "the difference is written under other columns": (mv, "awaits_columns", lambda *_: False),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    owner, attribute, mutant = MUTATIONS[name]
    with mock.patch.object(owner, attribute, mutant):
        for seed in range(SEEDS_MAX):
            try:
                _run(seed)
            except (AssertionError, CtsqlError):
                return
    pytest.fail(f"{SEEDS_MAX} seeds did not notice that {name}")
