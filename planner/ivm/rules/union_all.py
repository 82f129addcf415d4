"""UNION ALL: the change is the sum of the changes.

    d(A + B) = dA + dB

Sums of signed multisets are what UNION ALL is. A branch whose tables did not change drops out.
"""

from ctsql.planner.ivm.algebra.nodes import DIFF, Node, UnionAll, UnionInput
from ctsql.planner.ivm.rules.context import DeltaDerivation

RULE = "sum of the branches' changes"


def change_union_all(node: UnionAll, changes: DeltaDerivation) -> Node | None:
    """The change of UNION ALL."""
    columns = (*node.columns, DIFF)
    branches = []
    for branch in node.branches:
        below = changes.of(branch.node)
        if below is not None:
            branches.append(UnionInput(node=below, cols=(*branch.cols, DIFF)))
    changes.note(node, RULE)
    return UnionAll(branches=tuple(branches), columns=columns) if branches else None
