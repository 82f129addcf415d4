"""What the benchmarks time is there."""

import importlib
from pathlib import Path

import pytest

from benchmarks.hooks import HOOKS

NAMES = sorted(
    path.stem
    for path in (Path(__file__).resolve().parent.parent / "benchmarks").glob("*.py")
    if not path.stem.startswith("__")
)


def test_hooks_are_there() -> None:
    """A function that is renamed takes its hook with it."""
    assert [name for owner, name, _ in HOOKS if not callable(getattr(owner, name, None))] == []


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_imported(name: str) -> None:
    """None uses a name that is gone."""
    importlib.import_module(f"benchmarks.{name}")
