"""Filters, projections, explode: the change of the result is the operator on the change.

    d sigma_p(R) = sigma_p(dR)      d pi_e(R) = pi_e(dR)      d explode(R) = explode(dR)

Each row of R gives its rows of the result whatever the other rows are, so the operator, with the
diff carried along, is a homomorphism of signed multisets: op(A + B) = op(A) + op(B). This needs
expressions that give the same for equal rows, which the parser checks. LATERAL VIEW OUTER is linear
too: whether an array is empty depends on its own row alone.
Source: the linear operators of DBSP (Budiu et al., VLDB 2023, section 4).
"""

from dataclasses import replace

from ctsql.planner.ivm.algebra.nodes import DIFF, Filter, Generate, Node, Project
from ctsql.planner.ivm.algebra.traversal import pass_through
from ctsql.planner.ivm.rules.context import DeltaDerivation

RULE = "linear"


def change_linear(node: Filter | Project | Generate, changes: DeltaDerivation) -> Node | None:
    """The change of a filter or a projection without subqueries, or of LATERAL VIEW [OUTER]."""
    below = changes.of(node.child)
    if below is None:
        return None
    changes.note(node, RULE)
    if isinstance(node, Project):
        return Project(child=below, items=(*node.items, *pass_through((DIFF,))))
    return replace(node, child=below)
