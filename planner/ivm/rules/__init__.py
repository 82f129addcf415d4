"""Change rules, one file for each kind; :func:`change` applies the rule of a node.

Every rule returns an *exact* signed change: former contents plus change are the new contents. So
rules compose over any nesting. A rule reads only the changes of the nodes below, and these nodes
before and after.
"""

from typing import assert_never

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import own_subqueries
from ctsql.planner.ivm.rules import (
    counting,
    linear_and_join,
    outer_join_and_subquery,
    recompute_keys,
)
from ctsql.planner.ivm.rules.context import DeltaDerivation


def change(node: alg.Node, changes: DeltaDerivation) -> alg.Node | None:
    """The signed change of a node that reads a changed table; None if it cannot have one."""
    match node:
        case alg.Scan():
            return linear_and_join.change_scan(node, changes)
        case alg.Filter() if own_subqueries(node):
            return outer_join_and_subquery.change_filter(node, changes)
        case alg.Project() if own_subqueries(node):
            return outer_join_and_subquery.change_project(node, changes)
        case alg.Filter() | alg.Project() | alg.Generate():
            return linear_and_join.change_linear(node, changes)
        case alg.UnionAll():
            return linear_and_join.change_union_all(node, changes)
        case alg.Join():
            return linear_and_join.change_join(node, changes)
        case alg.OuterOrSemiJoin():
            return outer_join_and_subquery.change_side_join(node, changes)
        case alg.LateralJoin():
            return outer_join_and_subquery.change_lateral(node, changes)
        case alg.Aggregate() if changes.state(node) is not None:
            return counting.change_aggregate(node, changes)
        case alg.Aggregate(sets=sets) if sets is not None:
            return recompute_keys.change_grouping_sets(node, changes)
        case alg.Aggregate() | alg.Distinct() | alg.SetOperation() | alg.Window() | alg.Limit():
            return recompute_keys.change_by_keys(node, changes)
        case alg.Values():
            return None
        case alg.Temporal():
            raise TypeError("a plan with the clock above its tables is not followed")
        case alg.Step() | alg.StoredGroups() | alg.SemiJoinRestriction() | alg.ConstantDiff():
            raise TypeError(f"{type(node).__name__} is made by rules, it has none")
        case _:
            assert_never(node)
