"""The scenarios, from end to end: ``objects/`` and, from the vectors, ``given/``."""

from pathlib import Path

import pytest

from ctsql.catalog.errors import NotSupported
from tests.scenarios.runner import Connect, play
from tests.scenarios.scenario_text import Scenario, load

HERE = Path(__file__).resolve().parent
SCENARIOS = [s for folder in ("objects", "given") for s in load(HERE / folder)]
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
