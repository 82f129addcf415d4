"""The keys of a change, computed before the change.

An operator above often recomputes the keys of a change. If a change holds all former and new rows
of each key, its keys follow from the changes below, and it is computed once, for these keys:

- an outer join keeps the rows of one side: its change has the changed rows of that side, and those
  that can see a changed row of the other side, before and after;
- groups, distinct rows and partitions are recomputed by keys themselves.

Any other operator may drop some of the keys, so its change must be computed first.
"""

from collections.abc import Sequence

from ctsql.planner.ivm.algebra import nodes as alg
from ctsql.planner.ivm.algebra.traversal import key_sources, own_subqueries
from ctsql.planner.ivm.rules.context import DeltaDerivation
from ctsql.planner.ivm.rules.outer_join_and_subquery import changed_keys_of_side_join

Found = list[tuple[alg.Node, Sequence[alg.Col]]]


def changed_keys(node: alg.Node, columns: Sequence[alg.Col], changes: DeltaDerivation) -> Found:
    """The sources of all values that some columns have in a node's change; empty without a change.

    The change itself is one such source.
    """
    if not columns or not changes.touches(node):
        return _by_change(node, columns, changes)
    match node:
        case alg.OuterOrSemiJoin():
            keys = changed_keys_of_side_join(node, columns, changes)
            return _by_change(node, columns, changes) if keys is None else keys
        case alg.Project() if not own_subqueries(node):
            sources = key_sources(node) or {}
            if all(col in sources for col in columns):
                changes.note(node, "linear")
                return changed_keys(node.child, [sources[col] for col in columns], changes)
    return _by_change(node, columns, changes)


def _by_change(node: alg.Node, columns: Sequence[alg.Col], changes: DeltaDerivation) -> Found:
    delta = changes.of(node)
    return [] if delta is None else [(delta, columns)]
