"""Tables, filters, projections, explode, UNION ALL: the operator on the changes of its inputs.

    d sigma_p(R) = sigma_p(dR)    d pi_e(R) = pi_e(dR)    d explode(R) = explode(dR)
    d(A + B) = dA + dB

Each row is mapped independently of other rows, so with the diff carried along op(A + B) = op(A) +
op(B) for signed multisets. This needs expressions that are equal for equal rows, which the parser
checks. LATERAL VIEW OUTER is linear too: whether an array is empty depends on its row alone. A
UNION ALL branch without a change is dropped, or kept without rows if it may define the result's
types. A table's change is that in its log, consolidated; VALUES and range() have none.
Source: the linear operators of DBSP (Budiu et al., VLDB 2023, section 4).
"""

from dataclasses import replace

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.nodes import DIFF
from ctsql.planner.ivm.algebra.traversal import have_one_type, pass_through, without_rows
from ctsql.planner.ivm.rules.context import DeltaDerivation


def change_scan(node: alg.Scan, changes: DeltaDerivation) -> alg.Node:
    """The change of a table."""
    changes.note(node, "the table's own change")
    names, columns = (*node.names, DIFF.sql), (*node.columns, DIFF)
    return replace(node, names=names, columns=columns, version=alg.Version.DELTA)


def change_linear(
    node: alg.Filter | alg.Project | alg.Generate, changes: DeltaDerivation
) -> alg.Node | None:
    """The change of a filter or a projection without subqueries, or of LATERAL VIEW [OUTER]."""
    below = changes.of(node.child)
    if below is None:
        return None
    changes.note(node, "linear")
    if isinstance(node, alg.Project):
        return alg.Project(child=below, items=(*node.items, *pass_through((DIFF,))))
    return replace(node, child=below)


def change_union_all(node: alg.UnionAll, changes: DeltaDerivation) -> alg.Node | None:
    """The change of UNION ALL."""
    branch_changes = [changes.of(branch.node) for branch in node.branches]
    changes.note(node, "sum of the branches' changes")
    if not any(branch_changes):
        return None
    branches = []
    for branch, below in zip(node.branches, branch_changes, strict=True):
        if below is None and not all(map(have_one_type, branch.cols, node.columns)):
            below = alg.ConstantDiff(child=without_rows(branch.node), diff=1)
        if below is not None:
            branches.append(alg.UnionInput(node=below, cols=(*branch.cols, DIFF)))
    return alg.UnionAll(branches=tuple(branches), columns=(*node.columns, DIFF))
