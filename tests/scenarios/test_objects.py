"""Objects and their names, from end to end."""

from pathlib import Path

import pytest

from tests.scenarios.play import Connect, Scenario, load, play

SCENARIOS = load(Path(__file__).resolve().parent / "objects.json")
DEFECTS = {
    "a_view_replaced_below_a_materialized_one": "it is refused by name until it can be",
}
"""Scenarios that fail today; one that starts to pass fails the build until it is taken out."""


@pytest.mark.spark
@pytest.mark.parametrize(
    "scenario", [s for s in SCENARIOS if s.name not in DEFECTS], ids=lambda s: s.name
)
def test_scenario(scenario: Scenario, connect: Connect) -> None:
    """Every step does what it says."""
    play(scenario, connect)


@pytest.mark.spark
@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(s, id=s.name, marks=pytest.mark.xfail(reason=DEFECTS[s.name], strict=True))
        for s in SCENARIOS
        if s.name in DEFECTS
    ],
)
def test_known_defect(scenario: Scenario, connect: Connect) -> None:
    """What is to be, and is not yet."""
    play(scenario, connect)
