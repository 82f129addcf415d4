"""Minting of batch descriptions for a materialized view: which [lower, upper) to write next.

M1: lowers are unique and strictly increase. M2: uppers never go back. M3: at most one valid
description is in flight: a new one is minted only after the stored upper has moved.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Description:
    """Write what changed in [lower, upper); both in T, upper exclusive."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError(f"an empty description [{self.lower}, {self.upper})")


@dataclass(frozen=True, slots=True)
class Mint:
    """What the mint remembers: the stored upper it last minted at; None before the first."""

    minted_at: int | None = None
    read_only: bool = False

    def writing(self) -> "Mint":
        """Promoted from read-only to writing; there is no way back."""
        return replace(self, read_only=False)

    def next(self, *, desired: int, stored: int) -> tuple["Mint", Description | None]:
        """Mint if there is something to write.

        Args:
            desired: the desired frontier, exclusive. stored: the output's upper, exclusive.
        """
        if self.read_only or desired <= stored:
            return self, None
        if self.minted_at is not None and stored <= self.minted_at:
            return self, None
        return replace(self, minted_at=stored), Description(stored, desired)
