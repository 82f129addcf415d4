"""The action for a row, by the constraints that it breaks. Pure."""

from collections.abc import Sequence

from ctsql.planner.nodes import Constraint
from ctsql.planner.syntax.ast import OnViolation


def mask_of(constraints: Sequence[Constraint], *actions: OnViolation) -> int:
    """The bits of the constraints with some actions."""
    return sum(1 << i for i, c in enumerate(constraints) if c.action in actions)


def fate(mark: int, constraints: Sequence[Constraint]) -> OnViolation | None:
    """The action for a row that breaks the constraints of a mark; None: it is kept. Pure.

    Of several the first that is broken counts, in this order: FAIL, QUARANTINE, DROP, WARN.
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
