"""How long each phase of a refresh or a run took, for the metadata of its commit."""

from collections.abc import Callable

PHASES = "phases"
"""Key in the metadata of a commit."""


class Phases:
    """The phases of one piece of work, timed one after the other; begins when it is made."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """Args: clock: milliseconds since any moment."""
        self._clock = clock
        self._start = clock()
        self._ms: dict[str, int] = {}

    def end(self, name: str) -> None:
        """End a phase; one of the same name before counts, too."""
        now = self._clock()
        self._ms[name] = self._ms.get(name, 0) + now - self._start
        self._start = now

    def to_metadata(self) -> dict[str, dict[str, int]]:
        """Milliseconds by phase, in order."""
        return {PHASES: dict(self._ms)}
