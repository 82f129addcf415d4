"""One change rule a file; :func:`change` finds the rule of a node.

Every rule returns an *exact* signed change: added to the former contents it gives the new ones.
So rules compose over any nesting, by induction over the tree. A rule reads the changes of the
nodes below, the nodes as they were and as they are, and nothing else.
"""

from typing import assert_never

from ctsql.planner.ivm.algebra.nodes import (
    Aggregate,
    ConstantDiff,
    Distinct,
    Filter,
    Generate,
    Join,
    LateralJoin,
    Limit,
    Node,
    OuterOrSemiJoin,
    Project,
    Scan,
    SemiJoinRestriction,
    SetOperation,
    Step,
    StoredGroups,
    UnionAll,
    Values,
    Window,
)
from ctsql.planner.ivm.algebra.traversal import has_subquery
from ctsql.planner.ivm.rules import (
    counting as algebraic,
    join,
    linear,
    outer_join_and_subquery as left_rows,
    recompute_keys as affected_keys,
    scan,
    union_all,
)
from ctsql.planner.ivm.rules.context import DeltaDerivation


def change(node: Node, changes: DeltaDerivation) -> Node | None:
    """The signed change of a node that reads a changed table; None if it can have none."""
    match node:
        case Scan():
            return scan.change_scan(node, changes)
        case Filter():
            rule = left_rows.change_filter if has_subquery(node) else linear.change_filter
            return rule(node, changes)
        case Project():
            make = left_rows.change_project if has_subquery(node) else linear.change_project
            return make(node, changes)
        case Generate():
            return linear.change_generate(node, changes)
        case UnionAll():
            return union_all.change_union_all(node, changes)
        case Join():
            return join.change_join(node, changes)
        case OuterOrSemiJoin():
            return left_rows.change_side_join(node, changes)
        case LateralJoin():
            return left_rows.change_lateral(node, changes)
        case Aggregate():
            if changes.state(node) is not None:
                return algebraic.change_aggregate(node, changes)
            return affected_keys.change_aggregate(node, changes)
        case Distinct():
            return affected_keys.change_distinct(node, changes)
        case SetOperation():
            return affected_keys.change_set_operation(node, changes)
        case Window():
            return affected_keys.change_window(node, changes)
        case Limit():
            return affected_keys.change_limit(node, changes)
        case Values():
            return None
        case Step() | StoredGroups() | SemiJoinRestriction() | ConstantDiff():
            raise TypeError(f"{type(node).__name__} is made by rules, it has none")
        case _:
            assert_never(node)
