"""The ways to refresh a view, in the order in which they are tried: the first that applies is it.

Each takes a :class:`RefreshContext` and answers with an :data:`Outcome`; each leaves the same rows
behind. :mod:`ctsql.runtime.views.refresh` runs through them, and EXPLAIN reads them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import Telling
from ctsql.runtime.views.outcomes import Outcome
from ctsql.runtime.views.refresh_context import RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.strategies import (
    affected_keys,
    first_rows,
    recompute,
    signed_delta,
    state_table,
)


@dataclass(frozen=True, slots=True)
class RefreshStrategy:
    """One way.

    Attributes:
        name: how a commit and EXPLAIN ANALYZE call it. headline: how EXPLAIN calls it, None for a
            plan that is not followed in this way to begin with.
    """

    name: Strategy
    refresh: Callable[[RefreshContext], Outcome]
    headline: Callable[[ChangePlan, Telling], str | None]

    @property
    def reads_all(self) -> bool:
        """Is it the one that asks for no change?"""
        return self.name is Strategy.RECOMPUTE


STRATEGIES = tuple(
    RefreshStrategy(way.NAME, way.refresh, way.headline)
    for way in (
        state_table,  # groups stored beside the view; needs a current state
        first_rows,  # ORDER BY .. LIMIT from the stored rows
        affected_keys,  # keys that the view shows; may add to groups
        signed_delta,  # the exact signed change
        recompute,  # always applies
    )
)
