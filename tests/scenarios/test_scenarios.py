"""The scenarios, from end to end: ``objects/`` and, from the vectors, ``given/``."""

from pathlib import Path

import pytest

from tests.scenarios.runner import Connect, play
from tests.scenarios.scenario_text import Scenario, load

HERE = Path(__file__).resolve().parent
SCENARIOS = [s for folder in ("objects", "given") for s in load(HERE / folder)]


@pytest.mark.spark
@pytest.mark.timeout(1_200)  # the longest takes six minutes on two busy cores
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_scenario(scenario: Scenario, connect: Connect) -> None:
    """Every step does what it says."""
    play(scenario, connect)
