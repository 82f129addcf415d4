"""The answer of what cannot do a thing, where something else can."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Declined:
    """Not for the one who was asked; ``reason`` says why."""

    reason: str
