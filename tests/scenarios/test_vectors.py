"""The scenarios of tests/vectors/scenarios.json, from end to end."""

import pytest

from ctsql.catalog.errors import NotSupported
from tests.conftest import VECTORS
from tests.scenarios.play import Connect, Scenario, load, play

SCENARIOS = load(VECTORS / "scenarios.json")
REFUSED_FOR_NOW = ("replacement",)
"""Tags of what the parser refuses by name until it is built."""


def _is_refused_for_now(scenario: Scenario) -> bool:
    return "refused" not in scenario.tags and any(t in scenario.tags for t in REFUSED_FOR_NOW)


@pytest.mark.spark
@pytest.mark.parametrize(
    "scenario", [s for s in SCENARIOS if not _is_refused_for_now(s)], ids=lambda s: s.name
)
def test_scenario(scenario: Scenario, connect: Connect) -> None:
    """Every step does what it says."""
    play(scenario, connect)


@pytest.mark.spark
@pytest.mark.parametrize(
    "scenario", [s for s in SCENARIOS if _is_refused_for_now(s)], ids=lambda s: s.name
)
def test_refused_for_now(scenario: Scenario, connect: Connect) -> None:
    """What is not built yet is refused by name; once it runs, this fails: move it up."""
    with pytest.raises(NotSupported) as refused:
        play(scenario, connect)
    assert refused.value.condition == "NOT_SUPPORTED_YET"
