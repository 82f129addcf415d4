"""The materialized-view sink's decisions: which [lower, upper) to write next, and how.

[lowers-increase] lowers are unique and strictly increase.
[uppers-monotone] uppers never go back.
[one-in-flight] at most one valid description is in flight: a new one is minted only after the
    stored upper has passed the lower of the last one, which outdates that one.

A lower is never before the view's creation. If the output's upper is before it, the first append
moves the upper there first.
"""

from dataclasses import dataclass, replace

from ctsql.catalog.errors import broken
from ctsql.runtime.warehouse.sink_decisions import WAIT, Advance, Decision, Write


@dataclass(frozen=True, slots=True)
class Description:
    """Write what changed in [lower, upper); both in T, upper exclusive."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError(f"an empty description [{self.lower}, {self.upper})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mint:
    """The state of the mint."""

    since: int = 0  # the least lower
    minted_at: int | None = None  # the stored upper of the last description; None before the first
    description: Description | None = None  # the last description
    read_only: bool = False

    def next(self, *, desired: int, stored_upper: int) -> tuple["Mint", Decision[Description]]:
        """Mint a description if there is something to write. Both frontiers are exclusive.

        Raises:
            INTERNAL_ERROR: the desired frontier went back [uppers-monotone].
        """
        lower = max(stored_upper, self.since)
        if self.read_only or desired <= lower:
            return self, WAIT
        if self.minted_at is not None and stored_upper <= self.minted_at:
            return self, WAIT
        if self.description is not None:
            if lower <= self.description.lower:
                return self, WAIT  # the last one is still valid [lowers-increase], [one-in-flight]
            if desired < self.description.upper:
                detail = f"{desired} after {self.description}."
                raise broken("the desired upper of a view never goes back", detail)
        description = Description(lower, desired)
        return replace(self, minted_at=stored_upper, description=description), Write(
            desired, description
        )


def decide(description: Description, upper: int) -> Decision[Description]:
    """The action for a description whose rows are staged.

    Wait: it is outdated, and its staged files are to be deleted. Advance: the upper is behind its
    lower, and must be advanced first. Write: commit it.

    Args:
        upper: the output's upper, exclusive, as the log has it.
    """
    if upper > description.lower:
        return WAIT
    if upper < description.lower:
        return Advance(description.lower)
    return Write(description.upper, description)


def is_overtaken(version_read: int, last_version: int, *, has_rows: bool) -> bool:
    """Whether another process's rows, not our own empty commit, moved the upper to a lower.

    Then the staged rows were compared with rows that no longer exist. This happens when a view
    starts again: its lower is the time of creation, not the stored upper.

    Args:
        version_read: of the table, that was compared. last_version: the newest that moved the
            upper. has_rows: whether that one wrote rows.

    >>> is_overtaken(3, 5, has_rows=True), is_overtaken(3, 5, has_rows=False)
    (True, False)
    >>> is_overtaken(5, 5, has_rows=True)
    False
    """
    return has_rows and last_version > version_read
