"""The action for a row, by the constraints that it breaks. Pure."""

from collections.abc import Sequence

from ctsql.planner.nodes import Constraint
from ctsql.planner.syntax.ast import OnViolation


def mask_of(constraints: Sequence[Constraint], *actions: OnViolation) -> int:
    """A mark with the bits of the constraints that have one of the actions."""
    return sum(1 << i for i, c in enumerate(constraints) if c.action in actions)


def fate(mark: int, constraints: Sequence[Constraint]) -> OnViolation | None:
    """The action for a row that breaks the constraints of a mark; None if it breaks none. Pure.

    If it breaks several, the first of FAIL, QUARANTINE, DROP, WARN applies.
    """
    for action in (
        OnViolation.FAIL,
        OnViolation.QUARANTINE,
        OnViolation.DROP,
        OnViolation.WARN,
    ):
        if mark & mask_of(constraints, action):
            return action
    return None
