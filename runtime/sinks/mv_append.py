"""What to do with a written description, given the upper that the output has now."""

from dataclasses import dataclass

from ctsql.runtime.sinks.mv_mint import Description


@dataclass(frozen=True, slots=True)
class Append:
    """Commit it.

    ``advance_from`` is set when the upper is behind: first bring it, without rows, from there to
    the description's lower.
    """

    description: Description
    advance_from: int | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Outdated: delete what was staged for it."""

    description: Description


def decide(description: Description, upper: int) -> Append | Drop:
    """Commit, advance and commit, or drop.

    Args:
        upper: the output's upper, exclusive, as the log has it.
    """
    if upper > description.lower:
        return Drop(description)
    if upper < description.lower:
        return Append(description, advance_from=upper)
    return Append(description)
