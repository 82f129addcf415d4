"""What the benchmarks time is there."""

from benchmarks.hooks import HOOKS


def test_hooks_are_there() -> None:
    """A function that is renamed takes its hook with it."""
    assert [name for owner, name, _ in HOOKS if not callable(getattr(owner, name, None))] == []
