"""Finds the aggregates of a plan that can have a state table, and the one that has it.

Every aggregate of counts and sums (:mod:`ctsql.planner.ivm.rules.counting`) can have one. The
runtime keeps that of the topmost GROUP BY, below filters, projections and perhaps ORDER BY ..
LIMIT, which then chooses from all groups of the state; or that of compared groups
(:mod:`ctsql.planner.ivm.strategies.compare_groups`). Deeper aggregates are recomputed by affected
keys: their state may be larger than the view.
"""

from dataclasses import replace

from ctsql.planner.ivm.algebra.nodes import Aggregate, Node
from ctsql.planner.ivm.algebra.traversal import descend, free, tables
from ctsql.planner.ivm.rules.context import DeltaDerivation
from ctsql.planner.ivm.rules.counting import StatePlan, all_groups, state_of
from ctsql.planner.ivm.strategies.compare_groups import compared_groups, compared_rows
from ctsql.planner.ivm.strategies.stored_view import below_filters, limit_top, put_above


def state_tables(node: Node) -> list[tuple[Aggregate, StatePlan]]:
    """The aggregates of a plan that can have a state table, in order, with it."""
    plans: dict[Aggregate, StatePlan] = {}
    for below in descend(node):
        is_closed = isinstance(below, Aggregate) and tables(below) and not free(below)
        if isinstance(below, Aggregate) and is_closed and below not in plans:
            state = state_of(below, len(plans) + 1)
            if state is not None:
                plans[below] = state
    return list(plans.items())


def kept_state(query: Node) -> StatePlan | None:
    """The useful state table, if every operator is exact; else None."""
    limit = limit_top(query)
    operator, _ = below_filters(query if limit is None else limit.child)
    plans = dict(state_tables(query))
    groups = compared_groups(query)
    if groups:
        return plans[groups[0]]
    return plans.get(operator) if isinstance(operator, Aggregate) else None


def rows_from_groups(query: Node, changes: DeltaDerivation) -> Node | None:
    """All rows of a query over all groups of its state: the first, or those compared."""
    if compared_groups(query):
        return compared_rows(query, changes)
    limit = limit_top(query)
    if limit is None:
        return None
    operator, above = below_filters(limit.child)
    groups = all_groups(operator, changes) if isinstance(operator, Aggregate) else None
    if groups is None:
        return None
    return replace(limit, child=put_above(above, groups))
