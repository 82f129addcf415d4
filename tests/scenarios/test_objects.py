"""Objects and their names, from end to end."""

from pathlib import Path

import pytest

from tests.scenarios.play import Connect, Scenario, load, play

SCENARIOS = load(Path(__file__).resolve().parent / "objects.json")


@pytest.mark.spark
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_scenario(scenario: Scenario, connect: Connect) -> None:
    """Every step does what it says."""
    play(scenario, connect)
