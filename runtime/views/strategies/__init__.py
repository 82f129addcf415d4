"""The ways to follow the changes of a view's tables, in the order in which they are tried.

The first that returns a :data:`Way` is used; one that declines has done nothing. Each writes the
same rows as :mod:`recompute`, which follows no changes. EXPLAIN uses them too.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm import ChangePlan
from ctsql.planner.ivm.explain import ReasonPrinter
from ctsql.runtime.views.outcomes import Way, WayOutcome
from ctsql.runtime.views.refresh_context import FollowedChanges, RefreshContext
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.strategies import (
    affected_keys,
    first_rows,
    signed_delta,
    state_table,
)


@dataclass(frozen=True, slots=True)
class RefreshStrategy:
    """One way."""

    name: Strategy  # its name in commits and EXPLAIN ANALYZE
    way: Callable[[RefreshContext, FollowedChanges], Way]
    # its text in EXPLAIN; None if EXPLAIN does not expect it for a plan.
    headline: Callable[[ChangePlan, ReasonPrinter], str | None]


STRATEGIES = tuple(
    RefreshStrategy(one.NAME, one.way, one.headline)
    for one in (
        state_table,  # groups stored in its state table, which it may fill first
        first_rows,  # ORDER BY .. LIMIT from the stored rows
        affected_keys,  # keys that the view shows
        signed_delta,  # the exact signed change; always applies
    )
)


def follow(context: RefreshContext, changes: FollowedChanges) -> WayOutcome:
    """Refresh a view by the first strategy that applies."""
    for strategy in STRATEGIES:
        way = strategy.way(context, changes)
        if not isinstance(way, Declined):
            return way()
    raise AssertionError("the last one always applies")
